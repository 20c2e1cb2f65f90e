// Package page decides what native code does not decide on its own about pages: contexts and their options, ids, the life of a
// page from its creation to its end, changes, metadata, dependencies, listing.
//
// A page's record is locked by whoever works on it (native/lock.h). Order of locks: pages first, then a context's own locks;
// whoever holds a context's lock never waits for a page.
package page

import (
	"fmt"
	"sync"
	"sync/atomic"

	"libmmsb/core/abi"
	"libmmsb/core/graph"
	"libmmsb/core/handle"
	"libmmsb/core/memory"
	"libmmsb/core/residency"
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
	adopts   atomic.Bool    // pages were adopted: a load looks for them
	guard    uint64         // every so many host pages one is guarded; 0 = none
	fallback int32          // abi.Fallback…
	losses   sync.WaitGroup // lost devices whose pages are being looked after

	syncs        syncs // pages that wait for their sync
	ids          ids
	groups       groups
	dependencies struct { // between its pages, by record
		sync.Mutex
		graph *graph.Graph
	}
}

// Persistence is what a context tells the room above it, which saves and loads pages and writes their changes into a journal.
type Persistence interface {
	// Ending comes when the context is to end: work on it gives up.
	Ending()
	// End comes when nobody works on it any more, and its pages are still there. Its error says that changes are in no file.
	End() error
	// Moved comes when the memory of a page goes elsewhere, or with the page. The page is locked.
	Moved(index uint32)
}

type noPersistence struct{}

func (noPersistence) Ending()      {}
func (noPersistence) End() error   { return nil }
func (noPersistence) Moved(uint32) {}

var contexts = handle.NewLimited[*Context](abi.KindContext, 1<<16-1)

// Use runs a call on a live context, which does not end meanwhile. Calls do not nest.
func Use(h uint64, call func(c *Context) error) error {
	c, err := contexts.Get(h)
	if err != nil {
		return err
	}
	c.users.RLock()
	defer c.users.RUnlock()
	if err := c.memory.Closed(); err != nil {
		return err
	}
	return call(c)
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

// recordID is the id of the page of a record in a state.
func recordID(index uint32, state uint64) uint64 {
	record := native.RecordAt(index)
	if state&native.ExplicitID != 0 {
		return native.SideAt(record.Side).ID
	}
	return contextOf(index).ids.automatic(native.Handle(native.KindPage, native.Generation(state), index))
}

// IDOf is the id of the page that lives on a record.
func IDOf(index uint32) uint64 { return recordID(index, native.RecordAt(index).LoadState()) }

// newGraph is a graph of records whose errors name pages.
func newGraph() *graph.Graph {
	return graph.New(func(index uint32) string { return fmt.Sprintf("page %d", IDOf(index)) })
}
