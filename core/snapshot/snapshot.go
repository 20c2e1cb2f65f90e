// An open snapshot with its chain, and reading single pages of it.

package snapshot

import (
	"errors"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"libmmsb/core/file"
	"libmmsb/core/metadata"
	"libmmsb/core/status"
)

// OpenFiles is how many files of a chain stay open, the newest ones.
const OpenFiles = 64

// OpenOptions of Open and OpenSource.
type OpenOptions struct {
	// FS is the file system, nil for the real one.
	FS file.FS
	// Base opens a base by its file name; nil stands for the directory of the file, and in OpenSource for none.
	Base func(name string) (file.Source, error)
}

func (o *OpenOptions) fs() file.FS {
	if o.FS == nil {
		return file.OS{}
	}
	return o.FS
}

// Info is what is known of one file of a chain.
type Info struct {
	Name string // path or what stands for it in errors
	Header
	Totals
}

// Snapshot is an open file with the chain of its bases: a state. It is safe for concurrent use, but for Close.
type Snapshot struct {
	volumes []*volume // newest first
	first   []uint32  // number of each one's first segment, counted over the chain
	all     index     // of the whole chain
	newer   index     // of all files but the oldest
	tables  tableCache
	maps    []mapping // of each file

	edgesChecked atomic.Bool
}

// openTries bounds how often Open begins again.
const openTries = 100

// Open opens a file and its bases. No symbolic link is followed at the end of a path. Another process may replace the file
// meanwhile, and then what only the old one needed is gone: Open takes the new one.
func Open(path string, o OpenOptions) (*Snapshot, error) {
	if o.Base == nil {
		o.Base = func(name string) (file.Source, error) {
			return file.Open(o.fs(), filepath.Join(filepath.Dir(path), name))
		}
	}
	for try := 1; ; try++ {
		source, err := file.Open(o.fs(), path)
		if err != nil {
			return nil, err
		}
		s, tried, err := open(path, source, o)
		if err == nil || tried == (ID{}) || try == openTries {
			return s, err
		}
		if now, gone := InspectHeader(path, o.fs()); gone != nil || now.ID == tried {
			return nil, err
		}
	}
}

// OpenSource opens what a source holds. The source is the Snapshot's, also after an error.
func OpenSource(source file.Source, o OpenOptions) (*Snapshot, error) {
	if o.Base == nil {
		o.Base = func(name string) (file.Source, error) {
			return nil, status.Errorf(status.NotFound, "cannot find base %q: the directory is not known", name)
		}
	}
	s, _, err := open("snapshot", source, o)
	return s, err
}

// open also returns the id of the file itself, where that could be read.
func open(name string, source file.Source, o OpenOptions) (*Snapshot, ID, error) {
	newest, err := openVolume(name, source)
	if err != nil {
		return nil, ID{}, errors.Join(err, source.Close())
	}
	id := newest.header.ID
	s := &Snapshot{volumes: []*volume{newest}}
	for err == nil {
		last := s.volumes[len(s.volumes)-1]
		if last.header.Base == (ID{}) {
			break
		}
		err = s.openBase(last, filepath.Join(filepath.Dir(name), last.header.BaseName), o)
	}
	if err == nil {
		err = s.number()
	}
	if err != nil {
		return nil, id, errors.Join(err, s.Close())
	}
	return s, id, nil
}

// openBase adds the base of a file to the chain: the file of its name, or one that was kept when another took that name.
func (s *Snapshot) openBase(of *volume, name string, o OpenOptions) error {
	base, err := openBaseVolume(of, name, of.header.BaseName, o)
	if err != nil || base.header.ID != of.header.Base {
		name := filepath.Join(filepath.Dir(name), KeptName(of.header.Base))
		if kept, keptErr := openBaseVolume(of, name, KeptName(of.header.Base), o); status.CodeOf(keptErr) != status.NotFound {
			if base != nil {
				_ = base.close()
			}
			base, err = kept, keptErr // which is the base, also where it cannot be read now
		}
	}
	if err != nil {
		return err
	}
	if len(s.volumes) >= OpenFiles {
		base.source = file.Park(base.source)
	}
	s.volumes = append(s.volumes, base)
	if base.header.ID != of.header.Base {
		return status.Errorf(status.Mismatch, "%s needs snapshot %s as its base, but %s is %s", of.name, of.header.Base, name,
			base.header.ID)
	}
	for _, before := range s.volumes[:len(s.volumes)-1] {
		if before.header.ID == base.header.ID {
			return status.Errorf(status.Corrupt, "%s and %s are the same snapshot %s: the chain of bases is a cycle", before.name,
				name, base.header.ID)
		}
	}
	return nil
}

