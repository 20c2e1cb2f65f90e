// Package store is what a store's directory has: a journal, the snapshots that its records lead on from, and names of snapshots.
// It knows files only; core/keeper keeps a context in such a directory.
package store

import (
	"cmp"
	"path/filepath"
	"slices"
	"syscall"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// Point is a snapshot of a store: a state that can be restored.
type Point struct {
	snapshot.Base
	Bytes int64    // of its file, without those that it rests on
	Names []string // that a program has given it
	// OnLine says that the store's newest state comes from this one; else it lies on a branch that was left.
	OnLine bool
	// Leads says that records lead on from it: every state since can be restored.
	Leads bool
}

// Lost is a file of a store that is there, but is damaged or cannot be read.
type Lost struct {
	Path string
	Err  error
}

// Store is what a directory had when it was looked at.
type Store struct {
	Directory string
	Points    []Point // the newest position first, those of the line that goes on before all others
	Lost      []Lost  // snapshots that are none of the points, because their headers cannot be read
	Line      lineage.Lineage
	// Journal is of the branch that goes on. What a living writer has not yet given to the system is not in it.
	Journal journal.Info
	names   names
	files   []string
	kept    int64 // bytes of files that have no name any more, and on which snapshots rest
	fs      file.FS
	log     *journal.Replay
}

// Look reads what a store has. Beside a writer it sees one of the states that the directory has meanwhile. Errors: NotFound (no
// store there), those of the journal, those of the file system.
func Look(fs file.FS, directory string) (*Store, error) {
	var s *Store
	err := journal.Beside(fs, directory, func() (err error) {
		s, err = look(fs, directory)
		return err
	})
	return s, err
}

// LookAgain is Look for who has looked before. As long as no file has come or gone it reads only what the journal has since. What
// a writer that was killed has left in its ring is not in it.
func (s *Store) LookAgain() (*Store, error) {
	files, err := listed(s.fs, s.Directory)
	if err == nil && slices.Equal(files, s.files) {
		var info journal.Info
		if info, err = s.log.InfoAgain(); err == nil {
			s.Journal = info
			return s, nil
		}
	}
	return Look(s.fs, s.Directory)
}

// listed is the sorted names of a directory.
func listed(fs file.FS, directory string) ([]string, error) {
	names, err := fs.List(directory)
	if err != nil {
		return nil, file.Failed(err, "cannot list %s", directory)
	}
	slices.Sort(names)
	return names, nil
}

func look(fs file.FS, directory string) (*Store, error) {
	files, _ := listed(fs, directory) // before all else: what comes meanwhile is new to LookAgain
	log, err := journal.OpenReplay(fs, directory)
	if err != nil {
		return nil, err
	}
	s := &Store{Directory: directory, files: files, fs: fs, log: log}
	if s.Journal, err = log.Info(); err != nil {
		return nil, err
	}
	s.Line = s.Journal.Lineage
	if s.names, err = readNames(fs, directory); err != nil {
		return nil, err
	}
	var bases []snapshot.Base
	if bases, s.Lost, err = snapshots(fs, directory); err != nil {
		return nil, err
	}
	if len(bases) == 0 && len(s.Lost) > 0 {
		return nil, s.Lost[0].Err
	}
	line := parentsOf(bases).line(s.Line, lineage.MaximumPosition)
	for _, base := range bases {
		info, err := fs.Stat(base.Path)
		if err != nil {
			return nil, file.Failed(err, "cannot open %s", base.Path)
		}
		at := base.Lineage.At(base.Position)
		s.Points = append(s.Points, Point{
			Base: base, Bytes: info.Size, Names: s.names.of(base.ID), OnLine: line.has(at), Leads: log.Leads(at) == nil,
		})
	}
	s.kept = bytesOf(fs, directory, snapshot.IsKept)
	slices.SortStableFunc(s.Points, func(a, b Point) int {
		if a.OnLine != b.OnLine {
			if a.OnLine {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Position, a.Position)
	})
	return s, nil
}

// only is a file system whose directories have one file.
type only struct {
	file.FS
	name string
}

func (o only) List(string) ([]string, error) { return []string{o.name}, nil }

// snapshots are those of a directory, the newest position first, and those that are lost.
func snapshots(fs file.FS, directory string) (bases []snapshot.Base, lost []Lost, err error) {
	for {
		bases, unread := snapshot.Bases(fs, directory)
		if unread == nil {
			return bases, nil, nil
		}
		names, err := listed(fs, directory)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range names {
			_, err := snapshot.Bases(only{fs, name}, directory)
			switch status.CodeOf(err) {
			case status.OK:
			case status.Cancelled:
				return nil, nil, err
			default:
				lost = append(lost, Lost{filepath.Join(directory, name), err})
			}
		}
		lost = slices.DeleteFunc(lost, func(l Lost) bool { // the writer has removed it meanwhile
			_, gone := fs.Stat(l.Path)
			return gone == syscall.ENOENT
		})
		if len(lost) > 0 {
			return bases, lost, nil
		}
	}
}

// Contents are the snapshots of a store, the newest position first, and which of its files are lost: other snapshots, and the
// file of names, also where a name leads to no snapshot. It does not look at the journal, which may be damaged.
func Contents(fs file.FS, directory string) (paths []string, lost []Lost, err error) {
	var bases []snapshot.Base
	unnamed := journal.Beside(fs, directory, func() error {
		all, unread := readNames(fs, directory)
		if bases, lost, err = snapshots(fs, directory); err == nil && unread == nil {
			unread = all.check(directory, bases, lost)
		}
		return unread
	})
	if err == nil && unnamed != nil {
		lost = append(lost, Lost{filepath.Join(directory, namesFile), unnamed})
	}
	for i := range bases {
		paths = append(paths, bases[i].Path)
	}
	return paths, lost, err
}

// bytesOf is how many bytes the files with such names have.
func bytesOf(fs file.FS, directory string, counts func(name string) bool) (bytes int64) {
	names, _ := fs.List(directory)
	for _, name := range names {
		if !counts(name) {
			continue
		}
		if info, err := fs.Stat(filepath.Join(directory, name)); err == nil { // else it is gone
			bytes += info.Size
		}
	}
	return bytes
}

// SnapshotBytes is how many bytes the snapshots take, and the files that they rest on.
func (s *Store) SnapshotBytes() int64 {
	bytes := s.kept
	for i := range s.Points {
		bytes += s.Points[i].Bytes
	}
	return bytes
}

// Newest is the newest snapshot of the line that goes on, from which records lead on; nil: there is none.
func (s *Store) Newest() *Point {
	i := slices.IndexFunc(s.Points, func(p Point) bool { return p.OnLine && p.Leads })
	if i < 0 {
		return nil
	}
	return &s.Points[i]
}

// CheckLeads says whether there is a state from which the records lead on. Errors: Corrupt.
func (s *Store) CheckLeads() error {
	if s.Newest() == nil && !s.log.FromTheBeginning() {
		return status.Errorf(status.Corrupt, "the store %s has no snapshot that its records lead on from", s.Directory)
	}
	return nil
}

// Since is about how many bytes of records lie behind a snapshot: whole segments are counted.
func (s *Store) Since(p *Point) (bytes int64) {
	for _, segment := range s.Journal.Segments {
		if p == nil || segment.Last > p.Position {
			bytes += segment.Bytes
		}
	}
	return bytes
}

// Chain is the files that a snapshot rests on, itself the first and the whole one the last, and how many bytes the whole one has,
// and the others.
func (s *Store) Chain(p *Point) (files []string, whole, increments int64, err error) {
	files, err = snapshot.ChainOf(s.fs, p.Path)
	for _, path := range files {
		info, failed := s.fs.Stat(path)
		if failed != nil {
			return nil, 0, 0, file.Failed(failed, "cannot open %s", path)
		}
		increments += whole
		whole = info.Size
	}
	return files, whole, increments, err
}

// line is how far the states of each lineage lie in the past of the newest state.
type line map[lineage.ID]uint64

// parents is where lineages begin, as far as snapshots tell it.
type parents map[lineage.ID]lineage.Point

func parentsOf(bases []snapshot.Base) parents {
	p := make(parents)
	for _, base := range bases {
		p[base.Lineage.ID] = base.Lineage.Parent
	}
	return p
}

// line walks from a state to the parents of its lineage.
func (p parents) line(from lineage.Lineage, position uint64) line {
	l := line{from.ID: position}
	for parent := from.Parent; parent.Lineage != (lineage.ID{}); parent = p[parent.Lineage] {
		if _, seen := l[parent.Lineage]; seen {
			break
		}
		l[parent.Lineage] = parent.Position
	}
	return l
}

func (l line) has(at lineage.Point) bool {
	until, ok := l[at.Lineage]
	return ok && at.Position <= until
}

// Is says whether a directory is a store; it is none where it is missing or empty. Errors: InvalidState (it has files, but no
// journal), and those of the file system.
func Is(fs file.FS, directory string) (bool, error) {
	names, err := fs.List(directory)
	if err == syscall.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, file.Failed(err, "cannot list %s", directory)
	}
	foreign := ""
	for _, name := range names {
		switch {
		case journal.IsSegment(name):
			return true, nil
		case !journal.Owns(name) && !snapshot.IsBase(name):
			foreign = name
		}
	}
	if foreign != "" {
		return false, status.Errorf(status.InvalidState,
			"%q has files, as %q, but no journal: a store begins in an empty directory", directory, foreign)
	}
	return false, nil
}

// CheckBegins checks that a store can begin in a directory that is none. Errors: InvalidState (snapshots are there, whose
// journal is missing: a backup was interrupted, or files were lost), those of the file system.
func CheckBegins(fs file.FS, directory string) error {
	names, err := fs.List(directory)
	if err != nil && err != syscall.ENOENT {
		return file.Failed(err, "cannot list %s", directory)
	}
	if at := slices.IndexFunc(names, snapshot.IsBase); at >= 0 {
		return status.Errorf(status.InvalidState, "%q has the snapshot %q, but no journal, as an interrupted backup leaves it: "+
			"a store begins in an empty directory", directory, names[at])
	}
	return nil
}

// In is the store for who changes it by a file system of his own.
func (s *Store) In(fs file.FS) *Store {
	in := *s
	in.fs = fs
	return &in
}

// Point is the snapshot of an id; nil: there is none.
func (s *Store) Point(id snapshot.ID) *Point {
	for i := range s.Points {
		if s.Points[i].ID == id {
			return &s.Points[i]
		}
	}
	return nil
}
