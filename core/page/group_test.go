package page

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/memory"
	"libmmsb/core/status"
	"libmmsb/native"
	"libmmsb/native/nativetest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// portrait is all that a page is.
func portrait(t *testing.T, page uint64) string {
	t.Helper()
	bytes := content(t, page)
	parents, err := Parents(page)
	require.NoError(t, err)
	children, err := Children(page)
	require.NoError(t, err)
	var text string
	require.NoError(t, Read(page, func(p *Page) error {
		mask := p.Mask()
		if len(mask) > 0 && !slices.ContainsFunc(mask, func(b byte) bool { return b != 0 }) {
			mask = nil // as if there were none
		}
		text = fmt.Sprintf("id %d, version %d, epoch %d, at %v, size %d, mask %x, metadata %x, parents %x, children %x, bytes %x",
			p.ID(), p.Record.Version, p.Record.Epoch, p.Placement(), p.Record.Size, sha256.Sum256(mask),
			p.Metadata(), parents, children, sha256.Sum256(bytes))
		return nil
	}))
	return text
}

func portraits(t *testing.T, c *Context) map[uint64]string {
	t.Helper()
	found := make(map[uint64]string)
	for _, page := range list(c) {
		found[page] = portrait(t, page)
	}
	return found
}

func list(c *Context) []uint64 {
	pages, cursor := make([]uint64, 1000), uint64(0)
	return pages[:c.Pages(&cursor, pages)]
}

// groupModel makes random calls.
type groupModel struct {
	*rand.Rand
	context *Context
}

var groupSizes = []uint64{1, 64, 200, 4096, 4097, 5000, 70000, 1100000}

// call makes one call, which may be refused.
func (m *groupModel) call() {
	pages, c := list(m.context), m.context
	kind := m.IntN(13)
	if len(pages) == 0 || kind == 0 && len(pages) < 20 {
		options := plain
		options.ID, options.Location = m.Uint64N(9), []int32{abi.LocationCPU, abi.LocationDisk}[m.IntN(2)]
		_, _ = c.Create(groupSizes[m.IntN(len(groupSizes))], options)
		return
	}
	page := pages[m.IntN(len(pages))]
	size := uint64(1)
	_ = Read(page, func(p *Page) error {
		size = p.Record.Size
		return nil
	})
	offset := m.Uint64N(size)
	bytes := make([]byte, min(size-offset, 1+m.Uint64N(300)))
	for i := range bytes {
		bytes[i] = byte(m.Uint32())
	}
	switch kind {
	case 1:
		_, _ = Clone(page, m.Uint64N(9))
	case 2:
		nativetest.Destroy(page)
	case 3:
		_ = Resize(page, groupSizes[m.IntN(len(groupSizes))])
	case 4:
		_ = Migrate(page, []int32{abi.LocationCPU, abi.LocationDisk}[m.IntN(2)], 0)
	case 5:
		_ = SetMetadata(page, []byte{'a' + byte(m.IntN(3))}, bytes)
	case 6:
		_ = RemoveMetadata(page, []byte{'a' + byte(m.IntN(3))})
	case 7:
		_ = AddDependency(pages[m.IntN(len(pages))], page)
	case 8:
		if parents, _ := Parents(page); len(parents) > 0 {
			_ = RemoveDependency(parents[m.IntN(len(parents))], page)
		}
	case 9:
		if other := pages[m.IntN(len(pages))]; other != page {
			_, _ = ResizeMany([]uint64{other, page}, []uint64{groupSizes[m.IntN(len(groupSizes))], size/2 + 1})
		}
	case 10:
		nativetest.ClearMask(page)
	case 11:
		nativetest.ApplyRuns([]uint64{page}, []uint64{offset}, uint64(len(bytes)), bytes)
	default:
		nativetest.WritePage(page, offset, bytes)
	}
}

