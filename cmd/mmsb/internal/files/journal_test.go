package files

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/cmd/mmsb/internal/replay"
	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/metadata"
	"libmmsb/core/persist"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// The journal as docs/journal-format.md has it, written by that text alone.

var (
	journalHeaderSpots = []spot{
		{"magic", 0, 8}, {"version", 8, 4}, {"byte order", 12, 4}, {"lineage", 16, 16}, {"first record", 32, 8}, {"time", 40, 8},
		{"crc before", 48, 4}, {"flags", 52, 4}, {"branch", 56, 8}, {"parent", 64, 16}, {"parent's position", 80, 8},
		{"record before", 88, 8}, {"rest", 96, 100},
	}
	frameSpots = []spot{
		{"magic", 0, 8}, {"length", 8, 4}, {"records", 12, 4}, {"lineage", 16, 16}, {"first record", 32, 8}, {"durable", 40, 8},
		{"crc before", 48, 4}, {"rest", 52, 8},
	}
	recordSpots = []spot{
		{"length", 0, 4}, {"kind, flags and form", 4, 4}, {"page", 8, 8}, {"version", 16, 8}, {"epoch", 24, 8}, {"time", 32, 8},
	}
)

// journalParts is a segment: its header and frames.
type journalParts struct {
	name   string
	header []byte
	frames [][]byte
}

// seal mends the checksums, and, where chain is true, those that frames have of the one before.
func (j *journalParts) seal(before uint32, chain bool) (last uint32) {
	if chain {
		put32(j.header, 48, before)
	}
	put32(j.header, unit-4, crcOf(j.header[:unit-4]))
	for _, frame := range j.frames {
		if chain {
			put32(frame, 48, before)
		}
		before = crcOf(frame[:60], frame[64:])
		put32(frame, 60, before)
	}
	return before
}

// clerk writes a random good journal.
type clerk struct {
	*author
	sizes    map[uint64]uint64 // of the pages that there are
	versions map[uint64]uint64
	next     uint64 // number of the next record
	before   uint64 // of the record before the next segment
	branch   uint64
	parent   []byte // of the lineage, with its position
	based    bool   // the next segment begins behind a gap
}

func words(values ...uint64) (b []byte) {
	for _, value := range values {
		b = binary.LittleEndian.AppendUint64(b, value)
	}
	return b
}

