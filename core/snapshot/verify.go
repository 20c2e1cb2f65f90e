// Checking every byte of a chain.

package snapshot

import "libmmsb/core/status"

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

// metadataCheck puts the metadata of a page together and looks at it.
type metadataCheck struct {
	v    *volume
	page Page
	blob []byte
}

func (m *metadataCheck) add(t *table, raw []byte) error {
	for entry := range t.pages {
		page := &t.pages[entry]
		if page.ID != m.page.ID {
			if err := m.flush(); err != nil {
				return err
			}
			m.page = *page
		}
		for _, extent := range t.extentsOf(page) {
			if extent.Kind != KindMetadata {
				continue
			}
			at := len(m.blob)
			m.blob = append(m.blob, make([]byte, extent.Length)...)
			if err := m.v.expand(m.blob[at:], page.ID, &extent, raw[extent.At:][:extent.Stored], t.offset); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *metadataCheck) flush() error {
	if len(m.blob) == 0 {
		return nil
	}
	err := checkMetadata(m.v.name, &m.page, m.blob)
	m.blob = m.blob[:0]
	return err
}
