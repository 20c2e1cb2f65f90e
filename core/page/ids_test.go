package page

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/journal"
	"libmmsb/core/lasterror"
	"libmmsb/core/status"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// What is promised of ids.
func TestIDs(t *testing.T) {
	for _, c := range []struct {
		name  string
		check func(t *testing.T)
	}{
		{"an automatic id leads to its page", automaticIDsLeadToTheirPages},
		{"an id is that of one page at a time", anIDIsThatOfOnePageAtATime},
		{"an id that the caller took is not picked", idsThatTheCallerTookAreNotPicked},
		{"a page that begins has its id", aPageThatBeginsHasItsID},
		{"a page that begins elsewhere meanwhile has its id", pagesThatBeginMeanwhileHaveTheirIDs},
		{"marks wait for leaves", marksWaitForLeaves},
		{"marks go with their context", marksGoWithTheirContext},
		{"former pages leave no marks", formerPagesLeaveNoMarks},
		{"an id that a load brought is not picked", idsThatALoadBroughtAreNotPicked},
	} {
		t.Run(c.name, c.check)
	}
}

// choose creates a page with an id.
func choose(c *Context, id uint64) (uint64, error) {
	options := plain
	options.ID = id
	return c.Create(64, options)
}

// coming is the automatic id of the first page that a record will have, or the next.
func (c *Context) coming(index uint32) uint64 {
	state := native.RecordAt(index).LoadState()
	generation := max(native.Generation(state), 1)
	if native.Kind(state) == native.KindPage {
		generation++
	}
	return c.ids.automatic(native.Handle(native.KindPage, generation, index))
}

func requirePage(t *testing.T, c *Context, id, page uint64) {
	t.Helper()
	found, err := c.Lookup(id)
	require.NoError(t, err)
	require.Equal(t, page, found)
}

func requireNoPage(t *testing.T, c *Context, id uint64) {
	t.Helper()
	_, err := c.Lookup(id)
	require.Equal(t, status.NotFound, status.CodeOf(err))
}

func requireTaken(t *testing.T, c *Context, id uint64) {
	t.Helper()
	_, err := choose(c, id)
	require.Equal(t, status.AlreadyExists, status.CodeOf(err))
}

func automaticIDsLeadToTheirPages(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		pages := make([]uint64, 1000)
		require.NoError(t, CreateMany(c.handle, 64, plain, pages, nil))
		for _, page := range pages {
			requirePage(t, c, c.ids.automatic(page), page)
		}
		requireTaken(t, c, c.ids.automatic(pages[0]))
		native.Uncreate(pages)
		requireNoPage(t, c, c.ids.automatic(pages[0]))
	})
}

func anIDIsThatOfOnePageAtATime(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		failure := errors.New("it fails")
		publish := func(id uint64, prepare func(*Page) error) error {
			frame, err := c.TakeFor(64, &plain)
			require.NoError(t, err)
			_, err = c.publish(&birth{frame: frame, size: 64, id: id, node: -1, kind: journal.Create, prepare: prepare})
			return err
		}
		far := c.ids.automatic(native.Handle(native.KindPage, 1, native.IndexMask))
		for _, id := range []uint64{1, 77, native.IDMask, far} {
			for range 3 {
				page := create(t, c, 64, id)
				requirePage(t, c, id, page)
				requireTaken(t, c, id)
				require.Zero(t, nativetest.Destroy(page))
				requireNoPage(t, c, id)
			}
			require.Equal(t, failure, publish(id, func(*Page) error {
				requireNoPage(t, c, id)
				requireTaken(t, c, id)
				return failure
			}))
			requireNoPage(t, c, id)
			require.NoError(t, publish(id, func(p *Page) error {
				c.ids.set(id, p.handle) // as it is when the page begins at once
				requireNoPage(t, c, id)
				return nil
			}))
			requireTaken(t, c, id)
		}
	})
}

// A caller may choose an id that the library would have picked for a page to come; no id is ever that of two pages.
func idsThatTheCallerTookAreNotPicked(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		page := create(t, c, 64, 0)
		index := native.Index(page)
		taken := make(map[uint64]bool)
		for generation := native.Generation(page) + 1; generation < native.Generation(page)+20; generation += 3 {
			id := c.ids.automatic(native.Handle(native.KindPage, generation, index))
			taken[id] = true
			create(t, c, 64, id)
		}
		for range 200 {
			require.Zero(t, nativetest.Destroy(page))
			var pages [1]uint64
			if code := native.CreateBatch(c.handle, 64, true, pages[:]); code == native.EnterGo {
				pages[0] = create(t, c, 64, 0)
			}
			page = pages[0]
			id := IDOf(native.Index(page))
			require.False(t, taken[id])
			requirePage(t, c, id, page)
		}
		requireTaken(t, c, IDOf(native.Index(page)))
	})
}

// A page that Go code makes has its automatic id from before anybody can see it.
func aPageThatBeginsHasItsID(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		frame, err := c.TakeFor(64, &plain)
		require.NoError(t, err)
		page, err := c.publish(&birth{frame: frame, size: 64, node: -1, kind: journal.Create, prepare: func(p *Page) error {
			requireTaken(t, c, c.ids.automatic(p.handle))
			return nil
		}})
		require.NoError(t, err)
		requirePage(t, c, c.ids.automatic(page), page)
	})
}

