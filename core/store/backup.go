// Copying a store, also beside its writer.

package store

import (
	"cmp"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// Copied is what Backup has done.
type Copied struct {
	Files, Linked, Removed int
	Bytes                  int64 // that were read and written
}

// Backup makes a directory a copy of a store, as it is now, beside its writer or without; what is only in the memory of the
// writer's process is not in it. An older backup of the same store gets what is new. Files that never change are linked where
// both are on one file system, else copied, each whole or not at all, in an order in which the copy opens at each step, as the
// state of one of its snapshots or records. Errors: NotFound (no store), Mismatch and InvalidState (the target is something
// else), Unsupported (a snapshot lies elsewhere), those of the file system.
func Backup(fs file.FS, from, to string) (copied Copied, err error) {
	source, err := Look(fs, from)
	if err != nil {
		return copied, err
	}
	b := &backup{fs: fs, from: from, to: to, settled: make(map[string]bool)}
	if err := b.prepare(source); err != nil {
		return b.copied, err
	}
	const tries = 100
	for try := 1; ; try++ {
		steady, err := b.pass()
		if err != nil || steady {
			return b.copied, err
		}
		if try == tries {
			return b.copied, status.Errorf(status.Busy, "the store %q changes faster than it can be copied: %d passes", from,
				tries)
		}
	}
}

type backup struct {
	fs       file.FS
	from, to string
	copied   Copied
	settled  map[string]bool // files that never change, and are there
}

// prepare makes the target's directory, or sees that it is an older backup.
func (b *backup) prepare(source *Store) error {
	is, err := Is(b.fs, b.to)
	if err != nil {
		return err
	}
	if !is {
		if err := b.fs.MakeDirectory(b.to, 0o777); err != nil && err != syscall.EEXIST {
			return file.Failed(err, "cannot create the directory %s", b.to)
		}
		return file.SyncDirectory(b.fs, filepath.Dir(b.to))
	}
	older, err := Look(b.fs, b.to)
	if err != nil {
		return err
	}
	bases := make([]snapshot.Base, 0, len(source.Points))
	for i := range source.Points {
		bases = append(bases, source.Points[i].Base)
	}
	if tip := older.Line.At(older.Journal.Last); !lineOf(source.Line, bases).has(tip) {
		return status.Errorf(status.Mismatch, "%q is not a backup of %q: its state is %s", b.to, b.from, tip)
	}
	return nil
}

// pass copies what is new, and removes what is gone; steady: nothing has come or gone meanwhile.
func (b *backup) pass() (steady bool, err error) {
	files, err := b.list(b.from)
	if err != nil {
		return false, err
	}
	growing := ""
	for _, name := range files {
		if journal.IsSegment(name) {
			growing = name // they are in their order
		}
	}
	for _, name := range files {
		err := b.copy(name, name != growing && name != namesFile)
		if status.CodeOf(err) == status.NotFound { // the writer has removed it
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	now, err := b.list(b.from)
	if err != nil || !slices.Equal(files, now) {
		return false, err
	}
	return true, b.removeGone(files)
}

// list is the files that make a store, in the order in which they are copied: snapshots that others rest on, snapshots, segments
// in their order, names.
func (b *backup) list(directory string) (files []string, err error) {
	names, err := b.fs.List(directory)
	if err != nil {
		return nil, file.Failed(err, "cannot list %s", directory)
	}
	for _, name := range names {
		switch {
		case file.IsTemporary(name):
		case snapshot.IsPointer(name):
			return nil, status.Errorf(status.Unsupported,
				"%q names a snapshot elsewhere: save into the store first (mmsb_store_save), or copy that one as well",
				filepath.Join(directory, name))
		case snapshot.IsBase(name) || journal.IsSegment(name) || name == namesFile:
			files = append(files, name)
		}
	}
	rank := func(name string) int {
		switch {
		case journal.IsSegment(name):
			return 2
		case name == namesFile:
			return 3
		case strings.HasPrefix(name, "base-"):
			return 1
		}
		return 0
	}
	slices.SortFunc(files, func(x, y string) int {
		if rank(x) == 2 && rank(y) == 2 {
			return journal.CompareSegments(x, y)
		}
		return cmp.Or(cmp.Compare(rank(x), rank(y)), strings.Compare(x, y))
	})
	return files, nil
}

// copy brings a file into the target, unless it is there. fixed says that it never changes.
func (b *backup) copy(name string, fixed bool) error {
	if b.settled[name] {
		return nil
	}
	from, to := filepath.Join(b.from, name), filepath.Join(b.to, name)
	wanted, err := b.fs.Stat(from)
	if err != nil {
		return file.Failed(err, "cannot open %s", from)
	}
	b.settled[name] = fixed
	there, err := b.fs.Stat(to)
	if err == nil && fixed && there.Size == wanted.Size {
		return nil
	}
	b.copied.Files++
	if fixed && err == syscall.ENOENT && b.fs.Link(from, to) == nil {
		b.copied.Linked++
		return file.SyncDirectory(b.fs, b.to)
	}
	return b.write(from, to)
}

func (b *backup) write(from, to string) error {
	source, err := file.Open(b.fs, from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	sink, err := file.Replace(b.fs, to, file.Options{Durable: true, Expected: source.Size()})
	if err != nil {
		return err
	}
	return file.WriteAll(sink, func(to io.Writer) error {
		n, err := io.Copy(to, io.NewSectionReader(source, 0, source.Size()))
		b.copied.Bytes += n
		return err
	})
}

// removeGone removes from the target what the source no longer has: segments first, the oldest first.
func (b *backup) removeGone(files []string) error {
	there, err := b.list(b.to)
	if err != nil {
		return err
	}
	slices.SortStableFunc(there, func(x, y string) int {
		segment := func(name string) int {
			if journal.IsSegment(name) {
				return 0
			}
			return 1
		}
		return cmp.Compare(segment(x), segment(y))
	})
	for _, name := range there {
		if slices.Contains(files, name) {
			continue
		}
		if err := b.fs.Remove(filepath.Join(b.to, name)); err != nil && err != syscall.ENOENT {
			return file.Failed(err, "cannot remove %s", filepath.Join(b.to, name))
		}
		b.copied.Removed++
	}
	return file.SyncDirectory(b.fs, b.to)
}
