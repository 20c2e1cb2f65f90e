package persist

import (
	"runtime"
	"sync"
	"sync/atomic"

	"libmmsb/core/page"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A load in place needs no memory for the bytes of both states: what it loads is verified and staged as pages that wait in the
// file, and their bytes are read when the pages that they replace have ended. A page that cannot be read then waits on, as after
// a lazy load.

// verify looks at every byte of the file and its bases.
func (l *loader) verify() error {
	return l.file.Verify(func(done, total uint64) bool { return !l.ending.Load() && l.work.Report(done, total) })
}

// bringIn reads the bytes of the pages that wait, which are the context's by now.
func (l *loader) bringIn() error {
	var next atomic.Int64
	var readers sync.WaitGroup
	failures := make([]error, min(4, runtime.GOMAXPROCS(0)))
	for i := range failures {
		readers.Add(1)
		safego.GoBound(func() {
			defer readers.Done()
			failures[i] = l.bringInFrom(&next)
		})
	}
	readers.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// bringInFrom reads the next page until there is none. Where the load is cancelled the others wait on.
func (l *loader) bringInFrom(next *atomic.Int64) error {
	for i := next.Add(1) - 1; i < int64(len(l.Pages)); i = next.Add(1) - 1 {
		if l.goesOn(l.work, 0) != nil {
			return nil
		}
		staged := &l.Pages[i]
		if err := page.BringIn(native.Handle(native.KindPage, staged.Generation, staged.Index)); err != nil {
			next.Store(int64(len(l.Pages)))
			found := status.Of(err)
			return status.Errorf(found.Code, "the state is loaded, but page %d waits in the file: %s", staged.ID, found.Text)
		}
	}
	return nil
}
