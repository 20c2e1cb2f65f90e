// Package kernels has the kernels that libmmsb brings along: their device code, the same bodies built for the host, and what
// launches them.
//
// A Set is the kernels on one device; its methods make a driver.Launch and start nothing. Threads of a kernel run in any order,
// so no byte may be addressed twice by one launch. For deltas, of which later bytes win, that is the caller's business: offsets
// that rise (Rising), and runs that rise without overlap (Prepare), are fine as they are; others become such runs by core/delta
// before.
package kernels

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// The parameters, as kernels/kernels.h has them.
type (
	fillParameter       struct{ to, bytes, value uint64 }
	copyParameter       struct{ to, from, bytes uint64 }
	copyManyParameter   struct{ spans, count, pieces uint64 }
	mergeBytesParameter struct{ page, mask, payload, length, changed uint64 }
	mergeBitsParameter  struct{ page, bits, payload, length, changed uint64 }
	expandBitsParameter struct {
		page, bits, ranks, payload, length, changed uint64
	}
	scatterParameter struct {
		page, bytes, offsets, offsetBytes, origin, payload, count, changed uint64
	}
	scatterRunsParameter struct{ page, spans, count, pieces, changed uint64 }
	compareParameter     struct{ result, a, b, bytes uint64 }
	differencesParameter struct{ bits, a, b, bytes uint64 }
	differenceParameter  struct{ found, a, b, bytes uint64 }
	checksumParameter    struct{ sums, from, bytes, part uint64 }
	propagateParameter   struct{ pairs, count, pieces uint64 }
	drainParameter       struct{ mailbox, looks, commands uint64 }
)

const (
	fill = iota
	copying
	copyMany
	mergeBytes
	mergeBits
	expandBits
	scatter
	scatterRuns
	compare
	differences
	difference
	checksum
	propagate
	drain
	kernelCount
)

// names are those of the device's functions.
var names = [kernelCount]string{
	fill:        "mmsb__kernel_fill",
	copying:     "mmsb__kernel_copy",
	copyMany:    "mmsb__kernel_copy_many",
	mergeBytes:  "mmsb__kernel_merge_bytes",
	mergeBits:   "mmsb__kernel_merge_bits",
	expandBits:  "mmsb__kernel_expand_bits",
	scatter:     "mmsb__kernel_scatter",
	scatterRuns: "mmsb__kernel_scatter_runs",
	compare:     "mmsb__kernel_compare",
	differences: "mmsb__kernel_differences",
	difference:  "mmsb__kernel_difference",
	checksum:    "mmsb__kernel_checksum",
	propagate:   "mmsb__kernel_propagate",
	drain:       "mmsb__kernel_drain",
}

const (
	pieceBytes = 2048 // MMSB__KERNEL_PIECE
	// RankBits is how many bits of a mask one rank stands for.
	RankBits = 512

	threadsOfBlock         = 256
	blocksOfMultiprocessor = 8 // as many as may run at a time
	// On an H100 four blocks of 1024 threads have 50 GB/s of PCIe 5.0 x16, of 256 threads 28 to 31; a copy has 55.
	blocksOfLink     = 4
	threadsOfLink    = 1024
	bytesOfThread    = 64
	bytesOfMerge     = 32
	lanesOfPiece     = 8
	lanesOfPart      = 32 // MMSB__KERNEL_LANES
	changedAlignment = 4
	tableAlignment   = 8
	sumBytes         = 4

	// DifferenceBytes is what Difference finds: two numbers, of which the first is 0 before and the second all ones.
	DifferenceBytes = 16
)

// Set is the kernels on one device. Its methods may be called from any goroutine.
type Set struct {
	device    driver.Device
	module    driver.Module
	functions [kernelCount]driver.Function
	blocks    uint64 // no launch has more
	simulated bool   // then a launch says what it accesses
}

// hostImage stands for the host build, which a simulated device launches whatever the image holds.
var hostImage = []byte("the host build")

