// Package files has no code of its own: its tests build files of every format that libmmsb reads (snapshots with their chains,
// version 2, journals, ledgers) from a grammar, lie in them, mend the checksums, and give each to every reader, those of the tool
// included. All must agree: who accepts has the same state, who refuses says what is wrong with the file, and a load that is
// refused has changed nothing. A few bytes must cost little memory and time. The formats have a file each with a table of lies;
// docs/testing.md tells how to run them for long.
package files

import (
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/lasterror"
	"libmmsb/core/status"
)

var (
	filesToTry = flag.Uint64("files", 0, "lying files of each format; 0: the short form")
	firstFile  = flag.Uint64("from", 0, "number of the first one, which repeats it")
)

func lastError(code int32) error { return lasterror.Load(code) }

// known are the differences that readers may have, or still have: what a problem contains, and why.
var known = []struct {
	text *regexp.Regexp
	why  string
}{
	{regexp.MustCompile("what load accepts.*(no page needs|metadata|frame of)"),
		"only verification and compaction look at the content of pages that newer files replace (docs/snapshot-format.md)"},
}

// files are a set of files in a folder.
type files struct {
	content map[string][]byte
	holes   map[string]hole
	links   []link
}

// hole is a stretch that is not on the disk, and what lies behind it.
type hole struct {
	length uint64
	behind []byte
}

type link struct {
	name, to string
	hard     bool
}

func (f *files) put(name string, content []byte) {
	if f.content == nil {
		f.content, f.holes = make(map[string][]byte), make(map[string]hole)
	}
	f.content[name] = content
}

// write writes them into a folder, and says how many bytes that takes on the disk.
func (f *files) write(folder string) (onDisk uint64, err error) {
	for _, name := range slices.Sorted(maps.Keys(f.content)) {
		content, path := f.content[name], filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return 0, err
		}
		onDisk += uint64(len(content))
		if h, ok := f.holes[name]; ok {
			if err := writeBehind(path, int64(uint64(len(content))+h.length), h.behind); err != nil {
				return 0, err
			}
			onDisk += uint64(len(h.behind))
		}
	}
	for _, l := range f.links {
		path := filepath.Join(folder, l.name)
		_ = os.Remove(path)
		make, to := os.Symlink, l.to
		if l.hard {
			make, to = os.Link, filepath.Join(folder, l.to)
		}
		if err := make(to, path); err != nil && !os.IsNotExist(err) {
			return 0, err
		}
	}
	return onDisk, nil
}

func writeBehind(path string, at int64, content []byte) error {
	opened, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	if len(content) == 0 {
		return opened.Truncate(at)
	}
	_, err = opened.WriteAt(content, at)
	return err
}

// clear empties a folder.
func clearFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		if err == nil {
			err = os.RemoveAll(filepath.Join(folder, entry.Name()))
		}
	}
	return err
}

// --------------------------------------------------------------------------------------------------------------- lies ----

// spot is a field of a format: its name, where it lies and how long it is.
type spot struct {
	name      string
	at, width int
}

// boundaries are numbers around which readers make mistakes.
var boundaries = []uint64{
	0, 1, 2, 3, 7, 8, 63, 64, 65, 255, 256, 4095, 4096, 4097, 65535, 65536, 262143, 262144, 262145, 1 << 22, 1<<22 + 1, 1<<31 - 1,
	1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1<<40 + 5, 1<<62 + 1, 1<<63 - 1, 1 << 63, math.MaxUint64 - 4095, math.MaxUint64 - 1,
	math.MaxUint64,
}

// lieAt changes a field, and says how.
func lieAt(random *rand.Rand, b []byte, s spot) string {
	field := b[s.at : s.at+s.width]
	if s.width != 4 && s.width != 8 {
		return s.name + lieInBytes(random, field)
	}
	var word [8]byte
	copy(word[:], field)
	old := binary.LittleEndian.Uint64(word[:])
	value := old
	switch random.IntN(8) {
	case 0, 1, 2:
		value = boundaries[random.IntN(len(boundaries))]
	case 3:
		value++
	case 4:
		value--
	case 5:
		value ^= 1 << random.IntN(8*s.width)
	case 6:
		value = boundaries[random.IntN(len(boundaries))] - old
	case 7:
		value = random.Uint64() >> random.IntN(64)
	}
	if value == old {
		value++
	}
	binary.LittleEndian.PutUint64(word[:], value)
	copy(field, word[:])
	return fmt.Sprintf("%s %d is %d", s.name, old, value)
}

func lieInBytes(random *rand.Rand, field []byte) string {
	at := random.IntN(len(field))
	if random.IntN(4) == 0 {
		for i := at; i < len(field); i++ {
			field[i] = 0
		}
		return fmt.Sprintf(" is 0 from byte %d on", at)
	}
	field[at] ^= byte(1 + random.IntN(255))
	return fmt.Sprintf(" has another byte %d", at)
}

