// Opening a store.

package keeper

import (
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/core/store"
	"libmmsb/core/ticket"
)

// loadTries bounds how often a state is loaded that the journal does not go on from any more when it is looked at next.
const loadTries = 20

// sameTries bounds how often in turn the journal may end at the same position, and the state before it at the same one.
const sameTries = 5

// Open makes a context of the state of a store, and goes on there: what changes is journalled. A directory that is missing or
// empty is begun, but not those above it. A program that only reads, or reads an older state, gets a context that calls cannot
// change; it needs no lock, and the store may have a writer meanwhile. One that follows keeps up with that writer.
func Open(directory string, c page.Options, o Options, w *ticket.Work) (context uint64, err error) {
	if err := o.Check(directory); err != nil {
		return 0, err
	}
	k := newKeeper(0, directory, &o)
	for try, before, same := 1, "", 0; ; try++ {
		context, err = k.open(c, w)
		if status.CodeOf(err) != status.Mismatch || o.Mode == abi.StoreRead {
			break
		}
		// A writer that has ended since may have gone on with the journal behind what was read: to another position each time,
		// unless one that opens it has yet to take over what a killed one has left.
		if same++; err.Error() != before {
			same = 0
		}
		if same == sameTries {
			break
		}
		time.Sleep(time.Duration(same) * 10 * time.Millisecond)
		if try == loadTries {
			err = status.Errorf(status.Busy, "others have changed the store %q each of the %d times that it was read", directory,
				try)
			break
		}
		before = err.Error()
	}
	if err != nil {
		return 0, err
	}
	k.context = context
	begin := k.begin
	switch o.Mode {
	case abi.StoreFollow:
		begin = k.follow
	case abi.StoreRead:
		begin = k.read
	}
	if err = begin(); err != nil {
		_ = page.Destroy(context)
		return 0, err
	}
	return context, nil
}

// read notes which store a context reads until it ends.
func (k *keeper) read() error {
	ended, err := persist.Ended(k.context)
	if err != nil {
		return err
	}
	keepers.Lock()
	keepers.readers[k.context] = k
	keepers.Unlock()
	safego.Go(func() {
		<-ended
		keepers.Lock()
		defer keepers.Unlock()
		delete(keepers.readers, k.context)
	})
	return nil
}

func readerOf(context uint64) *keeper {
	keepers.Lock()
	defer keepers.Unlock()
	return keepers.readers[context]
}

func (k *keeper) open(c page.Options, w *ticket.Work) (context uint64, err error) {
	directory, o, j := k.directory, &k.options, k.options.journal()
	j.Wrote, j.Failed, j.FromHere = k.wrote, k.journalFailed, o.Mode == abi.StoreBranch
	is, err := store.Is(file.OS{}, directory)
	if err == nil && !is && o.Mode == abi.StoreWrite {
		err = store.CheckBegins(file.OS{}, directory)
	}
	switch {
	case err != nil:
		return 0, err
	case !is && o.Mode != abi.StoreWrite:
		return 0, status.Errorf(status.NotFound, "there is no store in %q", directory)
	case is && !reads(o.Mode): // before all is read for nothing
		who, err := journal.WriterOf(file.OS{}, directory)
		if err != nil {
			return 0, err
		}
		if who != "" {
			return 0, status.Errorf(status.Busy, "the store %q is open for writing by %s", directory, who)
		}
	}
	if context, err = page.NewContext(c); err != nil {
		return 0, err
	}
	if is {
		err = load(context, directory, o, w)
	}
	switch {
	case err != nil:
	case reads(o.Mode):
		err = persist.Refuse(context, status.Errorf(status.InvalidState, "the store %q was opened for reading only", directory))
	default:
		err = persist.OpenJournal(context, directory, j, w)
	}
	if err != nil {
		_ = page.Destroy(context)
		return 0, err
	}
	return context, nil
}

// load gives the context the state that the options name.
func load(context uint64, directory string, o *Options, w *ticket.Work) error {
	l := persist.LoadOptions{Lazy: o.Lazy, Journal: directory, Follows: o.Mode == abi.StoreFollow}
	if o.At == (store.At{}) {
		return persist.Load(context, persist.FromPath(""), l, w)
	}
	return journal.Beside(file.OS{}, directory, func() error { // a writer may remove what was found
		source, err := store.Find(file.OS{}, directory, o.At)
		if err != nil {
			return err
		}
		from := l
		if source.Path != "" {
			from.Journal = ""
		}
		from.JournalUntil, from.JournalUntilTime = source.Until.Sequence, source.Until.Time
		return persist.Load(context, persist.FromPath(source.Path), from, w)
	})
}
