// The part of the suite that launches this library's kernels.

package conformance

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"unsafe"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
)

// image is the library's device code. A build without it has a fat binary of nothing: stand-ins know the kernels by name.
func image() []byte {
	if code := kernels.Image(); len(code) != 0 {
		return code
	}
	nothing := make([]byte, 16)
	binary.LittleEndian.PutUint32(nothing, 0xba55ed50)
	binary.LittleEndian.PutUint16(nothing[4:], 1)
	binary.LittleEndian.PutUint16(nothing[6:], 16)
	return nothing
}

// kernelTrial is a page with its change mask on a device, and what both should be.
type kernelTrial struct {
	*subject
	set      *kernels.Set
	page     kernels.Page
	expected []byte
	changed  []byte
}

// expect says that a kernel sets a byte of the page.
func (k *kernelTrial) expect(offset int, value byte) {
	k.expected[offset] = value
	k.changed[offset/8] |= 1 << (offset % 8)
}

// give is memory of the device with this content.
func (k *kernelTrial) give(content []byte) driver.Address {
	address := k.memory(k.device, driver.Plain, uint64(max(len(content), 1)))
	k.put(k.device, k.stream, address, content)
	return address
}

// run launches and compares the page and its change mask.
func (k *kernelTrial) run(launch driver.Launch, err error) {
	k.NoError(err)
	k.NoError(k.device.Launch(k.stream, &launch))
	k.Equal(k.expected, k.get(k.device, k.stream, k.page.Address, k.page.Bytes))
	k.Equal(k.changed, k.get(k.device, k.stream, k.page.Changed, uint64(len(k.changed))))
}

// words are numbers as they lie in memory.
func words[T uint32 | uint64 | kernels.Span | kernels.Pair](values []T) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(values[0]))))
}

// kernels loads the library's kernels; nil where the driver is too old for them.
func (s *subject) kernels() *kernels.Set {
	set, err := kernels.Load(s.device, image())
	if status.CodeOf(err) == status.Unsupported {
		s.ErrorContains(err, "need driver 580 or newer")
		return nil
	}
	s.NoError(err)
	return set
}

// runsKernels runs each kernel on a page of an odd size, so that whole vectors and their rests are there, with some threads
// more or fewer than the work has. gpu/kernels tests the bodies; here it is that a device runs them.
func runsKernels(s *subject) {
	const size = 100_003
	set := s.kernels()
	if set == nil {
		return
	}
	page := kernels.Page{Bytes: size}
	k := &kernelTrial{subject: s, set: set, page: page, expected: noise(size, 1), changed: make([]byte, (size+31)/32*4)}
	k.page.Address, k.page.Changed = k.give(k.expected), k.give(k.changed)

	k.NoError(k.device.Fill(k.stream, k.page.Changed, 0, uint64(len(k.changed))))
	launch, err := set.Fill(k.page.Address+3, 0x5a, 50_000)
	copy(k.expected[3:], bytes.Repeat([]byte{0x5a}, 50_000))
	k.run(launch, err)

	payload := noise(size, 2)
	from := k.give(payload)
	launch, err = set.Copy(k.page.Address+60_001, from+5, 30_000)
	copy(k.expected[60_001:], payload[5:30_005])
	k.run(launch, err)

	mask, bits := make([]byte, size), make([]byte, (size+7)/8)
	var sparse []byte
	for i, value := range noise(size, 3) {
		if value < 80 || i/1000%7 == 3 {
			mask[i] = value | 1
			bits[i/8] |= 1 << (i % 8)
			sparse = append(sparse, ^payload[i])
		}
	}
	merge := func(payload func(i int) byte) {
		for i := range size {
			if mask[i] != 0 {
				k.expect(i, payload(i))
			}
		}
	}
	merge(func(i int) byte { return payload[i] })
	launch, err = set.MergeBytes(k.page, k.give(mask), from, size)
	k.run(launch, err)

	flags := k.give(bits)
	other := noise(size, 4)
	merge(func(i int) byte { return other[i] })
	launch, err = set.MergeBits(k.page, flags, k.give(other), size)
	k.run(launch, err)

	ranks, total := kernels.Ranks(bits, size)
	s.Equal(len(sparse), int(total))
	merge(func(i int) byte { return ^payload[i] })
	launch, err = set.ExpandBits(k.page, flags, k.give(words(ranks)), k.give(sparse), size, total)
	k.run(launch, err)

	offsets, wide := make([]uint32, 0, 3000), make([]uint64, 0, 3000)
	for i := range 3000 {
		offsets, wide = append(offsets, uint32(i*7919%size)), append(wide, uint64(i*7907%size))
	}
	for i, offset := range offsets {
		k.expect(int(offset), payload[i])
	}
	launch, err = set.Scatter(k.page, k.give(words(offsets)), 4, 0, from, uint64(len(offsets)))
	k.run(launch, err)
	for i, offset := range wide {
		k.expect(int(offset), other[i])
	}
	launch, err = set.Scatter(k.page, k.give(words(wide)), 8, 0, k.give(other), uint64(len(wide)))
	k.run(launch, err)

	var spans []kernels.Span
	for at, length := 1, 1; at+length < size; at, length = at+length+1, length*3/2+1 {
		spans = append(spans, kernels.Span{To: k.page.Address + driver.Address(at), From: from + driver.Address(at/2),
			Bytes: uint64(length)})
		for i := range length {
			k.expect(at+i, payload[at/2+i])
		}
	}
	_, err = kernels.Prepare(spans)
	s.NoError(err)
	table := k.give(words(spans))
	launch, err = set.ScatterRuns(k.page, table, spans)
	k.run(launch, err)

	launch, err = set.CopyMany(table, spans)
	s.NoError(err)
	s.NoError(s.device.Fill(s.stream, k.page.Address, 0, size))
	clear(k.expected)
	for _, span := range spans {
		copy(k.expected[span.To-k.page.Address:], payload[span.From-from:][:span.Bytes])
	}
	k.run(launch, nil)

	pairs := []kernels.Pair{{To: k.page.Address + 7, From: from + 9, Bits: flags, Changed: 0, Bytes: size - 100}}
	for i := range size - 100 {
		if mask[i] != 0 {
			k.expected[7+i] = payload[9+i]
		}
	}
	_, err = kernels.PreparePairs(pairs)
	s.NoError(err)
	pairing, err := set.Propagate(k.give(words(pairs)), pairs)
	k.run(pairing, err)

	clear(k.expected)
	for i := range size - 100 {
		if mask[i] != 0 {
			k.expected[7+i] = payload[9+i]
		}
	}
	k.drains(pairs)

	launch.Parameter = launch.Parameter[1:]
	s.fails(status.InvalidArgument, s.device.Launch(s.stream, &launch))
	s.NoError(set.Unload())
}

