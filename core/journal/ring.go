// Reading a ring whose writer lives, or was killed: what is there, and in no segment yet.

package journal

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/lineage"
)

// ringIdentityAt is where a ring's header says which file it is, as the writer's system sees it: u64 device, u64 inode.
const ringIdentityAt = 80

// ShowRing lets those who follow the journal read the ring that a file has, which is mapped: its header says which file it is.
// One whose content a read of the file does not give, as on some network file systems, is shown to nobody.
func ShowRing(f file.File, mapping []byte) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	says := mapping[ringIdentityAt:][:16]
	binary.LittleEndian.PutUint64(says, info.Device)
	binary.LittleEndian.PutUint64(says[8:], info.Inode)
	read := make([]byte, len(says))
	if n, err := file.ReadFull(f, read, ringIdentityAt); err != nil || n < len(read) || !bytes.Equal(read, says) {
		clear(says)
	}
}

// inodeOf says which file it is.
type inodeOf struct{ device, number uint64 }

// ringTail reads whole groups behind a record out of a ring. It reads with calls, not from a mapping: one of a file that somebody
// cuts would end the process. No writer waits for it, so a buffer can be given to other records while it is read: that is seen
// by its head, which is looked at again behind them.
type ringTail struct {
	fs      file.FS
	path    string
	file    file.File // nil: there is none that can be read
	is      inodeOf   // the file of that name, as it was last looked at; zeros: there is none
	refused bool      // it is not to be read
	size    int       // of a buffer

	buffer int    // that is read; first is 0: a place to go on from is to be found
	first  uint64 // number of its first record
	offset int    // in the buffer, of the next group
	next   uint64 // number of its first record
	marks  []byte
}

// ringWindow is how much of a ring is read at once, and mostWindows how often before somebody else may have a turn.
const (
	ringWindow  = 256 << 10
	mostWindows = 4
	// groupSlack is what is read behind the last mark of a window: the group that begins there.
	groupSlack = 4096
)

func (r *ringTail) close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// look looks which file the ring is now, and opens one that is new. id is the lineage that is followed.
func (r *ringTail) look(id [16]byte) (readable bool) {
	info, err := r.fs.Stat(r.path)
	is := inodeOf{info.Device, info.Inode}
	if err != nil || !info.Mode.IsRegular() {
		is = inodeOf{}
	}
	if is != r.is {
		r.close()
		r.is, r.refused, r.first = is, false, 0
	}
	if is == (inodeOf{}) || r.refused || r.file != nil {
		return r.file != nil
	}
	const flags = unix.O_RDONLY | unix.O_NONBLOCK
	f, err := r.fs.Open(r.path, flags|unix.O_NOATIME, 0) // that would be a change, for which a file system may wait for the disk
	if err == syscall.EPERM {
		f, err = r.fs.Open(r.path, flags, 0)
	}
	if err != nil {
		r.refused = err != syscall.ENOENT
		return false
	}
	r.file = f
	if ready := r.lookAtHead(id); !ready || r.refused || f.LockShared() != nil { // a writer may just look whether it is locked
		r.close()
	}
	return r.file != nil
}

// isRead says whether somebody follows the journal by its ring, which who reads it has locked.
func (w *Writer) isRead() bool {
	if !w.made.ring {
		return false
	}
	f, err := w.fs.Open(filepath.Join(w.directory, ringName), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = letGo(f) }()
	return f.Lock() == syscall.EWOULDBLOCK
}

// lookAtHead says whether the ring's header is made, and refuses one that is not of this lineage, system and file.
func (r *ringTail) lookAtHead(id [16]byte) (made bool) {
	head := make([]byte, ringIdentityAt+16)
	info, err := r.file.Stat()
	if err != nil || !r.read(head, 0) || !bytes.Equal(head[:8], ringMagic) {
		return false
	}
	says := inodeOf{binary.LittleEndian.Uint64(head[ringIdentityAt:]), binary.LittleEndian.Uint64(head[ringIdentityAt+8:])}
	if says == (inodeOf{}) { // its writer has not mapped it yet, or shows it to nobody
		return false
	}
	size := binary.LittleEndian.Uint64(head[16:])
	r.refused = binary.LittleEndian.Uint32(head[8:]) != ringVersion || !bytes.Equal(head[24:40], id[:]) ||
		!bytes.Equal(head[40:76], bootID()) || says != inodeOf{info.Device, info.Inode} || says != r.is ||
		size == 0 || size%unitBytes != 0 || size > MaximumFrame || int64(RingFileBytes(int(size))) > info.Size
	r.size = int(size)
	return true
}

// read reads what is there completely. One read is over before the next begins: the system's locks of the page cache order them.
func (r *ringTail) read(into []byte, offset int) bool {
	n, err := file.ReadFull(r.file, into, int64(offset))
	return err == nil && n == len(into)
}

// headOf is the number of a buffer's first record; 0: it is not in use. count is how many it has, where that is sure: then all of
// them are complete.
func (r *ringTail) headOf(buffer int) (first uint64, count uint32) {
	var head [40]byte
	if !r.read(head[:], RingHeadBytes+buffer*r.size) {
		return 0, 0
	}
	if first = binary.LittleEndian.Uint64(head[32:]); first > lineage.MaximumPosition {
		return 0, 0
	}
	switch {
	case bytes.Equal(head[:8], bufferMagic):
		return first, 0
	case bytes.Equal(head[:8], frameMagic): // it is being written, or was
		return first, binary.LittleEndian.Uint32(head[12:])
	}
	return 0, 0
}

