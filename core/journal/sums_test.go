package journal

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

func TestChecksumsOfAnyPart(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	content := make([]byte, 40*unitBytes)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	var s sums
	s.grow(content[:7*unitBytes])
	s.grow(content[7*unitBytes:])
	require.Equal(t, 40, s.units())
	for range 500 {
		from := random.IntN(41)
		to := from + random.IntN(41-from)
		head := content[:random.IntN(100)]
		whole := append(append([]byte{}, head...), content[from*unitBytes:to*unitBytes]...)
		require.Equal(t, checksum(whole), s.behind(checksum(head), from, to), "%d to %d", from, to)
	}
}

// readBytes counts what is read.
type readBytes struct {
	file.FS
	count *atomic.Int64
}

type readBytesFile struct {
	file.File
	count *atomic.Int64
}

func (r readBytes) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	f, err := r.FS.Open(path, flags, mode)
	if err != nil {
		return nil, err
	}
	return readBytesFile{f, r.count}, nil
}

func (r readBytesFile) Pread(p []byte, offset int64) (int, error) {
	n, err := r.File.Pread(p, offset)
	r.count.Add(int64(n))
	return n, err
}

// TestATornEndIsReadOnce is about a journal whose torn end looks like the heads of very many frames, of the greatest length.
func TestATornEndIsReadOnce(t *testing.T) {
	content, _ := smallJournal(t, false)
	whole := int64(len(content))
	s, err := decodeSegment(content, "segment")
	require.NoError(t, err)
	const units = 2048
	torn := make([]byte, units*unitBytes)
	for i := 0; i < units; i++ {
		head := frame{id: s.id, length: MaximumFrame, count: 1, first: 1 << 40, durable: 1<<40 - 1}
		copy(torn[i*unitBytes:], frameMagic)
		at := torn[i*unitBytes:]
		binary.LittleEndian.PutUint32(at[8:], head.length)
		binary.LittleEndian.PutUint32(at[12:], head.count)
		copy(at[16:32], head.id[:])
		binary.LittleEndian.PutUint64(at[32:], head.first)
		binary.LittleEndian.PutUint64(at[40:], head.durable)
	}
	disk, _ := diskWith(t, append(content, torn...))
	var count atomic.Int64
	records, info, err := walkAll(readBytes{disk, &count}, 1)
	require.NoError(t, err)
	require.NotEmpty(t, records)
	require.GreaterOrEqual(t, info.TornBytes, int64(len(torn)))
	require.Less(t, count.Load(), 6*(whole+int64(len(torn))))

	// One of the heads is that of a whole frame, which says that the records before it were durable.
	for _, at := range []int{0, 1, 700, units - MaximumFrame/unitBytes} {
		lying := append([]byte(nil), torn...)
		unit := lying[at*unitBytes:][:MaximumFrame]
		binary.LittleEndian.PutUint32(unit[frameCRCAt:], frameCRC(unit))
		disk, _ := diskWith(t, append(append([]byte(nil), content...), lying...))
		_, _, err := walkAll(disk, 1)
		require.Equal(t, status.Corrupt, status.CodeOf(err), "%d: %v", at, err)
	}
}
