package persist

import (
	"runtime"
	"sync/atomic"

	"libmmsb/core/page"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A load in place needs no memory for the bytes of both states: what it loads is verified, the whole chain or the pages that were
// chosen, and staged as pages that wait in the file, and their bytes are read when the pages that they replace have ended, or
// straight into adopted memory just before. A page that cannot be read then waits on, as after a lazy load.

// verify looks at every byte of the file and its bases.
func (l *loader) verify() error {
	return l.file.Verify(func(done, total uint64) bool { return !l.ending.Load() && l.work.Report(done, total) })
}

// verifyChosen looks at the bytes of the pages that are staged, and at no others.
func (l *loader) verifyChosen() error {
	goesOn := func() error { return l.goesOn(l.work, 0) }
	return l.forPages(func(staged *native.Staged) error { return l.file.VerifyPage(staged.ID, goesOn) })
}

// bringIn reads the bytes of the pages that wait, which are the context's by now. Where the load is cancelled the others wait on.
func (l *loader) bringIn() error {
	return l.forPages(func(staged *native.Staged) error {
		if l.goesOn(l.work, 0) != nil {
			return nil
		}
		if err := page.BringIn(native.Handle(native.KindPage, staged.Generation, staged.Index)); err != nil {
			found := status.Of(err)
			return status.Errorf(found.Code, "the state is loaded, but page %d waits in the file: %s", staged.ID, found.Text)
		}
		return nil
	})
}

// forPages reads the staged pages, several at a time. After an error no more are begun.
func (l *loader) forPages(read func(staged *native.Staged) error) error {
	var failed atomic.Pointer[error]
	readTogether(len(l.Pages), func(i int) {
		if failed.Load() != nil {
			return
		}
		if err := read(&l.Pages[i]); err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// readTogether reads so many pages, several at a time: one waits for the disk, while the next one is copied and checked.
func readTogether(count int, read func(i int)) {
	var next atomic.Int64
	for range min(4, runtime.GOMAXPROCS(0), count) {
		reader := safego.Beside(safego.Bound(func() {
			for i := next.Add(1) - 1; i < int64(count); i = next.Add(1) - 1 {
				read(int(i))
			}
		}))
		defer reader.Wait()
	}
}
