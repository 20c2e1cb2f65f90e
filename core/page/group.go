package page

import (
	"math"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"libmmsb/core/graph"
	"libmmsb/core/lasterror"
	"libmmsb/core/log"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// Atomic groups: what a thread changes between begin and commit comes back after a crash whole or not at all, and can be rolled
// back. Native code keeps pre-images and journal records (native/group.h); here groups begin and end, and what Go changes is
// undone: other memory, metadata, ids, dependencies.

// groups are the open groups of a context. No page's lock is taken under theirs.
type groups struct {
	sync.Mutex
	open    map[native.Group]*group
	waiting int           // who waits until none is open, or needs that none is: no group begins
	stuck   error         // why a follower cannot go on in the middle of a group: none begins, and no save
	changed chan struct{} // closed when one of these has changed; nil where nobody waits
	named   uint64        // names given to groups
}

// group is an open group.
type group struct {
	native.Group
	id    uint64 // in the graph of dependencies
	steps []step // newest last
	due   bool   // the newest step is to be undone: it has failed to be
	left  bool   // its thread has ended
}

// step is a change that Go has made in a group.
type step struct {
	back func() error // undoes it
	done func()       // what is left to do when the group has committed; nil = nothing
}

func (g *group) name() uint64 {
	if g == nil {
		return 0
	}
	return g.id
}

// with makes a change of a page, 0 for one of dependencies, whose last step that can fail is ready, and notes how to undo it.
func (g *group) with(page uint64, s step, ready func() error) error {
	if g == nil {
		return ready()
	}
	return g.pushing(func() int32 { return g.PushStep(page) }, ready, func() { g.steps = append(g.steps, s) })
}

// pushing pushes a change, and takes that back where ready fails.
func (g *group) pushing(push func() int32, ready func() error, made func()) error {
	top := g.Top()
	if code := push(); code != 0 {
		return lasterror.Load(code)
	}
	if err := ready(); err != nil {
		g.Drop(unsafe.Pointer(top))
		return err
	}
	made()
	return nil
}

// take takes the newest step out.
func (g *group) take() (s step) {
	last := len(g.steps) - 1
	s, g.steps = g.steps[last], g.steps[:last]
	return s
}

// ownGroup is the group that the calling thread has open; nil = none.
func (c *Context) ownGroup() *group {
	own, ok := native.GroupOf(c.index)
	if !ok {
		return nil
	}
	c.groups.Lock()
	defer c.groups.Unlock()
	return c.groups.open[own]
}

func (c *change) group() *group { return c.context.ownGroup() }

// CheckOutsideGroup is InvalidState where the calling thread has a group open, for what other threads do.
func CheckOutsideGroup() error {
	if native.InGroup() {
		return status.Errorf(status.InvalidState, "this thread has a group open, which work of other threads cannot be part of")
	}
	return nil
}

// CheckNoOwnGroup is Busy where the calling thread has a group open in the context.
func (c *Context) CheckNoOwnGroup() error {
	if c.ownGroup() != nil {
		return status.Errorf(status.Busy, "this thread has a group open in context 0x%016x", c.handle)
	}
	return nil
}

// ---- waiting ----

// wake lets those who wait look again.
func (g *groups) wake() {
	g.Lock()
	defer g.Unlock()
	g.tell()
}

// tell is wake under the lock.
func (g *groups) tell() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// await waits until ready says so. Under the lock. Errors: StaleHandle (the context ends), Cancelled.
func (g *groups) await(c *Context, ready func() bool, cancel <-chan struct{}) error {
	for {
		if err := c.memory.Closed(); err != nil {
			return err
		}
		if ready() {
			return nil
		}
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.Unlock()
		select {
		case <-changed:
			g.Lock()
		case <-cancel:
			g.Lock()
			return status.Errorf(status.Cancelled, "cancelled while %d groups were open", len(g.open))
		}
	}
}

// KeepGroupsOut waits until no group is open; none begins until release. Errors: Busy (the calling thread has one open),
// Cancelled, StaleHandle (the context ends).
func (c *Context) KeepGroupsOut(cancel <-chan struct{}) (release func(), err error) {
	if err := c.CheckNoOwnGroup(); err != nil {
		return nil, err
	}
	c.rollbackLeft()
	g := &c.groups
	g.Lock()
	defer g.Unlock()
	g.waiting++
	if err := g.await(c, func() bool { return len(g.open) == 0 }, cancel); err != nil {
		g.waiting--
		g.tell()
		return nil, err
	}
	return g.letIn, nil
}

// keepOut is KeepGroupsOut for what does not wait. Errors: Busy.
func (g *groups) keepOut(c *Context) (release func(), err error) {
	c.rollbackLeft()
	g.Lock()
	defer g.Unlock()
	if len(g.open) > 0 {
		return nil, status.Errorf(status.Busy, "%d groups are open in context 0x%016x", len(g.open), c.handle)
	}
	g.waiting++
	return g.letIn, nil
}

// AwaitGroups waits until no group is open. Errors: as Moment.
func (c *Context) AwaitGroups(cancel <-chan struct{}) error {
	release, err := c.KeepGroupsOut(cancel)
	if err != nil {
		return err
	}
	release()
	return nil
}

func (g *groups) letIn() {
	g.Lock()
	defer g.Unlock()
	g.waiting--
	g.tell()
}

// Stuck says why a follower cannot go on in the middle of a group, which may be the fault of a thread that would wait for it;
// nil: it goes on. Meanwhile a group that begins, and a save at its moment, are Busy.
func (c *Context) Stuck(why error) {
	c.groups.Lock()
	defer c.groups.Unlock()
	c.groups.stuck = why
	c.groups.tell()
}

// checkStuck is under the lock.
func (g *groups) checkStuck(c *Context) error {
	if g.stuck == nil {
		return nil
	}
	return status.Errorf(status.Busy, "context 0x%016x is in the middle of a group, and the follower cannot go on: %v",
		c.handle, g.stuck)
}

// WithoutGroups runs work while no group is open and none begins. Errors: Busy, those of work.
func (c *Context) WithoutGroups(work func() error) error {
	release, err := c.groups.keepOut(c)
	if err != nil {
		return err
	}
	defer release()
	return work()
}

// ---- begin and end ----

// BeginGroup opens a group of the calling thread.
func BeginGroup(context uint64) error { return BeginGroupWithin(context, ticket.Forever) }

// BeginGroupWithin is BeginGroup that waits for others so many nanoseconds. Errors: Timeout, WouldBlock.
func BeginGroupWithin(context, timeout uint64) error {
	return Use(context, func(c *Context) error { return c.beginGroup(timeout) })
}

func (c *Context) beginGroup(timeout uint64) error {
	if c.ownGroup() != nil {
		return status.Errorf(status.InvalidState, "this thread has a group open in context 0x%016x already", c.handle)
	}
	c.rollbackLeft()
	others := native.InGroup()
	g := &c.groups
	g.Lock()
	defer g.Unlock()
	crossed := func() bool { return others && len(g.open) > 0 } // two threads could wait for each other's
	ready := func() bool { return g.waiting == 0 || g.stuck != nil || crossed() }
	var over chan struct{}
	if !ready() {
		if timeout == 0 {
			return status.Errorf(status.WouldBlock, "context 0x%016x has others that wait for groups to end", c.handle)
		}
		if timeout < math.MaxInt64 {
			over = make(chan struct{})
			defer time.AfterFunc(time.Duration(timeout), func() { close(over) }).Stop()
		}
	}
	switch err := g.await(c, ready, over); {
	case status.CodeOf(err) == status.Cancelled:
		return status.Errorf(status.Timeout, "no group began within %d ns: others wait for groups to end", timeout)
	case err != nil:
		return err
	}
	if g.waiting > 0 && crossed() {
		return status.Errorf(status.Busy,
			"context 0x%016x has %d open groups that a save, load or follower awaits, and this thread one elsewhere",
			c.handle, len(g.open))
	}
	if err := g.checkStuck(c); err != nil {
		return err
	}
	made, code := native.OpenGroup(c.index, newVersion())
	if code != 0 {
		return lasterror.Load(code)
	}
	g.named++
	g.open[made] = &group{Group: made, id: g.named}
	return nil
}

func (c *Context) ownGroupOrError() (*group, error) {
	if g := c.ownGroup(); g != nil {
		return g, nil
	}
	return nil, status.Errorf(status.InvalidState, "this thread has no group open in context 0x%016x", c.handle)
}

// CommitGroup makes the changes of the thread's group durable as one. Where the journal does not take them, nothing has happened
// and the group is still open; where only the wait for the disk fails, the group has ended and its changes stand.
func CommitGroup(context uint64) error {
	return Use(context, func(c *Context) error {
		g, err := c.ownGroupOrError()
		if err != nil {
			return err
		}
		return c.commit(g)
	})
}

func (c *Context) commit(g *group) error {
	sequence, code := g.Commit()
	if code != 0 {
		return lasterror.Load(code)
	}
	for g.Finish() == native.EnterGo {
		if s := g.take(); s.done != nil {
			s.done()
		}
	}
	c.closeGroup(g, true)
	if ring, ok := native.RingOf(c.index); ok && sequence != 0 {
		return lasterror.Load(ring.Wait(sequence))
	}
	return nil
}

// RollbackGroup undoes the changes of the thread's group. Where it fails the group is still open, and can only be rolled back.
func RollbackGroup(context uint64) error {
	return Use(context, func(c *Context) error {
		g, err := c.ownGroupOrError()
		if err != nil {
			return err
		}
		return c.rollback(g, true, false)
	})
}

// rollback undoes what a group has changed. own says that it is the calling thread's; forced is for a context that ends: what
// cannot be undone stays until the pages end.
func (c *Context) rollback(g *group, own, forced bool) error {
	g.Stop()
	for {
		if g.due {
			if err := g.steps[len(g.steps)-1].back(); err != nil && !forced {
				return err
			}
			g.take()
			g.due = false
		}
		switch code := g.Undo(forced); code {
		case 0:
			c.closeGroup(g, own)
			return nil
		case native.EnterGo:
			g.due = true
		default:
			return lasterror.Load(code)
		}
	}
}

// closeGroup ends a group that is finished or undone.
func (c *Context) closeGroup(g *group, own bool) {
	of := g.Group
	c.groups.Lock()
	delete(c.groups.open, of)
	c.groups.Unlock()
	of.Close(own)
	c.groups.wake()
}

// groupLeft rolls back a group whose thread ends. Where a page is pinned that must end, the next group or save tries again.
func groupLeft(index uint32, of native.Group) {
	_ = Use(native.ContextHandle(index), func(c *Context) error { // else its end rolls the group back
		c.groups.Lock()
		g := c.groups.open[of]
		c.groups.Unlock()
		if g == nil {
			return nil
		}
		if err := c.rollback(g, true, false); err != nil {
			log.Logf(log.Warning, "the group of a thread that has ended is still open in context 0x%016x: %v", c.handle, err)
			c.isLeft(g)
		}
		return nil
	})
}

// isLeft notes that a group is no thread's any more, and is to be rolled back.
func (c *Context) isLeft(g *group) {
	c.groups.Lock()
	defer c.groups.Unlock()
	g.left = true
}

// rollbackLeft tries again to roll back the groups of threads that have ended.
func (c *Context) rollbackLeft() {
	var left []*group
	c.groups.Lock()
	for _, g := range c.groups.open {
		if g.left {
			g.left = false // one at a time
			left = append(left, g)
		}
	}
	c.groups.Unlock()
	for _, g := range left {
		if c.rollback(g, false, false) != nil {
			c.isLeft(g)
		}
	}
}

// endGroups rolls back all groups of a context that ends, on which no call runs but those of native code.
func (c *Context) endGroups() {
	c.groups.Lock()
	var open []*group
	for _, g := range c.groups.open {
		open = append(open, g)
	}
	c.groups.Unlock()
	for _, g := range open {
		_ = c.rollback(g, false, true)
	}
}

// atomically runs work as one group of the calling goroutine's thread. Where work fails the group is rolled back; what cannot be
// undone then, because another thread has pinned a page that must end, the next group or save undoes.
func atomically(context uint64, work func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := BeginGroup(context); err != nil {
		return err
	}
	err := work()
	if err == nil {
		err = CommitGroup(context)
	}
	if err == nil {
		return nil
	}
	_ = Use(context, func(c *Context) error { // else its end rolls the group back
		g := c.ownGroup()
		if g == nil { // the commit has ended it
			return nil
		}
		if undone := c.rollback(g, true, false); undone != nil {
			log.Logf(log.Warning, "context 0x%016x: what a call that failed has made cannot be taken back yet: %v", context,
				undone)
			g.Detach()
			c.isLeft(g)
		}
		return nil
	})
	return err
}

// ---- what Go changes ----

// creating notes that a page is about to begin, whose journal record ready puts.
func (c *change) creating(ready func() error) error {
	g := c.group()
	if g == nil {
		return ready()
	}
	return g.pushing(func() int32 { return g.PushCreate(c.handle) }, ready, func() {})
}

// leave takes id and dependencies from a locked page with a side record, which the thread's group destroys.
func (c *Context) leave(index uint32, state uint64) {
	g := c.ownGroup()
	page := native.Handle(native.KindPage, native.Generation(state), index)
	c.dependencies.Lock()
	edges := c.hiddenStep(c.dependencies.graph.HideNode(index, g.id)...)
	c.dependencies.Unlock()
	s := step{back: edges.back}
	if state&native.ExplicitID != 0 {
		id := recordID(index, state)
		c.ids.leave(id, g)
		s.done = func() { c.ids.left(id, 0) }
		s.back = func() error {
			c.ids.left(id, page)
			return edges.back()
		}
	}
	g.steps = append(g.steps, s)
}

// onGraph works on the context's dependencies.
func (c *Context) onGraph(work func(all *graph.Graph) error) error {
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	return work(c.dependencies.graph)
}

// hiddenStep is the removal of edges, which are hidden until the group ends.
func (c *Context) hiddenStep(hidden ...graph.Hidden) step {
	return step{
		back: func() error {
			return c.onGraph(func(all *graph.Graph) error {
				all.Show(hidden...)
				return nil
			})
		},
		done: func() {
			_ = c.onGraph(func(all *graph.Graph) error {
				all.Drop(hidden...)
				return nil
			})
		},
	}
}

// keepingMetadata is ready for a change that replaces the page's metadata: in a group the blob that it had is kept.
func (c *change) keepingMetadata(ready func() error) func() error {
	g := c.group()
	if g == nil {
		return ready
	}
	return func() error {
		var had native.Side
		if c.Record.Side != 0 {
			had = *native.SideAt(c.Record.Side)
		}
		give := func() {
			if had.MetadataFrame != 0 {
				metadataBytes.Add(-int64(native.RecordAt(had.MetadataFrame).Size))
				c.context.memory.Give(had.MetadataFrame)
			}
		}
		back := func() error {
			return Read(c.handle, func(p *Page) error {
				p.context.dropMetadata(p.Record)
				p.setMetadata(had.MetadataFrame, had.MetadataCount, had.MetadataLength)
				return nil
			})
		}
		if err := g.with(c.handle, step{back: back, done: give}, ready); err != nil {
			return err
		}
		c.setMetadata(0, 0, 0)
		return nil
	}
}

// setMetadata says which frame has the page's blob, which is counted already.
func (p *Page) setMetadata(frame, count uint32, length uint64) {
	if p.Record.Side != 0 {
		side := native.SideAt(p.Record.Side)
		side.MetadataFrame, side.MetadataCount, side.MetadataLength = frame, count, length
	}
}

// keepingMemory is ready for a change that gives the page other memory: in a group the memory that it had is kept, with the mask
// where that is another, too.
func (p *Page) keepingMemory(ready func() error) func() error {
	g := p.context.ownGroup()
	if g == nil {
		return ready
	}
	p.Keeping = true
	size, mask := p.Record.Size, p.Record.MaskFrame
	done := func() {
		p.Residency.Give(p.Kept)
		if p.keptMask != 0 {
			p.context.memory.Give(p.keptMask)
		}
	}
	back := func() error { return p.context.memoryBack(p, size, mask) }
	return func() error { return g.with(p.handle, step{back: back, done: done}, ready) }
}

// memoryBack gives a page the memory again that it had before a change, after which it was as then.
func (c *Context) memoryBack(then *Page, size uint64, mask uint32) error {
	p, err := lock(then.handle)
	if err != nil {
		return err
	}
	defer func() { p.unlock() }()
	if err := p.notPinned(); err != nil {
		return err
	}
	now := p.Record.Size
	p.Return(then.Kept)
	if p.Record.MaskFrame != mask { // a resize has made it, or a delta since
		c.dropMask(p.Index)
		if mask != 0 {
			native.UseMask(p.Index, mask)
		}
	}
	if now > size {
		native.AddCounts(c.index, 0, 0, -(now - size), 0)
	} else {
		native.AddCounts(c.index, 0, 0, 0, -(size - now))
	}
	p.Record.SetSize(size)
	native.Redzone(p.Index, p.State, size)
	return nil
}