// Load brings the kernels to a device. image is Image(), which a simulated device does not need. Errors: Unsupported where
// it is empty; those of the driver.
func Load(device driver.Device, image []byte) (*Set, error) {
	info := device.Info()
	if info.Simulated {
		image = hostImage
	}
	if len(image) == 0 {
		return nil, status.Errorf(status.Unsupported, "the library was built without kernels for CUDA (MMSB_CUDA=off)")
	}
	module, err := device.LoadModule(image)
	if err != nil {
		return nil, err
	}
	set := &Set{device: device, module: module, simulated: info.Simulated}
	set.blocks = blocksOfMultiprocessor * uint64(max(info.Multiprocessors, 1))
	for i, name := range names {
		if set.functions[i], err = device.Function(module, name); err != nil {
			if unload := device.UnloadModule(module); unload != nil {
				return nil, unload
			}
			return nil, err
		}
	}
	return set, nil
}

// Unload takes the kernels off the device. None of them may be queued or running.
func (s *Set) Unload() error { return s.device.UnloadModule(s.module) }

// Page is a page on the device. Changed is its change mask, or 0 where none is kept: aligned to 4 bytes, and a whole number of
// them long.
type Page struct {
	Address driver.Address
	Bytes   uint64
	Changed driver.Address
}

// Span is one copy of many, as the kernels read it from an array in memory.
type Span struct {
	To, From driver.Address
	Bytes    uint64
	Piece    uint64 // set by Prepare
}

// Prepare readies spans for the array that kernels read, and says how many pieces of work they are. Errors: OutOfRange for one
// that reaches past the end of addresses; InvalidArgument where their targets do not rise without overlap.
func Prepare(spans []Span) (pieces uint64, err error) {
	if pieces, err = number(spans); err != nil {
		return 0, err
	}
	var end uint64
	for i, span := range spans {
		if span.Bytes == 0 {
			continue
		}
		if uint64(span.To) < end {
			return 0, status.Errorf(status.InvalidArgument, "span %d begins at 0x%x, before another one's end at 0x%x", i,
				span.To, end)
		}
		end = uint64(span.To) + span.Bytes
	}
	return pieces, nil
}

// number is Prepare of spans whose targets come in any order.
func number(spans []Span) (pieces uint64, err error) {
	for i := range spans {
		span := &spans[i]
		if err := checkRange("a span's target", span.To, span.Bytes); err != nil {
			return 0, err
		}
		if err := checkRange("a span's source", span.From, span.Bytes); err != nil {
			return 0, err
		}
		span.Piece = pieces
		if span.Bytes > 0 {
			pieces += (uint64(span.To)%16+span.Bytes-1)/pieceBytes + 1
		}
	}
	return pieces, nil
}

// Rising says whether each offset is larger than the one before.
func Rising[T uint32 | uint64](offsets []T) bool {
	for i := 1; i < len(offsets); i++ {
		if offsets[i] <= offsets[i-1] {
			return false
		}
	}
	return true
}

// RankBytes is the memory that the ranks of a mask of length bits take, 8 bytes each.
func RankBytes(length uint64) uint64 {
	return (length/RankBits + (length%RankBits+RankBits-1)/RankBits) * 8
}

// Ranks lists, for every RankBits bits of a mask of length bits, how many are set below; total is how many are set at all.
// mask has (length+7)/8 bytes at least.
func Ranks(mask []byte, length uint64) (ranks []uint64, total uint64) {
	ranks = make([]uint64, 0, RankBytes(length)/8)
	for first := uint64(0); first < length; first += RankBits {
		ranks = append(ranks, total)
		block := mask[first/8 : min(first+RankBits, length)/8]
		for ; len(block) >= 8; block = block[8:] {
			total += uint64(bits.OnesCount64(binary.LittleEndian.Uint64(block)))
		}
		for _, chosen := range block {
			total += uint64(bits.OnesCount8(chosen))
		}
	}
	if rest := length % 8; rest != 0 {
		total += uint64(bits.OnesCount8(mask[length/8] & (1<<rest - 1)))
	}
	return ranks, total
}

// Fill sets bytes to a value. Errors: OutOfRange past the end of addresses.
func (s *Set) Fill(to driver.Address, value byte, bytes uint64) (driver.Launch, error) {
	if err := checkRange("the target", to, bytes); err != nil {
		return driver.Launch{}, err
	}
	parameter := &fillParameter{to: uint64(to), bytes: bytes, value: uint64(value)}
	return s.launch(fill, bytesOf(parameter), bytes/bytesOfThread, writes(to, bytes)), nil
}