// One thread creates and destroys pages on one record, in native code, or in Go where the record is marked; another chooses the
// ids of these pages as they begin.
func pagesThatBeginMeanwhileHaveTheirIDs(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		const tries = 2000
		var index, rounds, stop atomic.Uint32
		var twice error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			twice = createAndDestroy(c, &index, &rounds, &stop)
		}()
		// await waits for pages that the thread begins from now on.
		await := func(more uint32) {
			for last := rounds.Load() + more; int32(last-rounds.Load()) > 0; runtime.Gosched() {
				select {
				case <-ended:
					return
				default:
				}
			}
		}
		await(1)
		for range tries {
			page, err := choose(c, c.coming(index.Load()))
			if err != nil {
				continue
			}
			await(2)
			nativetest.Destroy(page)
			native.RecordAt(index.Load()).IDTaken = 0 // and native code creates again
		}
		stop.Store(1)
		<-ended
		require.NoError(t, twice)
	})
}

func createAndDestroy(c *Context, index, rounds, stop *atomic.Uint32) error {
	var pages [1]uint64
	full := make([]byte, native.SmallMax) // has to be zeroed, between the look at the mark and the page's beginning
	for i := range full {
		full[i] = 1
	}
	for stop.Load() == 0 {
		code := native.CreateBatch(c.handle, native.SmallMax, true, pages[:])
		if code == native.EnterGo {
			var err error
			if pages[0], err = c.Create(native.SmallMax, plain); err != nil {
				return err
			}
		} else if code != 0 {
			return lasterror.Load(code)
		}
		c.ids.Lock()
		taken := c.ids.taken(pages[0])
		c.ids.Unlock()
		if taken {
			return status.Errorf(status.Internal, "page 0x%016x has an id that another page has", pages[0])
		}
		nativetest.WritePage(pages[0], 0, full)
		nativetest.Destroy(pages[0])
		index.Store(native.Index(pages[0]))
		rounds.Add(1)
	}
	return nil
}

// An id may be that of a page whose record lies in a leaf that the context does not have yet.
func marksWaitForLeaves(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		create(t, c, 64, 0)
		chosen := make(map[uint64]uint64)
		for number := range uint32(16) { // the leaves that the context takes next are among them
			if native.LeafContext(number) != 0 {
				continue
			}
			require.Zero(t, native.OpenLeaf(number)) // so that its records can be asked for their generations
			for index := uint32(1); index < native.LeafRecords; index += 400 {
				id := c.coming(number<<native.LeafBits | index)
				chosen[id] = create(t, c, 64, id)
			}
		}
		// Ids of a leaf that never comes are chosen and given up.
		for generation := range uint32(2000) {
			page := create(t, c, 64, c.ids.automatic(native.Handle(native.KindPage, generation, native.IndexMask)))
			require.Zero(t, nativetest.Destroy(page))
		}
		waits := 0
		for _, waiting := range c.ids.waiting {
			waits += len(waiting)
		}
		require.Equal(t, waits, c.ids.waits)
		require.Less(t, waits, 1000)
		pages := make([]uint64, 3*native.LeafRecords)
		require.NoError(t, CreateMany(c.handle, 64, plain, pages, nil))
		for _, page := range pages {
			require.NotContains(t, chosen, c.ids.automatic(page))
		}
		for id, page := range chosen {
			requirePage(t, c, id, page)
		}
	})
}

// A leaf comes without the marks of the context that had it before: they would send each creation to Go.
func marksGoWithTheirContext(t *testing.T) {
	var number uint32
	withContext(t, defaults(), func(_ uint64, c *Context) {
		page := create(t, c, 64, 0)
		number = native.Index(page) >> native.LeafBits
		create(t, c, 64, c.coming(native.Index(page)))
		require.NotZero(t, native.RecordAt(native.Index(page)).IDTaken)
	})
	withContext(t, defaults(), func(_ uint64, c *Context) {
		require.Equal(t, number, native.Index(create(t, c, 64, 0))>>native.LeafBits)
		for index := range uint32(native.LeafRecords) {
			require.Zero(t, native.RecordAt(number<<native.LeafBits|index).IDTaken)
		}
	})
}

// The id of a page that has been is free, and no page to come has it.
func formerPagesLeaveNoMarks(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		former := create(t, c, 64, 0)
		require.Zero(t, nativetest.Destroy(former))
		id := c.ids.automatic(former)
		requirePage(t, c, id, create(t, c, 64, id))
		require.Zero(t, native.RecordAt(native.Index(former)).IDTaken)
	})
}

// A load brings ids of another context, which may be those of pages to come.
func idsThatALoadBroughtAreNotPicked(t *testing.T) {
	for _, whole := range []bool{false, true} {
		withContext(t, defaults(), func(h uint64, c *Context) {
			page := create(t, c, 64, 0)
			id := c.coming(native.Index(page))
			frame, err := c.TakeFor(64, &plain)
			require.NoError(t, err)
			staging := NewStaging(c, 1)
			require.NoError(t, staging.Add([]native.Staged{{ID: id, Size: 64, Version: 1, Index: frame.Index}}, frame, -1))
			_, err = staging.Commit(whole, func() {}, func(*Still) {})
			require.NoError(t, err)
			requireTaken(t, c, id)
			if !whole {
				require.Zero(t, nativetest.Destroy(page))
			}
			pages := make([]uint64, 100)
			require.NoError(t, CreateMany(h, 64, plain, pages, nil))
			for _, page := range pages {
				require.NotEqual(t, id, c.ids.automatic(page))
			}
		})
	}
}