// drains does pairs once more, on a page of zeros whose bytes are expected then: by a drain that finds them posted, and by one
// that runs when they are, if it has not ended yet.
func (k *kernelTrial) drains(pairs []kernels.Pair) {
	at := k.memory(k.device, driver.Pinned, uint64(unsafe.Sizeof(kernels.Mailbox{})))
	box := (*kernels.Mailbox)(unsafe.Add(unsafe.Pointer(nil), uintptr(at)))
	*box = kernels.Mailbox{}
	command, err := k.set.Propagate(k.give(words(pairs)), pairs)
	k.NoError(err)
	drain := k.set.Drain(at)
	for _, runs := range []bool{false, true} {
		k.NoError(k.device.Fill(k.stream, k.page.Address, 0, k.page.Bytes))
		k.NoError(k.device.SynchronizeStream(k.stream))
		if !runs {
			k.set.Post(box, &command)
		}
		k.NoError(k.device.Launch(k.stream, &drain))
		if runs {
			k.set.Post(box, &command)
		}
		k.NoError(k.device.SynchronizeStream(k.stream))
		if runs && !box.IsDone() {
			k.NoError(k.device.Launch(k.stream, &drain))
			k.NoError(k.device.SynchronizeStream(k.stream))
		}
		k.True(box.IsDone())
		k.Equal(k.expected, k.get(k.device, k.stream, k.page.Address, k.page.Bytes))
	}
}

