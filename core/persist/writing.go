package persist

import (
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/lasterror"
	"libmmsb/core/memory"
	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A save with raw_writes = wait has its moment while nobody writes pages through pointers: no writing section is open and no page
// is pinned for writing. Until then new sections and pins of threads that have none are held back, for a time that grows, and let
// go in between: a section that waits for another thread's does not wait for ever. Behind the moment pins go on and keep
// pre-images; sections go on when the saver has what they may change.

const (
	firstHold = 50 * time.Millisecond
	mostHold  = 5 * time.Second
	letGo     = 10 * time.Millisecond
	lookAgain = 200 * time.Microsecond
)

// writersOut is who may be writing pages of a context through pointers.
type writersOut struct {
	leaves, used []uint32
	at           uint64 // pages before it are not pinned
}

func (s *state) lookForWriters() *writersOut {
	out := new(writersOut)
	s.context.Memory().WithLeaves(func(leaves []memory.Leaf) { out.leaves, out.used = numbersOf(leaves) })
	return out
}

func numbersOf(leaves []memory.Leaf) (numbers, used []uint32) {
	for _, leaf := range leaves {
		numbers, used = append(numbers, leaf.Number), append(used, leaf.Used)
	}
	return numbers, used
}

// pinned says whether a page is pinned for writing, of those that were not looked at.
func (out *writersOut) pinned() (found bool) {
	out.at, found = native.FindWritePin(out.leaves, out.used, out.at)
	return found
}

// CheckWriting refuses a save that would wait for the calling thread, which waits for it.
func CheckWriting(context uint64) error {
	return use(context, func(s *state) error { return s.checkWriting() })
}

func (s *state) checkWriting() error {
	context := s.context.Index()
	if native.OwnWriting(context) == 0 {
		return nil
	}
	sections, pins := native.WritingSections(context), 0
	for out := s.lookForWriters(); out.pinned(); out.at++ {
		pins++
	}
	if sections == 0 && pins == 0 {
		return nil
	}
	return status.Errorf(status.InvalidState,
		"context 0x%016x has %d sections and %d pages pinned to write, of the calling thread, too: the save would wait for it",
		s.context.Handle(), sections, pins)
}

// stopWriters returns when nobody writes through a pointer, and nobody begins to.
func (s *saver) stopWriters() error {
	context := s.context.Index()
	if s.o.RawWrites != abi.RawWritesWait {
		return nil
	}
	for hold := firstHold; ; hold = min(2*hold, mostHold) {
		if code := native.HoldWriters(context); code != 0 {
			return lasterror.Load(code)
		}
		stopped, err := s.awaitWriters(time.Now().Add(hold))
		if stopped {
			return nil
		}
		native.LetWrite(context, native.LetsAll)
		if err != nil {
			return err
		}
		time.Sleep(letGo)
	}
}

// awaitWriters waits until then that nobody writes, and nothing begins from then on.
func (s *saver) awaitWriters(until time.Time) (stopped bool, err error) {
	context := s.context.Index()
	for {
		passes, out := native.WritingPasses(context), s.lookForWriters()
		for native.WritingSections(context) > 0 || out.pinned() {
			select {
			case <-s.work.Done():
				return false, status.Errorf(status.Cancelled, "cancelled while pages were written through pointers")
			default:
			}
			if time.Now().After(until) {
				return false, nil
			}
			time.Sleep(lookAgain)
		}
		native.LetWrite(context, native.LetsNothing)
		if native.WritingSections(context) == 0 && native.WritingPasses(context) == passes {
			return true, nil
		}
		native.LetWrite(context, native.LetsMore) // of a thread that had more than it seemed
	}
}

// keepWritten keeps what sections may change, and lets them go on when it has all of it.
func (s *saver) keepWritten() error {
	if s.o.RawWrites != abi.RawWritesWait || s.written {
		return nil
	}
	for {
		fill, index := s.capture.KeepWritten()
		switch fill {
		case native.FillFull:
			return nil
		case native.FillLarge:
			if err := s.saveLarge(index); err != nil {
				return err
			}
		default:
			s.letWrite()
			return nil
		}
		if err := s.goesOn(s.work, s.done); err != nil {
			return err
		}
	}
}

// letWrite lets everybody write.
func (s *saver) letWrite() {
	if s.o.RawWrites == abi.RawWritesWait && !s.written {
		s.written = true
		native.LetWrite(s.context.Index(), native.LetsAll)
	}
}

// errRefused says why a page may not be saved.
func errRefused(index uint32) error {
	if record := native.RecordAt(index); record.WritePins == 0 && record.LoadState()&native.Adopted != 0 {
		return status.Errorf(status.Busy, "page %d is memory of the caller, who may write it at any time: raw_writes is refuse",
			page.IDOf(index))
	}
	return status.Errorf(status.Busy, "page %d is pinned to write: raw_writes is refuse", page.IDOf(index))
}
