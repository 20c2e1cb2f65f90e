package page

import (
	"libmmsb/core/memory"
	"libmmsb/core/status"
	"libmmsb/native"
)

// The guard of a context's host pages (core/memory/guard.go): which pages leave guarded memory, when all of it is checked, and
// which calls tell what was found.

// leaving notes that a page in a state is to leave the memory of its record.
func (c *Context) leaving(index uint32, state uint64, ends bool) {
	if native.Class(state) == native.ClassGuarded {
		c.memory.Leaving(index, recordID(index, state), ends)
	}
}

// TellReport is Guard with a report of the context's guard that waits, before a call that creates or changes something.
func (c *Context) TellReport() error {
	if c.guard == 0 {
		return nil
	}
	return c.memory.TellReport()
}

// tellReportOf is TellReport of the context of a page.
func tellReportOf(page uint64) error {
	if c := contextOf(native.Index(page)); c != nil {
		return c.TellReport()
	}
	return nil
}

// CheckGuard checks all guarded memory. It tells the oldest report that waits, and how many waited; 0 = none. Errors:
// InvalidState (no guard).
func (c *Context) CheckGuard() (oldest memory.Report, count int, err error) {
	if c.guard == 0 {
		return memory.Report{}, 0, status.Errorf(status.InvalidState, "context 0x%016x has no guard: guard_every is 0", c.handle)
	}
	c.checkGuarded()
	oldest, count = c.memory.TakeReport()
	return oldest, count, nil
}

// CheckBeforeSave checks all guarded memory before a save, which tells what is found instead of saving it. Errors: Guard.
func (c *Context) CheckBeforeSave() error {
	c.checkGuarded()
	return c.TellReport()
}

// checkGuarded checks all guarded memory.
func (c *Context) checkGuarded() {
	if c.guard == 0 {
		return
	}
	for index, state := range c.memory.Pages() {
		if native.Class(state) != native.ClassGuarded {
			continue
		}
		p, err := lock(native.Handle(native.KindPage, native.Generation(state), index))
		if err != nil { // it has ended meanwhile
			continue
		}
		c.memory.CheckPage(index, p.ID())
		p.unlock()
	}
	c.memory.CheckQuarantine()
}
