// Checking every byte of a chain.

package snapshot

import (
	"libmmsb/core/file"
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

// pagesAtATime is how many pages' records Verify has in memory: 24 MiB.
const pagesAtATime = 1 << 20

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

// Verify reads all files of the chain.
func (s *Snapshot) Verify(progress Progress) error {
	total, done := uint64(0), uint64(0)
	for _, v := range s.volumes {
		for segment := range v.segments() {
			_, length := v.bounds(segment)
			total += length
		}
	}
	for _, v := range s.volumes {
		if err := v.verify(func(bytes uint64) error {
			done += bytes
			return progress.report(done, total)
		}); err != nil {
			return err
		}
	}
	return s.verifyState(s.entries(len(s.volumes))/pagesAtATime + 1)
}

// verifyState compares what the files say about each page, in parts that memory holds.
func (s *Snapshot) verifyState(parts uint64) error {
	sum := state{}
	for part := range parts {
		_, counts, err := s.collect(len(s.volumes), part, parts)
		if err != nil {
			return err
		}
		sum.pages += counts.pages
		if sum.bytes += counts.bytes; sum.bytes > 1<<63-1 {
			return status.Errorf(status.Corrupt, "%s: page sizes add up to more than 2^63-1", s.volumes[0].name)
		}
	}
	return s.checkState(sum)
}

// verify reads one file.
func (v *volume) verify(progress func(bytes uint64) error) error {
	ranges := make([]file.Range, 0, v.segments())
	for segment := range v.segments() {
		offset, length := v.bounds(segment)
		ranges = append(ranges, file.Range{Offset: int64(offset), Length: int64(length)})
	}
	check := verification{v: v, sequence: sequence{v: v}, metadata: metadataCheck{v: v}}
	err := file.Pieces(v.source, ranges, func(segment int, piece []byte) error {
		if err := check.segment(segment, piece); err != nil {
			return err
		}
		return progress(uint64(len(piece)))
	})
	if err != nil {
		return err
	}
	return check.finish()
}

// verification looks at all of a file, one segment after the other.
type verification struct {
	v        *volume
	sequence sequence
	metadata metadataCheck
}

func (c *verification) segment(number int, raw []byte) error {
	t, err := c.v.loaded(number, raw)
	if err != nil {
		return err
	}
	if _, err := c.sequence.add(t); err != nil {
		return err
	}
	if err := c.v.checkData(t, raw, true, true); err != nil {
		return err
	}
	return c.metadata.add(t, raw)
}

func (c *verification) finish() error {
	if err := c.metadata.flush(); err != nil {
		return err
	}
	return c.sequence.finish()
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