// TestGroupsAgainstAModel: what is rolled back has left no trace, and what is committed stays.
func TestGroupsAgainstAModel(t *testing.T) {
	rounds := 60
	if raceDetector {
		rounds = 10
	}
	for seed := range uint64(4) {
		withContext(t, defaults(), func(h uint64, c *Context) {
			m := &groupModel{rand.New(rand.NewPCG(seed, 1)), c}
			undone := 0
			for round := range rounds {
				before := portraits(t, c)
				require.NoError(t, BeginGroup(h))
				for range 1 + m.IntN(12) {
					m.call()
				}
				after := portraits(t, c)
				want := after
				if m.IntN(2) == 0 {
					require.NoError(t, CommitGroup(h))
				} else {
					require.NoError(t, RollbackGroup(h))
					want = before
					undone++
				}
				require.Equal(t, want, portraits(t, c), "seed %d, round %d", seed, round)
				require.NoError(t, c.Check(), "seed %d, round %d", seed, round)
				m.call() // without a group
			}
			require.NotZero(t, undone)
			if !raceDetector { // in fewer rounds all may have ended
				require.NotEmpty(t, portraits(t, c), "ids of pages that have ended are free again")
			}
		})
	}
}

// TestBytesThatAGroupKeepsOnce: changes that begin at one place, the later ones longer, or with a change mask that was not there
// before.
func TestBytesThatAGroupKeepsOnce(t *testing.T) {
	withContext(t, defaults(), func(h uint64, c *Context) {
		page, marked := create(t, c, 1000, 0), create(t, c, 1000, 0)
		require.Zero(t, nativetest.WritePage(page, 0, slices.Repeat([]byte("before"), 160)))
		require.Zero(t, nativetest.ApplyRuns([]uint64{marked}, []uint64{100}, 10, make([]byte, 10)))
		before := portraits(t, c)
		require.NoError(t, BeginGroup(h))
		for range 3 {
			for _, length := range []int{10, 500, 64, 900} {
				require.Zero(t, nativetest.WritePage(page, 0, make([]byte, length)))
				require.Zero(t, nativetest.WritePage(marked, 64, make([]byte, length)))
			}
			require.Zero(t, nativetest.ApplyRuns([]uint64{page, marked}, []uint64{0, 70}, 20, make([]byte, 40)))
			require.Zero(t, nativetest.ClearMask(marked))
			_, err := ResizeMany([]uint64{page, marked}, []uint64{2000, 964})
			require.NoError(t, err)
		}
		require.NoError(t, RollbackGroup(h))
		assert.Equal(t, before, portraits(t, c))
	})
}

// on runs work on another thread, as a program's own would.
func on(work func()) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		defer close(done)
		work()
	}()
	<-done
}

func TestAMomentWaitsForGroups(t *testing.T) {
	withContext(t, defaults(), func(h uint64, c *Context) {
		require.NoError(t, BeginGroup(h))
		came, cancel := make(chan error, 1), make(chan struct{})
		moment := func() {
			_, err := c.Moment(cancel, func([]memory.Leaf) {})
			came <- err
		}
		_, err := c.Moment(nil, func([]memory.Leaf) {})
		assert.Equal(t, status.Busy, status.CodeOf(err), "the thread's own group")
		go moment()
		for c.groups.count() == 0 && len(came) == 0 {
			time.Sleep(time.Millisecond)
		}
		began := make(chan error, 1)
		go func() {
			runtime.LockOSThread()
			err := BeginGroup(h)
			if err == nil {
				err = CommitGroup(h)
			}
			began <- err
		}()
		select {
		case <-came:
			t.Fatal("a moment came while a group was open")
		case <-began:
			t.Fatal("a group began while a moment was waited for")
		case <-time.After(20 * time.Millisecond):
		}
		assert.Equal(t, status.Busy, status.CodeOf(c.WithoutGroups(func() error { return nil })))
		require.NoError(t, CommitGroup(h))
		require.NoError(t, <-came)
		require.NoError(t, <-began)
		require.NoError(t, BeginGroup(h))
		go moment()
		for c.groups.count() == 0 && len(came) == 0 {
			time.Sleep(time.Millisecond)
		}
		close(cancel)
		assert.Equal(t, status.Cancelled, status.CodeOf(<-came))
		require.NoError(t, RollbackGroup(h))
		require.NoError(t, c.WithoutGroups(func() error { return nil }))
	})
}

