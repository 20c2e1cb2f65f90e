// The bases of a journal's directory: snapshots there, or elsewhere, that its records go on from.

package snapshot

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"libmmsb/core/file"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

const (
	baseSuffix    = ".mmsb"
	pointerSuffix = ".path"
)

// BaseFileName is the name of a base in a journal's directory.
func BaseFileName(position uint64, id ID) string {
	return fmt.Sprintf("base-%020d-%s%s", position, hex.EncodeToString(id[:4]), baseSuffix)
}

// IsBase says whether a file of that name in a journal's directory is a base, or kept for one, or the temporary file of a saver.
func IsBase(name string) bool {
	return strings.HasPrefix(name, "base-") || keptName.MatchString(name) || file.IsTemporary(name)
}

// IsPointer says whether a file of that name is a base that lies elsewhere.
func IsPointer(name string) bool {
	return strings.HasPrefix(name, "base-") && strings.HasSuffix(name, pointerSuffix)
}

// Base is a base of a journal.
type Base struct {
	Path string // of the snapshot
	Header
	entry string // its file in the directory
}

// Bases are those of a directory that can be read, the newest position first; with the error of one that cannot.
func Bases(fs file.FS, directory string) (bases []Base, lost error) {
	names, err := fs.List(directory)
	if err != nil {
		return nil, file.Failed(err, "cannot list %s", directory)
	}
	for _, name := range names {
		base := Base{entry: filepath.Join(directory, name)}
		switch {
		case !strings.HasPrefix(name, "base-"):
			continue
		case strings.HasSuffix(name, baseSuffix):
			base.Path = base.entry
			base.Header, err = InspectHeader(base.Path, fs)
		case strings.HasSuffix(name, pointerSuffix):
			base.Path, base.Header, err = follow(fs, directory, base.entry)
		default:
			continue
		}
		if err != nil {
			lost = err
			continue
		}
		bases = append(bases, base)
	}
	slices.SortFunc(bases, func(a, b Base) int { // a branch's own one comes after the state that it begins behind
		return cmp.Or(cmp.Compare(b.Position, a.Position), b.Taken.Compare(a.Taken))
	})
	return bases, lost
}

// Log is a journal, as far as what it begins with depends on it.
type Log interface {
	First() uint64 // number of the oldest record
	FromTheBeginning() bool
	Leads(from lineage.Point) error
}

// FindBase is what a replay of a journal begins with that is given no snapshot: the newest base of its directory from which
// records lead on, and that is not behind the end of the replay: a record, a time (0: any), or what only the oldest base is
// surely before. nil: the empty state. Errors: Mismatch (there is no such state), those of a base that cannot be read.
func FindBase(fs file.FS, directory string, log Log, record uint64, at int64, oldest bool) (*Base, error) {
	bases, lost := Bases(fs, directory)
	if oldest {
		slices.Reverse(bases)
	}
	for i := range bases {
		base := &bases[i]
		late := record != 0 && base.Latest > record || at != 0 && base.Taken.UnixNano() > at
		if !late && log.Leads(base.Lineage.At(base.Position)) == nil {
			return base, nil
		}
	}
	switch {
	case log.FromTheBeginning():
		return nil, nil
	case lost != nil:
		return nil, lost
	default:
		return nil, status.Errorf(status.Mismatch,
			"the journal %q begins with record %d and has no base for that or for what is asked", directory, log.First())
	}
}

// EmptyState is the content of a snapshot without pages, of the beginning of a lineage.
func EmptyState(line lineage.Lineage) ([]byte, error) {
	sink, err := file.Memory()
	if err != nil {
		return nil, err
	}
	writer, err := NewWriter(sink, Header{Taken: time.Unix(0, 0), Lineage: line}, Options{}) // before every record
	if err == nil {
		_, err = writer.Finish(0, 0)
	}
	if err != nil {
		sink.Abort()
		return nil, err
	}
	defer sink.Close()
	return bytes.Clone(sink.Bytes()), nil
}

// PutBase makes a snapshot a base of a journal's directory, durably. It and its bases get names there as well, so that nothing
// that happens to their own names takes them away; on another file system the directory names the snapshot, which must then stay.
func PutBase(fs file.FS, directory, path string, header *Header) error {
	if linkBase(fs, directory, path, header) {
		return file.SyncDirectory(fs, directory)
	}
	return NameBase(fs, directory, path, header)
}

