package persist

import (
	"path/filepath"
	"unsafe"

	"libmmsb/core/lineage"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
)

// base is what the file of an earlier snapshot says, for a save that holds what has changed since.
type base struct {
	table        *native.Base // nil: no base
	own          *native.Base // made for this save
	taken        bool         // own is native code's by now
	pages, bytes uint64       // of its state
	at           lineage.Point
	gone         []uint64 // ids of its pages that are no more, as far as the capture cannot know
	goneBytes    uint64
}

func (b *base) close() {
	if b.own == nil || b.taken {
		return
	}
	for _, leaf := range b.own {
		if leaf != nil {
			native.FreeSavedLeaf(leaf)
		}
	}
}

// openBase finds the base, and makes sure that the context's state comes from it.
func (s *saver) openBase(target *SaveTarget, header *snapshot.Header) (base, error) {
	info, err := snapshot.Inspect(s.o.Base, snapshot.OpenOptions{FS: target.FS})
	if err != nil {
		return base{}, err
	}
	header.Base, header.BaseName = info.ID, filepath.Base(s.o.Base)
	at := info.Lineage.At(info.Position)
	unchanged, ok := s.saved.unchanged(info.ID, at)
	if !ok {
		return base{}, status.Errorf(status.Mismatch, "the context's state does not come from the snapshot %s in %q", info.ID,
			s.o.Base)
	}
	if s.saved.chain[len(s.saved.chain)-1].id == info.ID {
		s.fast = true
		return base{table: native.LastSaved(), pages: s.saved.totals.pages, bytes: s.saved.totals.bytes, at: at}, nil
	}
	return s.readBase(target, unchanged)
}

// readBase makes the table of a base that is not the newest: by the ids and versions that the file has. unchanged says whether a
// version stands for its bytes.
func (s *saver) readBase(target *SaveTarget, unchanged func(index uint32) bool) (b base, err error) {
	file, err := snapshot.Open(s.o.Base, snapshot.OpenOptions{FS: target.FS})
	if err != nil {
		return base{}, err
	}
	defer func() { _ = file.Close() }()
	b = base{own: new(native.Base), pages: file.Totals().StatePages, bytes: file.Totals().StateBytes}
	b.table = b.own
	for entry, err := range file.Pages() {
		if err != nil {
			b.close()
			return base{}, err
		}
		handle, err := s.context.Lookup(entry.ID)
		if err != nil {
			b.gone = append(b.gone, entry.ID)
			b.goneBytes += entry.Size
			continue
		}
		index := native.Index(handle)
		version := entry.Version
		if !unchanged(index) {
			version = 0 // which no page has
		}
		leaf := &b.own[index>>native.LeafBits]
		if *leaf == nil {
			if *leaf = native.NewSavedLeaf(); *leaf == nil {
				b.close()
				return base{}, status.Errorf(status.OutOfMemory, "no memory for the table of the base")
			}
		}
		saved := &unsafe.Slice(*leaf, native.LeafRecords)[index&(native.LeafRecords-1)]
		// Its checksum is not known: where the address was given out, the page is saved.
		*saved = native.Saved{Version: version, ID: entry.ID, Size: entry.Size, Generation: native.Generation(handle)}
	}
	return b, nil
}
