package page

import (
	"cmp"
	"iter"
	"sync/atomic"

	"libmmsb/core/log"
	"libmmsb/core/memory"
	"libmmsb/core/residency"
	"libmmsb/native"
)

// The life of a context: what it is made of, and how it ends.

var (
	devicesOf     atomic.Pointer[func(options *Options) residency.Devices]
	persistenceOf atomic.Pointer[func(c *Context) Persistence]
)

// UseDevices sets what makes a context's devices; without it there are none. It is called before the first context.
func UseDevices(of func(options *Options) residency.Devices) { devicesOf.Store(&of) }

// UsePersistence sets what saves and loads a context's pages; without it nothing does. It is called before the first context.
func UsePersistence(of func(c *Context) Persistence) { persistenceOf.Store(&of) }

// NewContext makes a context without pages.
func NewContext(options Options) (uint64, error) {
	if err := Start(); err != nil {
		return 0, err
	}
	if err := options.check(); err != nil {
		return 0, err
	}
	c := compose(&options)
	byDefault, err := c.open()
	if err != nil {
		_ = c.close()
		return 0, err
	}
	native.BeginContext(c.index, c.handle, byDefault.Location, c.ids.factor, c.ids.inverse)
	nameHandlers()
	log.Logf(log.Info, "context 0x%016x created, memory_limit %d", c.handle, options.MemoryLimit)
	return c.handle, nil
}

// open gives the context a handle, and finds out where its pages lie by default.
func (c *Context) open() (byDefault residency.Placement, err error) {
	if c.handle, err = contexts.Put(c); err != nil {
		return byDefault, err
	}
	c.index = native.Index(c.handle)
	c.ids.context = c.index
	c.memory.Begin(c.index, c.handle)
	return c.residency.Begin(c.index)
}

// close gives back what the context is made of, and its handle.
func (c *Context) close() error {
	c.residency.End()
	c.memory.End()
	_, err := contexts.Remove(c.handle)
	return err
}

// compose makes a context of the rooms below and the one above.
func compose(options *Options) *Context {
	c := &Context{persistence: noPersistence{}, guard: options.GuardEvery, fallback: options.Fallback}
	c.groups.open = make(map[native.Group]*group)
	c.ids.start()
	c.dependencies.graph = newGraph()
	devices := residency.Devices(residency.NoDevices{})
	if of := devicesOf.Load(); of != nil {
		devices = (*of)(options)
	}
	c.memory = memory.New(memory.Options{
		Owner: c, Limit: options.MemoryLimit, HugePages: options.HugePages,
		GuardEvery: options.GuardEvery, GuardQuarantine: options.GuardQuarantine,
		Hooks: memory.Hooks{
			TakeLeaf:   c.ids.takeLeaf,
			FreeDevice: func(region uint32) { c.residency.FreeShared(region) },
			Over:       devices.Close,
		},
	})
	c.residency = residency.New(c.memory, devices, residency.Options{
		Default:    residency.Placement{Location: options.DefaultLocation, Device: options.DefaultDevice},
		Fallback:   options.Fallback,
		DiskPath:   options.DiskPath,
		DeviceLost: c.deviceLost,
		Moved: func(index uint32) {
			c.leaving(index, native.RecordAt(index).LoadState(), false)
			c.persistence.Moved(index)
		},
	})
	if of := persistenceOf.Load(); of != nil {
		c.persistence = (*of)(c)
	}
	return c
}

// Destroy ends the context and its pages. With Guard, and where its journal lacks records, it has ended all the same.
func Destroy(h uint64) error {
	if h == 0 {
		return nil
	}
	c, err := contexts.Get(h)
	if err != nil {
		return err
	}
	return c.end()
}

// All are all contexts, by handle.
func All() iter.Seq2[uint64, *Context] { return contexts.All() }

// end ends the context once; its index is free for another one only when nothing finds it by index any more.
func (c *Context) end() error {
	if err := c.memory.Close(); err != nil {
		return err
	}
	c.persistence.Ending()
	c.groups.wake()
	c.users.Lock() // waits for calls that run; who comes now finds it closed
	defer c.users.Unlock()
	c.checkGuarded()
	report := c.memory.TellReport() // no later call could
	unwritten := c.persistence.End()
	native.DetachContext(c.index)
	c.endGroups()
	c.ids.forget()
	survivors := 0
	for _, leaf := range c.memory.Leaves() {
		survivors += c.endLeaf(leaf)
	}
	log.Logf(log.Info, "context 0x%016x ended, %d pages still pinned", c.handle, survivors)
	return cmp.Or(c.close(), report, unwritten)
}