// Copy copies bytes. Errors: OutOfRange past the end of addresses; InvalidArgument where the two overlap.
func (s *Set) Copy(to, from driver.Address, bytes uint64) (driver.Launch, error) {
	err := cmp.Or(checkRange("the target", to, bytes), checkRange("the source", from, bytes))
	if err != nil {
		return driver.Launch{}, err
	}
	if uint64(max(to, from)-min(to, from)) < bytes {
		return driver.Launch{}, status.Errorf(status.InvalidArgument, "%d bytes at 0x%x overlap those at 0x%x", bytes, from, to)
	}
	parameter := &copyParameter{to: uint64(to), from: uint64(from), bytes: bytes}
	return s.launch(copying, bytesOf(parameter), bytes/bytesOfThread, reads(from, bytes), writes(to, bytes)), nil
}

// CopyMany copies spans that were prepared and then put into memory at table, aligned to 8; what is there when the kernel runs
// counts. No target may overlap a source. Errors: InvalidArgument for the alignment; those of Prepare.
func (s *Set) CopyMany(table driver.Address, spans []Span) (driver.Launch, error) {
	return s.copyMany(table, spans, Prepare)
}

func (s *Set) copyMany(table driver.Address, spans []Span, prepare func([]Span) (uint64, error)) (driver.Launch, error) {
	pieces, err := checkTable(table, spans, prepare)
	if err != nil {
		return driver.Launch{}, err
	}
	parameter := &copyManyParameter{spans: uint64(table), count: uint64(len(spans)), pieces: pieces}
	return s.launch(copyMany, bytesOf(parameter), pieces*lanesOfPiece, s.spanAccesses(table, spans)...), nil
}

// CarryMany is CopyMany between memory of the device and memory of the host, with no more blocks than keep the link busy: all
// other multiprocessors are for other work. Targets come in any order; that they do not overlap is the caller's care.
func (s *Set) CarryMany(table driver.Address, spans []Span) (driver.Launch, error) {
	launch, err := s.copyMany(table, spans, number)
	if blocks := launch.Blocks * threadsOfBlock / threadsOfLink; blocks > 0 {
		launch.Blocks, launch.Threads = min(blocks, blocksOfLink), threadsOfLink
	}
	return launch, err
}

// MergeBytes puts the bytes of payload into the page where those of mask are not 0, for length bytes. Nobody else may write the
// page meanwhile: the bytes in between are written back. Errors: OutOfRange; InvalidArgument (alignment of the change mask).
func (s *Set) MergeBytes(page Page, mask, payload driver.Address, length uint64) (driver.Launch, error) {
	err := cmp.Or(page.check(length), checkRange("the mask", mask, length), checkRange("the payload", payload, length))
	if err != nil {
		return driver.Launch{}, err
	}
	parameter := &mergeBytesParameter{page: uint64(page.Address), mask: uint64(mask), payload: uint64(payload),
		length: length, changed: uint64(page.Changed)}
	accesses := append(page.accesses(length), reads(mask, length), reads(payload, length))
	return s.launch(mergeBytes, bytesOf(parameter), length/bytesOfMerge, accesses...), nil
}

// MergeBits is MergeBytes with a bit mask.
func (s *Set) MergeBits(page Page, mask, payload driver.Address, length uint64) (driver.Launch, error) {
	err := cmp.Or(page.check(length), checkRange("the mask", mask, bitBytes(length)),
		checkRange("the payload", payload, length))
	if err != nil {
		return driver.Launch{}, err
	}
	parameter := &mergeBitsParameter{page: uint64(page.Address), bits: uint64(mask), payload: uint64(payload),
		length: length, changed: uint64(page.Changed)}
	accesses := append(page.accesses(length), reads(mask, bitBytes(length)), reads(payload, length))
	return s.launch(mergeBits, bytesOf(parameter), length/bytesOfMerge, accesses...), nil
}

