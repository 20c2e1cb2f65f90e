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
	Name, Path string // under the path it may be gone
	Fixed      bool   // it never changes
	Source     file.Source
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
	// End ends what Begin has begun, also where one of them has failed.
	End()
}

// Backup makes a target a copy of a store, as it is now, beside its writer or without; what is only in the memory of a living
// writer's process is not in it. An older backup of the same store gets what is new. done is told how many bytes are in the
// target, and of how many; nil: nobody asks. Errors: NotFound (no store), Unsupported (a snapshot lies elsewhere), Busy (it
// changes faster than its files can be opened), those of a snapshot that is lost, those of the target and of the file system.
func Backup(fs file.FS, from string, to Target, done func(done, total uint64)) (copied Copied, err error) {
	b := &backup{fs: fs, from: from, done: done}
	defer b.close()
	if err := b.open(); err != nil {
		return copied, err
	}
	if lost := b.store.Lost; len(lost) > 0 {
		return copied, status.More(lost[0].Err, "; the backup would have this, too: move that file away to copy the others")
	}
	defer to.End()
	if err := to.Begin(b.store); err != nil {
		return copied, err
	}
	var before, total int64
	names := make([]string, 0, len(b.files))
	for _, f := range b.files {
		total += f.Source.Size()
		names = append(names, f.Name)
	}
	for _, f := range b.files {
		moved := before
		f.Moved = func(bytes int64) {
			moved += bytes
			b.tell(moved, total)
		}
		if err := to.Put(f, &copied); err != nil {
			return copied, err
		}
		before += f.Source.Size()
		b.tell(before, total)
	}
	return copied, to.Finish(b.store, names, &copied)
}

type backup struct {
	fs    file.FS
	from  string
	done  func(done, total uint64)
	store *Store
	files []*File
}

// open opens the files that the store has at one moment. What the writer removes then can be read all the same.
func (b *backup) open() error {
	const tries = 1000
	for range tries {
		names, err := storeFiles(b.fs, b.from)
		if err == nil {
			b.store, err = Look(b.fs, b.from)
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err = b.openFile(name); err != nil {
				break
			}
		}
		now, unknown := storeFiles(b.fs, b.from)
		if unknown != nil {
			return unknown
		}
		if slices.Equal(names, now) {
			return err
		}
		b.close()
	}
	return status.Errorf(status.Busy, "the store %q changes faster than its files can be opened: %d tries", b.from, tries)
}

func (b *backup) openFile(name string) (err error) {
	growing := b.store.Journal.Segments[len(b.store.Journal.Segments)-1].Name
	f := &File{Name: name, Path: filepath.Join(b.from, name), Fixed: name != growing && name != namesFile}
	if name == growing { // what is behind its end can change
		f.Source, err = b.store.log.LastSegment()
	} else {
		f.Source, err = file.Open(b.fs, f.Path)
	}
	if err == nil {
		b.files = append(b.files, f)
	}
	return err
}

func (b *backup) close() {
	for _, f := range b.files {
		_ = f.Source.Close()
	}
	b.files = nil
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

// LeadsOnFrom says whether nothing of a state is lost where the store takes its place: it lies in the past of the store's newest
// one, or of a snapshot that the store has, which may be that of a branch that was left; or it is one of them.
func (s *Store) LeadsOnFrom(state lineage.Point) bool {
	bases := make([]snapshot.Base, 0, len(s.Points))
	for i := range s.Points {
		bases = append(bases, s.Points[i].Base)
	}
	begin := parentsOf(bases)
	isBehind := state.Lineage == s.Line.ID && state.Position > s.Journal.Last
	if !isBehind && begin.line(s.Line, lineage.MaximumPosition).has(state) {
		return true
	}
	return slices.ContainsFunc(bases, func(b snapshot.Base) bool {
		return b.Lineage.ID != lineage.ID{} && begin.line(b.Lineage, b.Position).has(state)
	})
}

// Tip is the store's newest state.
func (s *Store) Tip() lineage.Point { return s.Line.At(s.Journal.Last) }

// directory is a copy that is a store itself.
type directory struct {
	fs   file.FS
	path string
	lost []Lost        // of the older backup
	held *journal.Held // nobody writes there meanwhile
}

// Directory is a target that, once it is a store, is one at every moment, as the state of one of its snapshots or records. Files
// that never change are linked where both are on one file system, else copied, each whole or not at all. Begin returns Busy
// where a program has it open for writing, InvalidArgument where it is the store itself, Mismatch where it has gone on by
// itself.
func Directory(fs file.FS, path string) Target { return &directory{fs: fs, path: path} }

func (d *directory) Begin(s *Store) error {
	is, err := Is(d.fs, d.path)
	if err != nil {
		return err
	}
	if !is {
		if err := d.fs.MakeDirectory(d.path, 0o777); err != nil && err != syscall.EEXIST {
			return file.Failed(err, "cannot create the directory %s", d.path)
		}
		if err := file.SyncDirectory(d.fs, filepath.Dir(d.path)); err != nil {
			return err
		}
		d.held, err = journal.Hold(d.fs, d.path)
		return err
	}
	if same, err := isSame(d.fs, d.path, s.Directory); err != nil || same {
		return cmp.Or(err, status.Errorf(status.InvalidArgument, "the target %q is the store %q itself", d.path, s.Directory))
	}
	if d.held, err = journal.Hold(d.fs, d.path); err != nil {
		return err
	}
	older, err := Look(d.fs, d.path)
	if err != nil {
		return err
	}
	if tip := older.Tip(); !s.LeadsOnFrom(tip) {
		return status.Errorf(status.Mismatch, "%q is not a backup of %q: its state is %s, which does not lead to the store's",
			d.path, s.Directory, tip)
	}
	d.lost = older.Lost
	return s.hasRecordsOf(older)
}

func (d *directory) End() {
	if d.held != nil {
		d.held.Release()
		d.held = nil
	}
}

func (d *directory) Put(f *File, c *Copied) error {
	to := filepath.Join(d.path, f.Name)
	there, err := d.fs.Stat(to)
	isLost := slices.ContainsFunc(d.lost, func(l Lost) bool { return l.Path == to })
	if err == nil && f.Fixed && there.Size == f.Source.Size() && !isLost {
		return nil
	}
	c.Files++
	if f.Fixed && err == syscall.ENOENT && d.fs.Link(f.Path, to) == nil {
		c.Linked++
		return file.SyncDirectory(d.fs, d.path)
	}
	sink, err := file.Replace(d.fs, to, file.Options{Durable: true, Expected: f.Source.Size()})
	if err != nil {
		return err
	}
	return file.WriteAll(sink, func(to io.Writer) error {
		n, err := io.Copy(&counted{to, f.Moved}, io.NewSectionReader(f.Source, 0, f.Source.Size()))
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
