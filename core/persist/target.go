package persist

import (
	"path/filepath"
	"sync"
	"unsafe"

	"libmmsb/core/file"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
)

// SaveOptions has the fields of mmsb_save_options_t.
type SaveOptions struct {
	Compression, Level int32
	RawWrites          int32
	Queue              bool  // wait for a save or load that runs
	Turn               *Turn // of a save that was started
	NotDurable         bool
	NotWatched         bool // no page is watched from this save on that is not yet
	CopyLimit          uint64
	Base               string
	ChainLimit         int32 // files of a chain: a save that would be one more is whole; 0 = 64
	RefuseInUse        bool  // Busy where another snapshot rests on the file that is replaced
	UnlessSame         bool  // SaveBeside writes no file where it would say no more than its base

	id snapshot.ID // zeros: a new one
}

// SaveTarget is where a snapshot goes.
type SaveTarget struct {
	path       string
	descriptor int32
	memory     *uintptr
	length     *uint64
	file.FS    // of a path; nil is the real one
}

// ToPath writes a file at a path, whole or not at all.
func ToPath(path string) SaveTarget { return SaveTarget{path: path, FS: file.OS{}} }

// ToDescriptor writes to a file descriptor of the caller.
func ToDescriptor(descriptor int32) SaveTarget { return SaveTarget{descriptor: descriptor} }

// ToMemory writes into memory that FreeSaved gives back.
func ToMemory(memory *uintptr, length *uint64) SaveTarget {
	return SaveTarget{memory: memory, length: length}
}

// sink opens the target.
func (t *SaveTarget) sink(o *SaveOptions, header *snapshot.Header, expected uint64, w *ticket.Work) (file.Sink, error) {
	switch {
	case t.FS != nil:
		return snapshot.Replace(t.FS, t.path, snapshot.ReplaceOptions{
			Options: file.Options{Durable: !o.NotDurable, Expected: int64(expected), Done: w.Asked()}, RefuseInUse: o.RefuseInUse,
			Base: header.Base, BaseName: header.BaseName,
		})
	case t.memory != nil:
		return file.Memory()
	default:
		return file.Descriptor(int(t.descriptor), w.Done())
	}
}

// besides says whether a file is in the target's directory.
func (t *SaveTarget) besides(path string) bool {
	return sameFile(t.FS, filepath.Dir(t.path)+"/.", filepath.Dir(path)+"/.")
}

// replaces says whether a file is the one that the target replaces.
func (t *SaveTarget) replaces(path string) bool { return sameFile(t.FS, t.path, path) }

func sameFile(fs file.FS, a, b string) bool {
	first, errFirst := fs.Stat(a)
	second, errSecond := fs.Stat(b)
	return errFirst == nil && errSecond == nil && first.Device == second.Device && first.Inode == second.Inode
}

// savedMemory is memory that snapshots were saved into, by address.
var savedMemory = struct {
	sync.Mutex
	sinks map[uintptr]*file.MemorySink
}{sinks: make(map[uintptr]*file.MemorySink)}

func keepSaved(sink *file.MemorySink, target *SaveTarget) {
	bytes := sink.Bytes()
	address := uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))
	savedMemory.Lock()
	savedMemory.sinks[address] = sink
	savedMemory.Unlock()
	*target.memory, *target.length = address, uint64(len(bytes))
}

// LiveSaved is the number of snapshots in memory that were not given back.
func LiveSaved() uint64 {
	savedMemory.Lock()
	defer savedMemory.Unlock()
	return uint64(len(savedMemory.sinks))
}

// FreeSaved gives the memory of a snapshot back.
func FreeSaved(memory uintptr) error {
	savedMemory.Lock()
	sink, ok := savedMemory.sinks[memory]
	delete(savedMemory.sinks, memory)
	savedMemory.Unlock()
	if !ok {
		return status.Errorf(status.StaleHandle, "0x%x is not memory of mmsb_snapshot_save_memory, or it was freed", memory)
	}
	sink.Close()
	return nil
}
