// Giving a snapshot its name without taking away what other snapshots rest on.

package snapshot

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

// KeptName is the name under which a replaced file stays as long as another snapshot of the directory rests on it.
func KeptName(id ID) string { return "mmsb-" + id.String() + ".base" }

var keptName = regexp.MustCompile(`^mmsb-[0-9a-f]{32}\.base$`)

// IsKept says whether a file has such a name.
func IsKept(name string) bool { return keptName.MatchString(name) }

// ReplaceOptions of Replace.
type ReplaceOptions struct {
	file.Options        // but Publish
	RefuseInUse  bool   // Busy where another snapshot rests on the file that is replaced; else that file is kept
	Base         ID     // of the new file; zeros: none
	BaseName     string // its name in the directory
}

// Replace is file.Replace for a snapshot. A file that is replaced stays under its KeptName where another snapshot of the
// directory rests on it; what is kept and no longer needed is removed. Errors of Finish, besides those of file.Replace: Busy
// (RefuseInUse), Mismatch (the base was replaced meanwhile).
func Replace(fs file.FS, path string, o ReplaceOptions) (file.Sink, error) {
	p := &publication{fs: fs, directory: filepath.Dir(path), path: path, o: &o}
	o.Publish = p.publish
	return file.Replace(fs, path, o.Options)
}

// publication gives a new file its name.
type publication struct {
	fs        file.FS
	directory string
	path      string
	o         *ReplaceOptions
}

func (p *publication) publish(rename func() error) error {
	unlock := lockDirectory(p.fs, p.directory)
	defer unlock()
	old, err := InspectHeader(p.path, p.fs)
	if mayBeSnapshot(err) {
		return err
	}
	replaces := err == nil && old.ID != ID{} // nothing rests on what is not readable
	if !replaces && p.o.Base == (ID{}) {
		return rename()
	}
	if p.o.Base != (ID{}) {
		if err := p.baseIsThere(); err != nil {
			return err
		}
	}
	if replaces {
		if err := p.keep(old.ID); err != nil {
			return err
		}
	}
	if err := rename(); err != nil {
		return err
	}
	removeUnneeded(p.fs, p.directory)
	return nil
}

// baseIsThere makes sure that nobody has replaced the new file's base.
func (p *publication) baseIsThere() error {
	for _, name := range []string{p.o.BaseName, KeptName(p.o.Base)} {
		header, err := InspectHeader(filepath.Join(p.directory, name), p.fs)
		switch {
		case err == nil && header.ID == p.o.Base:
			return nil
		case err != nil && !isNoBase(err):
			return err
		}
	}
	return status.Errorf(status.Mismatch, "the base %s of %s was replaced while %s was written", p.o.Base, p.path, p.path)
}

// isNoBase says that a base is not to be had under one of its names, rather than that it cannot be read now.
func isNoBase(err error) bool {
	code := status.CodeOf(err)
	return code == status.NotFound || code == status.Corrupt || code == status.Format
}

// keep links the file that is to be replaced where others rest on it.
func (p *publication) keep(id ID) error {
	var resting []string
	replaced := filepath.Base(p.path)
	found, unknown := headers(p.fs, p.directory)
	for name, header := range found {
		if header.Base == id && header.BaseName == replaced && name != replaced {
			resting = append(resting, name)
		}
	}
	slices.Sort(resting)
	switch {
	case len(resting) == 0 && unknown == nil:
		return nil
	case p.o.RefuseInUse && len(resting) > 0:
		return status.Errorf(status.Busy, "cannot replace %s: %s rests on it", p.path, strings.Join(resting, ", "))
	case p.o.RefuseInUse:
		return unknown
	}
	kept := filepath.Join(p.directory, KeptName(id))
	if err := p.fs.Link(p.path, kept); err != nil && err != syscall.EEXIST {
		return file.Failed(err, "cannot keep %s, on which others may rest, as %s", p.path, kept)
	}
	return file.SyncDirectory(p.fs, p.directory) // before the name goes to the new file
}

// Retire takes a snapshot's name away. The file stays under its KeptName as long as another snapshot of the directory rests on
// it.
func Retire(fs file.FS, path string) error {
	p := &publication{fs: fs, directory: filepath.Dir(path), path: path, o: &ReplaceOptions{}}
	unlock := lockDirectory(fs, p.directory)
	defer unlock()
	header, err := InspectHeader(path, fs)
	if err == nil && header.ID != (ID{}) {
		err = p.keep(header.ID)
	}
	if err != nil {
		return err
	}
	if err := fs.Remove(path); err != nil {
		return file.Failed(err, "cannot remove %s", path)
	}
	removeUnneeded(fs, p.directory)
	return nil
}

