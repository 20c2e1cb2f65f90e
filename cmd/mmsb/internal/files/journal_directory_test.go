package files

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/journal"
)

// A journal's directory as docs/journal-format.md has it: branches, gaps with their bases, the lock, and the ring of a process
// that died.

const (
	bufferHead   = 64
	markedBytes  = 32
	ringVersion  = 3
	longestFrame = 4 << 20
)

var (
	ringSpots = []spot{
		{"magic", 0, 8}, {"version", 8, 4}, {"zero", 12, 4}, {"length of a buffer", 16, 8}, {"lineage", 24, 16},
		{"boot id", 40, 36}, {"rest", 76, 100},
	}
	bufferSpots = []spot{{"magic", 0, 8}, {"head", 8, 24}, {"first record", 32, 8}, {"rest of the head", 40, 24}}
)

// base is a snapshot in the directory, or elsewhere where text names it.
type base struct {
	name    string
	content *parts
	text    string // of the file .path; "": the snapshot itself is there
}

// directory is what is in a journal's directory.
type directory struct {
	segments []*journalParts
	bases    []*base // the last one is the newest branch's; none: the empty state
	cut      int     // bytes that are missing at the end of the last segment
	line     []byte  // lineage of the first branch, for the empty state
	ring     []byte  // nil: none
	torn     []byte  // what a write left behind the last frame
	lock     string  // what journal.lock is: "", "free", "held", "pipe", "folder"
	behind   uint64  // the record behind the segments
	tip      uint64  // the last record, the ring's included
}

// setName gives a segment the name that its header says.
func (j *journalParts) setName() {
	first, branch := get64(j.header, 32), get64(j.header, 56)
	j.name = fmt.Sprintf("journal-%020d.mmsbj", first)
	if branch != 0 {
		j.name = fmt.Sprintf("journal-%06d-%020d.mmsbj", branch, first)
	}
}

// seal mends the checksums of all segments; those of the frame before only where chain is true.
func (d *directory) seal(chain bool) (last uint32) {
	for i, s := range d.segments {
		if i > 0 && get64(s.header, 56) != get64(d.segments[i-1].header, 56) {
			last = 0
		}
		last = s.seal(last, chain)
	}
	return last
}

// directory writes a good one. Some begin in mid-life, have a gap or several branches, or end in a ring.
func (c *clerk) directory(folder string) *directory {
	d := &directory{lock: []string{"", "free"}[c.random.IntN(2)]}
	c.line, c.parent = c.id(), make([]byte, 24)
	d.line = c.line
	switch c.random.IntN(10) {
	case 0:
		c.leap(1 + c.random.Uint64N(1000))
		if c.random.IntN(4) == 0 {
			c.next = math.MaxInt64 - c.random.Uint64N(60)
		}
		c.before = c.next - 1
		if c.random.IntN(2) == 0 {
			c.parent = append(c.id(), words(c.random.Uint64N(c.next))...)
		}
		d.base(c, folder)
	case 1:
		for range 1 + c.random.IntN(2) {
			d.parts(c)
			d.stray(c, folder, c.id())
			d.goOn(c, folder, false)
		}
	case 2:
		d.parts(c)
		d.stray(c, folder, c.line) // where the newest branch does not come
		d.goOn(c, folder, true)
	}
	if len(d.segments) == 0 || c.random.IntN(4) > 0 {
		d.parts(c)
	} else { // nothing came yet
		d.segments = append(d.segments, c.segment(0))
	}
	d.end(c)
	return d
}