// openBaseVolume opens a file of the directory of another one as its base.
func openBaseVolume(of *volume, path, name string, o OpenOptions) (*volume, error) {
	source, err := o.Base(name)
	if err != nil {
		own := *status.Of(err)
		own.Text = status.Plain(of.name + " needs its base " + name + " (" + of.header.Base.String() + "): " + own.Text)
		return nil, &own
	}
	base, err := openVolume(path, source)
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return base, nil
}

// number counts the segments over the chain.
func (s *Snapshot) number() error {
	total := uint64(0)
	for _, v := range s.volumes {
		s.first = append(s.first, uint32(total))
		if total += uint64(v.segments()); total > 1<<32-1 {
			return status.Errorf(status.Limit, "the chain of %s has more than %d segments", s.volumes[0].name, total)
		}
	}
	s.all.depth, s.newer.depth = len(s.volumes), len(s.volumes)-1
	s.maps = make([]mapping, len(s.volumes))
	s.tables.most = leastTables
	for _, v := range s.volumes {
		s.tables.most = min(tableCacheBytes, s.tables.most+v.held)
	}
	if s.volumes[0].header.Version == OriginalVersion {
		_, err := s.index(nil) // the numbers of its header come from here
		return err
	}
	return nil
}

// Close ends the use of the files. Views are gone with it.
func (s *Snapshot) Close() error {
	var all error
	for number := range s.maps {
		s.maps[number].release()
	}
	for _, v := range s.volumes {
		all = errors.Join(all, v.close())
	}
	s.maps, s.volumes = nil, nil
	return all
}

// Inspect reads what a file says of itself, without its bases.
func Inspect(path string, o OpenOptions) (Info, error) {
	source, err := file.Open(o.fs(), path)
	if err != nil {
		return Info{}, err
	}
	v, err := openVolume(path, source)
	if err != nil {
		return Info{}, errors.Join(err, source.Close())
	}
	return v.info(), v.close()
}

func (v *volume) info() Info { return Info{Name: v.name, Header: v.header, Totals: v.totals} }

// Header is the newest file's.
func (s *Snapshot) Header() Header { return s.volumes[0].header }

// Totals are the newest file's; StatePages and StateBytes count the whole chain.
func (s *Snapshot) Totals() Totals { return s.volumes[0].totals }

// Chain is the files, newest first.
func (s *Snapshot) Chain() []Info {
	chain := make([]Info, 0, len(s.volumes))
	for _, v := range s.volumes {
		chain = append(chain, v.info())
	}
	return chain
}

// Files is how many files Chain has.
func (s *Snapshot) Files() int { return len(s.volumes) }

// volumeOf is the file of a segment that is counted over the chain, and the segment's number in it.
func (s *Snapshot) volumeOf(segment uint32) (file, number int) {
	for file = len(s.first) - 1; s.first[file] > segment; file-- {
	}
	return file, int(segment - s.first[file])
}

// table is a segment's, counted over the chain.
func (s *Snapshot) table(segment uint32) (*table, error) {
	if found := s.tables.get(segment); found != nil {
		return found, nil
	}
	file, number := s.volumeOf(segment)
	t, err := (&tableReader{v: s.volumes[file]}).read(number)
	if err != nil {
		return nil, err
	}
	kept := *t // and not the reader's memory with it
	s.tables.put(segment, &kept)
	return &kept, nil
}

// tableCache keeps the tables that were read last: whoever asks for pages by their ids comes to each table once for every page
// in it.
type tableCache struct {
	lock   sync.Mutex
	tables map[uint32]*table
	order  []uint32 // oldest first
	bytes  uint64
	most   uint64 // bytes
}

// tableCacheBytes hold the tables of a million pages. Beyond leastTables, tables are kept only as far as the files have as many
// bytes.
const (
	tableCacheBytes = 128 << 20
	leastTables     = 16 << 20
)

func (t *table) bytes() uint64 {
	return pageBytes*uint64(len(t.pages)) + extentBytes*uint64(len(t.extents)) + idBytes*uint64(len(t.ids)) +
		edgeBytes*uint64(len(t.edges))
}

