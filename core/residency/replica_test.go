package residency

import (
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/memory"
	"libmmsb/native"
)

// freeing are devices that note what is freed.
type freeing struct {
	NoDevices
	freed []uint64
}

func (f *freeing) Free(memory DeviceMemory) { f.freed = append(f.freed, memory.Block) }

// Replicas on the device that asks go in the order in which they were used, until there are enough bytes; those of pages that
// have ended go at once.
func TestReplicasGoInTheirOrder(t *testing.T) {
	require.Zero(t, native.Start())
	require.Zero(t, native.OpenLeaf(0))
	const first = 90
	devices := &freeing{}
	r := New(memory.New(memory.Options{}), devices, Options{})
	r.replicas.of = make(map[uint32][]*replica)
	add := func(block uint64, index uint32, device int32, used uint64) {
		native.RecordAt(index).StoreState(native.State(native.KindPage, 1, 0))
		t.Cleanup(func() { native.RecordAt(index).StoreState(0) })
		r.replicas.of[index] = append(r.replicas.of[index], &replica{
			memory: DeviceMemory{Device: device, Block: block}, page: native.Handle(native.KindPage, 1, index), bytes: 100,
			used: used,
		})
	}
	add(1, first, 1, 7)
	add(2, first, 2, 1)
	add(3, first+1, 1, 5)
	add(4, first+2, 1, 6)
	add(5, first+3, 1, 9)
	count, bytes := r.Replicas()
	require.Equal(t, [2]uint64{5, 500}, [2]uint64{count, bytes})
	require.Zero(t, r.giveBack(3, 1000))
	require.Empty(t, devices.freed)
	require.Equal(t, uint64(200), r.giveBack(1, 101))
	require.Equal(t, []uint64{3, 4}, devices.freed)
	native.RecordAt(first + 3).StoreState(native.State(native.KindPage, 2, 0)) // another page has its record
	require.ErrorContains(t, r.Check(), "has a replica of page")
	r.DropReplicasOfEnded()
	require.Equal(t, []uint64{3, 4, 5}, devices.freed)
	require.Equal(t, uint64(100), r.giveBack(1, 1000))
	require.Equal(t, []uint64{3, 4, 5, 1}, devices.freed)
	require.Len(t, r.replicas.of, 1)
	r.dropReplicas(first, every)
	require.Empty(t, r.replicas.of)
	require.Zero(t, r.giveBack(2, 1))
}