// linkBase gives a snapshot and its bases names in a directory, all of them or none.
func linkBase(fs file.FS, directory, path string, header *Header) (done bool) {
	chain, err := ChainOf(fs, path)
	if err != nil {
		return false
	}
	var made []string
	defer func() {
		for _, name := range made {
			if !done {
				_ = fs.Remove(name)
			}
		}
	}()
	for i, from := range chain {
		name := BaseFileName(header.Position, header.ID)
		if i > 0 {
			base, err := InspectHeader(from, fs)
			if err != nil {
				return false
			}
			name = KeptName(base.ID)
		}
		to := filepath.Join(directory, name)
		switch err := fs.Link(from, to); err {
		case nil:
			made = append(made, to)
		case syscall.EEXIST: // as the base of an earlier one
		default:
			return false
		}
	}
	return true
}

// NameBase tells a journal's directory that a snapshot elsewhere is a base, durably.
func NameBase(fs file.FS, directory, path string, header *Header) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return status.Errorf(status.IO, "cannot find %s: %v", path, err)
	}
	relative := absolute
	if at, err := filepath.Abs(directory); err == nil {
		if found, err := filepath.Rel(at, absolute); err == nil {
			relative = found
		}
	}
	text := fmt.Sprintf("mmsb base 1\nid %s\nrelative %q\nabsolute %q\n", header.ID, relative, absolute)
	text += fmt.Sprintf("crc %08x\n", checksum([]byte(text)))
	name := strings.TrimSuffix(BaseFileName(header.Position, header.ID), baseSuffix) + pointerSuffix
	return file.Put(fs, filepath.Join(directory, name), []byte(text))
}

// follow finds the snapshot that a file of NameBase names.
func follow(fs file.FS, directory, entry string) (string, Header, error) {
	source, err := file.Open(fs, entry)
	if err != nil {
		return "", Header{}, err
	}
	defer func() { _ = source.Close() }()
	const longest = 64 << 10 // two paths, quoted
	text := make([]byte, min(source.Size(), longest))
	if err := read(entry, source, text, 0); err != nil {
		return "", Header{}, err
	}
	damaged := status.Errorf(status.Corrupt, "%s is damaged", entry)
	end := bytes.LastIndex(text, []byte("crc "))
	if end < 0 || string(text[end:]) != fmt.Sprintf("crc %08x\n", checksum(text[:end])) {
		return "", Header{}, damaged
	}
	body := string(text[:end])
	var id, relative, absolute string
	if n, err := fmt.Sscanf(body, "mmsb base 1\nid %s\nrelative %q\nabsolute %q\n", &id, &relative, &absolute); n != 3 ||
		err != nil {
		return "", Header{}, damaged
	}
	if !filepath.IsAbs(relative) {
		relative = filepath.Join(directory, relative)
	}
	for _, path := range []string{relative, absolute} {
		header, err := InspectHeader(path, fs)
		switch {
		case err == nil && header.ID.String() == id:
			return path, header, nil
		case err != nil && !isNoBase(err):
			return "", Header{}, err
		}
	}
	return "", Header{}, status.Errorf(status.NotFound, "the base %s of the journal %s is not at %s", id, directory, absolute)
}

// RemoveBases removes the bases before one that has come, but not those that are needed, and what only they rested on.
func RemoveBases(fs file.FS, directory string, but *Header, needed func(*Base) bool) error {
	bases, _ := Bases(fs, directory) // what cannot be read is not ours to remove
	for i := range bases {
		base := &bases[i]
		if base.ID == but.ID || base.Position > but.Position || needed(base) {
			continue
		}
		if err := base.Remove(fs); err != nil {
			return err
		}
	}
	removeUnneeded(fs, directory)
	return nil
}

// Remove takes a base out of its directory. What other snapshots rest on stays for them.
func (b *Base) Remove(fs file.FS) error {
	if b.entry == b.Path {
		return Retire(fs, b.Path)
	}
	if err := fs.Remove(b.entry); err != nil {
		return file.Failed(err, "cannot remove %s", b.entry)
	}
	return nil
}

// Elsewhere says that the snapshot is not in the directory.
func (b *Base) Elsewhere() bool { return b.entry != b.Path }
