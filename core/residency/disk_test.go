package residency

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/alloc"
	"libmmsb/core/file/filetest"
	"libmmsb/core/status"
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

// Where nothing can be allocated zeros take the space, and what has no space on the disk no page gets.
func TestSpaceIsTakenByZerosWhereItCannotBeAllocated(t *testing.T) {
	defer func() { systemFallocate = unix.Fallocate }()
	for _, refused := range []unix.Errno{unix.EOPNOTSUPP, unix.ENOSYS, unix.EPERM, unix.EINVAL} {
		systemFallocate = func(int, uint32, int64, int64) error { return refused }
		d, folder := newDisk(t)
		const size = 3 << 20
		first := takeSpace(t, d, folder, size, false)
		require.GreaterOrEqual(t, allocated(t, d), uint64(size))
		filled := bytes.Repeat([]byte{7}, size)
		require.NoError(t, d.write(first.at, filled))
		d.give(first.at, first.length)
		require.Equal(t, first, takeSpace(t, d, folder, size, true))
		found := filled
		require.NoError(t, d.read(first.at, found))
		require.Equal(t, make([]byte, size), found)
		d.give(first.at, first.length)
		d.trim()
		require.Equal(t, first, takeSpace(t, d, folder, size, true), "the space stayed")
	}
	for _, full := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		systemFallocate = func(int, uint32, int64, int64) error { return full }
		d, folder := newDisk(t)
		_, _, err := d.take(folder, 4096, true)
		require.Equal(t, status.NoSpace, status.CodeOf(err))
		require.Zero(t, d.bytes())
	}
	interrupted := 0
	systemFallocate = func(descriptor int, mode uint32, at, length int64) error {
		if interrupted++; interrupted < 3 {
			return unix.EINTR
		}
		return unix.Fallocate(descriptor, mode, at, length)
	}
	d, folder := newDisk(t)
	takeSpace(t, d, folder, 4096, true)
	require.Equal(t, 3, interrupted)
}

// A limit of the length of files is a full disk. The signal that the system has for it would end this process.
func TestSpaceBeyondTheLimitOfFilesIsRefused(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGXFSZ)
	defer func() {
		signal.Stop(signals) // waits until they are delivered
		require.Empty(t, signals)
	}()
	d, folder := newDisk(t)
	first := takeSpace(t, d, folder, 8<<20, true)
	defer filetest.Full(t, 1<<20)()
	require.Equal(t, status.NoSpace, status.CodeOf(d.write(first.at+2<<20, make([]byte, 4096))))
	require.NoError(t, d.write(first.at, make([]byte, 4096)))
	for _, zeroed := range []bool{false, true} {
		_, _, err := d.take(folder, 64<<20, zeroed)
		require.Equal(t, status.NoSpace, status.CodeOf(err))
	}
	fresh, folder := newDisk(t)
	takeSpace(t, fresh, folder, 1<<20, true)
	_, _, err := fresh.take(folder, 1, true)
	require.Equal(t, status.NoSpace, status.CodeOf(err))
	systemFallocate = func(int, uint32, int64, int64) error { return unix.EOPNOTSUPP }
	defer func() { systemFallocate = unix.Fallocate }()
	_, _, err = fresh.take(folder, 1, true)
	require.Equal(t, status.NoSpace, status.CodeOf(err))
	transfers := []native.Transfer{{File: int32(fresh.descriptor()), At: 1<<20 - 4096, Length: 8192}}
	region := make([]byte, 8192)
	transfers[0].Bytes = uintptr(unsafe.Pointer(&region[0]))
	require.EqualValues(t, status.NoSpace, native.WriteDisk(transfers))
}
