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
	return l.forPages(mostReaders, func(staged *native.Staged) error { return l.file.VerifyPage(staged.ID, goesOn) }, nil)
}

// mostReaders is how many pages are read at a time.
const mostReaders = 4

// readersWithin is how many pages are read at a time into the memory of those that were replaced. Where memory_limit has little
// more than they need it is one: a reader for which another's magazine has what it lacks takes memory that other sizes need.
func (l *loader) readersWithin() int {
	bytes := uint64(0)
	for i := range l.Pages {
		bytes += l.Pages[i].Size
	}
	if limit := l.context.MemoryLimit(); limit != 0 && bytes > limit/2 {
		return 1
	}
	return mostReaders
}

// bringIn reads the bytes of the pages that wait, which are the context's by now. Where the load is cancelled the others wait
// on. The memory of the pages that were replaced lies in the magazines of this thread; what lies in those of the readers may be
// missing for the last pages, which are read behind them.
func (l *loader) bringIn() error {
	leave := func() { native.LeaveMagazines(l.context.Index()) }
	leave()
	var lacking struct {
		sync.Mutex
		pages []*native.Staged
	}
	err := l.forPages(l.readersWithin(), func(staged *native.Staged) error {
		err := l.bringInOne(staged)
		if code := status.CodeOf(err); code != status.Limit && code != status.OutOfMemory {
			return err
		}
		lacking.Lock()
		defer lacking.Unlock()
		lacking.pages = append(lacking.pages, staged)
		return nil
	}, leave)
	for _, staged := range lacking.pages {
		if err == nil {
			err = l.bringInOne(staged)
			leave()
		}
	}
	return err
}

func (l *loader) bringInOne(staged *native.Staged) error {
	if l.goesOn(l.work, 0) != nil {
		return nil
	}
	if err := page.BringIn(native.Handle(native.KindPage, staged.Generation, staged.Index)); err != nil {
		found := status.Of(err)
		return status.Errorf(found.Code, "the state is loaded, but page %d waits in the file: %s", staged.ID, found.Text)
	}
	return nil
}

// forPages reads the staged pages, several at a time. After an error no more are begun. Each thread that has read calls end,
// unless it is nil.
func (l *loader) forPages(readers int, read func(staged *native.Staged) error, end func()) error {
	var failed atomic.Pointer[error]
	readAndEnd(readers, len(l.Pages), func(i int) {
		if failed.Load() != nil {
			return
		}
		if err := read(&l.Pages[i]); err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}, end)
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// readTogether reads so many pages, several at a time: one waits for the disk, while the next one is copied and checked.
func readTogether(count int, read func(i int)) { readAndEnd(mostReaders, count, read, nil) }

func readAndEnd(readers, count int, read func(i int), end func()) {
	var next atomic.Int64
	for range min(readers, runtime.GOMAXPROCS(0), count) {
		reader := safego.Beside(safego.Bound(func() {
			for i := next.Add(1) - 1; i < int64(count); i = next.Add(1) - 1 {
				read(int(i))
			}
			if end != nil {
				end()
			}
		}))
		defer reader.Wait()
	}
}
