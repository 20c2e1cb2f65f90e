package residency

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/alloc"
	"libmmsb/native"
)

func newDisk(t *testing.T) (d *disk, folder string) {
	t.Helper()
	require.Zero(t, native.Start())
	d = &disk{}
	t.Cleanup(d.close)
	return d, t.TempDir()
}

// ofTheFileSystem are bytes of a file that it needs to know where the others are.
const ofTheFileSystem = 64 << 10

// allocated is how many bytes the file has on the disk.
func allocated(t *testing.T, d *disk) uint64 {
	t.Helper()
	var info unix.Stat_t
	require.NoError(t, unix.Fstat(d.descriptor(), &info))
	return uint64(info.Blocks) * 512
}

func takeSpace(t *testing.T, d *disk, folder string, size uint64, zeroed bool) Backing {
	t.Helper()
	at, length, err := d.take(folder, size, zeroed)
	require.NoError(t, err)
	return Backing{at: at, length: length}
}

func TestSpaceOfPagesIsUsedAgain(t *testing.T) {
	const size = 64 << 10
	d, folder := newDisk(t)
	first := takeSpace(t, d, folder, size, false)
	d.give(first.at, first.length)
	held := d.held
	for range 10000 {
		b := takeSpace(t, d, folder, size, false)
		require.Equal(t, first, b)
		d.give(b.at, b.length)
	}
	assert.Equal(t, held, d.held, "nothing was asked for or given back")
	assert.LessOrEqual(t, allocated(t, d), uint64(growthMin*diskUnit+ofTheFileSystem))
	assert.Zero(t, d.bytes())
}

func TestSpaceComesInLargePieces(t *testing.T) {
	d, folder := newDisk(t)
	for range growthMin {
		takeSpace(t, d, folder, 1, true)
		require.EqualValues(t, growthMin, d.held)
	}
	takeSpace(t, d, folder, 1, true)
	assert.EqualValues(t, 2*growthMin, d.held)
}

// What is spare is bounded: as much as pages have, and spareMin.
func TestSpareSpaceGoesBack(t *testing.T) {
	const size = 1 << 20
	d, folder := newDisk(t)
	var all []Backing
	for range 300 {
		all = append(all, takeSpace(t, d, folder, size, false))
	}
	require.GreaterOrEqual(t, allocated(t, d), uint64(300*size))
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, b := range all {
		d.give(b.at, b.length)
		require.LessOrEqual(t, d.held-d.used, max(d.used, spareMin))
		if i%20 == 0 {
			require.NoError(t, d.check(all[i+1:]))
			require.InDelta(t, d.held*diskUnit, allocated(t, d), ofTheFileSystem)
		}
	}
	assert.Positive(t, d.held, "some stays for the next pages")
	d.trim()
	assert.Zero(t, d.held)
	assert.LessOrEqual(t, allocated(t, d), uint64(ofTheFileSystem))
	b := takeSpace(t, d, folder, size, true)
	require.NoError(t, d.check([]Backing{b}))
}

// Pages of all sizes come, are written, and go, from several goroutines: none loses a byte to another, and what was to be zeroed
// is zero, whoever had the space before.
func TestSpaceIsNobodyElses(t *testing.T) {
	d, folder := newDisk(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var group sync.WaitGroup
	left := make([][]Backing, 4)
	for worker := range uint64(len(left)) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, worker))
			type taken struct {
				Backing
				bytes []byte
			}
			var mine []taken
			for range 400 {
				if len(mine) > 0 && random.IntN(5) < 2 {
					i := random.IntN(len(mine))
					found := make([]byte, len(mine[i].bytes))
					if !assert.NoError(t, d.read(mine[i].at, found)) || !assert.True(t, bytes.Equal(mine[i].bytes, found)) {
						return
					}
					d.give(mine[i].at, mine[i].length)
					mine[i] = mine[len(mine)-1]
					mine = mine[:len(mine)-1]
					continue
				}
				size, zeroed := 1+random.Uint64N(1<<(1+random.IntN(22))), random.IntN(2) == 0
				at, length, err := d.take(folder, size, zeroed)
				if !assert.NoError(t, err) {
					return
				}
				wanted, found := make([]byte, size), make([]byte, size)
				if zeroed && (!assert.NoError(t, d.read(at, found)) || !assert.True(t, bytes.Equal(wanted, found), "%d", size)) {
					return
				}
				for i := range min(len(wanted), 512) {
					wanted[i] = byte(1 + random.IntN(255)) // which no zero is
				}
				for done := 512; done < len(wanted); done *= 2 {
					copy(wanted[done:], wanted[:done])
				}
				if !assert.NoError(t, d.write(at, wanted)) {
					return
				}
				mine = append(mine, taken{Backing{at: at, length: length}, wanted})
				if random.IntN(50) == 0 {
					d.trim()
				}
			}
			for i := range mine {
				left[worker] = append(left[worker], mine[i].Backing)
			}
		})
	}
	group.Wait()
	require.NoError(t, d.check(append(append(append(left[0], left[1]...), left[2]...), left[3]...)))
}

// A recount finds what does not fit together.
func TestCheckSeesDamagedSpace(t *testing.T) {
	d, folder := newDisk(t)
	b := takeSpace(t, d, folder, 10*diskUnit, false)
	require.NoError(t, d.check([]Backing{b}))
	for text, damage := range map[string]func(){
		"are counted": func() { d.held++ },
		"but have no": func() { d.written.Add(d.extents.Limit()-1, d.extents.Limit()) },
		"lacks space": func() { d.space.Remove(b.at/diskUnit, b.at/diskUnit+1) },
		"are in use":  func() { d.used-- },
	} {
		held, used := d.held, d.used
		space, written := append(alloc.Set(nil), d.space...), append(alloc.Set(nil), d.written...)
		damage()
		assert.ErrorContains(t, d.check([]Backing{b}), text)
		d.held, d.used, d.space, d.written = held, used, space, written
		require.NoError(t, d.check([]Backing{b}))
	}
}