// removeUnneeded removes the kept files on which nothing rests. It is a service, like the sweeping of temporary files.
func removeUnneeded(fs file.FS, directory string) {
	names, err := fs.List(directory)
	if err != nil {
		return
	}
	var kept []string
	for _, name := range names {
		if keptName.MatchString(name) {
			kept = append(kept, name)
		}
	}
	for len(kept) > 0 { // one can rest on another
		needed := make(map[string]bool)
		found, unknown := headers(fs, directory)
		if unknown != nil { // on which of them, the next save sees
			return
		}
		for _, header := range found {
			if kept := KeptName(header.Base); header.BaseName == kept || found[header.BaseName].ID != header.Base {
				needed[kept] = true
			}
		}
		before := len(kept)
		rest := kept[:0]
		for _, name := range kept {
			if needed[name] || fs.Remove(filepath.Join(directory, name)) != nil {
				rest = append(rest, name)
			}
		}
		if kept = rest; len(kept) == before {
			return
		}
	}
}

// headers are those of the snapshots in a directory, by file name. The error says that a file may be a snapshot and could not be
// read now; what belongs to others, or is no snapshot, is none.
func headers(fs file.FS, directory string) (found map[string]Header, unknown error) {
	found = make(map[string]Header)
	names, err := fs.List(directory)
	if err != nil {
		return found, file.Failed(err, "cannot list %s", directory)
	}
	for _, name := range names {
		header, err := InspectHeader(filepath.Join(directory, name), fs)
		if err == nil {
			found[name] = header
			continue
		}
		if mayBeSnapshot(err) {
			unknown = err
		}
	}
	return found, unknown
}

// mayBeSnapshot says that a file could not be read for a reason that may pass.
func mayBeSnapshot(err error) bool {
	own := status.Of(err)
	if own == nil || own.Domain != status.DomainErrno {
		return false
	}
	switch syscall.Errno(own.Foreign) {
	case syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.ELOOP, syscall.EISDIR:
		return false
	}
	return true
}

// InspectHeader reads nothing of a file but its header.
func InspectHeader(path string, fs file.FS) (Header, error) {
	source, err := file.Open(fs, path)
	if err != nil {
		return Header{}, err
	}
	defer func() { _ = source.Close() }()
	unit := make([]byte, unitBytes)
	if source.Size() < unitBytes {
		return Header{}, status.Errorf(status.Format, "%s is not a snapshot: it has %d bytes", path, source.Size())
	}
	if err := read(path, source, unit, 0); err != nil {
		return Header{}, err
	}
	version, err := decodeVersion(path, unit)
	if err != nil || version == OriginalVersion {
		return Header{Version: version}, err
	}
	return decodeHeader(path, unit)
}

// ChainOf is the paths of a snapshot and its bases, the newest first.
func ChainOf(fs file.FS, path string) ([]string, error) {
	chain := []string{path}
	for seen := map[ID]bool{}; ; {
		header, err := InspectHeader(path, fs)
		if err != nil || header.Base == (ID{}) || seen[header.ID] {
			return chain, err
		}
		seen[header.ID] = true
		directory := filepath.Dir(path)
		path = filepath.Join(directory, header.BaseName)
		base, err := InspectHeader(path, fs)
		if err != nil && !isNoBase(err) {
			return chain, err
		}
		if err != nil || base.ID != header.Base {
			path = filepath.Join(directory, KeptName(header.Base))
		}
		chain = append(chain, path)
	}
}

// lockPatience bounds how long a saver waits for another one that is giving its file a name, which takes milliseconds.
const lockPatience = time.Second

// lockDirectory keeps other savers from giving names in a directory meanwhile. Where that cannot be had, because the file system
// has no locks or the program itself holds one on its directory, it goes on without.
func lockDirectory(fs file.FS, directory string) (unlock func()) {
	f, err := fs.Open(directory, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return func() {}
	}
	for end := time.Now().Add(lockPatience); f.Lock() == syscall.EWOULDBLOCK && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return func() { _ = f.Close() }
}
