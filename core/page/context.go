// Package page decides everything about pages that native code does not do on its own: contexts, memory for pages, ids, places, metadata,
// dependencies, listing.
//
// A page's record is locked by whoever works on it (native/page.h). Order of locks: pages first, then a context's own locks; whoever holds
// a context's lock never waits for a page.
package page

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"libmmsb/core/graph"
	"libmmsb/core/handle"
	"libmmsb/core/log"
	"libmmsb/core/mem"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/native"

	"golang.org/x/sys/unix"
)

// contextKind is MMSB_KIND_CONTEXT.
const contextKind = 2

// Context owns pages.
type Context struct {
	handle  uint64
	index   uint32
	options Options
	ledger  mem.Ledger
	devices Devices

	users  sync.RWMutex // calls that run on the context
	memory memory
	ids    ids
	disk   disk
	visits visits
	saves  saves
	// creating is held by calls that make a page in Go, before they lock one: a load comes before them or after them.
	creating sync.RWMutex

	journals journals
	tracking tracking
	lazies   lazies

	dependencies struct {
		sync.Mutex
		graph *graph.Graph
	}
}

var (
	contexts = handle.NewLimited[*Context](contextKind, 1<<16-1)
	// byIndex finds the context of a record, also while it ends.
	byIndex [1 << 16]atomic.Pointer[Context]
	// outliving counts memory that outlives its page: pinned when its context ended, or released.
	outliving atomic.Uint64
	started   sync.Once
	startErr  error
)

// Start makes the library ready. It is called by what needs it, more than once.
func Start() error {
	started.Do(func() {
		native.SetUpcalls(native.Upcalls{
			Refill: refill, TakeFrame: takeBlock, GiveFrame: giveBlock, MakeResident: bring, Evict: leave, End: endPage,
			DeviceAddress: deviceAddress, DeviceRead: deviceRead, DeviceWrite: deviceWrite, DeviceApply: deviceApply,
			DeviceApplyMany: deviceApplyMany,
			ReleaseEnded:    releaseEnded, Panicked: safego.Caught,
		})
		safego.OnPanic(native.Poison)
		if errno := native.Start(); errno != 0 {
			startErr = status.FromErrno(status.OutOfMemory, errno, "cannot reserve the addresses of page records")
		}
	})
	return startErr
}

// NewContext makes a context without pages.
func NewContext(options Options) (uint64, error) {
	if err := Start(); err != nil {
		return 0, err
	}
	if err := options.check(); err != nil {
		return 0, err
	}
	c := &Context{options: options, devices: newDevices(&options)}
	c.ledger.SetLimit(options.MemoryLimit)
	c.dependencies.graph = graph.New(c.nodeName)
	c.ids.start()
	h, err := contexts.Put(c)
	if err != nil {
		return 0, err
	}
	c.handle, c.index = h, native.Index(h)
	c.journals.context = c.index
	native.SetSimulated(c.index, false)
	byDefault, err := c.resolve(options.DefaultLocation, options.DefaultDevice)
	if err != nil {
		_, _ = contexts.Remove(h)
		return 0, err
	}
	c.options.DefaultLocation, c.options.DefaultDevice = byDefault.location, byDefault.device
	byIndex[c.index].Store(c)
	native.BeginContext(c.index, h, c.options.DefaultLocation, c.ids.factor, c.ids.inverse)
	log.Logf(log.Info, "context 0x%016x created, memory_limit %d", h, options.MemoryLimit)
	return h, nil
}

