// Opening a store.

package keeper

import (
	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
	"libmmsb/core/store"
	"libmmsb/core/ticket"
)

// Open makes a context of the state of a store, and goes on there: what changes is journalled. A directory that is missing or
// empty is begun, but not those above it. A program that only reads, or reads an older state, gets a context that calls cannot
// change; it needs no lock, and the store may have a writer meanwhile. One that follows keeps up with that writer.
func Open(directory string, c page.Options, o Options, w *ticket.Work) (context uint64, err error) {
	if err := o.Check(); err != nil {
		return 0, err
	}
	k := newKeeper(0, directory, &o)
	// A writer that ends while this one reads may have written more: then all is read again.
	err = store.Steady(file.OS{}, directory, func() error {
		context, err = k.open(c, w)
		return err
	})
	if err != nil || o.Mode == abi.StoreRead {
		return context, err
	}
	k.context = context
	begin := k.begin
	if o.Mode == abi.StoreFollow {
		begin = k.follow
	}
	if err = begin(); err != nil {
		_ = page.Destroy(context)
		return 0, err
	}
	return context, nil
}

// journalOptions are of a journal whose records only the keeper drops.
func (k *keeper) journalOptions() persist.JournalOptions {
	return persist.JournalOptions{
		Durability: k.options.Durability, IntervalMs: k.options.IntervalMs, SegmentBytes: k.options.SegmentBytes, Keep: true,
		Wrote: k.wrote, Failed: k.journalFailed,
	}
}

func (k *keeper) open(c page.Options, w *ticket.Work) (context uint64, err error) {
	directory, o, j := k.directory, &k.options, k.journalOptions()
	is, err := store.Is(file.OS{}, directory)
	switch {
	case err != nil:
		return 0, err
	case !is && o.Mode != abi.StoreWrite:
		return 0, status.Errorf(status.NotFound, "there is no store in %q", directory)
	case is && !reads(o.Mode): // before all is read for nothing
		held, err := journal.Hold(file.OS{}, directory)
		if err == nil {
			held.Release()
		} else if status.CodeOf(err) != status.NotFound {
			return 0, err
		}
	}
	if context, err = page.NewContext(c); err != nil {
		return 0, err
	}
	if err = persist.CheckJournal(context, directory, j); err == nil && is {
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
	var path string
	if o.At != (store.At{}) {
		s, err := store.Look(file.OS{}, directory)
		if err != nil {
			return err
		}
		source, err := s.Find(o.At)
		if err != nil {
			return err
		}
		if path = source.Path; path != "" {
			l.Journal = ""
		}
		l.JournalUntil, l.JournalUntilTime = source.Until.Sequence, source.Until.Time
	}
	return persist.Load(context, persist.FromPath(path), l, w)
}
