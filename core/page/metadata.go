package page

import (
	"encoding/binary"

	"libmmsb/core/journal"
	"libmmsb/core/metadata"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A page's metadata is one blob in a block outside the Go heap, in the form that export gives.

// metadataOf is a locked page's blob; empty where it has none.
func metadataOf(record *native.Record) []byte {
	if record.Side == 0 {
		return nil
	}
	side := native.SideAt(record.Side)
	if side.MetadataFrame == 0 {
		return nil
	}
	return native.Bytes(native.RecordAt(side.MetadataFrame).Locator, side.MetadataLength)
}

// metadataGone gives the blob's memory back.
func (c *Context) metadataGone(record *native.Record) {
	if record.Side == 0 {
		return
	}
	side := native.SideAt(record.Side)
	if side.MetadataFrame == 0 {
		return
	}
	c.countMetadata(-int64(native.RecordAt(side.MetadataFrame).Size))
	native.GiveFrame(c.index, side.MetadataFrame)
	side.MetadataFrame, side.MetadataCount, side.MetadataLength = 0, 0, 0
}

// storeMetadata replaces a locked page's blob. ready, where it is not nil, is called when nothing else can fail.
func (p *locked) storeMetadata(blob []byte, count uint32, ready func() error) error {
	c := p.context
	if ready == nil {
		ready = func() error { return nil }
	}
	if count == 0 {
		if err := ready(); err != nil {
			return err
		}
		c.metadataGone(p.record)
		return nil
	}
	side, err := p.side()
	if err != nil {
		return err
	}
	block, code := native.TakeFrame(c.index, uint64(len(blob)))
	if code != 0 {
		return fromNative(code)
	}
	if err := ready(); err != nil {
		native.GiveFrame(c.index, block)
		return err
	}
	record := native.RecordAt(block)
	copy(native.Bytes(record.Locator, uint64(len(blob))), blob)
	c.metadataGone(p.record)
	side.MetadataFrame, side.MetadataCount, side.MetadataLength = block, count, uint64(len(blob))
	c.countMetadata(int64(record.Size))
	return nil
}

// SetMetadata sets a key.
func SetMetadata(page uint64, key, value []byte) (err error) {
	p, err := lockToChange(page)
	if err != nil {
		return err
	}
	defer p.settle(&err)
	blob, err := metadata.Set(metadataOf(p.record), key, value)
	if err != nil {
		return err
	}
	return p.changeMetadata(blob, journal.MetadataSet, journal.MetadataBody(uint32(len(key)), uint32(len(value))), key, value)
}

// changeMetadata replaces the blob; pieces are what the journal says of it.
func (p *locked) changeMetadata(blob []byte, kind journal.Kind, pieces ...[]byte) error {
	told := func() error { return p.journal(kind, p.record.Version+1, pieces...) }
	if err := p.storeMetadata(blob, uint32(metadata.Count(blob)), told); err != nil {
		return err
	}
	p.record.MoveVersion()
	return nil
}

// GetMetadata calls found with the value of a key, which is valid during the call.
func GetMetadata(page uint64, key []byte, found func(value []byte) error) error {
	if err := metadata.CheckKey(key); err != nil {
		return err
	}
	p, err := lock(page)
	if err != nil {
		return err
	}
	defer p.unlock()
	value, ok := metadata.Get(metadataOf(p.record), key)
	if !ok {
		return noKey(page, key)
	}
	return found(value)
}

func noKey(page uint64, key []byte) error {
	return status.Errorf(status.NotFound, "page 0x%016x has no metadata key %q", page, key)
}

// RemoveMetadata removes a key.
func RemoveMetadata(page uint64, key []byte) (err error) {
	if err := metadata.CheckKey(key); err != nil {
		return err
	}
	p, err := lockToChange(page)
	if err != nil {
		return err
	}
	defer p.settle(&err)
	blob, ok := metadata.Remove(metadataOf(p.record), key)
	if !ok {
		return noKey(page, key)
	}
	return p.changeMetadata(blob, journal.MetadataRemove, key)
}

// MetadataKeys calls found with all keys, each as u32 length and bytes, and their number.
func MetadataKeys(page uint64, found func(keys []byte, count int) error) error {
	p, err := lock(page)
	if err != nil {
		return err
	}
	defer p.unlock()
	var keys []byte
	count := 0
	for key := range metadata.Keys(metadataOf(p.record)) {
		keys = binary.LittleEndian.AppendUint32(keys, uint32(len(key)))
		keys = append(keys, key...)
		count++
	}
	return found(keys, count)
}

// ExportMetadata calls found with the blob, which is valid during the call.
func ExportMetadata(page uint64, found func(blob []byte) error) error {
	p, err := lock(page)
	if err != nil {
		return err
	}
	defer p.unlock()
	blob := metadataOf(p.record)
	if len(blob) == 0 {
		blob = make([]byte, 4)
	}
	return found(blob)
}

// ImportMetadata replaces all entries.
func ImportMetadata(page uint64, blob []byte) (err error) {
	if _, err := metadata.Validate(blob); err != nil {
		return err
	}
	p, err := lockToChange(page)
	if err != nil {
		return err
	}
	defer p.settle(&err)
	return p.changeMetadata(blob, journal.MetadataImport, blob)
}
