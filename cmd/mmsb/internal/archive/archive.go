// Package archive keeps backups of stores as objects: in a bucket, or whatever else has keys and contents. Each file of the store
// is an object whose key has its checksum, so objects never change; one more, the manifest, says which of them the backup has. It
// is written last and at once, so a backup is there whole or not at all, and an older one until then.
package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
	"libmmsb/core/store"
)

// Objects is where an archive lies. Keys are relative to it.
type Objects interface {
	// String is where that is, for messages.
	String() string
	// List is the sizes of the objects whose keys begin so.
	List(prefix string) (map[string]int64, error)
	// Get reads an object from an offset on. Errors: NotFound (there is no such object), OutOfRange (it ends before the offset).
	Get(key string, offset int64) (io.ReadCloser, error)
	// Put makes an object, which is there whole or not at all. It goes on with what an earlier Put of the same key has left,
	// which is taken to have had the same content. sent is told of bytes that went over the wire.
	Put(key string, content io.ReaderAt, size int64, sent func(bytes int64)) error
	Delete(key string) error
	// Tidy removes what puts have left that did not end.
	Tidy(prefix string) error
}

const (
	manifestKey     = "manifest.json"
	manifestVersion = 1
	longestManifest = 64 << 20
	filesPrefix     = "files/"
)

// manifest is what a backup has.
type manifest struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	Lineage string    `json:"lineage"` // of the store's newest state
	Last    uint64    `json:"last"`    // its position
	Files   []entry   `json:"files"`
}

type entry struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func (e *entry) key() string { return filesPrefix + e.Name + "/" + e.SHA256 }

func (m *manifest) tip() (tip lineage.Point) {
	_, _ = hex.Decode(tip.Lineage[:], []byte(m.Lineage)) // check has looked at it
	tip.Position = m.Last
	return tip
}

// check says whether a manifest can be one.
func (m *manifest) check(where string) error {
	if m.Version != manifestVersion {
		return status.Errorf(status.Format, "%s/%s has version %d, this mmsb reads version %d", where, manifestKey, m.Version,
			manifestVersion)
	}
	bad := func(what, text string) error {
		return status.Errorf(status.Corrupt, "%s/%s: %q is not %s", where, manifestKey, text, what)
	}
	if id, err := hex.DecodeString(m.Lineage); err != nil || len(id) != len(lineage.ID{}) {
		return bad("a lineage", m.Lineage)
	}
	names := make(map[string]bool, len(m.Files))
	for i := range m.Files {
		f := &m.Files[i]
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != sha256.Size {
			return bad("a checksum", f.SHA256)
		}
		if !store.IsFile(f.Name) || strings.Contains(f.Name, "/") || names[f.Name] || f.Size < 0 {
			return bad("a file of a store", f.Name)
		}
		names[f.Name] = true
	}
	return nil
}

// readManifest is nil where there is no backup.
func readManifest(o Objects) (*manifest, error) {
	content, err := o.Get(manifestKey, 0)
	if status.CodeOf(err) == status.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	text, err := io.ReadAll(io.LimitReader(content, longestManifest+1))
	if err != nil {
		return nil, err
	}
	if len(text) > longestManifest {
		return nil, status.Errorf(status.Corrupt, "%s/%s has more than %d bytes", o, manifestKey, longestManifest)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, status.Errorf(status.Corrupt, "%s/%s of %d bytes is not a manifest: %v", o, manifestKey, len(text), err)
	}
	return &m, m.check(o.String())
}

// Target is a target of store.Backup.
type Target struct {
	Objects Objects

	older map[string]entry // by name
	end   string           // its last segment
	there map[string]int64 // sizes by key
	files map[string]entry
}

// End has nothing to end: a bucket has no lock.
func (t *Target) End() {}

// Begin reads the older manifest, and lists the objects.
func (t *Target) Begin(s *store.Store) error {
	m, err := readManifest(t.Objects)
	if err != nil {
		return err
	}
	t.older, t.files = make(map[string]entry), make(map[string]entry)
	if m != nil {
		if tip := m.tip(); !s.LeadsOnFrom(tip) {
			return status.Errorf(status.Mismatch, "%s is not a backup of %q: its state is %s, which does not lead to the store's",
				t.Objects, s.Directory, tip)
		}
		for _, f := range m.Files {
			t.older[f.Name] = f
			if journal.IsSegment(f.Name) && (t.end == "" || journal.CompareSegments(f.Name, t.end) > 0) {
				t.end = f.Name
			}
		}
	}
	t.there, err = t.Objects.List(filesPrefix)
	return err
}

func (t *Target) has(e *entry) bool {
	size, there := t.there[e.key()]
	return there && size == e.Size
}

// Put sends a file, unless its object is there.
func (t *Target) Put(f *store.File, c *store.Copied) error {
	source, size := f.Source, f.Source.Size()
	if older, known := t.older[f.Name]; known && f.Fixed && older.Size == size && t.has(&older) {
		t.files[f.Name] = older
		return nil
	}
	hash := sha256.New()
	read := func(from, to int64) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{hash}, io.NewSectionReader(source, from, to-from), make([]byte, 1<<20))
		return err
	}
	behind := int64(0)
	if f.Name == t.end { // a segment only grows
		older := t.older[f.Name]
		behind = min(older.Size, size)
		if err := read(0, behind); err != nil {
			return err
		}
		if hex.EncodeToString(hash.Sum(nil)) != older.SHA256 {
			return status.Errorf(status.Mismatch,
				"%s is not a backup of the store of %q, which has gone another way: the first %d bytes differ", t.Objects, f.Path,
				older.Size)
		}
	}
	if err := read(behind, size); err != nil {
		return err
	}
	e := entry{f.Name, size, hex.EncodeToString(hash.Sum(nil))}
	if !t.has(&e) {
		if err := t.Objects.Put(e.key(), source, size, func(bytes int64) {
			c.Bytes += bytes
			f.Moved(bytes)
		}); err != nil {
			return err
		}
		c.Files++
		t.there[e.key()] = size
	}
	t.files[f.Name] = e
	return nil
}

// Finish writes the manifest and deletes objects that it does not name.
func (t *Target) Finish(s *store.Store, files []string, c *store.Copied) error {
	tip := s.Tip()
	m := manifest{Version: manifestVersion, Time: time.Now().UTC(), Lineage: tip.Lineage.String(), Last: tip.Position}
	named := make(map[string]bool)
	for _, name := range files {
		e := t.files[name]
		m.Files = append(m.Files, e)
		named[e.key()] = true
	}
	there, err := t.Objects.List(filesPrefix)
	if err != nil {
		return err
	}
	for i := range m.Files {
		if e := &m.Files[i]; there[e.key()] != e.Size {
			return status.Errorf(status.Busy, "%s has lost %s meanwhile: another backup goes there, too", t.Objects, e.key())
		}
	}
	text, err := json.MarshalIndent(&m, "", "  ")
	if err != nil {
		return status.Errorf(status.Internal, "cannot encode a manifest of %d files: %v", len(m.Files), err)
	}
	content := strings.NewReader(string(text) + "\n")
	if err := t.Objects.Put(manifestKey, content, content.Size(), func(int64) {}); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(there)) {
		if named[key] {
			continue
		}
		if err := t.Objects.Delete(key); err != nil {
			return err
		}
		c.Removed++
	}
	return t.Objects.Tidy(filesPrefix)
}
