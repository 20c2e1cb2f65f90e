package keeper

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// pages is a state: what there is to know of its pages, by id, in short.
type pages map[uint64]string

func stateOf(t *testing.T, context uint64) pages {
	t.Helper()
	return detailsOf(t, context, false)
}

// detailsOf is stateOf with the versions, too, of which a load may give pages new ones.
func detailsOf(t *testing.T, context uint64, versions bool) pages {
	t.Helper()
	all := pages{}
	var handles []uint64
	require.NoError(t, page.Use(context, func(c *page.Context) error {
		handles = make([]uint64, c.Count())
		var cursor uint64
		handles = handles[:c.Pages(&cursor, handles)]
		return nil
	}))
	for _, handle := range handles {
		var text string
		require.NoError(t, page.Read(handle, func(p *page.Page) error {
			if err := p.Present(); err != nil {
				return err
			}
			mask := make([]byte, (p.Record.Size+7)/8)
			copy(mask, p.Mask())
			return p.WithBytes(func() error {
				text = fmt.Sprintf("%d bytes at %d, %x, mask %x, epoch %d, metadata %q", p.Record.Size, p.Location(),
					crc32.ChecksumIEEE(p.Bytes()), crc32.ChecksumIEEE(mask), p.Record.Epoch, p.Metadata())
				if versions {
					text += fmt.Sprintf(", version %d", p.Record.Version)
				}
				return nil
			})
		}))
		parents, err := page.Parents(handle)
		require.NoError(t, err)
		for _, parent := range parents {
			text += fmt.Sprintf(", of %d", idOf(parent))
		}
		all[idOf(handle)] = text
	}
	return all
}

// changer changes the pages of a context at random.
type changer struct {
	*testing.T
	*rand.Rand
	context uint64
	handles []uint64 // of all pages
	changed func()   // is called after each change, and after each group
	grouped bool
}

// goesOnWith takes the pages of another context, in the order of their ids.
func (c *changer) goesOnWith(context uint64) {
	c.context = context
	require.NoError(c, page.Use(context, func(in *page.Context) error {
		c.handles = make([]uint64, in.Count())
		var cursor uint64
		c.handles = c.handles[:in.Pages(&cursor, c.handles)]
		return nil
	}))
	slices.SortFunc(c.handles, func(a, b uint64) int { return cmp.Compare(idOf(a), idOf(b)) })
}

func idOf(handle uint64) uint64 { return page.IDOf(native.Index(handle)) }

// group makes several changes one, or none.
func (c *changer) group() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(c, page.BeginGroup(c.context))
	before, state := slices.Clone(c.handles), stateOf(c.T, c.context)
	c.grouped = true
	for range 1 + c.IntN(6) {
		c.change()
	}
	c.grouped = false
	if c.IntN(4) == 0 {
		require.NoError(c, page.RollbackGroup(c.context))
		c.handles = before
		require.Equal(c, state, stateOf(c.T, c.context))
	} else {
		require.NoError(c, page.CommitGroup(c.context))
	}
	c.changed()
}

func (c *changer) some() uint64 { return c.handles[c.IntN(len(c.handles))] }

func (c *changer) bytes(length uint64) []byte {
	bytes := make([]byte, length)
	for i := range bytes {
		bytes[i] = byte(c.Uint32())
	}
	return bytes
}

func sizeOf(handle uint64) uint64 { return native.RecordAt(native.Index(handle)).Size }

// change changes a page in one of all the ways that there are, or makes or ends one.
func (c *changer) change() {
	defer func() {
		if !c.grouped {
			c.changed()
		}
	}()
	if len(c.handles) == 0 || len(c.handles) < 30 && c.IntN(5) == 0 {
		c.create()
		return
	}
	handle := c.some()
	switch size := sizeOf(handle); c.IntN(12) {
	case 0:
		require.NoError(c, page.Resize(handle, 1+c.Uint64N(20000)))
	case 1:
		require.NoError(c, page.Migrate(handle, []int32{abi.LocationCPU, abi.LocationDisk}[c.IntN(2)], 0))
	case 2:
		require.NoError(c, page.SetMetadata(handle, []byte("key"), c.bytes(c.Uint64N(20))))
	case 3:
		if parent := c.some(); parent != handle {
			if err := page.AddDependency(parent, handle); err != nil {
				_ = page.RemoveDependency(parent, handle)
			}
		}
	case 4:
		clone, err := page.Clone(handle, 0)
		require.NoError(c, err)
		c.handles = append(c.handles, clone)
	case 5:
		require.Zero(c, nativetest.Destroy(handle))
		c.handles = slices.DeleteFunc(c.handles, func(other uint64) bool { return other == handle })
	case 6:
		require.Zero(c, nativetest.ClearMask(handle))
	case 7:
		together := []uint64{c.some(), c.some(), c.some()}
		require.Zero(c, nativetest.ApplyRuns(together, []uint64{0, 0, 0}, 1, c.bytes(3)))
	default:
		offset := c.Uint64N(size)
		if length := 1 + c.Uint64N(size-offset); c.IntN(2) == 0 {
			require.Zero(c, nativetest.WritePage(handle, offset, c.bytes(length)))
		} else {
			require.Zero(c, nativetest.ApplyRuns([]uint64{handle}, []uint64{offset}, length, c.bytes(length)))
		}
	}
}

func (c *changer) create() {
	require.NoError(c, page.Use(c.context, func(in *page.Context) error {
		id := uint64(0)
		if c.IntN(3) == 0 {
			id = 1 + c.Uint64N(20)
		}
		size := 1 + c.Uint64N(10000)
		if c.IntN(8) == 0 {
			size *= 20
		}
		handle, err := in.Create(size, page.CreateOptions{ID: id, NUMANode: -1,
			Location: []int32{abi.LocationCPU, abi.LocationDisk}[c.IntN(5)/4]})
		if err == nil {
			c.handles = append(c.handles, handle)
		} else if status.CodeOf(err) == status.AlreadyExists {
			err = nil
		}
		return err
	}))
}