// ExpandBits is MergeBits with a payload of only the total bytes whose bits are set, in order. ranks is what Ranks makes of the
// mask; both are aligned to 8. Errors: as before, InvalidArgument for these alignments, Mismatch for a total that cannot be.
func (s *Set) ExpandBits(page Page, mask, ranks, payload driver.Address, length, total uint64) (driver.Launch, error) {
	rankBytes := RankBytes(length)
	err := cmp.Or(page.check(length), checkRange("the mask", mask, bitBytes(length)),
		checkAligned("the mask", mask, tableAlignment),
		checkRange("the ranks", ranks, rankBytes), checkAligned("the ranks", ranks, tableAlignment),
		checkRange("the payload", payload, total))
	if err != nil {
		return driver.Launch{}, err
	}
	if total > length {
		return driver.Launch{}, status.Errorf(status.Mismatch, "%d of %d bits are set", total, length)
	}
	parameter := &expandBitsParameter{page: uint64(page.Address), bits: uint64(mask), ranks: uint64(ranks),
		payload: uint64(payload), length: length, changed: uint64(page.Changed)}
	accesses := append(page.accesses(length), reads(mask, bitBytes(length)), reads(ranks, rankBytes), reads(payload, total))
	return s.launch(expandBits, bytesOf(parameter), length/16, accesses...), nil
}

// Scatter puts byte i of payload at offset i of the page, for count offsets of 4 or 8 bytes each, aligned to that. The page's
// first byte has the offset origin; an offset that is not in the page is passed over. No two are equal. Errors: OutOfRange;
// InvalidArgument (alignments, size of an offset).
func (s *Set) Scatter(page Page, offsets driver.Address, offsetBytes, origin uint64, payload driver.Address,
	count uint64) (driver.Launch, error) {
	if offsetBytes != 4 && offsetBytes != 8 {
		return driver.Launch{}, status.Errorf(status.InvalidArgument, "offset size is %d, not 4 or 8", offsetBytes)
	}
	if count > page.Bytes {
		return driver.Launch{}, status.Errorf(status.OutOfRange, "%d different offsets exceed a page of %d bytes", count,
			page.Bytes)
	}
	if count > math.MaxUint64/offsetBytes {
		return driver.Launch{}, status.Errorf(status.OutOfRange, "%d offsets are beyond what can be addressed", count)
	}
	err := cmp.Or(page.check(page.Bytes), checkAligned("the offsets", offsets, offsetBytes),
		checkRange("the offsets", offsets, count*offsetBytes), checkRange("the payload", payload, count))
	if err != nil {
		return driver.Launch{}, err
	}
	parameter := &scatterParameter{page: uint64(page.Address), bytes: page.Bytes, offsets: uint64(offsets),
		offsetBytes: offsetBytes, origin: origin, payload: uint64(payload), count: count, changed: uint64(page.Changed)}
	accesses := append(page.accesses(page.Bytes), reads(offsets, count*offsetBytes), reads(payload, count))
	return s.launch(scatter, bytesOf(parameter), count, accesses...), nil
}

// ScatterRuns is CopyMany with targets in the page. Errors: those of CopyMany; OutOfRange for a target out of the page;
// InvalidArgument (alignment of the change mask).
func (s *Set) ScatterRuns(page Page, table driver.Address, spans []Span) (driver.Launch, error) {
	if err := page.check(page.Bytes); err != nil {
		return driver.Launch{}, err
	}
	pieces, err := checkTable(table, spans, Prepare)
	if err != nil {
		return driver.Launch{}, err
	}
	for i, span := range spans {
		if offset := uint64(span.To - page.Address); offset > page.Bytes || span.Bytes > page.Bytes-offset {
			return driver.Launch{}, status.Errorf(status.OutOfRange,
				"span %d of %d bytes at 0x%x is not within the %d bytes at 0x%x",
				i, span.Bytes, span.To, page.Bytes, page.Address)
		}
	}
	parameter := &scatterRunsParameter{page: uint64(page.Address), spans: uint64(table), count: uint64(len(spans)),
		pieces: pieces, changed: uint64(page.Changed)}
	accesses := append(s.spanAccesses(table, spans), page.changedAccess(page.Bytes)...)
	return s.launch(scatterRuns, bytesOf(parameter), pieces*lanesOfPiece, accesses...), nil
}

