package persist

import (
	"libmmsb/core/file"
	"libmmsb/core/page"
	"libmmsb/core/status"
)

// A load into a context that has a journal: the journal ends with what the context was, and goes on from what was loaded, in the
// same directory, as a branch with a base of its own.

// branchJournal ends the context's journal and begins the branch. The context is still.
func (l *loader) branchJournal(still *page.Still) {
	old := l.journals.open.Load()
	if old == nil {
		return
	}
	line := old.writer.Lineage()
	failed := l.journals.close()
	if l.o.IDs != nil { // what was loaded and what stays are a state that no record leads to
		l.history.comesFrom(line, old.ring.Last(), 0)
		l.history.step()
	}
	options := old.options
	options.NoBase, options.Owned = false, true
	var next *openedJournal
	err := old.writer.Check()
	if err == nil {
		next, err = prepareJournal(file.OS{}, &openedJournal{keep: old.keep, told: old.told, directory: old.directory,
			options: options})
	}
	if err == nil {
		if err = l.beginJournal(next, still); err != nil {
			next.writer.Abandon()
		}
	}
	if err == nil {
		l.branch, err = next, failed
	}
	if err != nil {
		found := status.Of(err)
		l.branchFailed = status.Errorf(found.Code, "the state is loaded, but the journal %q is closed: %s", old.directory,
			found.Text)
	}
}

// completeBranch saves the branch's base.
func (l *loader) completeBranch() error {
	if l.branch == nil || l.branchFailed != nil {
		return l.branchFailed
	}
	directory := l.branch.directory
	if err := l.completeJournal(l.branch, l.work); err != nil {
		found := status.Of(err)
		return status.Errorf(found.Code, "the state is loaded, but the journal %q is closed: %s", directory, found.Text)
	}
	return nil
}