// record is the next record; flags are those of its group.
func (c *clerk) record(flags byte) []byte {
	random := c.random
	id := 1 + random.Uint64N(6)
	size, there := c.sizes[id]
	kind, form, body := journal.Create, uint16(0), []byte(nil)
	place := binary.LittleEndian.AppendUint32(make([]byte, 8), math.MaxUint32) // location, device, node
	payload := func(n uint64) []byte { return c.bytes(int(n)) }
	switch what := random.IntN(16); {
	case !there && what == 0 && len(c.sizes) > 0:
		for other := range 13 {
			if of, ok := c.sizes[uint64(other)]; ok {
				kind, body, c.sizes[id] = journal.Clone, words(uint64(other), c.versions[uint64(other)]), of
				break
			}
		}
	case !there && what < 4:
		size = 1 + random.Uint64N(300)
		kind, c.sizes[id] = journal.Adopt, size
		body = slices.Concat(words(size), place, make([]byte, 4), payload(size))
		put32(body, 20, 1)
	case !there:
		size = pageSizes[random.IntN(len(pageSizes))]
		c.sizes[id] = size
		body = slices.Concat(words(size), place, make([]byte, 4))
	case what == 0:
		kind = journal.Destroy
		delete(c.sizes, id)
	case what == 1:
		size = pageSizes[random.IntN(len(pageSizes))]
		kind, body, c.sizes[id] = journal.Resize, words(size), size
	case what == 2:
		kind, body = journal.Migrate, append(place, make([]byte, 4)...)
	case what == 3:
		kind = journal.MaskClear
	case what == 4:
		key, value := fmt.Append(nil, "key ", random.IntN(3)), payload(random.Uint64N(40))
		kind = journal.MetadataSet
		body = slices.Concat(words(uint64(len(key))|uint64(len(value))<<32), key, value)
	case what == 5:
		kind, body = journal.MetadataRemove, fmt.Append(nil, "key ", random.IntN(3))
	case what == 6:
		blob, err := metadata.Set(nil, []byte("imported"), payload(9))
		if err != nil {
			panic(err)
		}
		kind, body = journal.MetadataImport, blob
	case what < 9 && c.sizes[id+1] > 0:
		kind, body = journal.DependencyAdd+journal.Kind(what-7), words(id+1)
	case what < 12:
		n := 1 + random.Uint64N(min(size, 60))
		kind, body = journal.Write+journal.Kind(random.IntN(2)), append(words(random.Uint64N(size-n+1)), payload(n)...)
	default:
		kind, form = journal.Delta, uint16(1+random.IntN(6))
		n := 1 + random.Uint64N(min(size, 60))
		mask := payload(n)
		switch form {
		case journal.DenseBytes:
			body = slices.Concat(words(n), mask, payload(n))
		case journal.DenseBits:
			body = slices.Concat(words(n), mask[:(n+7)/8], payload(n))
		case journal.SparseBits:
			set := uint64(0)
			for at := range n {
				set += uint64(mask[at/8] >> (at % 8) & 1)
			}
			body = slices.Concat(words(n), mask[:(n+7)/8], payload(set))
		case journal.Indexed:
			body = words(n)
			for range n {
				body = append(body, words(random.Uint64N(size))...)
			}
			body = append(body, payload(n)...)
		case journal.Indexed32:
			body = words(n)
			for range n {
				body = binary.LittleEndian.AppendUint32(body, uint32(random.Uint64N(size)))
			}
			body = append(body, payload(n)...)
		default:
			first := random.Uint64N(n + 1)
			body = append(words(2, random.Uint64N(size-first+1), first, random.Uint64N(size-(n-first)+1), n-first), payload(n)...)
		}
	}
	if kind != journal.DependencyAdd && kind != journal.DependencyRemove {
		c.versions[id]++
	}
	b := make([]byte, 40, 48+len(body))
	put32(b, 0, uint32(40+len(body)))
	b[4], b[5] = byte(kind), flags
	binary.LittleEndian.PutUint16(b[6:], form)
	for i, value := range []uint64{id, c.versions[id], c.versions[id], 1763726400e9 + c.next} {
		put64(b, 8+8*i, value)
	}
	c.next++
	b = append(b, body...)
	return append(b, make([]byte, -len(b)&7)...)
}

// group is some records that belong together.
func (c *clerk) group() (records [][]byte) {
	count := 1
	if c.random.IntN(4) == 0 {
		count = 2 + c.random.IntN(3)
		head := make([]byte, 48)
		put32(head, 0, 48)
		head[4], head[5] = byte(journal.Group), journal.More
		put64(head, 32, 1763726400e9+c.next)
		c.next++
		records = append(records, head)
	}
	length := uint64(0)
	for left := count; left > 0; left-- {
		flags := byte(0)
		if left > 1 {
			flags = journal.More
		}
		records = append(records, c.record(flags))
		length += uint64(len(records[len(records)-1]))
	}
	if count > 1 {
		put64(records[0], 40, length)
	}
	return records
}

// inPieces divides some bodies of a group among several records, and numbers it again from the number of its first record on.
func (c *clerk) inPieces(group [][]byte, first uint64) (pieces [][]byte) {
	for _, record := range group {
		head, body := record[:40], record[40:get32(record, 0)]
		for c.random.IntN(3) > 0 && len(body) > 1 {
			n := 1 + c.random.IntN(min(len(body)-1, 100))
			if c.random.IntN(4) > 0 { // as the writer does it
				n = roundUp(n, 8)
			}
			if n >= len(body) {
				break
			}
			pieces = append(pieces, recordOf(head, journal.Piece|journal.More, body[:n]))
			body = body[n:]
		}
		pieces = append(pieces, recordOf(head, 0, body))
	}
	c.next = first + uint64(len(pieces))
	return pieces
}

// recordOf is a record with the head of another one and more flags.
func recordOf(head []byte, flags byte, body []byte) []byte {
	b := slices.Concat(head, body, make([]byte, -len(body)&7))
	put32(b, 0, uint32(40+len(body)))
	b[5] |= flags
	return b
}

