// The names that programs give to snapshots of a store.

package store

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"libmmsb/core/file"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// namesFile has the names of a store, as JSON.
const namesFile = "store.names"

const (
	namesVersion     = 1
	longestName      = 255
	longestNamesFile = 16 << 20
)

// names is snapshots by name.
type names map[string]snapshot.ID

// CheckName says whether a snapshot can have a name: 1 to 255 bytes of UTF-8 without control characters, of which the first is a
// letter, so that no name looks like a time or the number of a record.
func CheckName(name string) error {
	first, _ := utf8.DecodeRuneInString(name)
	switch {
	case name == "" || len(name) > longestName:
		return status.Errorf(status.InvalidArgument, "the name has %d bytes, not 1 to %d", len(name), longestName)
	case !utf8.ValidString(name) || slices.ContainsFunc([]rune(name), unicode.IsControl):
		return status.Errorf(status.InvalidArgument, "the name %q is not UTF-8 without control characters", name)
	case !unicode.IsLetter(first):
		return status.Errorf(status.InvalidArgument, "the name %q does not begin with a letter", name)
	}
	return nil
}

// namesContent is what the file has.
type namesContent struct {
	Version int               `json:"version"`
	Names   map[string]string `json:"names"`
}

func readNames(fs file.FS, directory string) (names, error) {
	path := filepath.Join(directory, namesFile)
	source, err := file.Open(fs, path)
	if status.CodeOf(err) == status.NotFound {
		return names{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = source.Close() }()
	if source.Size() > longestNamesFile {
		return nil, status.Errorf(status.Corrupt, "%s has %d bytes; the most is %d", path, source.Size(), longestNamesFile)
	}
	text := make([]byte, source.Size())
	if _, err := source.ReadAt(text, 0); err != nil && err != io.EOF {
		return nil, err
	}
	var found namesContent
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, status.Errorf(status.Corrupt, "%s is not JSON: %v", path, err)
	}
	if found.Version != namesVersion {
		return nil, status.Errorf(status.Format, "%s has version %d, this library reads version %d", path, found.Version,
			namesVersion)
	}
	all := names{}
	for name, text := range found.Names {
		var id snapshot.ID
		if n, err := hex.Decode(id[:], []byte(text)[:min(len(text), 2*len(id))]); err != nil || n != len(id) ||
			len(text) != 2*len(id) || CheckName(name) != nil {
			return nil, status.Errorf(status.Corrupt, "%s: %q cannot be the name of snapshot %q", path, name, text)
		}
		all[name] = id
	}
	return all, nil
}

// Named says which snapshots of a directory, which need not be a store, have a name.
func Named(fs file.FS, directory string) (has func(id snapshot.ID) bool, err error) {
	all, err := readNames(fs, directory)
	return func(id snapshot.ID) bool { return len(all.of(id)) > 0 }, err
}

// write replaces the file, durably.
func (n names) write(fs file.FS, directory string) error {
	content := namesContent{namesVersion, make(map[string]string, len(n))}
	for name, id := range n {
		content.Names[name] = id.String()
	}
	text, err := json.MarshalIndent(&content, "", "  ")
	if err != nil {
		return status.Errorf(status.Internal, "cannot encode %d names: %v", len(n), err)
	}
	if len(text) > longestNamesFile {
		return status.Errorf(status.Limit, "%d names take %d bytes; the most is %d", len(n), len(text), longestNamesFile)
	}
	return file.Put(fs, filepath.Join(directory, namesFile), append(text, '\n'))
}

// of is the names of a snapshot, sorted.
func (n names) of(id snapshot.ID) (found []string) {
	for name, of := range n {
		if of == id {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// SetName gives a snapshot of a store a name, which another one loses if it has it. Only who has the journal's lock may call it.
func SetName(fs file.FS, directory, name string, id snapshot.ID) error {
	if err := CheckName(name); err != nil {
		return err
	}
	all, err := readNames(fs, directory)
	if err != nil {
		return err
	}
	all[name] = id
	return all.write(fs, directory)
}

// RemoveName takes a name away; the snapshot stays until the retention has no use for it. As SetName. Errors: NotFound.
func RemoveName(fs file.FS, directory, name string) error {
	all, err := readNames(fs, directory)
	if err != nil {
		return err
	}
	if _, ok := all[name]; !ok {
		return errNoName(directory, name, all)
	}
	delete(all, name)
	return all.write(fs, directory)
}

// check says whether each name leads to a snapshot, which may be a lost one. Errors: Corrupt.
func (n names) check(directory string, bases []snapshot.Base, lost []Lost) error {
	var dead []string
	for name, id := range n {
		is := func(b snapshot.Base) bool { return b.ID == id }
		if !slices.ContainsFunc(bases, is) && lostOf(lost, id) == nil {
			dead = append(dead, name)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	slices.Sort(dead)
	return status.Errorf(status.Corrupt, "%s: %d of %d names lead to no snapshot of the store, as %q to %s",
		filepath.Join(directory, namesFile), len(dead), len(n), dead[0], n[dead[0]])
}

// lostOf is why the snapshot of an id is lost, by its file's name; nil: it is not among those.
func lostOf(lost []Lost, id snapshot.ID) error {
	part := "-" + hex.EncodeToString(id[:4]) + "." // of the name, before its ending
	i := slices.IndexFunc(lost, func(l Lost) bool { return strings.Contains(filepath.Base(l.Path), part) })
	if i < 0 {
		return nil
	}
	return lost[i].Err
}

func errNoName(directory, name string, all names) error {
	known := make([]string, 0, len(all))
	for other := range all {
		known = append(known, other)
	}
	slices.Sort(known)
	const shown = 10
	if len(known) > shown {
		known = append(known[:shown], "…")
	}
	return status.Errorf(status.NotFound, "the store %s has no name %q; it has %q", directory, name, known)
}
