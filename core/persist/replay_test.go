package persist

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/page"
	"libmmsb/core/region"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	gpupages "libmmsb/gpu/pages"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// recordOf is a record as it lies in a file.
func recordOf(kind journal.Kind, flags uint8, form uint16, version uint64, body []byte) []byte {
	length := 40 + len(body)
	b := make([]byte, 40, length+7)
	binary.LittleEndian.PutUint32(b, uint32(length))
	b[4], b[5] = byte(kind), flags
	binary.LittleEndian.PutUint16(b[6:], form)
	binary.LittleEndian.PutUint64(b[8:], 1)
	binary.LittleEndian.PutUint64(b[16:], version)
	binary.LittleEndian.PutUint64(b[24:], version)
	b = append(b, body...)
	return b[:(length+7)&^7]
}

// recordOfPage is recordOf, of another page than 1.
func recordOfPage(id uint64, kind journal.Kind, version uint64, body []byte) []byte {
	b := recordOf(kind, 0, 0, version, body)
	binary.LittleEndian.PutUint64(b[8:], id)
	return b
}

// A snapshot has its pages as they are at a moment behind its position. So a replay can come to a clone whose page is newer by
// then, or is no more: a later record ends the clone.
func TestClonesOfPagesThatAreOthersByNow(t *testing.T) {
	create := recordOf(journal.Create, 0, 0, 3, journal.CreateBody(10, abi.LocationCPU, 0, -1, 0))
	cloneOf := func(id, version uint64) []byte { return recordOfPage(2, journal.Clone, 1, journal.Words(id, version)) }
	written := recordOfPage(2, journal.Write, 2, append(journal.Words(0), 7))
	ended := recordOfPage(2, journal.Destroy, 3, nil)
	for name, c := range map[string]struct {
		records [][]byte
		pages   int
		code    status.Code
	}{
		"as it was":          {[][]byte{create, cloneOf(1, 3), written}, 2, status.OK},
		"newer":              {[][]byte{create, cloneOf(1, 2), written}, 0, status.Mismatch},
		"newer, and ended":   {[][]byte{create, cloneOf(1, 2), written, ended}, 1, status.OK},
		"no more":            {[][]byte{create, cloneOf(9, 2), written}, 0, status.Mismatch},
		"no more, unchanged": {[][]byte{create, cloneOf(9, 2)}, 0, status.Mismatch},
		"no more, and ended": {[][]byte{create, cloneOf(9, 2), written, ended}, 1, status.OK},
		"older":              {[][]byte{create, cloneOf(1, 4), written}, 2, status.OK}, // it was written through a pointer
	} {
		t.Run(name, func(t *testing.T) {
			directory := filepath.Join(t.TempDir(), "journal")
			writeHistory(t, directory, c.records)
			context := newContext(t)
			err := Load(context, FromPath(""), LoadOptions{Journal: directory}, nil)
			require.Equal(t, c.code, status.CodeOf(err), "%v", err)
			require.Len(t, contents(t, context), c.pages)
		})
	}
}

// Nor is such a page a reason to give up a clone that is not in the snapshot: the page may have been written through a pointer
// behind the moment, where the clone is, too. If the clone had ended by then, a record of it may not fit.
func TestClonesOfPagesThatMayBeNewerThanTheMoment(t *testing.T) {
	clone := recordOfPage(2, journal.Clone, 1, journal.Words(1, 2))
	written := recordOfPage(2, journal.Write, 2, append(journal.Words(0), 7))
	outside := recordOfPage(2, journal.Write, 2, append(journal.Words(99), 7))
	ended := recordOfPage(2, journal.Destroy, 3, nil)
	for name, c := range map[string]struct {
		records [][]byte
		pages   int
		code    status.Code
	}{
		"goes on":       {[][]byte{clone, written}, 2, status.OK},
		"ends":          {[][]byte{clone, written, ended}, 1, status.OK},
		"does not fit":  {[][]byte{clone, outside}, 0, status.Mismatch},
		"did not fit":   {[][]byte{clone, outside, written, ended}, 1, status.OK},
		"comes then":    {[][]byte{written, clone, written}, 0, status.Mismatch}, // but not before a change of it
		"another's too": {[][]byte{clone, recordOfPage(3, journal.Clone, 1, journal.Words(2, 1)), written}, 3, status.OK},
	} {
		t.Run(name, func(t *testing.T) {
			directory, base := filepath.Join(t.TempDir(), "journal"), filepath.Join(t.TempDir(), "base")
			writeHistory(t, directory, c.records)
			read, err := journal.OpenReplay(file.OS{}, directory)
			require.NoError(t, err)
			sink, err := file.Replace(file.OS{}, base, file.Options{})
			require.NoError(t, err)
			header := snapshot.Header{Lineage: read.At(0), Latest: uint64(len(c.records)), Taken: time.Now()}
			w, err := snapshot.NewWriter(sink, header, snapshot.Options{})
			require.NoError(t, err)
			require.NoError(t, w.Add(snapshot.Page{ID: 1, Size: 10, Version: 5}, snapshot.KindBytes, 0, make([]byte, 10), 0))
			_, err = w.Finish(1, 10)
			require.NoError(t, err)
			context := newContext(t)
			err = Load(context, FromPath(base), LoadOptions{Journal: directory}, nil)
			require.Equal(t, c.code, status.CodeOf(err), "%v", err)
			require.Len(t, contents(t, context), c.pages)
		})
	}
}