// great is a group that goes beyond a frame, in the parts that frames have of it.
func (c *clerk) great() (parts [][][]byte) {
	first, group := c.next, [][]byte(nil)
	for left := c.random.IntN(4); left >= 0; left-- {
		group = append(group, c.record(byte(min(left, 1))))
	}
	for pieces := c.inPieces(group, first); len(pieces) > 0; {
		n := 1 + c.random.IntN(min(len(pieces), 4))
		parts, pieces = append(parts, pieces[:n]), pieces[n:]
	}
	return parts
}

// frames are those of some groups, or of one group.
func (c *clerk) frames() (frames [][]byte) {
	if c.random.IntN(4) > 0 {
		return [][]byte{c.frame()}
	}
	first := c.next
	for _, part := range c.great() {
		frames = append(frames, frameOf(c.line, first, len(part), slices.Concat(part...)))
		first += uint64(len(part))
	}
	if last := len(frames) - 1; c.random.IntN(2) == 0 { // others follow in its last frame
		body := frames[last][64:get32(frames[last], 8)]
		first = get64(frames[last], 32)
		frames[last] = frameOf(c.line, first, int(get32(frames[last], 12))+1, slices.Concat(body, c.record(0)))
	}
	return frames
}

func (c *clerk) frame() []byte {
	first, count, body := c.next, 0, []byte(nil)
	for range 1 + c.random.IntN(6) {
		for _, record := range c.group() {
			body = append(body, record...)
			count++
		}
	}
	return frameOf(c.line, first, count, body)
}

func frameOf(line []byte, first uint64, count int, records []byte) []byte {
	b := make([]byte, roundUp(64+len(records), unit))
	copy(b, "MMSBFRAM")
	put32(b, 8, uint32(64+len(records)))
	put32(b, 12, uint32(count))
	copy(b[16:], line)
	put64(b, 32, first)
	if count%2 == 0 {
		put64(b, 40, first-1)
	}
	copy(b[64:], records)
	return b
}

func (c *clerk) segment(count int) *journalParts {
	if !c.based {
		c.before = c.next - 1
	}
	j := &journalParts{header: make([]byte, unit)}
	copy(j.header, "MMSBJRNL")
	put32(j.header, 8, 2)
	put32(j.header, 12, 0x01020304)
	copy(j.header[16:], c.line)
	put64(j.header, 32, c.next)
	put64(j.header, 56, c.branch)
	copy(j.header[64:], c.parent)
	put64(j.header, 88, c.before)
	if c.based {
		put32(j.header, 52, 1)
		c.based = false
	}
	j.setName()
	for range count {
		j.frames = append(j.frames, c.frames()...)
	}
	return j
}

// records are where those of a frame begin, as long as their lengths lead on.
func recordsOf(frame []byte) (at []int) {
	for from := 64; from+40 <= len(frame); {
		length := int(get32(frame, from))
		if length < 40 || from+length > len(frame) {
			break
		}
		at = append(at, from)
		from += roundUp(length, 8)
	}
	return at
}

// journals lies in journals.
type journals struct{ *snapshots }

func (j *journals) try(x *trial, number uint64) (problems []string) {
	random := rand.New(rand.NewPCG(number/10, 5))
	write := func() *directory {
		c := &clerk{author: &author{random: random}, sizes: map[uint64]uint64{}, versions: map[uint64]uint64{}, next: 1}
		return c.directory(x.folder)
	}
	d, donor := write(), write()
	chain := d.seal(true)
	d.tear(random, chain)
	if number%10 == 0 {
		x.tell("none", "")
	}
	for number%10 > 0 && len(x.told) == 0 {
		switch what := x.random.IntN(10); {
		case what < 4 && d.ring != nil:
			d.lieInRing(x)
		case what < 5 && d.ring != nil && x.random.IntN(3) == 0:
			d.lieInLock(x)
		case what < 7 && len(d.bases) > 0:
			d.lieInBase(x)
		default:
			j.lie(x, d, donor.segments)
		}
	}
	return j.replays(x, d, chain, number)
}

