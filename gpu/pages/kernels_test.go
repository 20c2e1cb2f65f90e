package pages

import (
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/gpu/sim"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// lying are the places that pages of these tests lie at: where their bytes are, and where the newest are.
var lying = []string{"host", "disk", "device", "other device", "address out", "equal", "newer on the host", "newer on the device"}

// lie makes a page with these bytes.
func (w *world) lie(at, content string) (handle uint64) {
	w.Helper()
	size := uint64(len(content))
	put := func(from, to uint64) { require.Equal(w, status.OK, w.write(handle, from, content[from:to])) }
	switch at {
	case "host":
		handle = w.create(abi.LocationCPU, 0, size)
	case "disk":
		handle = w.create(abi.LocationDisk, 0, size)
	case "device":
		handle = w.create(abi.LocationGPU, 0, size)
	case "other device":
		handle = w.create(abi.LocationGPU, 1, size)
	case "address out":
		handle = w.create(abi.LocationGPU, 0, size)
		w.pin(handle)
		defer w.unpin(handle)
	default:
		handle = w.create(abi.LocationCPU, 0, size)
		put(0, size)
		w.sync(handle, residency.ToDevice)
		switch at {
		case "newer on the host":
			put(size/3, size/2)
		case "newer on the device":
			w.raw(handle, size/4, content[size/4:size/2], false)
		}
		require.Zero(w, nativetest.ClearMask(handle))
		return handle
	}
	put(0, size)
	require.Zero(w, nativetest.ClearMask(handle))
	return handle
}

// mark makes a change that the page's change mask has.
func (w *world) mark(handle, offset uint64, content string) status.Code {
	return status.Code(nativetest.ApplyRuns([]uint64{handle}, []uint64{offset}, uint64(len(content)), []byte(content)))
}

// random are so many bytes.
func random(r *rand.Rand, size uint64) string {
	bytes := make([]byte, size)
	for i := range bytes {
		bytes[i] = byte(r.Uint32())
	}
	return string(bytes)
}

// changed has some other bytes, also the last one.
func changed(r *rand.Rand, content string, count int) string {
	bytes := []byte(content)
	for range count {
		bytes[r.IntN(len(bytes))] ^= byte(1 + r.IntN(255))
	}
	bytes[len(bytes)-1] ^= 1
	return string(bytes)
}

func (w *world) comparesAs(a, b uint64, inA, inB string) {
	w.Helper()
	want := native.Difference{First: math.MaxUint64}
	mask := make([]byte, (len(inA)+7)/8)
	for i := range len(inA) {
		if inA[i] != inB[i] {
			want.Count++
			want.First = min(want.First, uint64(i))
			mask[i/8] |= 1 << (i % 8)
		}
	}
	found, code := nativetest.ComparePages(a, b)
	require.Zero(w, code)
	require.Equal(w, want, found)
	bits, code := nativetest.PageDifferences(a, b, uint64(len(inA)))
	require.Zero(w, code)
	require.Equal(w, mask, bits)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func TestPagesAreComparedAndSummedUpWhereverTheyLie(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []uint64{1, 5000, 1<<20 + 4105} {
		one := random(r, size)
		other := changed(r, one, int(size/1000))
		on(t, func(w *world) {
			for _, left := range lying {
				for _, right := range lying {
					a, b, same := w.lie(left, one), w.lie(right, other), w.lie(right, one)
					w.comparesAs(a, b, one, other)
					w.comparesAs(b, a, other, one)
					w.comparesAs(a, same, one, one)
					require.Zero(t, nativetest.DestroyPages([]uint64{a, b, same}))
				}
				page := w.lie(left, one)
				w.comparesAs(page, page, one, one)
				sums := func(offset, length uint64) {
					sum, code := nativetest.PageChecksum(page, offset, length)
					require.Zero(t, code)
					require.Equal(t, crc32.Checksum([]byte(one[offset:offset+length]), castagnoli), sum)
				}
				sums(0, size)
				sums(size, 0)
				for range 5 {
					offset := r.Uint64N(size)
					sums(offset, r.Uint64N(size-offset+1))
				}
				_, code := nativetest.PageChecksum(page, size, 1)
				require.EqualValues(t, status.OutOfRange, code)
			}
		})
	}
}

// links is what a call moves over the link.
func (w *world) links(call func()) sim.Link {
	before := w.sim.Link()
	call()
	after := w.sim.Link()
	return sim.Link{ToDevice: after.ToDevice - before.ToDevice, ToHost: after.ToHost - before.ToHost}
}

func TestPagesOnADeviceAreNotCopiedToTheHost(t *testing.T) {
	const size = 4 << 20
	r := rand.New(rand.NewPCG(3, 4))
	one := random(r, size)
	other := changed(r, one, 1000)
	on(t, func(w *world) {
		a, b := w.lie("device", one), w.lie("device", other)
		require.Equal(t, sim.Link{ToDevice: 16, ToHost: 16}, w.links(func() {
			_, code := nativetest.ComparePages(a, b)
			require.Zero(t, code)
		}))
		require.Equal(t, sim.Link{ToHost: size / 8}, w.links(func() {
			_, code := nativetest.PageDifferences(a, b, size)
			require.Zero(t, code)
		}))
		require.Equal(t, sim.Link{ToHost: size / 4096 * 4}, w.links(func() {
			_, code := nativetest.PageChecksum(a, 0, size)
			require.Zero(t, code)
		}))

		require.Equal(t, status.OK, w.mark(a, 100, "propagated"))
		require.Equal(t, status.OK, w.mark(a, size-1, "x"))
		propagate := func() { require.Zero(t, nativetest.PropagatePages(b, a)) }
		require.Equal(t, sim.Link{ToDevice: 2 * 32}, w.links(propagate), "two runs")
		w.holds(b, 100, "propagated")
		w.holds(b, 110, other[110:size-1]+"x")

		require.Zero(t, nativetest.ClearMask(a))
		require.Equal(t, status.OK, w.mark(a, 1001, one[:4096]))
		require.Equal(t, sim.Link{ToDevice: 32}, w.links(propagate), "one run")

		every := make([]uint64, size/16)
		for i := range every {
			every[i] = uint64(i) * 16
		}
		require.Equal(t, status.OK, w.apply(a, every, random(r, size/16)))
		all := w.links(propagate)
		require.Zero(t, all.ToHost)
		require.Less(t, all.ToDevice, uint64(size/8+100), "the mask is less than a list of its runs")
		moved, code := w.read(a, 0, size)
		require.Equal(t, status.OK, code)
		got, code := w.read(b, 0, size)
		require.Equal(t, status.OK, code)
		for i := range every {
			require.Equal(t, moved[16*i], got[16*i])
			if 16*i > 6000 {
				require.Equal(t, other[16*i+14], got[16*i+14])
			}
		}

		require.Zero(t, nativetest.ClearMask(a))
		require.Equal(t, status.OK, w.apply(a, []uint64{size - 70, size - 68, size - 66, size - 64, size - 3}, "eight"))
		require.Less(t, w.links(propagate).ToDevice, uint64(100),
			"of a mask what has its bits")
		w.holds(b, size-70, "e"+got[size-69:size-68]+"i"+got[size-67:size-66]+"g"+got[size-65:size-64]+"h"+
			got[size-63:size-3]+"t"+got[size-2:])
		moved, code = w.read(a, 0, size)
		require.Equal(t, status.OK, code)
		w.comparesAs(a, w.lie("other device", other), moved, other)
		source, target := w.lie("device", one[:100]), w.create(abi.LocationGPU, 1, 100)
		require.Equal(t, status.OK, w.mark(source, 8, "four"))
		require.EqualValues(t, 4, w.links(func() { require.Zero(t, nativetest.PropagatePages(target, source)) }).ToHost)
		w.holds(target, 8, "four")
	})
}

// A change that a device makes fails as a whole.
func TestAPropagationThatFailsChangesNothing(t *testing.T) {
	on(t, func(w *world) {
		to, from := w.lie("device", "old bytes"), w.lie("device", "new bytes")
		require.Equal(t, status.OK, w.mark(from, 0, "new"))
		before := w.moment(to)
		for _, call := range []sim.Call{sim.Launch, sim.Copy} {
			w.fail(call, 0, sim.Fail)
			require.EqualValues(t, status.Device, nativetest.PropagatePages(to, from))
			after := w.moment(to)
			require.Equal(t, before.bytes, after.bytes)
			require.Equal(t, before.epoch, after.epoch)
			require.NotContains(t, after.mask, "\x01")
		}
		require.Zero(t, nativetest.PropagatePages(to, from))
		after := w.moment(to)
		require.Equal(t, "new bytes", after.bytes)
		require.Equal(t, before.epoch+1, after.epoch)
		require.NotEmpty(t, after.mask)

		other := w.lie("device", "new bytes")
		for _, failed := range []func() int32{
			func() int32 { _, code := nativetest.ComparePages(to, other); return code },
			func() int32 { _, code := nativetest.PageDifferences(to, other, 9); return code },
			func() int32 { _, code := nativetest.PageChecksum(to, 0, 9); return code },
		} {
			w.fail(sim.Launch, 0, sim.Fail)
			require.EqualValues(t, status.Device, failed())
		}
	})
}

// Wherever pages lie, and whoever watches, a propagation is the same change.
func TestAPropagationIsTheSameWhereverPagesLie(t *testing.T) {
	for seed := range fewer(20) {
		for _, watched := range []bool{false, true} {
			on(t, func(w *world) {
				if watched {
					w.watch()
				}
				r := rand.New(rand.NewPCG(seed, 5))
				size := 1 + r.Uint64N(20000)
				content := random(r, size)
				places := []string{"host", lying[r.IntN(len(lying))], lying[r.IntN(len(lying))], lying[r.IntN(len(lying))]}
				if r.IntN(2) == 0 { // most on one device
					places[1], places[2] = "device", "device"
				}
				model, to := w.lie("host", content), w.lie(places[1], content)
				var models, sources []uint64
				for range 1 + r.IntN(3) {
					of := random(r, size)
					a, b := w.lie("host", of), w.lie(places[2+r.IntN(2)], of)
					for range r.IntN(6) {
						offset := r.Uint64N(size)
						part := random(r, 1+r.Uint64N(min(size-offset, 300)))
						require.Equal(t, status.OK, w.mark(a, offset, part))
						require.Equal(t, status.OK, w.mark(b, offset, part))
					}
					if r.IntN(3) == 0 && size > 100 {
						var every []uint64
						for at := r.Uint64N(50); at < size; at += 2 {
							every = append(every, at)
						}
						part := random(r, uint64(len(every)))
						require.Equal(t, status.OK, w.apply(a, every, part))
						require.Equal(t, status.OK, w.apply(b, every, part))
					}
					models, sources = append(models, a), append(sources, b)
				}
				require.Zero(t, nativetest.PropagatePages(append([]uint64{model}, models...)...))
				require.Zero(t, nativetest.PropagatePages(append([]uint64{to}, sources...)...))
				want, got := w.moment(model), w.moment(to)
				require.Equal(t, want.bytes, got.bytes, "%v", places)
				require.Equal(t, want.epoch, got.epoch, "%v", places)
				require.Equal(t, want.mask, got.mask, "%v", places)
			})
		}
	}
}
