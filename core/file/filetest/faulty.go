// Package filetest has file systems for tests: Faulty makes chosen operations of another one fail, and Disk is one in memory
// that can be cut off its power.
package filetest

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
)

// Kind is a kind of operation on a file system.
type Kind string

// The kinds. Sync is that of a file, both Sync and SyncData.
const (
	Open          Kind = "open"
	OpenDirectory Kind = "open directory"
	Stat          Kind = "stat"
	List          Kind = "list"
	Rename        Kind = "rename"
	Link          Kind = "link"
	Remove        Kind = "remove"
	MakeDirectory Kind = "make directory"
	Read          Kind = "read"
	Write         Kind = "write"
	Truncate      Kind = "truncate"
	Allocate      Kind = "allocate"
	Sync          Kind = "sync"
	SyncDirectory Kind = "sync directory"
	Lock          Kind = "lock"
	SetDirect     Kind = "set direct"
	Reopen        Kind = "reopen"
	StatFile      Kind = "stat file"
	Close         Kind = "close"
)

// Fault is what happens instead of one operation.
type Fault struct {
	Kind    Kind
	Nth     int           // counted from 1
	Forever bool          // and to all later ones of that kind
	Errno   syscall.Errno // it fails with this and does nothing
	Short   int           // it reads or writes only that many bytes
	Lie     bool          // it does nothing and says that it did: a planted bug
}

// Faulty is a file system with faults.
type Faulty struct {
	// Before is called before each operation, nil = nothing. n is which of its kind it is.
	Before func(kind Kind, n int)

	inner file.FS

	mutex  sync.Mutex
	faults []Fault
	counts map[Kind]int
	hits   int
}

// NewFaulty puts faults before a file system.
func NewFaulty(inner file.FS, faults ...Fault) *Faulty {
	return &Faulty{inner: inner, faults: faults, counts: map[Kind]int{}}
}

// Count is how many operations of a kind there were.
func (f *Faulty) Count(kind Kind) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.counts[kind]
}

// Hits is how many faults happened: a test whose fault never does proves nothing.
func (f *Faulty) Hits() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.hits
}

func (f *Faulty) next(kind Kind) Fault {
	f.mutex.Lock()
	f.counts[kind]++
	n := f.counts[kind]
	found := Fault{}
	for _, fault := range f.faults {
		if fault.Kind == kind && (fault.Nth == n || fault.Forever && fault.Nth < n) {
			found = fault
			f.hits++
			break
		}
	}
	f.mutex.Unlock()
	if f.Before != nil {
		f.Before(kind, n)
	}
	return found
}

// do runs an operation that gives only an error.
func (f *Faulty) do(kind Kind, operation func() error) error {
	fault := f.next(kind)
	switch {
	case fault.Lie:
		return nil
	case fault.Errno != 0:
		return fault.Errno
	}
	return operation()
}

// move runs an operation that moves bytes.
func (f *Faulty) move(kind Kind, p []byte, operation func(p []byte) (int, error)) (int, error) {
	fault := f.next(kind)
	switch {
	case fault.Lie:
		return len(p), nil
	case fault.Errno != 0:
		return 0, fault.Errno
	case fault.Short > 0 && fault.Short < len(p):
		p = p[:fault.Short]
	}
	return operation(p)
}

// Open counts as OpenDirectory where a directory is wanted.
func (f *Faulty) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	directory := flags&unix.O_DIRECTORY != 0
	kind := Open
	if directory {
		kind = OpenDirectory
	}
	var opened file.File
	err := f.do(kind, func() (err error) {
		opened, err = f.inner.Open(path, flags, mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &faultyFile{opened, f, directory}, nil
}

// Stat is an operation of kind Stat.
func (f *Faulty) Stat(path string) (info file.Info, err error) {
	err = f.do(Stat, func() (err error) {
		info, err = f.inner.Stat(path)
		return err
	})
	return info, err
}

// List is an operation of kind List.
func (f *Faulty) List(directory string) (names []string, err error) {
	err = f.do(List, func() (err error) {
		names, err = f.inner.List(directory)
		return err
	})
	return names, err
}

// Link is an operation of kind Link.
func (f *Faulty) Link(from, to string) error {
	return f.do(Link, func() error { return f.inner.Link(from, to) })
}

// Rename is an operation of kind Rename.
func (f *Faulty) Rename(from, to string) error {
	return f.do(Rename, func() error { return f.inner.Rename(from, to) })
}

// Remove is an operation of kind Remove.
func (f *Faulty) Remove(path string) error {
	return f.do(Remove, func() error { return f.inner.Remove(path) })
}

// MakeDirectory is an operation of kind MakeDirectory.
func (f *Faulty) MakeDirectory(path string, mode os.FileMode) error {
	return f.do(MakeDirectory, func() error { return f.inner.MakeDirectory(path, mode) })
}

// RemoveDirectory is an operation of kind Remove.
func (f *Faulty) RemoveDirectory(path string) error {
	return f.do(Remove, func() error { return f.inner.RemoveDirectory(path) })
}

type faultyFile struct {
	file.File
	fs        *Faulty
	directory bool
}

func (h *faultyFile) Pread(p []byte, offset int64) (int, error) {
	return h.fs.move(Read, p, func(p []byte) (int, error) { return h.File.Pread(p, offset) })
}

func (h *faultyFile) Pwrite(p []byte, offset int64) (int, error) {
	return h.fs.move(Write, p, func(p []byte) (int, error) { return h.File.Pwrite(p, offset) })
}

func (h *faultyFile) Truncate(size int64) error {
	return h.fs.do(Truncate, func() error { return h.File.Truncate(size) })
}

func (h *faultyFile) Allocate(offset, length int64) error {
	return h.fs.do(Allocate, func() error { return h.File.Allocate(offset, length) })
}

func (h *faultyFile) syncKind() Kind {
	if h.directory {
		return SyncDirectory
	}
	return Sync
}

func (h *faultyFile) Sync() error     { return h.fs.do(h.syncKind(), h.File.Sync) }
func (h *faultyFile) SyncData() error { return h.fs.do(h.syncKind(), h.File.SyncData) }
func (h *faultyFile) Lock() error     { return h.fs.do(Lock, h.File.Lock) }

func (h *faultyFile) LockShared() error { return h.fs.do(Lock, h.File.LockShared) }

func (h *faultyFile) SetDirect(direct bool) error {
	return h.fs.do(SetDirect, func() error { return h.File.SetDirect(direct) })
}

func (h *faultyFile) Reopen(flags int) (file.File, error) {
	var opened file.File
	err := h.fs.do(Reopen, func() (err error) {
		opened, err = h.File.Reopen(flags)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &faultyFile{opened, h.fs, h.directory}, nil
}

func (h *faultyFile) Stat() (info file.Info, err error) {
	err = h.fs.do(StatFile, func() (err error) {
		info, err = h.File.Stat()
		return err
	})
	return info, err
}

// Close closes also where it fails, as the system does.
func (h *faultyFile) Close() error {
	err := h.fs.do(Close, func() error { return nil })
	if closing := h.File.Close(); err == nil {
		err = closing
	}
	return err
}