func (r *ringTail) firstOf(buffer int) uint64 {
	first, _ := r.headOf(buffer)
	return first
}

// enter begins to read a buffer.
func (r *ringTail) enter(buffer int, first uint64) {
	r.buffer, r.first, r.offset, r.next = buffer, first, FrameHeadBytes, first
}

// find looks for the place of a record, and says whether the ring has it, or has all before it. None before it may be missing:
// what lies behind a call that died in the middle gets other numbers when the next writer comes.
func (r *ringTail) find(record uint64, into []byte) bool {
	older, newer := 0, 1
	var firsts [2]uint64
	var counts [2]uint32
	for buffer := range firsts {
		firsts[buffer], counts[buffer] = r.headOf(buffer)
	}
	if firsts[newer] < firsts[older] {
		older, newer = newer, older
	}
	for _, buffer := range []int{older, newer} {
		first, count := firsts[buffer], uint64(counts[buffer])
		switch {
		case first == 0:
			continue
		case r.first == 0 && first > record: // in the segments
			return false
		case r.first != 0 && first != r.next:
			return r.isAt(record)
		}
		r.enter(buffer, first)
		if count > 0 && first+count <= record {
			r.offset, r.next = r.size, first+count
			continue
		}
		for r.next < record {
			if groups, _, _ := r.groups(into, record); len(groups) == 0 {
				break
			}
		}
		if r.first == 0 || r.next >= record {
			return r.isAt(record)
		}
	}
	return r.isAt(record)
}

// isAt says whether the place is that of a record; else it counts for nothing.
func (r *ringTail) isAt(record uint64) bool {
	if r.first != 0 && r.next == record {
		return true
	}
	r.first = 0
	return false
}

// more gives whole groups behind a record, and says how many records they have. has says that the segments need not be asked: the
// ring has what comes next, or will.
func (r *ringTail) more(last uint64, into []byte) (groups []byte, count uint32, has bool) {
	if r.next != last+1 {
		r.first = 0
	}
	if r.first == 0 && !r.find(last+1, into) {
		return nil, 0, false
	}
	for {
		groups, count, great := r.groups(into, math.MaxUint64)
		if count > 0 || great || r.first == 0 {
			return groups, count, count > 0
		}
		if r.firstOf(r.buffer) != r.first { // it was given to other records
			r.first = 0
			return nil, 0, false
		}
		other := 1 - r.buffer
		if r.firstOf(other) != r.next {
			return nil, 0, true
		}
		r.enter(other, r.next)
	}
}

// groups passes complete groups that lie one behind the other, up to the one that begins with the record before, and gives their
// bytes. great says that a group comes which goes beyond its buffer, where before is not in it: its end may be in none. Where the
// buffer has got other records meanwhile, or has what no writer puts there, there are none, and a place is to be found anew.
func (r *ringTail) groups(into []byte, before uint64) (groups []byte, count uint32, great bool) {
	finding := before != math.MaxUint64
	begin := r.offset / MarkedBytes
	window := min(ringWindow, r.size-begin*MarkedBytes)
	r.marks = slices.Grow(r.marks[:0], ringWindow/MarkedBytes)[:window/MarkedBytes]
	if !r.read(r.marks, RingHeadBytes+2*r.size+(r.buffer*r.size)/MarkedBytes+begin) {
		return nil, 0, r.lost()
	}
	marked := len(bytes.TrimRight(r.marks, "\x00"))
	if marked == 0 {
		return nil, 0, false
	}
	length := min((begin+marked)*MarkedBytes+groupSlack, r.size) - r.offset
	at, next := r.offset, r.next
	for done := false; !done; {
		if into = into[:length]; !r.read(into, RingHeadBytes+r.buffer*r.size+r.offset) || r.firstOf(r.buffer) != r.first {
			return nil, 0, r.lost()
		}
		done = true
		for at < r.size && next < before && at/MarkedBytes-begin < marked {
			if r.marks[at/MarkedBytes-begin] != byte(1+at%MarkedBytes/8) {
				break
			}
			left := into[at-r.offset:]
			if len(left) < groupHeadBytes && at+len(left) < r.size {
				break
			}
			space := groupBytes(left)
			if space == 0 || space > uint64(r.size-at) {
				return nil, 0, r.lies()
			}
			if space > uint64(len(left)) {
				if at == r.offset { // the first one: it alone is longer
					length, done = int(space), false
				}
				break
			}
			head := decodeRecordHead(left)
			if great = !finding && head.kind != Group && head.flags&More != 0; great {
				break
			}
			records := recordsOf(left[:space], !finding)
			if records == 0 || checkNumbers("a group", next, records) != nil {
				return nil, 0, r.lies()
			}
			at, next = at+int(space), next+uint64(records)
		}
	}
	groups, count = into[:at-r.offset], uint32(next-r.next)
	r.offset, r.next = at, next
	return groups, count, great
}

// recordsOf is how many records fill a group, and with whole that only the last one says that it is; 0: they do not.
func recordsOf(group []byte, whole bool) (count uint32) {
	for ; len(group) > 0; count++ {
		if checkLength(0, group) != nil {
			return 0
		}
		goesOn := group[5]&More != 0
		group = group[min((int(binary.LittleEndian.Uint32(group))+7)&^7, len(group)):]
		if whole && goesOn == (len(group) == 0) {
			return 0
		}
	}
	return count
}

// lost says that the place counts for nothing any more.
func (r *ringTail) lost() (great bool) {
	r.first = 0
	return false
}

// lies says that the file is no ring: it is not read any more.
func (r *ringTail) lies() (great bool) {
	r.refused = true
	r.close()
	return r.lost()
}