// comparesAndSums runs the kernels that leave what they read as it is.
func comparesAndSums(s *subject) {
	const size = 100_003
	set := s.kernels()
	if set == nil {
		return
	}
	k := &kernelTrial{subject: s, set: set}
	left := noise(size, 1)
	right := bytes.Clone(left)
	same, bits, count, first := bytes.Repeat([]byte{1}, size), make([]byte, (size+7)/8), uint64(0), uint64(size)
	for i := range size {
		if i%1009 == 500 || i/2000 == 17 {
			right[i] ^= byte(1 << (i % 8))
			same[i] = 0
			bits[i/8] |= 1 << (i % 8)
			count, first = count+1, min(first, uint64(i))
		}
	}
	a, b, result := k.give(left), k.give(right), k.give(make([]byte, size))
	run := func(launch driver.Launch, err error, wanted []byte) {
		s.NoError(err)
		s.NoError(s.device.Launch(s.stream, &launch))
		s.Equal(wanted, s.get(s.device, s.stream, result, uint64(len(wanted))))
	}
	launch, err := set.Compare(result, a, b, size)
	run(launch, err, same)
	launch, err = set.Differences(result, a, b, size)
	run(launch, err, bits)
	s.put(s.device, s.stream, result, words([]uint64{0, math.MaxUint64}))
	launch, err = set.Difference(result, a, b, size)
	run(launch, err, words([]uint64{count, first}))
	// What a warp loads at a time, rows of that, parts that end within one, more parts than warps; also where nothing is aligned.
	for _, part := range []int{4096, 1536, 2064, 777, 5, size} {
		for _, from := range []int{0, 1, 8} {
			var sums []uint32
			for at := from; at < size; at += part {
				sums = append(sums, crc32.Checksum(left[at:min(at+part, size)], crc32.MakeTable(crc32.Castagnoli)))
			}
			launch, err = set.Checksum(result, a+driver.Address(from), uint64(size-from), uint64(part))
			run(launch, err, words(sums))
		}
	}
	s.NoError(set.Unload())
}

// Kernels, fills and copies of one stream see what those before them wrote, and a launch's parameter is copied.
func launchesInOrder(s *subject) {
	const size = 100_000
	set := s.kernels()
	if set == nil {
		return
	}
	for _, kind := range s.kinds() {
		memory, other := s.memory(s.device, kind, size), s.memory(s.device, driver.Plain, size)
		model := bytes.Repeat([]byte{1}, size)
		s.NoError(s.device.Fill(s.stream, memory, 1, size))
		for value := range byte(30) {
			offset, length := int(value)*3001, 10_000>>(value%8)
			copy(model[offset:], bytes.Repeat([]byte{value}, length))
			fill, err := set.Fill(memory+driver.Address(offset), value, uint64(length))
			s.NoError(err)
			s.NoError(s.device.Launch(s.stream, &fill))
			clear(fill.Parameter)
			back, err := set.Copy(other, memory, size)
			s.NoError(err)
			s.NoError(s.device.Launch(s.stream, &back))
			s.NoError(s.device.Copy(s.stream, driver.Copy{To: memory, From: other, Bytes: size}))
		}
		s.Equal(model, s.get(s.device, s.stream, memory, size), "kind %d", kind)
	}
	s.NoError(set.Unload())
}

func refusesLaunches(s *subject) {
	set := s.kernels()
	if set == nil {
		return
	}
	memory := s.memory(s.device, driver.Plain, 4096)
	s.put(s.device, s.stream, memory, noise(4096, 1))
	good, err := set.Fill(memory, 7, 4096)
	s.NoError(err)
	for name, change := range map[string]func(launch *driver.Launch){
		"no blocks":           func(launch *driver.Launch) { launch.Blocks = 0 },
		"no threads":          func(launch *driver.Launch) { launch.Threads = 0 },
		"too many threads":    func(launch *driver.Launch) { launch.Threads = 1025 },
		"half a parameter":    func(launch *driver.Launch) { launch.Parameter = launch.Parameter[:8] },
		"no parameter at all": func(launch *driver.Launch) { launch.Parameter = nil },
	} {
		bad := good
		change(&bad)
		s.fails(status.InvalidArgument, s.device.Launch(s.stream, &bad), name)
	}
	for _, stream := range s.badStreams() {
		s.fails(status.InvalidHandle, s.device.Launch(stream, &good))
	}
	s.Equal(noise(4096, 1), s.get(s.device, s.stream, memory, 4096), "nothing was changed")
	s.NoError(s.device.Launch(s.stream, &good))
	s.Equal(bytes.Repeat([]byte{7}, 4096), s.get(s.device, s.stream, memory, 4096))
	s.NoError(set.Unload())
}

func endsModules(s *subject) {
	first, second := s.kernels(), s.kernels()
	if first == nil {
		return
	}
	memory := s.memory(s.device, driver.Plain, 256)
	launch, err := first.Fill(memory, 1, 256)
	s.NoError(err)
	ended, err := second.Fill(memory, 2, 256)
	s.NoError(err)
	s.NoError(second.Unload())
	s.fails(status.InvalidHandle, second.Unload(), "twice")
	s.fails(status.InvalidHandle, s.device.Launch(s.stream, &ended), "its module has ended")
	s.NoError(s.device.Launch(s.stream, &launch), "the other one's stay")
	s.Equal(bytes.Repeat([]byte{1}, 256), s.get(s.device, s.stream, memory, 256))
	s.NoError(first.Unload())
}