// A thread that has a group open elsewhere waits for what keeps groups out, but not for what waits for other threads' groups: of
// these one could wait for its own.
func TestAGroupBesideOneOfAnotherContext(t *testing.T) {
	withContext(t, defaults(), func(h uint64, c *Context) {
		withContext(t, defaults(), func(elsewhere uint64, _ *Context) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			require.NoError(t, BeginGroup(elsewhere))
			defer func() { assert.NoError(t, CommitGroup(elsewhere)) }()
			ends, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				assert.NoError(t, BeginGroup(h))
				ends <- struct{}{}
				<-ends
				assert.NoError(t, CommitGroup(h))
			}()
			<-ends
			kept := make(chan func(), 1)
			go func() {
				release, err := c.KeepGroupsOut(nil)
				assert.NoError(t, err)
				kept <- release
			}()
			for c.groups.count() == 0 {
				time.Sleep(time.Millisecond)
			}
			require.Equal(t, status.Busy, status.CodeOf(BeginGroup(h)))
			ends <- struct{}{}
			<-ended
			release := <-kept
			released := make(chan struct{})
			go func() {
				time.Sleep(20 * time.Millisecond)
				close(released)
				release()
			}()
			require.NoError(t, BeginGroup(h))
			<-released
			require.NoError(t, CommitGroup(h))
		})
	})
}

func (g *groups) count() int {
	g.Lock()
	defer g.Unlock()
	return g.waiting
}

// TestTheEndOfAContextEndsWaiting: who waits for groups of a context that ends gives up.
func TestTheEndOfAContextEndsWaiting(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := NewContext(defaults())
	require.NoError(t, err)
	require.NoError(t, BeginGroup(h))
	came := make(chan error, 1)
	go func() {
		came <- Use(h, func(c *Context) error {
			_, err := c.Moment(nil, func([]memory.Leaf) {})
			return err
		})
	}()
	c, err := contexts.Get(h)
	require.NoError(t, err)
	for c.groups.count() == 0 && len(came) == 0 {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, Destroy(h))
	assert.Equal(t, status.StaleHandle, status.CodeOf(<-came))
	assert.Equal(t, status.StaleHandle, status.CodeOf(RollbackGroup(h)))
}

// TestEdgesOfAnOpenGroupAreInTheWay: an edge that would close a cycle with one that a group has removed is refused to others, and
// is the group's to add.
func TestEdgesOfAnOpenGroupAreInTheWay(t *testing.T) {
	withContext(t, defaults(), func(h uint64, c *Context) {
		a, b, x, y := create(t, c, 10, 0), create(t, c, 10, 0), create(t, c, 10, 0), create(t, c, 10, 0)
		for _, edge := range [][2]uint64{{x, y}, {y, a}, {b, x}} {
			require.NoError(t, AddDependency(edge[0], edge[1]))
		}
		require.NoError(t, BeginGroup(h))
		require.NoError(t, RemoveDependency(x, y))
		on(func() { assert.Equal(t, status.Busy, status.CodeOf(AddDependency(a, b))) })
		require.NoError(t, RollbackGroup(h))
		on(func() { assert.Equal(t, status.InvalidArgument, status.CodeOf(AddDependency(a, b))) })
		require.NoError(t, BeginGroup(h))
		require.NoError(t, RemoveDependency(x, y))
		require.NoError(t, AddDependency(a, b))
		require.NoError(t, RollbackGroup(h))
		children, err := Children(x)
		require.NoError(t, err)
		assert.Equal(t, []uint64{y}, children)
	})
}

// TestNeighboursOfADestroyedPageMayEnd: its neighbours may end for good while it waits for the commit or rollback.
func TestNeighboursOfADestroyedPageMayEnd(t *testing.T) {
	for _, commit := range []bool{false, true} {
		withContext(t, defaults(), func(h uint64, c *Context) {
			parent, page, child := create(t, c, 10, 0), create(t, c, 10, 5), create(t, c, 10, 0)
			require.NoError(t, AddDependency(parent, page))
			require.NoError(t, AddDependency(page, child))
			require.NoError(t, BeginGroup(h))
			require.Zero(t, nativetest.Destroy(page))
			children, err := Children(parent)
			require.NoError(t, err)
			assert.Empty(t, children)
			on(func() { assert.Zero(t, nativetest.Destroy(child)) })
			if commit {
				require.NoError(t, CommitGroup(h))
				assert.Zero(t, c.dependencies.graph.Edges())
				return
			}
			require.NoError(t, RollbackGroup(h))
			children, err = Children(parent)
			require.NoError(t, err)
			assert.Equal(t, []uint64{page}, children)
			children, err = Children(page)
			require.NoError(t, err)
			assert.Empty(t, children)
			assert.Equal(t, 1, c.dependencies.graph.Edges())
		})
	}
}