// end ends the journal: its writer has closed it, or has died, also while it wrote a group that goes beyond its frame.
func (d *directory) end(c *clerk) {
	last, tip := d.segments[len(d.segments)-1], c.next-1
	var parts [][][]byte
	if c.next < math.MaxInt64-1000 && c.random.IntN(3) == 0 {
		parts = c.great()
		c.next = tip + 1
		for range c.random.IntN(len(parts) + 1) { // what frames have of it
			last.frames = append(last.frames, frameOf(c.line, c.next, len(parts[0]), slices.Concat(parts[0]...)))
			c.next, parts = c.next+uint64(len(parts[0])), parts[1:]
		}
		if len(parts) == 0 {
			tip = c.next - 1
		}
	}
	d.behind, d.tip = c.next, tip
	what := c.random.IntN(3)
	if what == 1 && len(parts) == 0 { // it was closed
		last.frames = append(last.frames, frameOf(c.line, c.next, 0, nil))
	}
	if what > 0 {
		return
	}
	ring, whole := c.ring(parts)
	if d.ring = ring; c.random.IntN(6) == 0 { // its writer lives
		d.lock = "held"
	} else if whole {
		d.tip = c.next - 1
	}
}

// tear leaves a part of the ring's first frame behind the last one: its write was under way. chain is the checksum of that.
func (d *directory) tear(random *rand.Rand, chain uint32) {
	if d.ring == nil || random.IntN(2) == 0 {
		return
	}
	last := d.segments[len(d.segments)-1]
	if frames, _ := ringFrames(d.ring, last.header[16:32], d.behind, chain); len(frames) > 0 {
		d.torn = frames[0][:random.IntN(len(frames[0])-unit+64)]
	}
}

// parts writes some segments.
func (d *directory) parts(c *clerk) {
	for range 1 + c.random.IntN(2) {
		d.segments = append(d.segments, c.segment(1+c.random.IntN(3)))
	}
}

// leap is to a record behind steps that were not recorded.
func (c *clerk) leap(steps uint64) { c.next, c.based = c.next+steps, true }

// goOn goes on behind a gap, or from a state in the past as a branch.
func (d *directory) goOn(c *clerk, folder string, branch bool) {
	before := c.next - 1
	if branch {
		from := d.segments[c.random.IntN(len(d.segments))]
		c.next, c.branch, c.before = get64(from.header, 32), c.branch+1, 0
		before = c.next - 1
	}
	position, steps := c.next-1, 1+c.random.Uint64N(3)
	if branch && c.random.IntN(2) == 0 { // exactly behind a record
		steps = 0
	}
	c.leap(steps)
	if branch || c.random.IntN(2) == 0 {
		parent := position
		if !branch {
			parent += c.random.Uint64N(steps)
		}
		c.parent = append(bytes.Clone(c.line), words(parent)...)
		c.line = c.id()
	}
	if branch {
		before = c.next - 1
	}
	c.before = before
	d.base(c, folder)
}

// stray puts a base there that the records do not go on from, perhaps, behind those that there are.
func (d *directory) stray(c *clerk, folder string, line []byte) {
	if c.random.IntN(3) > 0 {
		return
	}
	ours, next := c.line, c.next
	c.line, c.next = line, next+5
	d.base(c, folder)
	c.line, c.next = ours, next
}

// base puts a random state into the directory that the records go on from.
func (d *directory) base(c *clerk, folder string) {
	position := c.next - 1
	c.pages = map[uint64]*written{}
	c.grow(c.random.IntN(3))
	c.sizes, c.versions = map[uint64]uint64{}, map[uint64]uint64{}
	for id, p := range c.pages {
		if p.size > 10000 {
			p.size, p.content, p.mask = 3, []byte("abc"), nil
		}
		p.flags, c.sizes[id], c.versions[id] = 0, p.size, p.version
	}
	p := c.state(position, append(bytes.Clone(c.line), c.parent...))
	b := &base{name: fmt.Sprintf("base-%020d-%s.mmsb", position, hex.EncodeToString(p.header[16:20])), content: p}
	if c.random.IntN(3) == 0 {
		b.name = strings.TrimSuffix(b.name, "mmsb") + "path"
		name := elsewhere(len(d.bases))
		b.text = pointer(p.header[16:32], "../"+name, filepath.Join(folder, name))
	}
	d.bases = append(d.bases, b)
}