// Compare puts 1 into result where the bytes of a and b are equal, 0 where they are not. Errors: OutOfRange past the end of
// addresses; InvalidArgument where the result overlaps what is compared.
func (s *Set) Compare(result, a, b driver.Address, bytes uint64) (driver.Launch, error) {
	if err := checkComparison("the result", result, bytes, a, b, bytes); err != nil {
		return driver.Launch{}, err
	}
	parameter := &compareParameter{result: uint64(result), a: uint64(a), b: uint64(b), bytes: bytes}
	return s.launch(compare, bytesOf(parameter), bytes/16, reads(a, bytes), reads(b, bytes), writes(result, bytes)), nil
}

// Differences puts a bit for each byte into mask: whether a and b differ there. Errors: as Compare.
func (s *Set) Differences(mask, a, b driver.Address, bytes uint64) (driver.Launch, error) {
	if err := checkComparison("the mask", mask, bitBytes(bytes), a, b, bytes); err != nil {
		return driver.Launch{}, err
	}
	parameter := &differencesParameter{bits: uint64(mask), a: uint64(a), b: uint64(b), bytes: bytes}
	return s.launch(differences, bytesOf(parameter), bytes/16, reads(a, bytes), reads(b, bytes),
		writes(mask, bitBytes(bytes))), nil
}

// Difference adds to the first number at found how many bytes differ, and makes the second one the index of the first that does
// where that is smaller. found is aligned to 8. Errors: as Compare; InvalidArgument for the alignment.
func (s *Set) Difference(found, a, b driver.Address, bytes uint64) (driver.Launch, error) {
	err := cmp.Or(checkComparison("the result", found, DifferenceBytes, a, b, bytes),
		checkAligned("the result", found, tableAlignment))
	if err != nil {
		return driver.Launch{}, err
	}
	parameter := &differenceParameter{found: uint64(found), a: uint64(a), b: uint64(b), bytes: bytes}
	return s.launch(difference, bytesOf(parameter), bytes/bytesOfThread, reads(a, bytes), reads(b, bytes),
		writes(found, DifferenceBytes)), nil
}

// Parts is how many parts of so many bytes there are, of which the last may be shorter. part is not 0.
func Parts(bytes, part uint64) uint64 {
	parts := bytes / part
	if bytes%part != 0 {
		parts++
	}
	return parts
}

// Checksum puts the CRC-32C of each part into sums, 4 bytes each and aligned to that. Errors: InvalidArgument (a part of 0 bytes,
// alignment, sums over what is read); OutOfRange past the end of addresses.
func (s *Set) Checksum(sums, from driver.Address, bytes, part uint64) (driver.Launch, error) {
	if part == 0 {
		return driver.Launch{}, status.Errorf(status.InvalidArgument, "part is 0 bytes, at least 1 is needed")
	}
	parts := Parts(bytes, part)
	if parts > math.MaxUint64/sumBytes {
		return driver.Launch{}, status.Errorf(status.OutOfRange, "checksums of %d parts are beyond what can be addressed", parts)
	}
	err := cmp.Or(checkRange("the source", from, bytes), checkRange("the checksums", sums, parts*sumBytes),
		checkAligned("the checksums", sums, sumBytes), checkApart("the checksums", sums, parts*sumBytes, from, bytes))
	if err != nil {
		return driver.Launch{}, err
	}
	parameter := &checksumParameter{sums: uint64(sums), from: uint64(from), bytes: bytes, part: part}
	threads := min(parts, math.MaxUint32) * lanesOfPart
	return s.launch(checksum, bytesOf(parameter), threads, reads(from, bytes), writes(sums, parts*sumBytes)), nil
}

// Pair is one propagation of many, as the kernel reads it from an array in memory: Bytes of From go to To where Bits, a bit mask,
// has them, and are marked in Changed (0 = in none).
type Pair struct {
	To, From, Bits, Changed driver.Address
	Bytes                   uint64
	Piece                   uint64 // set by PreparePairs
}