// TestVersionsThatReachIntoOtherErasDoNotReturn: a group may change a page more often than an era has versions.
func TestVersionsThatReachIntoOtherErasDoNotReturn(t *testing.T) {
	withContext(t, defaults(), func(h uint64, c *Context) {
		page := create(t, c, 10, 0)
		change := func(times int) (highest uint64) {
			pages, offsets := make([]uint64, times), make([]uint64, times)
			for i := range pages {
				pages[i] = page
			}
			require.Zero(t, nativetest.ApplyRuns(pages, offsets, 1, make([]byte, times)))
			require.NoError(t, Read(page, func(p *Page) error {
				highest = p.Record.Version
				return nil
			}))
			return highest
		}
		before := change(1)
		require.NoError(t, BeginGroup(h))
		highest := change(3 << eraBits)
		require.NoError(t, RollbackGroup(h))
		assert.Equal(t, before+1, change(1))
		require.NoError(t, BeginGroup(h))
		assert.Greater(t, change(1), highest)
		require.NoError(t, CommitGroup(h))
		assert.Greater(t, newVersion(), highest)
	})
}

// TestMemoryOfGroupsIsGivenBack: of what a group keeps nothing is left.
func TestMemoryOfGroupsIsGivenBack(t *testing.T) {
	withContext(t, defaults(), func(h uint64, c *Context) {
		page := create(t, c, 3<<20, 0)
		frames := func() (count int) {
			for _, leaf := range c.memory.Leaves() {
				for index := leaf.First(); index < leaf.First()+leaf.Used; index++ {
					if native.Kind(native.RecordAt(index).LoadState()) == native.StateFrame {
						count++
					}
				}
			}
			return count
		}
		before := frames()
		for round := range 6 {
			require.NoError(t, BeginGroup(h))
			require.Zero(t, nativetest.WritePage(page, 5, make([]byte, 2<<20)))
			require.NoError(t, SetMetadata(page, []byte("k"), make([]byte, 100*(round+1))))
			require.NoError(t, Resize(page, uint64(3+round%2)<<20))
			require.NoError(t, Migrate(page, int32(abi.LocationDisk*(round%2)), 0))
			if round%3 == 0 {
				require.NoError(t, CommitGroup(h))
				before = frames()
			} else {
				require.NoError(t, RollbackGroup(h))
			}
			assert.Equal(t, before, frames(), "round %d", round)
		}
	})
}

// TestAGroupOfTheLibraryNeverStaysWithTheThread: where another thread has pinned what a call that failed has made, the group is
// undone as soon as it can be.
func TestAGroupOfTheLibraryNeverStaysWithTheThread(t *testing.T) {
	withContext(t, defaults(), func(h uint64, c *Context) {
		refused := status.Errorf(status.Limit, "refused")
		var made uint64
		err := atomically(h, func() (err error) {
			made, err = c.Create(100, CreateOptions{ID: 7})
			require.NoError(t, err)
			pinned := make(chan int32)
			go func() {
				_, code := nativetest.PinPage(made, false)
				pinned <- code
			}()
			require.Zero(t, <-pinned)
			return refused
		})
		require.Equal(t, refused, err)
		assert.False(t, native.InGroup())
		require.NoError(t, BeginGroup(h), "the thread can begin others")
		require.NoError(t, RollbackGroup(h))
		require.Equal(t, uint64(1), c.Count())
		require.Zero(t, nativetest.UnpinPage(made, false))
		require.NoError(t, BeginGroup(h))
		require.NoError(t, CommitGroup(h))
		assert.Zero(t, c.Count())
		_, err = c.Create(100, CreateOptions{ID: 7})
		require.NoError(t, err)
	})
}
