package files

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"runtime"
	"slices"

	"libmmsb/core/metadata"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// pageState is what a reader gives of a page; of its content a hash. A mask of zeros is none.
type pageState struct {
	size, epoch, version    uint64
	location                int32
	bytes, mask, attributes uint64
}

// state is what a reader gives.
type state struct {
	pages map[uint64]pageState
	edges [][2]uint64 // sorted
}

var hashSeed = maphash.MakeSeed()

func hashOf(b []byte) uint64 { return maphash.Bytes(hashSeed, b) }

func hashOfMask(b []byte) uint64 {
	for _, one := range b {
		if one != 0 {
			return hashOf(b)
		}
	}
	return 0
}

func hashOfMetadata(b []byte) uint64 {
	if metadata.Count(b) == 0 {
		return 0
	}
	return hashOf(b)
}

func compareEdges(a, b [2]uint64) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
}

// difference says in what two states differ; nothing where they do not. Versions are compared where both are of a file or of a
// context that was fresh.
func (s *state) difference(other *state, versions bool) string {
	if len(s.pages) != len(other.pages) {
		return fmt.Sprintf("%d pages and %d", len(s.pages), len(other.pages))
	}
	for _, id := range slices.Sorted(maps.Keys(s.pages)) {
		a := s.pages[id]
		b, ok := other.pages[id]
		if !versions {
			a.version, b.version = 0, 0
		}
		if !ok || a != b {
			return fmt.Sprintf("page %d: %+v and %+v", id, a, b)
		}
	}
	if !slices.Equal(s.edges, other.edges) {
		return fmt.Sprintf("edges %v and %v", s.edges, other.edges)
	}
	return ""
}

// only is the part of a state that a load of chosen pages gives.
func (s *state) only(ids []uint64) *state {
	part := &state{pages: make(map[uint64]pageState)}
	for _, id := range ids {
		part.pages[id] = s.pages[id]
	}
	for _, edge := range s.edges {
		if slices.Contains(ids, edge[0]) && slices.Contains(ids, edge[1]) {
			part.edges = append(part.edges, edge)
		}
	}
	return part
}

// most is how many bytes of pages a test reads: files can stand for more than they have.
const most = 24 << 20

// stateOfFile is what an open snapshot has.
func stateOfFile(s *snapshot.Snapshot) (*state, error) {
	found := &state{pages: make(map[uint64]pageState)}
	var entries []snapshot.Page // none is read before all are known to be good
	for entry, err := range s.Pages() {
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	for _, entry := range entries {
		one := pageState{size: entry.Size, epoch: entry.Epoch, version: entry.Version, location: entry.Location}
		content := make([]byte, entry.Size)
		if err := s.ReadAt(entry.ID, snapshot.KindBytes, content, 0); err != nil {
			return nil, err
		}
		one.bytes = hashOf(content)
		if view, err := s.View(entry.ID); err == nil && !bytes.Equal(view, content) {
			return nil, status.Errorf(status.Internal, "page %d has other bytes in its view", entry.ID)
		} else if err != nil && status.CodeOf(err) != status.Unsupported {
			return nil, err
		}
		mask := make([]byte, (entry.Size+7)/8)
		if err := s.ReadAt(entry.ID, snapshot.KindMask, mask, 0); err != nil {
			return nil, err
		}
		one.mask = hashOfMask(mask)
		blob, err := s.Metadata(entry.ID)
		if err != nil {
			return nil, err
		}
		one.attributes = hashOfMetadata(blob)
		if _, twice := found.pages[entry.ID]; twice {
			return nil, status.Errorf(status.Internal, "page %d is listed twice", entry.ID)
		}
		found.pages[entry.ID] = one
	}
	for pair, err := range s.Edges() {
		if err != nil {
			return nil, err
		}
		_, parent := found.pages[pair[0]]
		_, child := found.pages[pair[1]]
		if parent && child {
			found.edges = append(found.edges, pair)
		}
	}
	slices.SortFunc(found.edges, compareEdges)
	return found, nil
}

// stateOfContext is what a context has. Bytes of lazy loads are read now: an error is that of the load.
func stateOfContext(context uint64) (*state, error) {
	runtime.LockOSThread() // for the last error
	defer runtime.UnlockOSThread()
	found := &state{pages: make(map[uint64]pageState)}
	var handles []uint64
	err := page.Use(context, func(c *page.Context) error {
		var cursor uint64
		some := make([]uint64, 64)
		for n := c.Pages(&cursor, some); n > 0; n = c.Pages(&cursor, some) {
			handles = append(handles, some[:n]...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, handle := range handles {
		index := native.Index(handle)
		id := page.IDOf(index)
		content := make([]byte, native.RecordAt(index).Size)
		if code := nativetest.ReadPage(handle, 0, content); code != 0 {
			return nil, lastError(code)
		}
		err := page.Read(handle, func(p *page.Page) error {
			found.pages[id] = pageState{size: p.Record.Size, epoch: p.Record.Epoch, version: p.Record.Version,
				location: p.Location(), bytes: hashOf(content), mask: hashOfMask(p.Mask()),
				attributes: hashOfMetadata(p.Metadata())}
			return nil
		})
		if err != nil {
			return nil, err
		}
		children, err := page.Children(handle)
		if err != nil {
			return nil, err
		}
		for _, child := range children {
			found.edges = append(found.edges, [2]uint64{id, page.IDOf(native.Index(child))})
		}
	}
	slices.SortFunc(found.edges, compareEdges)
	return found, nil
}