// PreparePairs is Prepare for pairs, whose targets may come in any order but are apart. Errors: OutOfRange past the end of
// addresses; InvalidArgument (alignment of a change mask).
func PreparePairs(pairs []Pair) (pieces uint64, err error) {
	for i := range pairs {
		pair := &pairs[i]
		err := cmp.Or(Page{pair.To, pair.Bytes, pair.Changed}.check(pair.Bytes), checkRange("the source", pair.From, pair.Bytes),
			checkRange("the mask", pair.Bits, bitBytes(pair.Bytes)))
		if err != nil {
			return 0, err
		}
		pair.Piece = pieces
		pieces += Parts(pair.Bytes, pieceBytes)
	}
	return pieces, nil
}

// Propagate does pairs that were prepared and then put into memory at table, aligned to 8; what is there when the kernel runs
// counts. No target may overlap another one or a source. Errors: InvalidArgument for the alignment; those of PreparePairs.
func (s *Set) Propagate(table driver.Address, pairs []Pair) (driver.Launch, error) {
	tableBytes := uint64(len(pairs)) * uint64(unsafe.Sizeof(Pair{}))
	err := cmp.Or(checkAligned("the table of pairs", table, tableAlignment), checkRange("the table of pairs", table, tableBytes))
	if err != nil {
		return driver.Launch{}, err
	}
	pieces, err := PreparePairs(pairs)
	if err != nil {
		return driver.Launch{}, err
	}
	accesses := []driver.Access{reads(table, tableBytes)}
	if s.simulated {
		for _, pair := range pairs {
			accesses = append(accesses, reads(pair.From, pair.Bytes), reads(pair.Bits, bitBytes(pair.Bytes)))
			accesses = append(accesses, Page{pair.To, pair.Bytes, pair.Changed}.accesses(pair.Bytes)...)
		}
	}
	parameter := &propagateParameter{pairs: uint64(table), count: uint64(len(pairs)), pieces: pieces}
	return s.launch(propagate, bytesOf(parameter), pieces*lanesOfPiece, accesses...), nil
}

// Mailbox is what the host and Drain share, in memory of the host that the device reaches, aligned to 64 bytes and 0 at first.
// The host writes Kind and Parameter, then moves Posted on by one; when Done is as much, that command is done.
type Mailbox struct {
	Posted    atomic.Uint64
	_         [7]uint64
	Done      atomic.Uint64
	_         [7]uint64
	Kind      uint64
	Parameter [3]uint64
	_         [4]uint64
}

const (
	// looksOfDevice take some milliseconds of a device, each of them a read over its link; those of a host less than one.
	looksOfDevice = 2000
	looksOfHost   = 200
	// mostCommands end a Drain that is always busy, so that who waits for the whole device need not wait for its program.
	mostCommands = 1000

	kindCopyMany, kindPropagate = 0, 1 // MMSB__KERNEL_COPY_MANY, MMSB__KERNEL_PROPAGATE
)

// Post writes a command that Drain executes: a launch of CopyMany or Propagate, whose table and what it names must stay as it is.
// The one before is done.
func (s *Set) Post(box *Mailbox, launch *driver.Launch) {
	box.Kind = kindCopyMany
	if launch.Function == s.functions[propagate] {
		box.Kind = kindPropagate
	}
	copy(bytesOf(&box.Parameter), launch.Parameter)
	box.Posted.Add(1)
}

// IsDone says whether all commands are done.
func (b *Mailbox) IsDone() bool { return b.Done.Load() == b.Posted.Load() }

// TakeBack takes back a command that is not done. No Drain may be queued or running.
func (b *Mailbox) TakeBack() { b.Posted.Store(b.Done.Load()) }

// Drain executes what is posted in a mailbox, until nothing comes for some time, or it has executed many. No two have a mailbox
// at a time: they are launched on one stream.
func (s *Set) Drain(mailbox driver.Address) driver.Launch {
	parameter := &drainParameter{mailbox: uint64(mailbox), looks: looksOfDevice, commands: mostCommands}
	if s.simulated {
		parameter.looks = looksOfHost
	}
	return s.launch(drain, bytesOf(parameter), 1, writes(mailbox, uint64(unsafe.Sizeof(Mailbox{}))))
}