func (c *tableCache) get(segment uint32) *table {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.tables[segment]
}

func (c *tableCache) put(segment uint32, t *table) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.tables == nil {
		c.tables = make(map[uint32]*table)
	}
	if c.tables[segment] != nil { // another reader was faster
		return
	}
	for c.bytes += t.bytes(); c.bytes > c.most && len(c.order) > 0; c.order = c.order[1:] {
		c.bytes -= c.tables[c.order[0]].bytes()
		delete(c.tables, c.order[0])
	}
	c.tables[segment] = t
	c.order = append(c.order, segment)
}

// Pages walks the pages of the state, in the order of the files. An error ends the walk.
func (s *Snapshot) Pages() iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		err := s.Segments(LoadOptions{TablesOnly: true}, func(loaded Loaded) error {
			for _, page := range loaded.Pages {
				if page.Flags&FlagKnown == 0 && !yield(page.ofState(), nil) {
					return errStop
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(Page{}, err)
		}
	}
}

// errStop ends a walk from inside.
var errStop = errors.New("end of the walk")

// ofState is an entry without what concerns its file alone.
func (page Page) ofState() Page {
	page.Flags &^= FlagChanges | FlagKnown
	page.FirstExtent, page.Extents = 0, 0
	return page
}

// Find is a page of the state. Errors: NotFound, those of reading.
func (s *Snapshot) Find(id uint64) (Page, error) {
	_, page, err := s.find(id)
	return page.ofState(), err
}

// find gives a page's records, newest first, and its newest entry.
func (s *Snapshot) find(id uint64) ([]record, Page, error) {
	records, err := s.index(nil)
	if err != nil {
		return nil, Page{}, err
	}
	_, group := records.of(id)
	if len(group) == 0 || group[0].removed() {
		return nil, Page{}, status.Errorf(status.NotFound, "%s has no page %d", s.volumes[0].name, id)
	}
	t, err := s.table(group[0].segment)
	if err != nil {
		return nil, Page{}, err
	}
	return group, t.pages[group[0].entry()], nil
}

// Piece is an extent of a page, with its place in a file of the chain. What newer files have of its bytes is not visible; where
// that leaves several ranges, there is a piece for each.
type Piece struct {
	Extent
	Visible    Range  // in the page's bytes, mask or metadata
	File       int    // number in Chain
	FileOffset uint64 // offset in the file; of no meaning for Zeros
	base       uint64 // FileOffset without At, for errors
}

// isWhole says whether nothing of the extent is covered.
func (p *Piece) isWhole() bool { return p.Visible == Range{p.Offset, uint64(p.Length)} }

// Extents lists where a page's bytes, mask and metadata lie, by kind and offset of what is visible. The checksums are those of
// the files: 0 and not to be compared in a file of version 2.
func (s *Snapshot) Extents(id uint64) ([]Piece, error) {
	_, pieces, err := s.pieces(id)
	return pieces, err
}

// pieces gives a page's newest entry, and where its bytes, mask and metadata lie.
func (s *Snapshot) pieces(id uint64) (Page, []Piece, error) {
	group, page, err := s.find(id)
	if err != nil {
		return Page{}, nil, err
	}
	pieces, err := s.gather(group)
	return page, pieces, err
}

// gather collects the extents of a page's records, down to the first that is whole.
func (s *Snapshot) gather(group []record) ([]Piece, error) {
	var pieces []Piece
	for depth, from := range group {
		if from.removed() {
			break
		}
		added, err := s.extentsOf(from)
		if err != nil {
			return nil, err
		}
		if depth == 0 {
			pieces = added
		} else {
			pieces = under(pieces, added)
		}
		if !from.changes() {
			break
		}
	}
	return pieces, nil
}

// under puts those bytes of an older file between the pieces that these do not have.
func under(pieces, older []Piece) []Piece {
	newer := ofKind(pieces, KindBytes)
	beside := pieces[len(newer):] // bytes come first
	merged := make([]Piece, 0, len(pieces)+len(older))
	for _, piece := range ofKind(older, KindBytes) {
		for len(newer) > 0 && newer[0].Visible.end() <= piece.Visible.Offset {
			merged, newer = append(merged, newer[0]), newer[1:]
		}
		hidden := 0 // newer pieces that begin before this one ends
		for hidden < len(newer) && newer[hidden].Visible.Offset < piece.Visible.end() {
			hidden++
		}
		covered := make([]Range, 0, hidden)
		for _, over := range newer[:hidden] {
			covered = append(covered, over.Visible)
		}
		for _, left := range uncovered(piece.Visible, covered) {
			for len(newer) > 0 && newer[0].Visible.Offset < left.Offset {
				merged, newer = append(merged, newer[0]), newer[1:]
			}
			piece.Visible = left
			merged = append(merged, piece)
		}
	}
	return append(append(merged, newer...), beside...)
}

// uncovered is what of a range others leave, which rise and do not overlap.
func uncovered(bounds Range, others []Range) (left []Range) {
	at := bounds.Offset
	for _, other := range others {
		if other.end() <= at || other.Offset >= bounds.end() {
			continue
		}
		if other.Offset > at {
			left = append(left, Range{at, other.Offset - at})
		}
		at = other.end()
	}
	if at < bounds.end() {
		left = append(left, Range{at, bounds.end() - at})
	}
	return left
}

// byChunk divides pieces of one kind.
func byChunk(pieces []Piece) (chunks [][]Piece) {
	for from, to := 0, 0; from < len(pieces); from = to {
		for to < len(pieces) && pieces[to].Visible.Offset/Chunk == pieces[from].Visible.Offset/Chunk {
			to++
		}
		chunks = append(chunks, pieces[from:to])
	}
	return chunks
}

// visible is the range that pieces, one after the other, give together.
func visible(pieces []Piece) Range {
	from := pieces[0].Visible.Offset
	return Range{from, pieces[len(pieces)-1].Visible.end() - from}
}

// extentsOf lists the extents of one file's entry, with those of the segments where it goes on.
func (s *Snapshot) extentsOf(from record) ([]Piece, error) {
	file, number := s.volumeOf(from.segment)
	v := s.volumes[file]
	t, err := s.table(from.segment)
	if err != nil {
		return nil, err
	}
	page := t.pages[from.entry()]
	var pieces []Piece
	for {
		for _, extent := range t.extentsOf(&page) {
			seen := Range{extent.Offset, uint64(extent.Length)}
			pieces = append(pieces, Piece{extent, seen, file, t.offset + uint64(extent.At), t.offset})
		}
		if !from.continues() || page.ID != t.pages[len(t.pages)-1].ID {
			return pieces, nil
		}
		for t = nil; t == nil || len(t.pages) == 0; {
			if number++; number == v.segments() {
				return pieces, nil
			}
			if t, err = s.table(s.first[file] + uint32(number)); err != nil {
				return nil, err
			}
		}
		if page = t.pages[0]; page.ID != from.id {
			return pieces, nil
		}
	}
}

// readPiece fills into, which is as long as the extent, and checks it. scratch is memory of Chunk bytes.
func (s *Snapshot) readPiece(into []byte, id uint64, piece *Piece, scratch []byte) error {
	v := s.volumes[piece.File]
	if piece.Compression == Zeros {
		clear(into)
		return nil
	}
	stored := into
	if piece.Compression != Uncompressed {
		stored = scratch[:piece.Stored]
	}
	if err := read(v.name, v.source, stored, piece.FileOffset); err != nil {
		return err
	}
	if err := v.checkStored(id, &piece.Extent, stored, piece.base); err != nil {
		return err
	}
	if piece.Compression == Uncompressed {
		return nil
	}
	return v.expand(into, id, &piece.Extent, stored, piece.base)
}

var chunks = sync.Pool{New: func() any { return new([2 * Chunk]byte) }}

// twoChunks is memory of chunks, where it is to be put back.
func twoChunks() *[2 * Chunk]byte { return chunks.Get().(*[2 * Chunk]byte) }

// ReadAt fills a buffer with a page's bytes or its mask, from offset on; a page without a mask has one of zeros. What is
// read is verified. Errors: NotFound, OutOfRange, InvalidArgument (kind), those of reading.
func (s *Snapshot) ReadAt(id uint64, kind uint32, buffer []byte, offset uint64) error {
	if kind > KindMask {
		return status.Errorf(status.InvalidArgument, "kind is %d, not %d (bytes) or %d (mask)", kind, KindBytes, KindMask)
	}
	group, page, err := s.find(id)
	if err != nil {
		return err
	}
	whole := lengthOf(page.Size, kind)
	if offset > whole || uint64(len(buffer)) > whole-offset {
		return status.Errorf(status.OutOfRange, "%d bytes at offset %d reach past page %d of %d bytes", len(buffer), offset, id,
			whole)
	}
	pieces, err := s.gather(group)
	if err != nil {
		return err
	}
	if kind == KindMask {
		clear(buffer) // there may be none
	}
	return s.readPieces(buffer, offset, id, kind, pieces, nil)
}

// readPieces fills a buffer from those pieces of a kind that lie in it.
func (s *Snapshot) readPieces(buffer []byte, offset uint64, id uint64, kind uint32, pieces []Piece, goesOn asking) error {
	memory := twoChunks()
	defer chunks.Put(memory)
	var held *Piece // its extent is in memory
	end := offset + uint64(len(buffer))
	for number := range pieces {
		piece := &pieces[number]
		if piece.Kind != kind || piece.Visible.Offset >= end || piece.Visible.end() <= offset {
			continue
		}
		if err := goesOn.ask(); err != nil {
			return err
		}
		from, to := max(piece.Visible.Offset, offset), min(piece.Visible.end(), end)
		into := buffer[from-offset : to-offset]
		if len(into) == int(piece.Length) {
			if err := s.readPiece(into, id, piece, memory[Chunk:]); err != nil {
				return err
			}
			continue
		}
		whole := memory[:piece.Length]
		if held == nil || held.File != piece.File || held.base != piece.base || held.Extent != piece.Extent {
			if err := s.readPiece(whole, id, piece, memory[Chunk:]); err != nil {
				return err
			}
			held = piece
		}
		copy(into, whole[from-piece.Offset:])
	}
	return nil
}

// VerifyPage looks at a page's bytes and keeps none. goesOn is that of ReadMetadata. Errors: NotFound, that of goesOn, those of
// reading.
func (s *Snapshot) VerifyPage(id uint64, goesOn func() error) error {
	_, pieces, err := s.pieces(id)
	if err != nil {
		return err
	}
	memory := twoChunks()
	defer chunks.Put(memory)
	for _, chunk := range byChunk(ofKind(pieces, KindBytes)) {
		seen := visible(chunk)
		if err := s.readPieces(memory[:seen.Length], seen.Offset, id, KindBytes, chunk, goesOn); err != nil {
			return err
		}
	}
	return nil
}

// HasMask says whether the page has a change mask.
func (s *Snapshot) HasMask(id uint64) (bool, error) {
	pieces, err := s.Extents(id)
	return len(ofKind(pieces, KindMask)) > 0, err
}

// MaskBits is length bits of a page's mask, from bit offset on: bit i%8 of byte i/8, and zeros behind the last. Errors: NotFound,
// OutOfRange, those of reading.
func (s *Snapshot) MaskBits(id, offset, length uint64) ([]byte, error) {
	page, err := s.Find(id)
	if err != nil {
		return nil, err
	}
	if offset > page.Size || length > page.Size-offset {
		return nil, status.Errorf(status.OutOfRange, "%d bits at offset %d reach past the mask of page %d, which has %d", length,
			offset, id, page.Size)
	}
	shift, count := offset%8, (length+7)/8
	stored := make([]byte, (shift+length+7)/8)
	if err := s.ReadAt(id, KindMask, stored, offset/8); err != nil {
		return nil, err
	}
	bits := append(stored, 0)
	for i := range count {
		bits[i] = byte((uint16(bits[i]) | uint16(bits[i+1])<<8) >> shift)
	}
	if length%8 != 0 {
		bits[count-1] &= 1<<(length%8) - 1
	}
	return bits[:count], nil
}

// Metadata is a page's metadata blob, valid, empty where there is none.
func (s *Snapshot) Metadata(id uint64) (blob []byte, err error) {
	err = s.ReadMetadata(id, nil, func(length uint64) ([]byte, error) {
		blob = make([]byte, length)
		return blob, nil
	})
	return blob, err
}

// ReadMetadata reads a page's metadata blob, where there is one, into the memory that take gives for its length. What is read is
// verified and valid. goesOn, where it is not nil, is asked meanwhile, and ends it. Errors: NotFound, that of take, that of
// goesOn, those of reading.
func (s *Snapshot) ReadMetadata(id uint64, goesOn func() error, take func(length uint64) ([]byte, error)) error {
	page, pieces, err := s.pieces(id)
	if err != nil {
		return err
	}
	var blob []byte
	if stored := ofKind(pieces, KindMetadata); len(stored) > 0 {
		if blob, err = take(visible(stored).end()); err != nil {
			return err
		}
	}
	if err := s.readPieces(blob, 0, id, KindMetadata, pieces, goesOn); err != nil {
		return err
	}
	return checkMetadata(s.volumes[0].name, &page, blob, goesOn)
}

// checkMetadata looks at a page's whole blob.
func checkMetadata(name string, page *Page, blob []byte, goesOn asking) error {
	var v metadata.Validator
	count, again, err := 0, true, error(nil)
	for again && err == nil {
		for piece := range slices.Chunk(blob, Chunk) {
			if err := goesOn.ask(); err != nil {
				return err
			}
			_ = v.Add(piece, len(piece)) // End says it again
		}
		count, again, err = v.End()
	}
	if err != nil {
		return status.Errorf(status.Corrupt, "%s: page %d: %s", name, page.ID, status.Of(err).Text)
	}
	if uint64(count) != uint64(page.MetadataCount) {
		return errKeys(name, page, count)
	}
	return nil
}

func errKeys(name string, page *Page, count int) error {
	return status.Errorf(status.Corrupt, "%s: page %d has %d metadata keys, but its entry says %d", name, page.ID, count,
		page.MetadataCount)
}

// mapping is a file in memory, once somebody asked.
type mapping struct {
	once  sync.Once
	bytes []byte
	close func()
	err   error
}

func (m *mapping) release() {
	if m.close != nil {
		m.close()
	}
}

// Mapping is a file of the chain in memory, read-only, until Close. Whoever makes the file shorter meanwhile makes reading
// it a bus error.
func (s *Snapshot) Mapping(number int) ([]byte, error) {
	m := &s.maps[number]
	m.once.Do(func() { m.bytes, m.close, m.err = file.Map(s.volumes[number].source) })
	return m.bytes, m.err
}

// View is a page's bytes where they lie in the mapped file, verified, until Close. Errors: NotFound; Unsupported (they are
// compressed, or lie in several places: ReadAt gives them); those of reading.
func (s *Snapshot) View(id uint64) ([]byte, error) {
	page, pieces, err := s.pieces(id)
	if err != nil {
		return nil, err
	}
	pieces = ofKind(pieces, KindBytes)
	for _, piece := range pieces {
		if piece.Compression != Uncompressed {
			return nil, status.Errorf(status.Unsupported, "cannot map page %d: it is compressed from offset %d on", id,
				piece.Offset)
		}
		if !piece.isWhole() || piece.File != pieces[0].File || piece.FileOffset != pieces[0].FileOffset+piece.Offset {
			return nil, status.Errorf(status.Unsupported, "cannot map page %d: its bytes are not contiguous in the snapshot", id)
		}
	}
	mapped, err := s.Mapping(pieces[0].File)
	if err != nil {
		return nil, err
	}
	v, from := s.volumes[pieces[0].File], pieces[0].FileOffset
	if from > uint64(len(mapped)) || page.Size > uint64(len(mapped))-from {
		return nil, status.Errorf(status.Corrupt, "%s is truncated: %d bytes, page %d begins at offset %d", v.name, len(mapped),
			id, from)
	}
	view := mapped[from : from+page.Size : from+page.Size]
	for number := range pieces {
		piece := &pieces[number]
		stored := view[piece.Offset : piece.Offset+uint64(piece.Length)]
		if err := v.checkStored(id, &piece.Extent, stored, piece.base); err != nil {
			return nil, err
		}
	}
	return view, nil
}

// Extract writes a page's bytes, verified, and returns how many. Errors: NotFound, those of reading, that of the writer.
func (s *Snapshot) Extract(id uint64, into io.Writer) (uint64, error) {
	pieces, err := s.Extents(id)
	if err != nil {
		return 0, err
	}
	memory := twoChunks()
	defer chunks.Put(memory)
	written := uint64(0)
	for _, group := range byChunk(ofKind(pieces, KindBytes)) {
		bounds := visible(group)
		chunk := memory[:bounds.Length]
		if err := s.readPieces(chunk, bounds.Offset, id, KindBytes, group, nil); err != nil {
			return written, err
		}
		if _, err := into.Write(chunk); err != nil {
			return written, err
		}
		written += uint64(len(chunk))
	}
	return written, nil
}
