// From an archive to a directory.

package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/status"
	"libmmsb/core/store"
)

// Pull makes a directory, which is there, what the backup in an archive has, and removes all else in it. What an earlier pull has
// left there is not read again from the archive. Every checksum is compared. done is told how many bytes are there, of how many;
// nil: nobody asks. Errors: NotFound (no backup), Corrupt (objects are not what the manifest says), those of the archive and of
// the file system.
func Pull(o Objects, fs file.FS, directory string, done func(done, total uint64)) (copied store.Copied, err error) {
	p := &pull{objects: o, fs: fs, directory: directory, progress: done}
	m, err := readManifest(o)
	for err == nil {
		if m == nil {
			return p.copied, status.Errorf(status.NotFound, "there is no backup in %s", o)
		}
		var lost string
		if lost, err = p.all(m); err != nil || lost == "" {
			break
		}
		before := m.Time
		if m, err = readManifest(o); err == nil && m != nil && m.Time.Equal(before) {
			err = status.Errorf(status.Corrupt, "%s has lost %s, which its backup needs", o, lost)
		} // else a newer backup has taken the place of the one that was read
	}
	return p.copied, err
}

type pull struct {
	objects     Objects
	fs          file.FS
	directory   string
	progress    func(done, total uint64)
	copied      store.Copied
	done, total int64 // bytes
}

// all brings the files of a manifest, or says which object is not there any more.
func (p *pull) all(m *manifest) (lost string, err error) {
	p.done, p.total = 0, 0
	keep := make([]string, 0, 2*len(m.Files))
	for i := range m.Files {
		p.total += m.Files[i].Size
		keep = append(keep, m.Files[i].Name, partName(&m.Files[i]))
	}
	names, err := p.fs.List(p.directory)
	if err != nil {
		return "", file.Failed(err, "cannot list %s", p.directory)
	}
	for _, name := range names {
		if !slices.Contains(keep, name) {
			if err := p.fs.Remove(filepath.Join(p.directory, name)); err != nil && err != syscall.ENOENT {
				return "", file.Failed(err, "cannot remove %s", filepath.Join(p.directory, name))
			}
		}
	}
	for i := range m.Files {
		e := &m.Files[i]
		switch err := p.one(e); {
		case status.CodeOf(err) == status.NotFound:
			return e.key(), nil
		case err != nil:
			return "", err
		}
	}
	s, err := store.Look(p.fs, p.directory)
	if err == nil && s.Line.ID != m.tip().Lineage {
		err = status.Errorf(status.Corrupt, "the backup in %s has the lineage %s, its manifest says %s", p.objects, s.Line.ID,
			m.Lineage)
	}
	return "", err
}

// partName is the name of a file that is not whole yet.
func partName(e *entry) string { return e.Name + "." + e.SHA256[:16] + ".part" }

// one brings a file, unless it is there.
func (p *pull) one(e *entry) error {
	path := filepath.Join(p.directory, e.Name)
	if info, err := p.fs.Stat(path); err == nil && info.Size == e.Size {
		if sum, err := p.sumOf(path); err != nil || sum == e.SHA256 {
			p.moved(e.Size)
			return err
		}
	}
	part := filepath.Join(p.directory, partName(e))
	f, err := p.fs.Open(part, unix.O_RDWR|unix.O_CREAT, 0o666)
	if err != nil {
		return file.Failed(err, "cannot create %s", part)
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	before, err := p.resume(f, part, e, hash)
	if err == nil {
		err = p.rest(f, part, e, hash, before)
	}
	if err == nil && before > 0 && sum(hash) != e.SHA256 { // what was left may be damaged
		hash.Reset()
		p.moved(-e.Size)
		err = p.rest(f, part, e, hash, 0)
	}
	if err != nil {
		return err
	}
	if found := sum(hash); found != e.SHA256 {
		_ = p.fs.Remove(part)
		return status.Errorf(status.Corrupt, "%s/%s has the SHA-256 %s", p.objects, e.key(), found)
	}
	if err := f.Truncate(e.Size); err != nil {
		return file.Failed(err, "cannot truncate %s to %d bytes", part, e.Size)
	}
	if err := f.Sync(); err != nil {
		return file.Failed(err, "cannot sync %s of %d bytes", part, e.Size)
	}
	if err := p.fs.Rename(part, path); err != nil {
		return file.Failed(err, "cannot rename %s to %s", part, path)
	}
	p.copied.Files++
	return nil
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

func (p *pull) sumOf(path string) (string, error) {
	source, err := file.Open(p.fs, path)
	if err != nil {
		return "", err
	}
	defer func() { _ = source.Close() }()
	hash := sha256.New()
	_, err = io.CopyBuffer(struct{ io.Writer }{hash}, io.NewSectionReader(source, 0, source.Size()), make([]byte, 1<<20))
	return sum(hash), err
}

func (p *pull) moved(bytes int64) {
	p.done += bytes
	if p.progress != nil {
		p.progress(uint64(p.done), uint64(p.total))
	}
}

// resume takes what an earlier pull has left of a file, and says how much that is.
func (p *pull) resume(f file.File, part string, e *entry, hash hash.Hash) (at int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, file.Failed(err, "cannot open %s", part)
	}
	buffer := make([]byte, 1<<20)
	for end := min(info.Size, e.Size); at < end; {
		n, err := f.Pread(buffer[:min(int64(len(buffer)), end-at)], at)
		if err != nil {
			return at, file.Failed(err, "cannot read %s at offset %d", part, at)
		}
		if n == 0 {
			break
		}
		_, _ = hash.Write(buffer[:n])
		at += int64(n)
		p.moved(int64(n))
	}
	return at, nil
}

// rest reads the rest of a file from the archive. Where a connection breaks off it goes on.
func (p *pull) rest(f file.File, part string, e *entry, hash hash.Hash, at int64) error {
	const tries = 5 // without a byte
	buffer := make([]byte, 1<<20)
	for failed := 0; at < e.Size; {
		content, err := p.objects.Get(e.key(), at)
		begin := at
		for err == nil && at < e.Size {
			var n int
			n, err = io.ReadAtLeast(content, buffer[:min(int64(len(buffer)), e.Size-at)], 1)
			if wrote := file.WriteFull(f, buffer[:n], at); wrote != nil {
				_ = content.Close()
				return file.Failed(wrote, "cannot write %d bytes of %s at offset %d", n, part, at)
			}
			_, _ = hash.Write(buffer[:n])
			at += int64(n)
			p.copied.Bytes += int64(n)
			p.moved(int64(n))
		}
		if content != nil {
			_ = content.Close()
		}
		if at > begin {
			failed = 0
			continue
		}
		switch code := status.CodeOf(err); {
		case err == io.EOF || code == status.OutOfRange:
			return status.Errorf(status.Corrupt, "%s/%s ends after %d bytes, not %d", p.objects, e.key(), at, e.Size)
		case code == status.NotFound || code == status.Cancelled:
			return err
		}
		if failed++; failed == tries {
			return err
		}
		time.Sleep(time.Duration(failed) * 100 * time.Millisecond)
	}
	return nil
}