// state is a snapshot of what the author has, at a position of a lineage; its parent and that one's position may follow.
func (a *author) state(position uint64, line []byte) *parts {
	a.files = 0
	p := a.file("", nil)
	put32(p.header, 8, 4)
	put32(p.footer, 8, 4)
	put64(p.header, 56, position)
	clear(p.header[328:376])
	copy(p.header[328:], line)
	p.seal(true)
	return p
}

// elsewhere is the name of a snapshot beside the directory that a base names.
func elsewhere(number int) string { return fmt.Sprintf("elsewhere-%d.mmsb", number) }

// path is where the snapshot of a base lies.
func (d *directory) path(folder string, number int) string {
	if b := d.bases[number]; b.text == "" {
		return filepath.Join(folder, "journal", b.name)
	}
	return filepath.Join(folder, elsewhere(number))
}

func pointer(id []byte, relative, absolute string) string {
	text := fmt.Sprintf("mmsb base 1\nid %s\nrelative %q\nabsolute %q\n", hex.EncodeToString(id), relative, absolute)
	return text + fmt.Sprintf("crc %08x\n", crcOf([]byte(text)))
}

// ------------------------------------------------------------------------------------------------------------ the ring ----

// bootID is the system's.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		panic(err)
	}
	return string(id[:36])
}

// ring is what a process leaves that was killed: in one buffer or two some groups are complete. Before them are the parts of a
// group that frames have the beginning of; whole says that all of it is there.
func (c *clerk) ring(parts [][][]byte) (ring []byte, whole bool) {
	long := []int{1 << 13, 1 << 14, 10 * unit}[c.random.IntN(3)]
	ring = make([]byte, ringBytes(uint64(long)))
	copy(ring, "MMSBRING")
	put32(ring, 8, ringVersion)
	put64(ring, 16, uint64(long))
	copy(ring[24:], c.line)
	copy(ring[40:], bootID())
	order, first := c.random.IntN(2), c.next
	number := first
	for i := range c.random.IntN(7) % 3 {
		buffer, marks := bufferOf(ring, (order+i)%2)
		copy(buffer, "MMSBBUFF")
		if i == 0 && c.random.IntN(4) == 0 { // its write was under way
			copy(buffer, "MMSBFRAM")
		}
		put64(buffer, 32, number)
		at := bufferHead
		if len(parts) > 0 {
			for _, piece := range parts[0] {
				copy(buffer[at:], piece)
				mark(marks, at)
				at += len(piece)
			}
			c.next, number = c.next+uint64(len(parts[0])), number+uint64(len(parts[0]))
			if parts = parts[1:]; len(parts) > 0 {
				continue
			}
		}
		number += c.fill(buffer, marks, at)
	}
	if c.random.IntN(4) == 0 && number == first && first > 1 { // what was written and not yet cleared
		buffer, marks := bufferOf(ring, (order+1)%2)
		copy(buffer, "MMSBFRAM")
		put64(buffer, 32, first-1)
		copy(buffer[bufferHead:], c.record(0))
		mark(marks, bufferHead)
		c.next = first
	}
	return ring, len(parts) == 0
}

// ringBytes is the size of a ring with buffers of a length.
func ringBytes(long uint64) uint64 { return unit + 2*(long+long/markedBytes) }

// bufferOf is one of a ring's buffers, and its marks.
func bufferOf(ring []byte, number int) (buffer, marks []byte) {
	long := int(get64(ring, 16))
	return ring[unit+number*long:][:long], ring[unit+2*long+number*(long/markedBytes):][:long/markedBytes]
}

// mark says that the group at a place is complete.
func mark(marks []byte, at int) { marks[at/markedBytes] = byte(1 + at%markedBytes/8) }

