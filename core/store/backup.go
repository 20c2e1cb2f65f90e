// Copying a store, also beside its writer.

package store

import (
	"cmp"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// Copied is what Backup has done.
type Copied struct {
	Files, Linked, Removed int
	Bytes                  int64 // that were read and written
}

// File is one of those that make a store.
type File struct {
	Name, Path string
	Fixed      bool  // it never changes
	Limit      int64 // bytes behind this one do not count: of the segment that grows they can change
	Moved      func(bytes int64)
}

// Target is where a backup goes.
type Target interface {
	// Begin makes the place, or sees that it has an older backup of the same store. Errors: Mismatch, InvalidState.
	Begin(s *Store) error
	// Put brings a file there, unless the place has it. It calls Moved for bytes that it moves.
	Put(f *File, c *Copied) error
	// Finish makes these files, all of which are there, what the backup of the store has, and removes others.
	Finish(s *Store, files []string, c *Copied) error
}

// Backup makes a target a copy of a store, as it is now, beside its writer or without; what is only in the memory of the writer's
// process is not in it. An older backup of the same store gets what is new. done is told how many bytes are in the target, and of
// how many; nil: nobody asks. Errors: NotFound (no store), Unsupported (a snapshot lies elsewhere), Busy (it changes faster than
// it can be copied), those of the target, those of the file system.
func Backup(fs file.FS, from string, to Target, done func(done, total uint64)) (copied Copied, err error) {
	source, err := Look(fs, from)
	if err != nil {
		return copied, err
	}
	if err := to.Begin(source); err != nil {
		return copied, err
	}
	b := &backup{fs: fs, from: from, to: to, done: done, settled: make(map[string]bool)}
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
	fs      file.FS
	from    string
	to      Target
	done    func(done, total uint64)
	copied  Copied
	settled map[string]bool // files that never change, and are there
}

// pass copies what is new, and removes what is gone; steady: nothing has come or gone meanwhile.
func (b *backup) pass() (steady bool, err error) {
	files, err := storeFiles(b.fs, b.from)
	if err != nil {
		return false, err
	}
	source, err := Look(b.fs, b.from)
	if err != nil {
		return false, err
	}
	var total, done int64
	sizes := make([]int64, len(files))
	for i, name := range files {
		if info, err := b.fs.Stat(filepath.Join(b.from, name)); err == nil {
			sizes[i] = info.Size
			total += info.Size
		}
	}
	growing := source.Journal.Segments[len(source.Journal.Segments)-1]
	for i, name := range files {
		f := &File{Name: name, Path: filepath.Join(b.from, name), Fixed: name != growing.Name && name != namesFile,
			Limit: math.MaxInt64}
		if name == growing.Name {
			f.Limit = source.Journal.End
		}
		within := done
		f.Moved = func(bytes int64) {
			within += bytes
			b.tell(min(within, done+sizes[i]), total)
		}
		if !b.settled[name] {
			if err := b.to.Put(f, &b.copied); err != nil {
				if _, gone := b.fs.Stat(f.Path); gone == syscall.ENOENT { // the writer has removed it
					return false, nil
				}
				return false, err
			}
			b.settled[name] = f.Fixed
		}
		done += sizes[i]
		b.tell(done, total)
	}
	now, err := storeFiles(b.fs, b.from)
	if err != nil || !slices.Equal(files, now) || !slices.Contains(files, growing.Name) {
		return false, err
	}
	return true, b.to.Finish(source, files, &b.copied)
}

func (b *backup) tell(done, total int64) {
	if b.done != nil {
		b.done(uint64(done), uint64(total))
	}
}

// IsFile says whether a file of that name is one of those that make a store.
func IsFile(name string) bool {
	return !file.IsTemporary(name) && (snapshot.IsBase(name) || journal.IsSegment(name) || name == namesFile)
}

// storeFiles is the files that make a store, in the order in which they are copied: snapshots that others rest on, snapshots,
// segments in their order, names.
func storeFiles(fs file.FS, directory string) (files []string, err error) {
	names, err := fs.List(directory)
	if err != nil {
		return nil, file.Failed(err, "cannot list %s", directory)
	}
	for _, name := range names {
		switch {
		case !IsFile(name):
		case snapshot.IsPointer(name):
			return nil, status.Errorf(status.Unsupported,
				"%q names a snapshot elsewhere: save into the store first (mmsb_store_save), or copy that one as well",
				filepath.Join(directory, name))
		default:
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

// HasPast says whether a state lies in the past of the store's newest one, or is it.
func (s *Store) HasPast(state lineage.Point) bool {
	bases := make([]snapshot.Base, 0, len(s.Points))
	for i := range s.Points {
		bases = append(bases, s.Points[i].Base)
	}
	isBehind := state.Lineage == s.Line.ID && state.Position > s.Journal.Last
	return !isBehind && lineOf(s.Line, bases).has(state)
}

// Tip is the store's newest state.
func (s *Store) Tip() lineage.Point { return s.Line.At(s.Journal.Last) }

// directory is a copy that is a store itself.
type directory struct {
	fs   file.FS
	path string
}

// Directory is a target that is a store at every moment, as the state of one of its snapshots or records. Files that never change
// are linked where both are on one file system, else copied, each whole or not at all.
func Directory(fs file.FS, path string) Target { return &directory{fs, path} }

func (d *directory) Begin(s *Store) error {
	is, err := Is(d.fs, d.path)
	if err != nil {
		return err
	}
	if !is {
		if err := d.fs.MakeDirectory(d.path, 0o777); err != nil && err != syscall.EEXIST {
			return file.Failed(err, "cannot create the directory %s", d.path)
		}
		return file.SyncDirectory(d.fs, filepath.Dir(d.path))
	}
	older, err := Look(d.fs, d.path)
	if err != nil {
		return err
	}
	if tip := older.Tip(); !s.HasPast(tip) {
		return status.Errorf(status.Mismatch, "%q is not a backup of %q: its state is %s", d.path, s.Directory, tip)
	}
	return nil
}

func (d *directory) Put(f *File, c *Copied) error {
	to := filepath.Join(d.path, f.Name)
	wanted, err := d.fs.Stat(f.Path)
	if err != nil {
		return file.Failed(err, "cannot open %s", f.Path)
	}
	there, err := d.fs.Stat(to)
	if err == nil && f.Fixed && there.Size == wanted.Size {
		return nil
	}
	c.Files++
	if f.Fixed && err == syscall.ENOENT && d.fs.Link(f.Path, to) == nil {
		c.Linked++
		return file.SyncDirectory(d.fs, d.path)
	}
	return d.write(f, to, c)
}

func (d *directory) write(f *File, to string, c *Copied) error {
	source, err := file.Open(d.fs, f.Path)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	size := min(source.Size(), f.Limit)
	sink, err := file.Replace(d.fs, to, file.Options{Durable: true, Expected: size})
	if err != nil {
		return err
	}
	return file.WriteAll(sink, func(to io.Writer) error {
		n, err := io.Copy(&counted{to, f.Moved}, io.NewSectionReader(source, 0, size))
		c.Bytes += n
		return err
	})
}

// counted tells how many bytes are written.
type counted struct {
	io.Writer
	tell func(bytes int64)
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.tell(int64(n))
	return n, err
}

// Finish removes segments first, the oldest first.
func (d *directory) Finish(_ *Store, files []string, c *Copied) error {
	there, err := storeFiles(d.fs, d.path)
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
		if err := d.fs.Remove(filepath.Join(d.path, name)); err != nil && err != syscall.ENOENT {
			return file.Failed(err, "cannot remove %s", filepath.Join(d.path, name))
		}
		c.Removed++
	}
	return file.SyncDirectory(d.fs, d.path)
}
