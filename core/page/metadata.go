package page

import (
	"encoding/binary"
	"sync/atomic"

	"libmmsb/core/journal"
	"libmmsb/core/metadata"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A page's metadata is one blob in a frame, in the form that export gives.

// metadataBytes is the memory of all metadata blobs of the process.
var metadataBytes atomic.Int64

// Metadata is the page's blob; empty where it has none.
func (p *Page) Metadata() []byte {
	if p.Record.Side == 0 {
		return nil
	}
	side := native.SideAt(p.Record.Side)
	if side.MetadataFrame == 0 {
		return nil
	}
	return native.Bytes(native.RecordAt(side.MetadataFrame).Locator, side.MetadataLength)
}

// dropMetadata gives the blob's memory back.
func (c *Context) dropMetadata(record *native.Record) {
	if record.Side == 0 {
		return
	}
	side := native.SideAt(record.Side)
	if side.MetadataFrame == 0 {
		return
	}
	metadataBytes.Add(-int64(native.RecordAt(side.MetadataFrame).Size))
	c.memory.Give(side.MetadataFrame)
	side.MetadataFrame, side.MetadataCount, side.MetadataLength = 0, 0, 0
}

// StoreMetadata replaces the page's blob. ready, where it is not nil, is called when nothing else can fail.
func (p *Page) StoreMetadata(blob []byte, ready func() error) error {
	m, count := p.context.memory, uint32(metadata.Count(blob))
	if ready == nil {
		ready = func() error { return nil }
	}
	if count == 0 {
		if err := ready(); err != nil {
			return err
		}
		p.context.dropMetadata(p.Record)
		return nil
	}
	side, err := p.Side()
	if err != nil {
		return err
	}
	index, err := m.TakeFrame(uint64(len(blob)))
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		m.Give(index)
		return err
	}
	p.context.dropMetadata(p.Record)
	copy(useMetadata(side, index, count, uint64(len(blob))), blob)
	return nil
}

// MakeMetadata gives a page without metadata that nobody sees yet the memory of a blob, which the caller fills.
func (p *Page) MakeMetadata(count uint32, length uint64) (blob []byte, err error) {
	side, err := p.Side()
	if err != nil {
		return nil, err
	}
	index, err := p.context.memory.TakeFrame(length)
	if err != nil {
		return nil, err
	}
	return useMetadata(side, index, count, length), nil
}

// useMetadata makes a frame that of a page's blob.
func useMetadata(side *native.Side, index, count uint32, length uint64) (blob []byte) {
	frame := native.RecordAt(index)
	side.MetadataFrame, side.MetadataCount, side.MetadataLength = index, count, length
	metadataBytes.Add(int64(frame.Size))
	return native.Bytes(frame.Locator, length)
}

// storeMetadata is StoreMetadata as a change; pieces are what the journal says of it.
func (c *change) storeMetadata(blob []byte, kind journal.Kind, pieces ...[]byte) error {
	if err := c.StoreMetadata(blob, c.keepingMetadata(c.journalNext(kind, pieces...))); err != nil {
		return err
	}
	c.Record.MoveVersion()
	return nil
}

// SetMetadata sets a key.
func SetMetadata(page uint64, key, value []byte) error {
	return changePage(page, func(c *change) error {
		blob, err := metadata.Set(c.Metadata(), key, value)
		if err != nil {
			return err
		}
		return c.storeMetadata(blob, journal.MetadataSet, journal.MetadataBody(uint32(len(key)), uint32(len(value))), key, value)
	})
}

// RemoveMetadata removes a key.
func RemoveMetadata(page uint64, key []byte) error {
	if err := metadata.CheckKey(key); err != nil {
		return err
	}
	return changePage(page, func(c *change) error {
		blob, ok := metadata.Remove(c.Metadata(), key)
		if !ok {
			return errNoKey(page, key)
		}
		return c.storeMetadata(blob, journal.MetadataRemove, key)
	})
}

// ImportMetadata replaces all entries.
func ImportMetadata(page uint64, blob []byte) error {
	if _, err := metadata.Validate(blob); err != nil {
		return err
	}
	return changePage(page, func(c *change) error { return c.storeMetadata(blob, journal.MetadataImport, blob) })
}

// GetMetadata calls found with the value of a key, which is valid during the call.
func GetMetadata(page uint64, key []byte, found func(value []byte) error) error {
	if err := metadata.CheckKey(key); err != nil {
		return err
	}
	return Read(page, func(p *Page) error {
		value, ok := metadata.Get(p.Metadata(), key)
		if !ok {
			return errNoKey(page, key)
		}
		return found(value)
	})
}

func errNoKey(page uint64, key []byte) error {
	return status.Errorf(status.NotFound, "page 0x%016x has no metadata key %q", page, key)
}

// MetadataKeys calls found with all keys, each as u32 length and bytes, and their number.
func MetadataKeys(page uint64, found func(keys []byte, count int) error) error {
	return Read(page, func(p *Page) error {
		var keys []byte
		count := 0
		for key := range metadata.Keys(p.Metadata()) {
			keys = binary.LittleEndian.AppendUint32(keys, uint32(len(key)))
			keys = append(keys, key...)
			count++
		}
		return found(keys, count)
	})
}

// ExportMetadata calls found with the blob, which is valid during the call.
func ExportMetadata(page uint64, found func(blob []byte) error) error {
	return Read(page, func(p *Page) error {
		blob := p.Metadata()
		if len(blob) == 0 {
			blob = make([]byte, 4)
		}
		return found(blob)
	})
}
