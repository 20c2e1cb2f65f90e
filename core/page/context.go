// Package page decides what native code does not decide on its own about pages: contexts and their options, ids, the life of a
// page from its creation to its end, changes, metadata, dependencies, listing.
//
// A page's record is locked by whoever works on it (native/lock.h). Order of locks: pages first, then a context's own locks;
// whoever holds a context's lock never waits for a page.
package page

import (
	"sync"
	"sync/atomic"

	"libmmsb/core/abi"
	"libmmsb/core/handle"
	"libmmsb/core/log"
	"libmmsb/core/memory"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Context owns pages.
type Context struct {
	handle      uint64
	index       uint32
	memory      *memory.Memory
	residency   *residency.Residency
	persistence Persistence

	users sync.RWMutex // calls that run on the context
	// creating is held by calls that make a page in Go, before they lock one: a load comes before them or after them.
	creating sync.RWMutex

	ids          ids
	dependencies dependencies
}

// Persistence is what a context tells the room above it, which saves and loads pages and writes their changes into a journal.
type Persistence interface {
	// Ending comes when the context is to end: work on it gives up.
	Ending()
	// End comes when nobody works on it any more, and its pages are still there.
	End()
	// Moved comes when the memory of a page goes elsewhere, or with the page. The page is locked.
	Moved(index uint32)
}

type noPersistence struct{}

func (noPersistence) Ending()      {}
func (noPersistence) End()         {}
func (noPersistence) Moved(uint32) {}

var (
	contexts = handle.NewLimited[*Context](abi.KindContext, 1<<16-1)

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
	h, err := contexts.Put(c)
	if err != nil {
		return 0, err
	}
	c.handle, c.index = h, native.Index(h)
	c.memory.Begin(c.index, h)
	byDefault, err := c.residency.Begin(c.index)
	if err != nil {
		_, _ = contexts.Remove(h)
		return 0, err
	}
	native.BeginContext(c.index, h, byDefault.Location, c.ids.factor, c.ids.inverse)
	log.Logf(log.Info, "context 0x%016x created, memory_limit %d", h, options.MemoryLimit)
	return h, nil
}

// compose makes a context of the rooms below and the one above.
func compose(options *Options) *Context {
	c := &Context{persistence: noPersistence{}}
	c.ids.start()
	c.dependencies.start()
	devices := residency.Devices(residency.NoDevices{})
	if of := devicesOf.Load(); of != nil {
		devices = (*of)(options)
	}
	c.memory = memory.New(memory.Options{
		Owner: c, Limit: options.MemoryLimit, HugePages: options.HugePages,
		Hooks: memory.Hooks{
			TakeLeaf:   c.ids.takeLeaf,
			FreeDevice: func(region uint32) { c.residency.FreeShared(region) },
			Over:       devices.Close,
		},
	})
	c.residency = residency.New(c.memory, devices, residency.Options{
		Default:      residency.Placement{Location: options.DefaultLocation, Device: options.DefaultDevice},
		FallbackHost: options.Fallback == abi.FallbackHost,
		DiskPath:     options.DiskPath,
		Moved:        func(index uint32) { c.persistence.Moved(index) },
	})
	if of := persistenceOf.Load(); of != nil {
		c.persistence = (*of)(c)
	}
	return c
}

// Use runs a call on a live context, which does not end meanwhile. Calls do not nest.
func Use(h uint64, call func(c *Context) error) error {
	c, err := contexts.Get(h)
	if err != nil {
		return err
	}
	c.users.RLock()
	defer c.users.RUnlock()
	if c.memory.Closed() {
		return c.errEnded()
	}
	return call(c)
}

func (c *Context) errEnded() error {
	return status.Errorf(status.StaleHandle, "context 0x%016x has ended", c.handle)
}

// Handle is the context's; Index its number among the live contexts.
func (c *Context) Handle() uint64 { return c.handle }

// Index is the context's number among the live contexts, which native code knows it by.
func (c *Context) Index() uint32 { return c.index }

// Memory is what the context's pages are made of.
func (c *Context) Memory() *memory.Memory { return c.memory }

// Residency is where the context's pages lie.
func (c *Context) Residency() *residency.Residency { return c.residency }

// Persistence is what UsePersistence gave the context.
func (c *Context) Persistence() Persistence { return c.persistence }

// contextOf is the context that a record belongs to, also when it has ended; nil where there is none.
func contextOf(index uint32) *Context {
	c, _ := memory.OwnerOf(index).(*Context)
	return c
}

// Destroy ends the context and its pages.
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

// DestroyAll ends every context.
func DestroyAll() {
	for h := range contexts.All() {
		_ = Destroy(h)
	}
}

// end ends the context once; its index is free for another one only when nothing finds it by index any more.
func (c *Context) end() error {
	if !c.memory.Close() {
		return c.errEnded()
	}
	c.persistence.Ending()
	c.users.Lock() // waits for calls that run; who comes now finds it closed
	defer c.users.Unlock()
	c.persistence.End()
	native.DetachContext(c.index)
	survivors := 0
	for _, leaf := range c.memory.Leaves() {
		survivors += c.endLeaf(leaf)
	}
	c.residency.End()
	log.Logf(log.Info, "context 0x%016x ended, %d pages still pinned", c.handle, survivors)
	c.memory.End()
	_, err := contexts.Remove(c.handle)
	return err
}

// LiveContexts is the number of live contexts.
func LiveContexts() uint64 { return contexts.Live() }

// LivePages is the number of live pages in all contexts.
func LivePages() uint64 {
	var live uint64
	for _, c := range contexts.All() {
		live += c.Count()
	}
	return live
}