// swapNeighbours exchanges a field with the next one of the same width.
func swapNeighbours(b []byte, spots []spot, number int) string {
	a, c := spots[number], spots[(number+1)%len(spots)]
	if a.width != c.width {
		return ""
	}
	for i := range a.width {
		b[a.at+i], b[c.at+i] = b[c.at+i], b[a.at+i]
	}
	return a.name + " and " + c.name + " are swapped"
}

// ----------------------------------------------------------------------------------------------------------- campaign ----

// trial is one set of lying files.
type trial struct {
	random *rand.Rand
	folder string
	told   []string // what lies
	kind   string   // the first lie's
	fate   string   // accepted, refused or beyond limits
}

func (x *trial) tell(kind, what string) {
	if x.kind == "" {
		x.kind = kind
	}
	x.told = append(x.told, kind+": "+what)
}

// lies says whether a lie of a kind was told.
func (x *trial) lies(kind string) bool {
	return slices.ContainsFunc(x.told, func(told string) bool { return strings.HasPrefix(told, kind+": ") })
}

// format is a kind of files that are lied in.
type format interface {
	// try makes the files with a number, and gives what is wrong with how they were read.
	try(x *trial, number uint64) (problems []string)
}

// campaign tries files until so many were tried, or the short form has taken its time.
func campaign(t *testing.T, name string, f format, short uint64, seconds float64) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 << 20)) // collecting garbage more often takes most of the time
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	count, end := *filesToTry, time.Now().Add(time.Duration(seconds*float64(time.Second)))
	if count == 0 {
		count = short
	} else {
		end = time.Now().Add(1000 * time.Hour)
	}
	most := 3
	if *filesToTry != 0 {
		most = 10
	}
	if flag.Lookup("test.failfast").Value.String() == "true" { // planted bugs
		most = 1
	}
	folder := temporaryFolder(t)
	kinds, fates, begin, tried, failures := map[string]int{}, map[string]int{}, time.Now(), uint64(0), 0
	for ; tried < count && time.Now().Before(end); tried++ {
		number := *firstFile + tried
		x := &trial{random: rand.New(rand.NewPCG(number, 13)), folder: folder, fate: "refused"}
		require.NoError(t, clearFolder(folder))
		problems := slices.DeleteFunc(f.try(x, number), func(p string) bool { return isKnown(p) })
		kinds[x.kind]++
		fates[x.fate]++
		if len(problems) == 0 {
			continue
		}
		kept := keep(t, folder, fmt.Sprintf("%s-%d", name, number))
		t.Errorf("%s file %d (-args -files 1 -from %d), kept in %s, lies:\n  %s\n%s", name, number, number, kept,
			strings.Join(x.told, "\n  "), strings.Join(problems, "\n"))
		if failures++; failures == most {
			break
		}
	}
	rate := float64(tried) / time.Since(begin).Seconds()
	t.Logf("%s: %d files, %.0f a second: %v; kinds of lies: %v", name, tried, rate, fates, kinds)
}

func isKnown(problem string) bool {
	for _, k := range known {
		if k.text.MatchString(problem) {
			return true
		}
	}
	return false
}

// temporaryFolder is in memory where that can be.
func temporaryFolder(t *testing.T) string {
	parent := "/dev/shm"
	if os.Getenv("TMPDIR") != "" || unix.Access(parent, unix.W_OK|unix.X_OK) != nil {
		parent = ""
	}
	folder, err := os.MkdirTemp(parent, "mmsb-files-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// keep moves a copy of files that failed out of the way.
func keep(t *testing.T, folder, name string) string {
	kept := filepath.Join(os.TempDir(), "mmsb-"+name)
	_ = os.RemoveAll(kept)
	// Files may have holes of many gigabytes.
	if output, err := exec.Command("cp", "-a", "--sparse=always", folder, kept).CombinedOutput(); err != nil {
		t.Logf("%v: %s", err, output)
	}
	return kept
}

// ------------------------------------------------------------------------------------------------------------- bounds ----

// Each reader may take 64 MiB and twice what the files have on the disk, and a second with another for each 50 MB.
const (
	freeBytes     = 64 << 20
	bytesASecond  = 50 << 20
	secondsBefore = 1
)

var allocated = []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}

func allocatedBytes() uint64 {
	metrics.Read(allocated)
	return allocated[0].Value.Uint64()
}

// bounded runs a reader and says what it took too much of. What it has allocated in all is counted first, which is cheap; who
// passes that is run again, and its peak is looked at.
func bounded(onDisk uint64, work func()) string {
	most, before, begin := freeBytes+2*onDisk, allocatedBytes(), time.Now()
	work()
	seconds, bytes := time.Since(begin).Seconds(), allocatedBytes()-before
	limit := secondsBefore + float64(onDisk)/bytesASecond
	if bytes <= most && seconds <= limit {
		return ""
	}
	peak, again := peakOf(work)
	if seconds = min(seconds, again); seconds > limit {
		return fmt.Sprintf("takes %.1f s, %d bytes are on the disk", seconds, onDisk)
	}
	if peak > most {
		return fmt.Sprintf("takes %d bytes of memory, %d are on the disk", peak, onDisk)
	}
	return ""
}

func peakOf(work func()) (peak uint64, seconds float64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	live := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(live)
	floor, stop, done := live[0].Value.Uint64(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				metrics.Read(live)
				peak = max(peak, live[0].Value.Uint64())
			}
		}
	}()
	begin := time.Now()
	work()
	seconds = time.Since(begin).Seconds()
	close(stop)
	<-done
	return peak - min(peak, floor), seconds
}

