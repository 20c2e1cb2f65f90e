package devices

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
	"libmmsb/gpu/runtime"
	"libmmsb/gpu/sim"
)

// onKernels is a runtime of a simulated device, and pinned memory for what comes and goes.
type onKernels struct {
	*testing.T
	set     *Set
	runtime *Runtime
	handle  uint64
}

func newKernels(t *testing.T, options RuntimeOptions) *onKernels {
	set := NewSet(Options{Simulate: Always, Devices: 1, Memory: 64 << 20})
	t.Cleanup(set.Close)
	handle, err := set.Compose(0, options)
	require.NoError(t, err)
	r, err := FindRuntime(handle)
	require.NoError(t, err)
	return &onKernels{t, set, r, handle}
}

func (k *onKernels) stream() *runtime.Stream {
	handle, err := k.runtime.AcquireStream(0)
	require.NoError(k, err)
	s, err := runtime.FindStream(handle)
	require.NoError(k, err)
	return s
}

func (k *onKernels) block(s *runtime.Stream, bytes uint64) (uint64, driver.Address) {
	block, address, err := k.runtime.Allocate(runtime.Request{Bytes: bytes, Stream: s})
	require.NoError(k, err)
	return block, address
}

// pinned is memory that both sides reach.
func (k *onKernels) pinned(bytes int) (driver.Address, []byte) {
	address, err := k.runtime.AllocateHost(driver.Pinned, uint64(bytes))
	require.NoError(k, err)
	return address, unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), uintptr(address))), bytes)
}

func (k *onKernels) kit() *kit {
	kits.Lock()
	defer kits.Unlock()
	return kits.of[k.runtime.Runtime]
}

func (k *onKernels) violations() int {
	_, count := k.set.sim.Violations()
	return count
}

func TestTablesComeToTheDeviceAndGo(t *testing.T) {
	k := newKernels(t, RuntimeOptions{})
	s := k.stream()
	from, source := k.pinned(4096)
	to, target := k.pinned(4096)
	for i := range source {
		source[i] = byte(rand.Uint32())
	}
	wanted := make([]byte, 4096)
	for round := range 20 {
		var spans []kernels.Span
		clear(wanted)
		require.NoError(t, s.Fill(to, 0, 4096))
		for _, at := range rand.Perm(16)[:1+round%16] {
			spans = append(spans, kernels.Span{To: to + driver.Address(at*256), From: from + driver.Address(at), Bytes: 200})
			copy(wanted[at*256:][:200], source[at:])
		}
		require.NoError(t, CopyMany(s, spans))
		require.NoError(t, s.Synchronize())
		require.True(t, bytes.Equal(wanted, target))
	}
	require.LessOrEqual(t, len(k.kit().ways), 1, "pinned memory that the stream has passed is given back")
	require.Zero(t, k.runtime.Usage().Blocks)
	require.NoError(t, CopyMany(s, nil))

	found, result := k.pinned(16)
	require.NoError(t, Difference(s, found, from, to, 4096))
	require.NoError(t, Difference(s, found, from, from, 4096)) // it begins anew each time
	require.NoError(t, s.Synchronize())
	require.Equal(t, uint64(0), binary.LittleEndian.Uint64(result))
	require.Equal(t, ^uint64(0), binary.LittleEndian.Uint64(result[8:]))

	for _, memory := range []driver.Address{from, to, found} {
		require.NoError(t, k.runtime.FreeHost(driver.Pinned, memory))
	}
	require.NoError(t, DestroyRuntime(k.handle))
	require.Nil(t, k.kit())
	code(t, status.StaleHandle, CopyMany(s, []kernels.Span{{To: to, From: from, Bytes: 1}}))
	require.Nil(t, k.kit())
	k.set.Close()
	require.NoError(t, k.set.sim.Problems())
}

// What a kernel touches is known to the device: work on another stream that no use orders is found.
func TestKernelsAreOrderedByUses(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		k := newKernels(t, RuntimeOptions{})
		first, second := k.stream(), k.stream()
		a, left := k.block(first, 4096)
		b, right := k.block(first, 4096)
		within := func(s *runtime.Stream, work func() error, uses ...runtime.Use) {
			if !ordered {
				require.NoError(t, work())
				return
			}
			use, _, err := runtime.BeginUse(s, uses...)
			require.NoError(t, err)
			require.NoError(t, work())
			require.NoError(t, runtime.EndUse(use))
		}
		within(first, func() error { return first.Fill(left, 1, 4096) }, runtime.Use{Block: a, Access: runtime.Write})
		within(second, func() error {
			return Propagate(second, []kernels.Pair{{To: right, From: left, Bits: left + 2048, Bytes: 2048}})
		}, runtime.Use{Block: a, Access: runtime.Read}, runtime.Use{Block: b, Access: runtime.Write})
		within(first, func() error {
			return Launch(first, func(set *kernels.Set) (driver.Launch, error) {
				return set.Compare(left, right, right+2048, 2048)
			})
		}, runtime.Use{Block: a, Access: runtime.Write}, runtime.Use{Block: b, Access: runtime.Read})
		require.Equal(t, ordered, k.violations() == 0)
	}
}

func TestTablesThatCannotCome(t *testing.T) {
	empty := ""
	k := newKernels(t, RuntimeOptions{Pool: &empty})
	s := k.stream()
	_, address := k.block(s, 4096)
	spans := func() []kernels.Span { return []kernels.Span{{To: address, From: address + 2048, Bytes: 1000}} }
	require.NoError(t, CopyMany(s, spans()))
	require.NoError(t, s.Synchronize())
	for _, call := range []sim.Call{sim.Copy, sim.Launch} {
		require.NoError(t, k.set.sim.Inject(sim.Fault{Call: call}))
		code(t, status.Device, CopyMany(s, spans()))
		require.NoError(t, CopyMany(s, spans()))
		require.EqualValues(t, 1, k.runtime.Usage().Blocks)
	}
	capture, err := runtime.BeginCapture(s)
	require.NoError(t, err)
	before := k.runtime.Usage().Allocations
	code(t, status.InvalidState, CopyMany(s, spans()))
	require.Equal(t, before, k.runtime.Usage().Allocations)
	require.NoError(t, runtime.DestroyCapture(capture))
	code(t, status.InvalidArgument, CopyMany(s, []kernels.Span{{To: address, From: address + 2048, Bytes: 1000},
		{To: address + 999, From: address + 2048, Bytes: 1}}))
	code(t, status.OutOfRange, Propagate(s, []kernels.Pair{{To: ^driver.Address(0), From: address, Bits: address, Bytes: 2}}))
	require.Zero(t, k.violations())

	// The kernels do not come to the device.
	other := newKernels(t, RuntimeOptions{})
	require.NoError(t, other.set.sim.Inject(sim.Fault{Call: sim.LoadModule}))
	stream := other.stream()
	_, address = other.block(stream, 4096)
	code(t, status.Device, CopyMany(stream, spans()))
	require.NoError(t, CopyMany(stream, spans()))
}

func TestThreadsShareTheKernels(t *testing.T) {
	k := newKernels(t, RuntimeOptions{})
	done := make(chan error, 4)
	for range 4 {
		s := k.stream()
		_, address := k.block(s, 4096)
		go func() {
			for range 50 {
				if err := CopyMany(s, []kernels.Span{{To: address, From: address + 2048, Bytes: 1000}}); err != nil {
					done <- err
					return
				}
			}
			done <- s.Synchronize()
		}()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	require.Zero(t, k.violations())
}