// fill puts groups into a buffer from a place on, complete or not, and says how many numbers they were given. What stood there
// before may stand where a call has not stored anything.
func (c *clerk) fill(buffer, marks []byte, at int) (numbers uint64) {
	if c.random.IntN(2) == 0 {
		for i := range c.random.IntN(len(buffer) - at) {
			buffer[at+i] = byte(c.random.Uint32())
		}
	}
	for range c.random.IntN(8) {
		sizes, versions, next := maps.Clone(c.sizes), maps.Clone(c.versions), c.next
		whole := c.group()
		body := slices.Concat(whole...)
		if len(body) > len(buffer)-at {
			c.sizes, c.versions, c.next = sizes, versions, next
			return numbers
		}
		numbers += uint64(len(whole))
		if c.random.IntN(3) == 0 { // its call had not returned
			c.sizes, c.versions, c.next = sizes, versions, next
			copy(buffer[at:], body[:c.random.IntN(len(body)+1)])
		} else {
			copy(buffer[at:], body)
			mark(marks, at)
		}
		at += len(body)
	}
	return numbers
}

// ringFrames is what the document lets a reader take of a ring: frames behind a record and a frame. damage says that the ring
// cannot be what a process left.
func ringFrames(ring, line []byte, next uint64, chain uint32) (frames [][]byte, damage string) {
	if len(ring) < unit || string(ring[:8]) != "MMSBRING" || !bytes.Equal(ring[24:40], line) || string(ring[40:76]) != bootID() {
		return nil, ""
	}
	if get32(ring, 8) != ringVersion {
		return nil, "another version"
	}
	long := get64(ring, 16)
	if long == 0 || long%unit != 0 || long > longestFrame || ringBytes(long) > uint64(len(ring)) {
		return nil, "buffers that are not there"
	}
	var buffers, marks [2][]byte
	for i := range buffers {
		buffers[i], marks[i] = bufferOf(ring, i)
	}
	if get64(buffers[1], 32) < get64(buffers[0], 32) {
		slices.Reverse(buffers[:])
		slices.Reverse(marks[:])
	}
	begin := next
	for i, buffer := range buffers {
		magic, first := string(buffer[:8]), get64(buffer, 32)
		if magic != "MMSBBUFF" && magic != "MMSBFRAM" || first < begin && (i == 0 || !inUse(buffers[0], begin)) {
			continue
		}
		if first > begin && (i == 0 || !inUse(buffers[0], begin)) {
			return nil, ""
		}
		body, count, fault := completeGroups(buffer, marks[i])
		if fault != "" {
			return nil, fault
		}
		if count == 0 {
			continue
		}
		if next+uint64(count)-1 > math.MaxInt64 {
			return nil, "a record beyond 2^63"
		}
		frame := frameOf(line, next, count, body)
		put32(frame, 48, chain)
		chain = crcOf(frame[:60], frame[64:])
		put32(frame, 60, chain)
		frames, next = append(frames, frame), next+uint64(count)
	}
	return frames, ""
}

// inUse says whether a buffer's records come from a number on, or behind it.
func inUse(buffer []byte, begin uint64) bool {
	magic := string(buffer[:8])
	return (magic == "MMSBBUFF" || magic == "MMSBFRAM") && get64(buffer, 32) >= begin
}

// completeGroups are those of a buffer, with the number of their records.
func completeGroups(buffer, marks []byte) (body []byte, count int, fault string) {
	end := uint64(bufferHead)
	for i, word := range marks {
		if word == 0 {
			continue
		}
		at := uint64(i)*markedBytes + uint64(word-1)*8
		if word > markedBytes/8 || at < end || at+40 > uint64(len(buffer)) {
			return nil, 0, "a mark where no group can be"
		}
		left := buffer[at:]
		length := uint64(get32(left, 0))
		space := roundUp(length, 8)
		if journal.Kind(left[4]) == journal.Group && length >= 48 && len(left) >= 48 {
			space += min(get64(left, 40), 1<<40)
		}
		if length < 40 || space > uint64(len(left)) {
			return nil, 0, "a group that is no part of its buffer"
		}
		group := left[:space]
		end = at + space
		body = append(body, group...)
		for len(group) > 0 {
			if len(group) < 40 || get32(group, 0) < 40 || uint64(get32(group, 0)) > uint64(len(group)) {
				return nil, 0, "a record that is no part of its group"
			}
			group = group[min(roundUp(int(get32(group, 0)), 8), len(group)):]
			count++
		}
	}
	return body, count, ""
}