// lie lies in the segments.
func (j *journals) lie(x *trial, d *directory, donor []*journalParts) {
	random, segments := x.random, d.segments
	chain := random.IntN(4) > 0
	for count := []int{1, 1, 1, 2}[random.IntN(4)]; count > 0; count-- {
		s := segments[random.IntN(len(segments))]
		n := len(s.frames)
		if n == 0 {
			continue
		}
		frame := s.frames[random.IntN(n)]
		switch what := random.IntN(25); {
		case what >= 20:
			d.lieInGroup(x, s)
		case what < 3:
			x.tell("header", lieAt(random, s.header, journalHeaderSpots[random.IntN(len(journalHeaderSpots))]))
			if random.IntN(2) == 0 {
				s.setName()
			}
		case what < 6:
			x.tell("frame", lieAt(random, frame, frameSpots[random.IntN(len(frameSpots))]))
		case what < 11:
			if at := recordsOf(frame); len(at) > 0 {
				from := at[random.IntN(len(at))]
				x.tell("record", lieAt(random, frame[from:], recordSpots[random.IntN(len(recordSpots))]))
			}
		case what < 15:
			if at := recordsOf(frame); len(at) > 0 {
				from := at[random.IntN(len(at))]
				if length := int(get32(frame, from)); length > 40 {
					word := 40 + random.IntN(length-40)&^7
					if from+word+8 <= len(frame) {
						x.tell("body", lieAt(random, frame[from:], spot{"word", word, 8}))
					}
				}
			}
		case what == 15:
			i, k := random.IntN(n), random.IntN(n)
			s.frames[i], s.frames[k] = s.frames[k], s.frames[i]
			x.tell("frames", fmt.Sprintf("%d and %d are swapped", i, k))
		case what == 16:
			i := random.IntN(n)
			s.frames = slices.Delete(s.frames, i, i+1)
			x.tell("frames", fmt.Sprintf("%d is missing", i))
		case what == 17:
			i := random.IntN(n)
			s.frames = slices.Insert(s.frames, i, bytes.Clone(s.frames[random.IntN(n)]))
			x.tell("frames", fmt.Sprintf("%d comes again", i))
		case what == 18:
			from := donor[0] // which has frames
			one := bytes.Clone(from.frames[random.IntN(len(from.frames))])
			if random.IntN(2) == 0 {
				copy(one[16:32], s.header[16:32])
			}
			s.frames[random.IntN(n)] = one
			x.tell("spliced", "a frame of another journal")
		default:
			d.cut = 1 + random.IntN(2*unit)
			x.tell("length", fmt.Sprint(d.cut, " bytes are missing"))
		}
	}
	d.seal(chain)
}

// ofSegments are the kinds of lies that segments tell.
var ofSegments = []string{"header", "frame", "record", "body", "frames", "spliced", "length", "group"}

// notAsked is what the tool says where the end that it is asked for lies before the snapshot, or behind the journal.
var notAsked = regexp.MustCompile("use an older snapshot for|ends at record [0-9]+, before record")

// untilOf is a random end of a replay: none, a record, a time or an epoch.
func untilOf(x *trial, position, tip uint64) (until journal.Until) {
	random := x.random
	number := position + random.Uint64N(2) + random.Uint64N(3+min(tip-min(tip, position), 60))
	switch random.IntN(9) {
	case 0:
		until.Sequence = max(1, number)
	case 1:
		until.Time = int64(1763726400e9 + number) // as records have it, and bases
	case 2:
		until.Page, until.Epoch = 1+random.Uint64N(6), 1+random.Uint64N(12)
	}
	return until
}

func loadUntil(directory string, until journal.Until) persist.LoadOptions {
	return persist.LoadOptions{Journal: directory, JournalUntil: until.Sequence, JournalUntilTime: until.Time,
		JournalPage: until.Page, JournalEpoch: until.Epoch}
}

func walk(folder string, position uint64) answer {
	opened, err := journal.Open(file.OS{}, folder)
	if err != nil {
		return answer{err: err, view: seesPart}
	}
	info := opened.Info()
	for _, err := range opened.Records(max(info.First, position+1), info.Last) {
		if err != nil {
			return answer{err: err, view: seesPart}
		}
	}
	return answer{view: seesPart}
}

