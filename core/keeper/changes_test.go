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
	devices bool        // pages go there
	full    bool        // the disk is
	code    status.Code // that the last call has answered
}

// newChanger is the one of a random program. In a quarter of the programs pages go to devices.
func newChanger(t *testing.T, number, stream uint64) changer {
	c := changer{T: t, Rand: rand.New(rand.NewPCG(number, stream))}
	c.devices = c.IntN(4) == 0
	return c
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

// takes looks at what a call has answered, and says whether it is done. On a full disk it may be refused.
func (c *changer) takes(err error) bool {
	c.code = status.CodeOf(err)
	if c.full {
		require.Contains(c, []status.Code{status.OK, status.NotDurable, status.NoSpace}, c.code, "%v", err)
	} else {
		require.NoError(c, err)
	}
	return status.Done(err)
}

// answers is takes for a call of native code.
func (c *changer) answers(code int32) bool {
	if code == 0 {
		return c.takes(nil)
	}
	return c.takes(status.Errorf(status.Code(code), "native code"))
}

// change changes a page in one of all the ways that there are, or makes or ends one.
func (c *changer) change() {
	c.code = status.OK
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
	if c.devices && !c.full && c.IntN(4) == 0 { // simulated memory of devices is a file, too
		c.move(handle)
		return
	}
	switch size := sizeOf(handle); c.IntN(12) {
	case 0:
		c.takes(page.Resize(handle, 1+c.Uint64N(20000)))
	case 1:
		c.takes(page.Migrate(handle, []int32{abi.LocationCPU, abi.LocationDisk}[c.IntN(2)], 0))
	case 2:
		c.takes(page.SetMetadata(handle, []byte("key"), c.bytes(c.Uint64N(20))))
	case 3:
		if parent := c.some(); parent != handle {
			c.code = status.CodeOf(page.AddDependency(parent, handle))
			if c.code != status.OK && c.code != status.NotDurable && c.code != status.NoSpace { // it is there, or closes a cycle
				c.code = status.CodeOf(page.RemoveDependency(parent, handle)) // or there is none
			}
		}
	case 4:
		clone, err := page.Clone(handle, 0)
		if c.takes(err) {
			c.handles = append(c.handles, clone)
		}
	case 5:
		if c.answers(nativetest.Destroy(handle)) {
			c.handles = slices.DeleteFunc(c.handles, func(other uint64) bool { return other == handle })
		}
	case 6:
		c.answers(nativetest.ClearMask(handle))
	case 7:
		together := []uint64{c.some(), c.some(), c.some()}
		c.answers(nativetest.ApplyRuns(together, []uint64{0, 0, 0}, 1, c.bytes(3)))
	default:
		offset := c.Uint64N(size)
		if length := 1 + c.Uint64N(size-offset); c.IntN(2) == 0 {
			c.answers(nativetest.WritePage(handle, offset, c.bytes(length)))
		} else {
			c.answers(nativetest.ApplyRuns([]uint64{handle}, []uint64{offset}, length, c.bytes(length)))
		}
	}
}

// move moves a page, or its bytes, between the host and devices.
func (c *changer) move(handle uint64) {
	device := int32(c.IntN(devicesOfTests))
	switch c.IntN(4) {
	case 0:
		_ = page.Replicate(handle, device) // or it is on disk
	case 1:
		_, _ = page.SyncMany([]uint64{handle}, page.Direction(1+c.IntN(3)), device, nil, nil)
	default:
		places := []int32{abi.LocationGPU, abi.LocationUnified, abi.LocationPinned}
		c.takes(page.Migrate(handle, places[c.IntN(len(places))], device))
	}
}

func (c *changer) create() {
	c.takes(page.Use(c.context, func(in *page.Context) error {
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
		if status.Done(err) {
			c.handles = append(c.handles, handle)
		} else if status.CodeOf(err) == status.AlreadyExists {
			err = nil
		}
		return err
	}))
}