// anyRecord changes bytes of page 1, of size bytes; now and then it is not as it must be.
func anyRecord(random *rand.Rand, version, size uint64) []byte {
	payload := make([]byte, 1+random.IntN(40))
	for i := range payload {
		payload[i] = byte(random.Uint32())
	}
	n := uint64(len(payload))
	kind, flags, form := journal.Delta, uint8(0), uint16(1+random.IntN(6))
	var body []byte
	if random.IntN(4) == 0 {
		flags = journal.Annotated
		source := "source"[:random.IntN(7)]
		body = append(journal.Words(5, 6, uint64(len(source))), source...)
		body = append(body, make([]byte, -len(source)&7)...)
	}
	switch kinds := random.IntN(8); {
	case kinds == 0:
		kind, flags, body = journal.Write, 0, journal.Words(random.Uint64N(size))
	case kinds == 1:
		kind, body = journal.Run, append(body, journal.Words(random.Uint64N(size))...)
	case form <= journal.SparseBits:
		mask := make([]byte, n)
		for i := range mask {
			mask[i] = byte(random.IntN(2) * random.IntN(256))
		}
		length := n
		if form != journal.DenseBytes {
			mask = mask[:(n+7)/8]
		}
		if form == journal.SparseBits {
			set := 0
			for at := range length {
				set += int(mask[at/8] >> (at % 8) & 1)
			}
			payload = payload[:set]
		}
		body = append(append(body, journal.Words(length)...), mask...)
	case form == journal.Indexed:
		body = append(body, journal.Words(n)...)
		for range n {
			body = append(body, journal.Words(random.Uint64N(size))...)
		}
	case form == journal.Indexed32:
		body = append(body, journal.Words(n)...)
		for range n {
			body = binary.LittleEndian.AppendUint32(body, uint32(random.Uint64N(size)))
		}
	default:
		first := random.Uint64N(n + 1)
		body = append(body, journal.Words(2, random.Uint64N(size), first, random.Uint64N(size), n-first)...)
	}
	body = append(body, payload...)
	if random.IntN(12) == 0 { // some word is another one, or the end is missing
		if at := random.IntN(len(body)/8+1) * 8; at+8 <= len(body) {
			words := []uint64{0, 1, size, n + 1, 1 << 32, 1 << 60, 1 << 61, 1 << 63, 1<<64 - 1, random.Uint64()}
			binary.LittleEndian.PutUint64(body[at:], words[random.IntN(len(words))])
		} else {
			body = body[:random.IntN(len(body)+1)]
		}
	}
	if random.IntN(100) == 0 {
		flags = uint8(random.IntN(8)) &^ journal.More
	}
	return recordOf(kind, flags, form, version, body)
}

// What native code makes of records is what Go makes of them one by one, as it does for pages on disk: the same bytes, mask,
// version and epoch, or the same error and a context that is as it was.
func TestNativeCodeReplaysAsGoDoes(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	random := rand.New(rand.NewPCG(8, 9))
	folder := t.TempDir()
	outcomes := make(map[status.Code]int)
	rounds := 400
	if raceDetector { // nothing runs at the same time here
		rounds = 40
	}
	for round := range rounds {
		size := 64 + random.Uint64N(300)
		history := make([][]byte, 1, 60)
		for version := range uint64(1 + random.IntN(50)) {
			if random.IntN(10) == 0 {
				version /= 2 // the page has it
			}
			history = append(history, anyRecord(random, version+2, size))
		}
		var contexts [2]uint64
		var errs [2]error
		for i, location := range []int32{abi.LocationCPU, abi.LocationDisk} {
			history[0] = recordOf(journal.Create, 0, 0, 1, journal.CreateBody(size, location, 0, -1, 0))
			directory := filepath.Join(folder, fmt.Sprint(round, "-", i))
			writeHistory(t, directory, history)
			contexts[i] = newContext(t)
			createFilled(t, contexts[i], 100, 7, 3)
			errs[i] = Load(contexts[i], FromPath(""), LoadOptions{Journal: directory}, nil)
			if errs[i] == nil { // in a context that had no page the versions are those of the records
				require.NoError(t, page.Destroy(contexts[i]))
				contexts[i] = replayed(t, "", directory, LoadOptions{})
			}
		}
		require.Equal(t, status.CodeOf(errs[0]), status.CodeOf(errs[1]), "%v, %v", errs[0], errs[1])
		outcomes[status.CodeOf(errs[0])]++
		if errs[0] != nil {
			for _, context := range contexts {
				found := contents(t, context)
				require.Len(t, found, 1)
				require.Len(t, found[7], 100)
			}
		} else {
			requireSamePage(t, contexts[0], contexts[1], size)
		}
		for _, context := range contexts {
			require.NoError(t, page.Destroy(context))
		}
	}
	require.Greater(t, outcomes[0], rounds/8)
	require.Greater(t, outcomes[status.Corrupt], rounds/6)
}