// fromTheMiddle replays the rest onto a state that the tool makes of a good journal. Its position may be before the last change
// that it has, and may lie within a group or a body.
func (j *journals) fromTheMiddle(x *trial, r *readings, by *reading, from beginning, folder string,
	load func(path, directory string, until journal.Until) func() answer) {
	if len(by.changes) == 0 || by.until != (journal.Until{}) {
		return
	}
	path := filepath.Join(x.folder, "middle.mmsb")
	end := by.changes[x.random.IntN(len(by.changes))].number
	report, err := replay.Run(replay.Options{FS: file.OS{}, Snapshot: from.path, Journal: folder, Output: path,
		Until: journal.Until{Sequence: end}})
	require.NoError(j.t, err)
	position := report.Last - x.random.Uint64N(min(report.Last-from.position, 8)+1)
	for _, of := range by.changes { // pages that end and come again must be as they were
		ends := of.kind() == journal.Destroy || of.kind() == journal.Clone
		if ends && position < of.number && of.number <= report.Last {
			position = report.Last
		}
	}
	raw, err := os.ReadFile(path)
	require.NoError(j.t, err)
	put64(raw, 56, position)
	if position < report.Last { // the last step that it has
		put64(raw, 368, report.Last)
	}
	put32(raw, unit-4, crcOf(raw[:unit-4]))
	require.NoError(j.t, os.WriteFile(path, raw, 0o600))
	way := fmt.Sprintf("replay from record %d of a state of record %d", position, report.Last)
	r.run(way, load(path, folder, journal.Until{}))
	r.run(way+" by the tool", func() answer { return j.byTool(x, path, folder, journal.Until{}) })
}

// replays gives a journal to its readers: loads that replay it, the tool's replay, and who walks its records. chain is the
// checksum of the last frame where none of the segments lies.
func (j *journals) replays(x *trial, d *directory, chain uint32, number uint64) []string {
	good, folder := number%10 == 0, filepath.Join(x.folder, "journal")
	onDisk, release := d.write(j.t, folder)
	defer release()
	from := j.beginning(x, d)
	until := untilOf(x, from.position, d.tip)
	bounded := until != journal.Until{}
	r := readings{onDisk: onDisk}
	loadFrom := func(path, directory string, until journal.Until) func() answer {
		return func() answer {
			a := j.load(persist.FromPath(path), loadUntil(directory, until), false, number%8 == 0)
			a.versions = false
			return a
		}
	}
	load := func(directory string) func() answer { return loadFrom(from.path, directory, until) }
	r.run("replay", load(folder))
	if beyond(r.answers[0].err) { // the tool has no limit: it would write what a lying size says
		x.fate = "beyond limits"
		return r.problems
	}
	r.run("replay by the tool", func() answer { return j.byTool(x, from.path, folder, until) })
	if by := d.read(x, chain, from.position, until); by != nil && from.leads && !from.behind {
		r.run("replay of its changes one by one", func() answer {
			if by.fault != "" {
				return answer{err: status.Errorf(status.Corrupt, "the journal has %s", by.fault)}
			}
			twin := filepath.Join(x.folder, "plain")
			_, release := by.plain().write(j.t, twin)
			release()
			if bounded { // then pages may be missing
				return loadFrom(from.path, twin, journal.Until{Sequence: math.MaxInt64})()
			}
			return loadFrom(from.path, twin, until)()
		})
		if good && by.fault == "" {
			j.fromTheMiddle(x, &r, by, from, folder, loadFrom)
		}
	}
	if !bounded {
		r.run("walk over the records", func() answer { return walk(folder, from.position) })
	}
	// The tool says which base it cannot read.
	if !bounded && number%4 == 0 && from.position == 0 && !x.lies("base") && !x.lies("text of a base") {
		r.run("tool: journal ls", func() answer { return answer{err: tool("journal", "ls", folder), view: seesPart} })
	}
	if d.ring != nil && d.behind <= math.MaxInt64 && (good || number%2 == 0) && !slices.ContainsFunc(ofSegments, x.lies) {
		r.run("replay of what the ring has as frames", func() answer {
			twin, damage := d.withoutRing(chain)
			if damage != "" {
				return answer{err: status.Errorf(status.Corrupt, "the ring has %s", damage)}
			}
			_, release := twin.write(j.t, filepath.Join(x.folder, "twin"))
			release()
			return load(filepath.Join(x.folder, "twin"))()
		})
	}
	own := readings{onDisk: onDisk}
	if number%4 == 0 || strings.Contains(x.kind, "base") {
		of := &own
		// Where the header lies, it begins where the journal says, not where the snapshot is.
		if from.newest && (good && !bounded || len(d.bases) == 0 && !x.lies("header")) {
			of = &r
		}
		j.withoutSnapshot(x, of, d, folder, until)
	}
	goesOn := d.ring != nil && d.lock != "held" && d.lock != "folder" && d.tip < math.MaxInt64
	if goesOn && (good || number%4 == 1 && !bounded) {
		r.run("replay behind the next writer", func() answer {
			w, err := journal.NewWriter(file.OS{}, folder, journal.Options{})
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				return answer{err: err}
			}
			return load(folder)()
		})
	}
	problems := j.judge(x, &r, nil)
	far := d.tip > math.MaxInt64 // a replay may end before that
	if good && from.leads && (x.fate == "accepted") == far && !(far && bounded) {
		problems = append(problems, "a good journal is "+x.fate)
	}
	found, _ := compare(own.answers, nil)
	return slices.Concat(problems, own.problems, found)
}