// launch is a kernel with enough threads for the work, up to what the device runs at once.
func (s *Set) launch(kernel int, parameter []byte, threads uint64, accesses ...driver.Access) driver.Launch {
	blocks := min(threads/threadsOfBlock+1, s.blocks)
	launch := driver.Launch{Function: s.functions[kernel], Blocks: uint32(blocks), Threads: threadsOfBlock,
		Parameter: parameter}
	if s.simulated {
		for _, access := range accesses {
			if access.Bytes > 0 {
				launch.Accesses = append(launch.Accesses, access)
			}
		}
	}
	return launch
}

func (s *Set) spanAccesses(table driver.Address, spans []Span) []driver.Access {
	if !s.simulated {
		return nil
	}
	accesses := make([]driver.Access, 0, 2*len(spans)+2)
	accesses = append(accesses, reads(table, uint64(len(spans))*uint64(unsafe.Sizeof(Span{}))))
	for _, span := range spans {
		accesses = append(accesses, reads(span.From, span.Bytes), writes(span.To, span.Bytes))
	}
	return accesses
}

// check looks at a page whose first length bytes are addressed.
func (p Page) check(length uint64) error {
	if length > p.Bytes {
		return status.Errorf(status.OutOfRange, "%d bytes reach past a page of %d bytes", length, p.Bytes)
	}
	if err := checkRange("the page", p.Address, p.Bytes); err != nil {
		return err
	}
	if err := checkRange("the change mask", p.Changed, changedBytes(p.Bytes)); err != nil {
		return err
	}
	return checkAligned("the change mask", p.Changed, changedAlignment)
}

func (p Page) accesses(length uint64) []driver.Access {
	return append(p.changedAccess(length), writes(p.Address, length))
}

func (p Page) changedAccess(length uint64) []driver.Access {
	if p.Changed == 0 {
		return nil
	}
	return []driver.Access{writes(p.Changed, changedBytes(length))}
}

func reads(address driver.Address, bytes uint64) driver.Access {
	return driver.Access{Address: address, Bytes: bytes}
}

func writes(address driver.Address, bytes uint64) driver.Access {
	return driver.Access{Address: address, Bytes: bytes, Write: true}
}

func checkTable(table driver.Address, spans []Span, prepare func([]Span) (uint64, error)) (pieces uint64, err error) {
	if err := checkAligned("the table of spans", table, tableAlignment); err != nil {
		return 0, err
	}
	if err := checkRange("the table of spans", table, uint64(len(spans))*uint64(unsafe.Sizeof(Span{}))); err != nil {
		return 0, err
	}
	return prepare(spans)
}

func checkRange(what string, address driver.Address, bytes uint64) error {
	if bytes > math.MaxUint64-uint64(address) {
		return status.Errorf(status.OutOfRange, "%s of %d bytes at 0x%x reaches past the last address", what, bytes, address)
	}
	return nil
}

func checkAligned(what string, address driver.Address, alignment uint64) error {
	if uint64(address)%alignment != 0 {
		return status.Errorf(status.InvalidArgument, "%s at 0x%x is not aligned to %d bytes", what, address, alignment)
	}
	return nil
}

// checkApart sees to it that what is written does not overlap what is read.
func checkApart(what string, to driver.Address, toBytes uint64, from driver.Address, fromBytes uint64) error {
	if toBytes > 0 && fromBytes > 0 && uint64(to) < uint64(from)+fromBytes && uint64(from) < uint64(to)+toBytes {
		return status.Errorf(status.InvalidArgument, "%s of %d bytes at 0x%x overlaps the %d bytes at 0x%x", what, toBytes, to,
			fromBytes, from)
	}
	return nil
}

func checkComparison(what string, to driver.Address, toBytes uint64, a, b driver.Address, bytes uint64) error {
	return cmp.Or(checkRange("the first range", a, bytes), checkRange("the second range", b, bytes),
		checkRange(what, to, toBytes), checkApart(what, to, toBytes, a, bytes), checkApart(what, to, toBytes, b, bytes))
}

func bitBytes(length uint64) uint64 { return length/8 + (length%8+7)/8 }

// changedBytes is the memory of a change mask: whole words of 4 bytes.
func changedBytes(length uint64) uint64 { return (bitBytes(length) + 3) / 4 * 4 }

// bytesOf is a parameter as the driver wants it.
func bytesOf[T any](parameter *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(parameter)), int(unsafe.Sizeof(*parameter)))
}
