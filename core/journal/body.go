// The fixed parts of records, for those that put records into a ring.

package journal

import "encoding/binary"

// The fixed parts of bodies, for those that put records into a ring. What is of any length (the bytes of Adopt and Write, a
// key and a value, a blob) is a piece of its own behind them.

// CreateBody is the body of Create, and of Adopt before the bytes.
func CreateBody(size uint64, location, device, numaNode int32, state uint32) []byte {
	b := make([]byte, 8, 24)
	binary.LittleEndian.PutUint64(b, size)
	return appendPlace(b, location, device, numaNode, state)
}

// MigrateBody is the body of Migrate.
func MigrateBody(location, device, numaNode int32) []byte {
	return appendPlace(make([]byte, 0, 16), location, device, numaNode, 0)
}

func appendPlace(b []byte, location, device, numaNode int32, last uint32) []byte {
	for _, word := range [...]uint32{uint32(location), uint32(device), uint32(numaNode), last} {
		b = binary.LittleEndian.AppendUint32(b, word)
	}
	return b
}

// Words is the body of Clone (page, version), Resize (size), DependencyAdd and DependencyRemove (child), and of Write before
// the bytes (offset).
func Words(words ...uint64) []byte {
	b := make([]byte, 0, 8*len(words))
	for _, word := range words {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// MetadataBody is the body of MetadataSet before key and value.
func MetadataBody(keyLength, valueLength uint32) []byte {
	return Words(uint64(keyLength) | uint64(valueLength)<<32)
}
