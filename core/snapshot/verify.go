// Checking every byte of a chain.

package snapshot

import (
	"slices"

	"libmmsb/core/metadata"
	"libmmsb/core/status"
)

// Progress is told of the bytes done so far, and of all. What it returns false for ends with Cancelled.
type Progress func(done, total uint64) bool

func (p Progress) report(done, total uint64) error {
	if p != nil && !p(done, total) {
		return status.Errorf(status.Cancelled, "cancelled after %d of %d bytes", done, total)
	}
	return nil
}

// VerifyOptions of Verify.
type VerifyOptions struct {
	OpenOptions
	Progress Progress
}

// Verify reads a file and all its bases: every byte is looked at. It gives the newest file's numbers. Errors: what is
// damaged first, Cancelled, those of Open.
func Verify(path string, o VerifyOptions) (Info, error) {
	s, err := Open(path, o.OpenOptions)
	if err != nil {
		return Info{}, err
	}
	defer func() { _ = s.Close() }()
	if err := s.Verify(o.Progress); err != nil {
		return Info{}, err
	}
	return s.volumes[0].info(), nil
}

// Verify reads all files of the chain: a walk that looks at everything.
func (s *Snapshot) Verify(progress Progress) error {
	total, done := uint64(0), uint64(0)
	for _, v := range s.volumes {
		for segment := range v.segments() {
			_, length := v.bounds(segment)
			total += length
		}
	}
	report := func(bytes uint64) error {
		done += bytes
		return progress.report(done, total)
	}
	return s.Segments(LoadOptions{Everything: true, read: report}, func(Loaded) error { return nil })
}

// metadataCheck looks at the metadata of a page, which comes in several extents and perhaps segments. It does not keep it.
type metadataCheck struct {
	v         *volume
	page      Page
	validator metadata.Validator
	seen      []placed // extents of the page; nil: none has come
}

// placed is an extent and where its segment lies.
type placed struct {
	Extent
	segment uint64
}

func (m *metadataCheck) add(t *table, raw []byte) error {
	for entry := range t.pages {
		page := &t.pages[entry]
		for _, extent := range t.extentsOf(page) {
			if extent.Kind != KindMetadata {
				continue
			}
			if page.ID != m.page.ID {
				if err := m.flush(); err != nil {
					return err
				}
				m.page = *page
			}
			m.seen = append(m.seen, placed{extent, t.offset})
			if err := m.look(&m.seen[len(m.seen)-1], raw[extent.At:][:extent.Stored]); err != nil {
				return err
			}
		}
	}
	return nil
}

// look looks at what an extent stands for.
func (m *metadataCheck) look(extent *placed, stored []byte) error {
	memory := twoChunks()
	defer chunks.Put(memory)
	piece := stored
	if extent.Compression != Uncompressed {
		piece = memory[:extent.Length]
		if err := m.v.expand(piece, m.page.ID, &extent.Extent, stored, extent.segment); err != nil {
			return err
		}
	}
	return m.named(m.validator.Add(piece, extentBytes+len(stored)))
}

// flush looks at the rest of what came, where that cannot be done at once: it reads the extents again.
func (m *metadataCheck) flush() error {
	if len(m.seen) == 0 {
		return nil
	}
	count, again, err := m.validator.End()
	for stored := make([]byte, 0); again && err == nil; count, again, err = m.validator.End() {
		for number := range m.seen {
			extent := &m.seen[number]
			stored = slices.Grow(stored[:0], Chunk)[:extent.Stored]
			if err := read(m.v.name, m.v.source, stored, extent.segment+uint64(extent.At)); err != nil {
				return err
			}
			if err := m.v.checkStored(m.page.ID, &extent.Extent, stored, extent.segment); err != nil {
				return err
			}
			if err := m.look(extent, stored); err != nil {
				return err
			}
		}
	}
	if err == nil && uint64(count) != uint64(m.page.MetadataCount) {
		return errKeys(m.v.name, &m.page, count)
	}
	m.seen, m.validator = m.seen[:0], metadata.Validator{}
	return m.named(err)
}

func (m *metadataCheck) named(err error) error {
	if err == nil {
		return nil
	}
	return status.Errorf(status.Corrupt, "%s: page %d: %s", m.v.name, m.page.ID, status.Of(err).Text)
}
