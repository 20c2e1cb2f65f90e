package persist

import (
	"libmmsb/core/file"
	"libmmsb/core/snapshot"
	"libmmsb/native"
)

// LoadSource is where a snapshot comes from.
type LoadSource struct {
	path       string
	descriptor int32
	memory     []byte
	file.FS    // of a path
}

// FromPath, FromDescriptor and FromMemory are the sources there are.
func FromPath(path string) LoadSource { return LoadSource{path: path, FS: file.OS{}} }

// FromDescriptor reads a file descriptor of the caller to its end.
func FromDescriptor(descriptor int32) LoadSource { return LoadSource{descriptor: descriptor} }

// FromMemory reads memory of the caller.
func FromMemory(address uintptr, length uint64) LoadSource {
	return LoadSource{memory: native.Memory(address, length), descriptor: -1}
}

// open opens the snapshot, whose file asks whether the load goes on; what comes from a descriptor is kept in a folder meanwhile.
func (l *LoadSource) open(ask func() error, folder string, done <-chan struct{}) (*snapshot.Snapshot, error) {
	switch {
	case l.FS != nil:
		return snapshot.Open(l.path, snapshot.OpenOptions{FS: file.Asking(l.FS, ask)})
	case l.memory != nil:
		return snapshot.OpenSource(file.Bytes(l.memory), snapshot.OpenOptions{})
	}
	source, err := file.Spool(int(l.descriptor), folder, done)
	if err != nil {
		return nil, err
	}
	return snapshot.OpenSource(source, snapshot.OpenOptions{})
}