// ----------------------------------------------------------------------------------------------------------------- lies ----

// lieInRing lies in the ring's header, in a buffer's head or in one of its records.
func (d *directory) lieInRing(x *trial) {
	random := x.random
	if long := get64(d.ring, 16); ringBytes(min(long, longestFrame)) != uint64(len(d.ring)) { // there is a lie about it
		return
	}
	number := random.IntN(2)
	buffer, marks := bufferOf(d.ring, number)
	if random.IntN(8) == 0 { // one that may not be begun gets a reason to be read
		copy(buffer, "MMSBBUFF")
		put64(buffer, 32, d.behind)
	}
	records := recordsOf(buffer)
	if other, others := bufferOf(d.ring, 1-number); len(records) == 0 {
		buffer, marks, records = other, others, recordsOf(other)
	}
	switch what := random.IntN(18); {
	case what < 3:
		x.tell("ring", lieAt(random, d.ring, ringSpots[random.IntN(len(ringSpots))]))
	case what < 5:
		x.tell("buffer", lieAt(random, buffer, bufferSpots[random.IntN(len(bufferSpots))]))
	case what < 9 && len(records) > 0:
		at := records[random.IntN(len(records))]
		x.tell("ring's record", lieAt(random, buffer[at:], recordSpots[random.IntN(len(recordSpots))]))
	case what < 10 && len(records) > 0:
		at := records[random.IntN(len(records))]
		buffer[at+5] ^= 1 << random.IntN(8)
		x.tell("ring's record", fmt.Sprintf("flags at %d are %d", at, buffer[at+5]))
	case what < 11 && len(records) > 0:
		at := records[random.IntN(len(records))]
		if at+48 <= len(buffer) {
			x.tell("ring's record", lieAt(random, buffer[at:], spot{"first word of the body", 40, 8}))
		}
	case what < 17:
		at := random.IntN(len(marks))
		if used := slices.IndexFunc(marks, func(mark byte) bool { return mark != 0 }); used >= 0 && random.IntN(2) == 0 {
			at = min(used+random.IntN(4), len(marks)-1)
		}
		if marks[at] = byte(random.IntN(7)); len(records) > 0 && random.IntN(2) == 0 { // of a record, in a group perhaps
			place := records[random.IntN(len(records))]
			at = place / markedBytes
			mark(marks, place)
		}
		x.tell("ring's marks", fmt.Sprintf("that at %d is %d", at, marks[at]))
	default:
		cut := min(boundaries[random.IntN(len(boundaries))], uint64(len(d.ring)+unit))
		d.ring = append(d.ring, make([]byte, unit)...)[:cut]
		x.tell("ring", fmt.Sprint("it has ", cut, " bytes"))
	}
}

// lieInBase lies about a base: its name, its header, or the text that names it.
func (d *directory) lieInBase(x *trial) {
	random := x.random
	b := d.bases[random.IntN(len(d.bases))]
	switch what := random.IntN(8); {
	case what < 3 || b.text == "" && what < 5:
		x.tell("base", lieAt(random, b.content.header, headerSpots[random.IntN(len(headerSpots)-1)]))
		b.content.seal(true)
	case what == 5:
		position := boundaries[random.IntN(len(boundaries))]
		b.name = fmt.Sprintf("base-%d-x%s", position, filepath.Ext(b.name))
		x.tell("base's name", b.name)
	case what == 6:
		put64(b.content.header, 56, get64(b.content.header, 56)+random.Uint64N(9)-4)
		b.content.seal(true)
		x.tell("base", fmt.Sprint("its position is ", get64(b.content.header, 56)))
	case what == 7:
		other := d.bases[random.IntN(len(d.bases))]
		b.content = other.content.clone()
		x.tell("base", "it is another one")
	default:
		d.lieInText(x, b)
	}
}