// Use runs a call on a live context, which does not end meanwhile. Calls do not nest.
func Use(h uint64, call func(c *Context) error) error {
	c, err := contexts.Get(h)
	if err != nil {
		return err
	}
	c.users.RLock()
	defer c.users.RUnlock()
	if c.memory.isClosed() {
		return status.Errorf(status.StaleHandle, "context 0x%016x has ended", h)
	}
	return call(c)
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

// LiveContexts is their number; LivePages that of all pages; Outliving that of memory that outlives its page.
func LiveContexts() uint64 { return contexts.Live() }

// Outliving is the number of pieces of memory that outlive their page.
func Outliving() uint64 { return outliving.Load() }

// LivePages is the number of live pages in all contexts.
func LivePages() uint64 {
	var live uint64
	for _, c := range contexts.All() {
		counts := native.CountContext(c.index)
		live += counts.Creates - counts.Frees
	}
	return live
}

// end ends the context once; its index is free for another one only when nothing finds it by index any more.
func (c *Context) end() error {
	if !c.memory.close() {
		return status.Errorf(status.StaleHandle, "context 0x%016x has ended", c.handle)
	}
	c.saves.ending.Store(true)
	c.users.Lock() // waits for calls that run; who comes now finds it closed
	defer c.users.Unlock()
	c.journals.end()
	c.tracking.forgetAll()
	native.DetachContext(c.index)
	survivors := 0
	for _, chunk := range c.memory.chunks {
		survivors += c.endChunk(chunk)
	}
	c.disk.close()
	c.devices.End()
	log.Logf(log.Info, "context 0x%016x ended, %d pages still pinned", c.handle, survivors)
	c.leaveEnded()
	byIndex[c.index].Store(nil)
	_, err := contexts.Remove(c.handle)
	return err
}

// endChunk ends the pages of a chunk and returns how many outlive it, because they are pinned.
func (c *Context) endChunk(chunk chunk) int {
	var indices [256]uint32
	survivors := 0
	for done := uint32(0); done < chunk.used; {
		reported, looked := native.EndRecords(chunk.first()+done, chunk.used-done, indices[:])
		done += looked
		for _, index := range indices[:reported] {
			record := native.RecordAt(index)
			state := record.LoadState()
			c.metadataGone(record)
			if native.Kind(state) == native.StateEnded {
				c.memory.outlives(native.LocatorRegion(record.Locator))
				survivors++
				record.StoreState(state &^ native.OwnerMask)
				continue
			}
			c.takeApart(index, state&^native.OwnerMask)
		}
	}
	return survivors
}

// releaseEnded is the last unpin of a page whose context has ended. The record is locked.
func releaseEnded(index uint32) {
	record := native.RecordAt(index)
	state := record.LoadState() &^ native.OwnerMask
	c := contextOf(index)
	region := native.LocatorRegion(record.Locator)
	c.takeApart(index, state)
	c.outlivedEnds(region)
}

func (c *Context) nodeName(node uint32) string {
	return fmt.Sprintf("page %d", recordID(node, native.RecordAt(node).LoadState()))
}

// Options are a context's; the fields are those of mmsb_context_options_t.
type Options struct {
	DefaultLocation  int32
	DefaultDevice    int32
	Simulate         int32
	SimulatedDevices int32
	Fallback         int32
	SimulatedMemory  uint64
	MemoryLimit      uint64
	DiskPath         string
	HugePages        bool
}

// The values of the enums in mmsb.h.
const (
	LocationDefault = -1
	LocationCPU     = 0
	LocationGPU     = 1
	LocationUnified = 2
	LocationPinned  = 3
	LocationDisk    = 4

	SimulateOff     = 0
	SimulateIfNoGPU = 1
	SimulateAlways  = 2

	FallbackError = 0
	FallbackHost  = 1
)

func (o *Options) check() error {
	switch {
	case o.DefaultLocation < LocationCPU || o.DefaultLocation > LocationDisk:
		return status.Errorf(status.InvalidArgument, "default_location %d is no location", o.DefaultLocation)
	case o.Simulate < SimulateOff || o.Simulate > SimulateAlways:
		return status.Errorf(status.InvalidArgument, "simulate is %d, not off, if-no-gpu or always (is MMSB_SIMULATE set?)", o.Simulate)
	case o.Fallback < FallbackError || o.Fallback > FallbackHost:
		return status.Errorf(status.InvalidArgument, "fallback %d is not error or host", o.Fallback)
	case o.SimulatedDevices < 1 || o.SimulatedDevices > 64:
		return status.Errorf(status.InvalidArgument, "simulated_devices is %d, not 1 … 64", o.SimulatedDevices)
	}
	if o.DiskPath == "" {
		o.DiskPath = os.Getenv("TMPDIR")
		if o.DiskPath == "" {
			o.DiskPath = "/tmp"
		}
		return nil
	}
	if info, err := os.Stat(o.DiskPath); err != nil {
		return status.FromErrno(status.IO, errnoOf(err), "disk_path %q", o.DiskPath)
	} else if !info.IsDir() {
		return status.FromErrno(status.IO, unix.ENOTDIR, "disk_path %q", o.DiskPath)
	}
	if err := unix.Access(o.DiskPath, unix.W_OK|unix.X_OK); err != nil {
		return status.FromErrno(status.IO, errnoOf(err), "disk_path %q cannot be written", o.DiskPath)
	}
	return nil
}

// randomOdd is an odd number below 2^60 from the system's randomness.
func randomOdd() uint64 {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // it never fails; the program ends where the system has no randomness
	return binary.LittleEndian.Uint64(bytes[:])&native.IDMask | 1
}
