// Whether a directory may become, or go on being, a copy of a store.

package store

import (
	"bytes"
	"path/filepath"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

// isSame says whether two paths lead to the same directory, by way of symbolic links or not.
func isSame(fs file.FS, one, other string) (bool, error) {
	x, err := fs.Stat(one + "/.")
	if err != nil {
		return false, file.Failed(err, "cannot inspect %s", one)
	}
	y, err := fs.Stat(other + "/.")
	if err != nil {
		return false, file.Failed(err, "cannot inspect %s", other)
	}
	return x.Device == y.Device && x.Inode == y.Inode, nil
}

// hasRecordsOf checks that the newest records of an older copy are this store's: a program that opens a copy for writing goes on
// in the lineage of the store, where other records have the same numbers.
func (s *Store) hasRecordsOf(older *Store) error {
	last := older.Journal.Segments[len(older.Journal.Segments)-1]
	if older.Line.ID != s.Line.ID || last.First < s.Journal.First {
		return nil
	}
	theirs, err := older.log.LastSegment()
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }()
	same := false
	switch ours, err := file.Open(s.fs, filepath.Join(s.Directory, last.Name)); {
	case err == nil:
		same, err = startsAlike(ours, theirs)
		_ = ours.Close()
		if err != nil {
			return err
		}
	case status.CodeOf(err) != status.NotFound:
		return err
	}
	if !same {
		return status.Errorf(status.Mismatch,
			"%q is not a backup of %q: a program has written it, its records from %d on are others", older.Directory, s.Directory,
			last.First)
	}
	return nil
}

// startsAlike says whether a file begins with all of another.
func startsAlike(long, short file.Source) (bool, error) {
	const piece = 1 << 20
	a, b := make([]byte, piece), make([]byte, piece)
	for at := int64(0); at < short.Size(); at += piece {
		n := min(piece, short.Size()-at)
		if long.Size() < at+n {
			return false, nil
		}
		if _, err := long.ReadAt(a[:n], at); err != nil {
			return false, err
		}
		if _, err := short.ReadAt(b[:n], at); err != nil {
			return false, err
		}
		if !bytes.Equal(a[:n], b[:n]) {
			return false, nil
		}
	}
	return true, nil
}