// beginning is a state that a replay begins with.
type beginning struct {
	path     string
	position uint64
	newest   bool // it is what the directory alone begins with
	leads    bool // all records behind it are there
	behind   bool // its lineage begins behind them
}

// beginning chooses one, and writes it where the directory has none.
func (j *journals) beginning(x *trial, d *directory) beginning {
	empty := func(name string, position uint64, line []byte) string {
		content, _ := (&author{random: x.random}).state(position, line).join()
		path := filepath.Join(x.folder, name)
		require.NoError(j.t, os.WriteFile(path, content, 0o600))
		return path
	}
	if x.random.IntN(16) == 0 && d.tip < math.MaxInt64 { // a state whose lineage begins behind the tip, or what is none
		b := beginning{position: d.tip + x.random.Uint64N(2), behind: true}
		b.leads = b.position == d.tip
		tip := d.segments[len(d.segments)-1].header[16:32]
		b.path = empty("behind.mmsb", b.position, slices.Concat((&author{random: x.random}).id(), tip, words(b.position)))
		return b
	}
	i, last := len(d.bases)-1, len(d.bases)-1
	if x.random.IntN(4) == 0 {
		i = x.random.IntN(len(d.bases)+1) - 1
	}
	b := beginning{newest: i == last, leads: i == last}
	if i >= 0 {
		b.path, b.position = d.path(x.folder, i), get64(d.bases[i].content.header, 56)
	} else {
		b.path = empty("empty.mmsb", 0, d.line)
	}
	return b
}

// withoutSnapshot replays a journal from the base that its directory has.
func (j *journals) withoutSnapshot(x *trial, r *readings, d *directory, folder string, until journal.Until) {
	got := r.run("replay without a snapshot", func() answer {
		return j.load(persist.FromPath(""), loadUntil(folder, until), false, false)
	})
	if !beyond(got.err) {
		r.run("replay without a snapshot by the tool", func() answer { return j.byTool(x, "", folder, until) })
	}
}

func (j *journals) byTool(x *trial, from, directory string, until journal.Until) answer {
	output := filepath.Join(x.folder, "output.mmsb")
	_, err := replay.Run(replay.Options{FS: file.OS{}, Snapshot: from, Journal: directory, Output: output, Until: until})
	if err != nil && until != (journal.Until{}) && notAsked.MatchString(err.Error()) {
		return answer{view: seesPart}
	}
	if err != nil {
		return answer{err: err}
	}
	opened, err := snapshot.Open(output, snapshot.OpenOptions{})
	if err != nil {
		return answer{err: status.Errorf(status.Internal, "what it wrote: %v", err)}
	}
	defer func() { _ = opened.Close() }()
	found, err := stateOfFile(opened)
	return answer{state: found, err: err}
}

func TestReadersOfJournalsAgree(t *testing.T) {
	campaign(t, "journals", &journals{newSnapshots(t)}, 4000, 6)
}
