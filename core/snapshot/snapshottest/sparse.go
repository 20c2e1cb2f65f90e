package snapshottest

import (
	"encoding/binary"
	"os"
)

// Sparse are names of files that are mostly holes, and say that they have very much.
var Sparse = []string{"segments that are holes", "a table that is a hole"}

// MakeSparse makes one. It has 136 KiB or 8 KiB, and says that it has 64 GiB or 1 TiB.
func MakeSparse(path, name string) error {
	whole, _ := Honest()
	header, foot := whole.Raw[:unit], append([]byte(nil), whole.Raw[whole.Foot:]...)
	var table []byte
	var size, segments, tableBytes uint64
	if name == Sparse[0] {
		size, segments = 64<<30, 64<<30/(4<<20)-1
		for number := range segments {
			table = binary.LittleEndian.AppendUint64(table, unit+number*(4<<20))
		}
		tableBytes = uint64(len(table)) + 8
		size = unit + segments*(4<<20) + tableBytes + unit
		binary.LittleEndian.PutUint32(foot[96:], checksum(table))
	} else {
		size, segments = 1<<40, 1<<27
		tableBytes = 8 * segments
		sum, zeros := uint32(0), make([]byte, 1<<20)
		for left := tableBytes; left > 0; left -= uint64(len(zeros)) {
			sum = crcOn(sum, zeros)
		}
		binary.LittleEndian.PutUint32(foot[96:], sum)
	}
	tableAt := size - unit - tableBytes
	binary.LittleEndian.PutUint32(foot[12:], uint32(segments))
	for number, value := range []uint64{tableAt, size, size / 64, size / 64, size / 64, 0, size / 64, size / 64} {
		binary.LittleEndian.PutUint64(foot[32+8*number:], value)
	}
	binary.LittleEndian.PutUint32(foot[crcAt:], checksum(foot[:crcAt]))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(int64(size)); err != nil {
		return err
	}
	for at, bytes := range map[uint64][]byte{0: header, tableAt: table, size - unit: foot} {
		if _, err := f.WriteAt(bytes, int64(at)); err != nil {
			return err
		}
	}
	return nil
}