// writeHistory writes a journal, several records a frame.
func writeHistory(t *testing.T, directory string, history [][]byte) {
	t.Helper()
	w, err := journal.NewWriter(file.OS{}, directory, journal.Options{Durability: journal.None})
	require.NoError(t, err)
	for len(history) > 0 {
		n := min(len(history), 20)
		frame := make([]byte, journal.FrameHeadBytes)
		for _, record := range history[:n] {
			frame = append(frame, record...)
		}
		used := len(frame)
		frame = append(frame, make([]byte, -used&4095)...)
		require.NoError(t, w.Write(frame, used, w.Next(), uint32(n), true))
		history = history[n:]
	}
	require.NoError(t, w.Close())
}

// requireSamePage compares page 1 of two contexts: one in memory, one on disk.
func requireSamePage(t *testing.T, one, other uint64, size uint64) {
	t.Helper()
	var bytes, masks [2][]byte
	var versions [2][2]uint64
	for i, context := range []uint64{one, other} {
		require.NoError(t, page.Use(context, func(c *page.Context) error {
			handle, err := c.Lookup(1)
			if err != nil {
				return err
			}
			return page.Read(handle, func(p *page.Page) error {
				versions[i] = [2]uint64{p.Record.Version, p.Record.Epoch}
				masks[i] = make([]byte, (size+7)/8)
				copy(masks[i], p.Mask())
				return p.WithBytes(func() error {
					bytes[i] = append([]byte(nil), p.Bytes()...)
					return nil
				})
			})
		}))
	}
	require.Equal(t, bytes[0], bytes[1])
	require.Equal(t, masks[0], masks[1])
	require.Equal(t, versions[0], versions[1])
}

// What a replay has changed is no snapshot's: an increment on the one that was loaded has it, and has no page that no record has
// changed.
func TestAnIncrementHasWhatAReplayHasChanged(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	directory, path, next := in("journal"), in("whole"), in("increment")
	context := newContext(t)
	changed := createFilled(t, context, 4096, 1, 1)
	createFilled(t, context, 4096, 2, 2)
	large := createFilled(t, context, native.ChunkBytes+5000, 3, 3)
	openJournal(t, context, directory)
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	write(t, changed, 10, []byte{99})
	write(t, large, native.ChunkBytes+10, []byte{99})
	require.NoError(t, CloseJournal(context))

	loaded := replayed(t, path, directory, LoadOptions{})
	require.NoError(t, Save(loaded, ToPath(next), SaveOptions{Base: path}, nil))
	opened, err := snapshot.Open(next, snapshot.OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, uint64(2), opened.Totals().Pages)
	require.NoError(t, opened.Close())
	again := newContext(t)
	require.NoError(t, Load(again, FromPath(next), LoadOptions{}, nil))
	require.Equal(t, contents(t, context), contents(t, again))
}

// A replay gives the bytes of a page that is on a device, or on the disk, an address while it changes them. A page that a later
// record of the same replay ends leaves nothing of that behind.
func TestAReplayEndsAPageThatItHadGivenAnAddress(t *testing.T) {
	gpupages.Use()
	for location, name := range map[int32]string{abi.LocationGPU: "on a device", abi.LocationDisk: "on the disk"} {
		t.Run(name, func(t *testing.T) {
			directory := filepath.Join(t.TempDir(), "journal")
			var contexts [2]uint64
			for i := range contexts {
				var err error
				contexts[i], err = page.NewContext(page.Options{
					Simulate: abi.SimulateAlways, SimulatedDevices: 1, SimulatedMemory: 16 << 20})
				require.NoError(t, err)
			}
			require.NoError(t, OpenJournal(contexts[0], directory, JournalOptions{IntervalMs: 1}, nil))
			handle := createFilled(t, contexts[0], 5000, 17, 5)
			require.NoError(t, page.Migrate(handle, location, 0))
			write(t, handle, 7, []byte{1, 2, 3})
			require.Zero(t, nativetest.Destroy(handle))
			require.NoError(t, page.Destroy(contexts[0]))
			before := region.Usage()
			require.NoError(t, Load(contexts[1], FromPath(""), LoadOptions{Journal: directory}, nil))
			require.Empty(t, contents(t, contexts[1]))
			require.NoError(t, page.Use(contexts[1], (*page.Context).Check))
			require.NoError(t, page.Destroy(contexts[1]))
			require.LessOrEqual(t, region.Usage(), before)
		})
	}
}