func (d *directory) lieInText(x *trial, b *base) {
	random := x.random
	lines := strings.SplitAfter(b.text, "\n")
	number := random.IntN(len(lines) - 1)
	line := []byte(lines[number])
	switch random.IntN(5) {
	case 0:
		lines[number] = ""
	case 1:
		lines[number] += lines[number]
	case 2:
		lines[number] += strings.Repeat("x", 70000)
	case 3:
		other := []string{`else\x00where`, "journal/../elsewhere", `\u0007`, "/"}[random.IntN(4)]
		lines[number] = strings.Replace(lines[number], "elsewhere", other, 1)
	default:
		lieInBytes(random, line)
		lines[number] = string(line)
	}
	b.text = strings.Join(lines, "")
	if end := strings.LastIndex(b.text, "crc "); end >= 0 && random.IntN(4) > 0 {
		b.text = b.text[:end] + fmt.Sprintf("crc %08x\n", crcOf([]byte(b.text[:end])))
	}
	x.tell("text of a base", fmt.Sprintf("%.200q", b.text))
}

// lieInLock lies about the lock file.
func (d *directory) lieInLock(x *trial) {
	d.lock = []string{"", "free", "held", "pipe", "folder"}[x.random.IntN(5)]
	x.tell("lock", "it is "+d.lock)
}

// ---------------------------------------------------------------------------------------------------------------- files ----

// write writes the directory. release gives its lock free.
func (d *directory) write(t *testing.T, to string) (onDisk uint64, release func()) {
	require.NoError(t, os.Mkdir(to, 0o700))
	put := func(path string, content []byte) {
		onDisk += uint64(len(content))
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	for i, s := range d.segments {
		content := slices.Concat(append([][]byte{s.header}, s.frames...)...)
		if i == len(d.segments)-1 {
			content = append(content[:len(content)-min(d.cut, len(content))], d.torn...)
		}
		put(filepath.Join(to, s.name), content)
	}
	for i, b := range d.bases {
		front, _ := b.content.join()
		at := filepath.Join(to, b.name)
		if b.text != "" {
			put(at, []byte(b.text))
			at = filepath.Join(filepath.Dir(to), elsewhere(i))
		}
		put(at, front)
	}
	if d.ring != nil {
		put(filepath.Join(to, "journal.ring"), d.ring)
	}
	release = func() {}
	switch lock := filepath.Join(to, "journal.lock"); d.lock {
	case "pipe":
		require.NoError(t, unix.Mkfifo(lock, 0o600))
	case "folder":
		require.NoError(t, os.Mkdir(lock, 0o700))
	case "free", "held":
		held, err := os.Create(lock)
		require.NoError(t, err)
		if d.lock == "held" {
			require.NoError(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
		}
		release = func() { _ = held.Close() }
	}
	return onDisk, release
}

// withoutRing is the directory with what its ring has in frames.
func (d *directory) withoutRing(chain uint32) (twin *directory, damage string) {
	last := *d.segments[len(d.segments)-1]
	if d.lock != "held" {
		var frames [][]byte
		if frames, damage = ringFrames(d.ring, last.header[16:32], d.behind, chain); damage != "" {
			return nil, damage
		}
		last.frames = slices.Concat(last.frames, frames)
	}
	return &directory{segments: append(slices.Clone(d.segments[:len(d.segments)-1]), &last), bases: d.bases}, ""
}