// --------------------------------------------------------------------------------------------------------- comparison ----

// What a reader looks at.
type view int

const (
	seesAll     view = iota // all that there is
	seesContent             // all but what no page needs, as zeros between extents, or what pages need that nobody asked for
	seesPart                // some: it may accept what others refuse
)

// answer is what a reader made of a set of files.
type answer struct {
	way      string
	state    *state
	err      error
	view     view
	versions bool     // of the state are comparable
	chosen   []uint64 // nil: all pages
}

// refused says that an error tells of a file that is not good.
func refused(err error) bool {
	own := status.Of(err)
	switch own.Code {
	case status.Corrupt, status.Format, status.Mismatch, status.NotFound:
		return true
	}
	return own.Code == status.IO && own.Domain == status.DomainErrno && own.Foreign == int32(unix.ELOOP) // links are not followed
}

// beyond says that this machine, or the limits of a test, cannot have what a file says.
func beyond(err error) bool {
	switch status.CodeOf(err) {
	case status.Limit, status.OutOfMemory, status.NoDevice, status.NoSpace, status.InvalidSize:
		return true
	}
	return false
}

// readings are what the readers of a set of files made of them, and what they did beyond their bounds.
type readings struct {
	onDisk   uint64
	answers  []answer
	problems []string
}

// run gives the files to a reader.
func (r *readings) run(way string, work func() answer) *answer {
	var got answer
	if what := bounded(r.onDisk, func() {
		defer func() {
			if p := recover(); p != nil {
				got.err = status.Errorf(status.Internal, "panic: %v", p)
			}
		}()
		got = work()
	}); what != "" {
		r.problems = append(r.problems, way+" "+what)
	}
	got.way = way
	r.answers = append(r.answers, got)
	return &got
}

// compare says in what readers disagree, and what the files' fate was. Where there is a reference, it says what each must do.
func compare(answers []answer, by *sight) (problems []string, fate string) {
	var accepts *answer // with all that there is
	fate = "refused"
	for i := range answers {
		a := &answers[i]
		switch {
		case a.err == nil && a.view == seesAll && (accepts == nil || accepts.state == nil && a.state != nil):
			accepts, fate = a, "accepted"
		case a.err != nil && !refused(a.err) && !beyond(a.err):
			problems = append(problems, fmt.Sprintf("%s: %v", a.way, a.err))
		case a.err != nil && beyond(a.err) && accepts == nil:
			fate = "beyond limits"
		}
	}
	var has *answer // a state to compare with
	for i := range answers {
		a := &answers[i]
		if a.err != nil && refused(a.err) && accepts != nil {
			problems = append(problems, fmt.Sprintf("%s refuses what %s accepts: %v", a.way, accepts.way, a.err))
		}
		if what := mustSee(a, answers, by); a.err == nil && accepts == nil && what != "" {
			problems = append(problems, a.way+" accepts what "+what)
		}
		if a.err == nil && a.chosen == nil && a.state != nil && (has == nil || !has.versions && a.versions) {
			has = a
		}
	}
	for i := range answers {
		a := &answers[i]
		if has == nil || a == has || a.err != nil || a.state == nil {
			continue
		}
		want := has.state
		if a.chosen != nil {
			want = want.only(a.chosen)
		}
		if what := want.difference(a.state, has.versions && a.versions); what != "" {
			problems = append(problems, fmt.Sprintf("%s and %s differ: %s", has.way, a.way, what))
		}
	}
	return problems, fate
}

// unseen are the faults that only those see who look at all.
var unseen = regexp.MustCompile("bytes other than 0|is damaged|metadata|frame|" +
	"cannot be decompressed|no page needs|checksum of an extent")

// mustSee is what a reader that looks at content alone has to see, but for what nobody needs; nothing where it may accept.
func mustSee(a *answer, answers []answer, by *sight) string {
	if a.view != seesContent {
		return ""
	}
	if by != nil && !by.unclear {
		for id, fault := range by.faults {
			if a.chosen == nil || slices.Contains(a.chosen, id) {
				return fmt.Sprintf("has a fault in page %d: %s", id, fault)
			}
		}
		return ""
	}
	for i := range answers {
		if b := &answers[i]; b.err != nil && refused(b.err) && !unseen.MatchString(b.err.Error()) {
			return fmt.Sprintf("%s refuses: %v", b.way, b.err)
		}
	}
	return ""
}
