package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/snapshot"
	"libmmsb/core/snapshot/snapshottest"
	"libmmsb/core/status"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

var (
	whole    = state("version4", "whole.mmsb")
	change   = state("version4", "change.mmsb")
	zstd     = state("version4", "zstd.mmsb")
	original = state("original", "five-pages.mmsbsnap")
	empty    = state("original", "empty.mmsbsnap")
)

func state(name ...string) string {
	return filepath.Join(append([]string{"..", "..", "..", "..", "testdata", "snapshots"}, name...)...)
}

// mmsb runs the tool within this process.
func mmsb(arguments ...string) (out, complaint string, code int) {
	return mmsbOn(context.Background(), file.OS{}, arguments...)
}

func mmsbOn(ctx context.Context, fs file.FS, arguments ...string) (out, complaint string, code int) {
	var stdout, stderr bytes.Buffer
	code = Tool{Version: "1.2.3", FS: fs, Stdout: &stdout, Stderr: &stderr}.Run(ctx, arguments)
	return stdout.String(), stderr.String(), code
}

// good runs it, and wants no complaint.
func good(t *testing.T, arguments ...string) string {
	t.Helper()
	out, complaint, code := mmsb(arguments...)
	require.Empty(t, complaint)
	require.Equal(t, exitGood, code)
	return out
}

// bad runs it, and wants one line of complaint with all these texts.
func bad(t *testing.T, code int, texts []string, arguments ...string) string {
	t.Helper()
	out, complaint, got := mmsb(arguments...)
	assert.Equal(t, code, got, "%v: %s", arguments, complaint)
	assert.Equal(t, 1, strings.Count(complaint, "\n"), "one line: %q", complaint)
	assert.True(t, strings.HasPrefix(complaint, "mmsb: "), "%q", complaint)
	for _, text := range texts {
		assert.Contains(t, complaint, text, "%v", arguments)
	}
	return out
}

// bytesOf is an id of one byte.
func bytesOf(b byte) []byte { return []byte(strings.Repeat(string([]byte{b}), 16)) }

// writeJournal writes a journal with a group of two records, and torn bytes where they are wanted.
func writeJournal(t *testing.T, directory string, torn bool) {
	t.Helper()
	// of the files
	line := lineage.Lineage{ID: lineage.ID(bytesOf(9)), Parent: lineage.Point{Lineage: lineage.ID(bytesOf(8)), Position: 7}}
	w, err := journal.NewWriter(file.OS{}, directory, journal.Options{
		From: journal.State{Names: []lineage.Point{line.At(1)}, GoesOn: line},
	})
	require.NoError(t, err)
	require.NoError(t, w.HasBase())
	frame := func(records ...[]byte) {
		memory, err := file.Memory() // for aligned memory
		require.NoError(t, err)
		defer memory.Abort()
		buffer, err := memory.Buffer()
		require.NoError(t, err)
		used := journal.FrameHeadBytes
		for _, record := range records {
			used += copy(buffer[used:], record)
		}
		clear(buffer[used : used+4096])
		require.NoError(t, w.Write(buffer, used, w.Next(), uint32(len(records)), true))
	}
	bytes := func(parts ...any) (b []byte) {
		for _, part := range parts {
			switch part := part.(type) {
			case []byte:
				b = append(b, part...)
			case string:
				b = append(b, part...)
			}
		}
		return b
	}
	frame(record(journal.Write, 0, 0, 1, 101, 10, bytes(journal.Words(7), "written")),
		record(journal.Delta, 0, journal.Indexed, 3, 301, 31, bytes(journal.Words(2, 5, 600), "ab")))
	frame(record(journal.Run, journal.Annotated|journal.More, 0, 1, 102, 11,
		bytes(journal.Words(5, 6, 3|6<<32), "who", "why\x1b[x", []byte{0, 0, 0, 0, 0, 0, 0}, journal.Words(0), "run")),
		record(journal.MetadataSet, 0, 0, 2, 201, 20, bytes(journal.MetadataBody(3, 5), "keyvalue")))
	frame(record(journal.Create, 0, 0, math.MaxUint64, 1, 0, journal.CreateBody(5000, 1, 2, -1, 0)),
		record(journal.Clone, 0, 0, 77, 1, 0, journal.Words(1, 102)),
		record(journal.DependencyAdd, 0, 0, 1, 103, 11, journal.Words(77)),
		record(journal.Destroy, 0, 0, 3, 302, 31, nil))
	require.NoError(t, w.Close())
	if torn {
		names, err := filepath.Glob(filepath.Join(directory, "journal-*.mmsbj"))
		require.NoError(t, err)
		require.Len(t, names, 1)
		raw, err := os.ReadFile(names[0])
		require.NoError(t, err)
		raw = raw[:len(raw)-4096] // the end that was written well
		require.NoError(t, os.WriteFile(names[0], append(raw, "half of a frame"...), 0o600))
	}
}

// moment0 is the time of the record 0, each one is a second later.
var moment0 = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)

var records int64

func record(kind journal.Kind, flags uint8, form uint16, page, version, epoch uint64, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(40+len(body)))
	b = append(b, byte(kind), flags)
	b = binary.LittleEndian.AppendUint16(b, form)
	records++
	at := moment0.Add(time.Duration(records) * time.Second)
	for _, word := range []uint64{page, version, epoch, uint64(at.UnixNano())} {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	b = append(b, body...)
	return append(b, make([]byte, -len(b)&7)...)
}

func newJournal(t *testing.T, torn bool) string {
	t.Helper()
	records = 1
	directory := filepath.Join(t.TempDir(), "journal")
	writeJournal(t, directory, torn)
	return directory
}

// steady replaces what is another in each run; a time without its last zeros makes its column narrower.
func steady(out string) string {
	out = regexp.MustCompile(`BEGUN +BEHIND`).ReplaceAllString(out, "BEGUN                           BEHIND")
	out = regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllStringFunc(out, func(id string) string {
		if id == strings.Repeat(id[:2], 16) { // of the files in testdata
			return id
		}
		return "ID"
	})
	return regexp.MustCompile(`20[0-9T:.-]+Z`).ReplaceAllStringFunc(out, func(at string) string {
		if strings.HasPrefix(at, "2026-01-02T03:04") || strings.HasPrefix(at, "2025-11-21T12:00:00.123456789") {
			return at
		}
		return "NOW"
	})
}

func TestGoldenOutputs(t *testing.T) {
	log, torn := newJournal(t, false), newJournal(t, true)
	golden, err := filepath.Abs("testdata")
	require.NoError(t, err)
	t.Chdir(state()) // so that the names are short, and the same everywhere
	whole, change, zstd := "version4/whole.mmsb", "version4/change.mmsb", "version4/zstd.mmsb"
	original, empty, tree := "original/five-pages.mmsbsnap", "original/empty.mmsbsnap", "state/tree.mmsb"
	for name, arguments := range map[string][]string{
		"help":               {"--help"},
		"snapshot-help":      {"snapshot", "--help"},
		"ls-whole":           {"snapshot", "ls", whole},
		"ls-change":          {"snapshot", "ls", change},
		"ls-bytes":           {"snapshot", "ls", whole, "--bytes"},
		"ls-ids":             {"snapshot", "ls", change, "9", "0x2-0x3"},
		"ls-json":            {"snapshot", "ls", whole, "--json"},
		"ls-arrays":          {"snapshot", "ls", tree, "--arrays"},
		"ls-arrays-json":     {"snapshot", "ls", tree, "--arrays", "--json"},
		"ls-arrays-ids":      {"snapshot", "ls", tree, "--arrays", "--bytes", "1-4"},
		"ls-original":        {"snapshot", "ls", original},
		"ls-empty":           {"snapshot", "ls", empty},
		"ls-empty-json":      {"snapshot", "ls", empty, "--json"},
		"info-whole":         {"snapshot", "info", whole},
		"info-change":        {"snapshot", "info", change, "--bytes"},
		"info-json":          {"snapshot", "info", change, "--json"},
		"info-original":      {"snapshot", "info", original},
		"info-original-json": {"snapshot", "info", original, "--json"},
		"verify":             {"snapshot", "verify", whole, change, zstd, original, empty},
		"verify-json":        {"snapshot", "verify", "--json", change, original},
		"diff":               {"snapshot", "diff", whole, change},
		"diff-ranges":        {"snapshot", "diff", "--ranges", whole, change, "--bytes"},
		"diff-json":          {"snapshot", "diff", "--ranges", "--json", whole, change},
		"diff-attributes":    {"snapshot", "diff", change, zstd},
		"journal-ls":         {"journal", "ls", log},
		"journal-ls-torn":    {"journal", "ls", torn},
		"journal-ls-records": {"journal", "ls", log, "--records"},
		"journal-ls-json":    {"journal", "ls", torn, "--records", "--json"},
		"journal-ls-part":    {"journal", "ls", log, "--from", "3", "--until", "4"},
		"journal-ls-epoch":   {"journal", "ls", log, "--until-epoch", "2:19"},
		"journal-ls-time":    {"journal", "ls", log, "--until-time", "2026-01-02T05:04:05+02:00"},
	} {
		t.Run(name, func(t *testing.T) {
			out, complaint, code := mmsb(arguments...)
			require.Empty(t, complaint)
			if strings.HasPrefix(name, "diff") {
				require.Equal(t, exitBad, code)
			} else {
				require.Equal(t, exitGood, code)
			}
			out = steady(strings.NewReplacer(log, "JOURNAL", torn, "JOURNAL").Replace(out))
			path := filepath.Join(golden, name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(out), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), out)
			if strings.Contains(name, "json") {
				assert.True(t, json.Valid([]byte(out)))
			}
		})
	}
}

func decode(t *testing.T, out string) map[string]any {
	t.Helper()
	var document map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &document), "%s", out)
	return document
}

// TestTheJSONHasTheSameFacts compares the pages in JSON with the rows of the table.
func TestTheJSONHasTheSameFacts(t *testing.T) {
	for _, path := range []string{whole, change, zstd, original, empty} {
		rows := strings.Split(strings.TrimSpace(good(t, "snapshot", "ls", "--bytes", path)), "\n")[1:]
		pages := decode(t, good(t, "snapshot", "ls", "--json", path))["pages"].([]any)
		require.Len(t, pages, len(rows))
		for number, row := range rows {
			page := pages[number].(map[string]any)
			cells := strings.Fields(row)
			placement := page["location"].(string)
			if placement == "gpu" || placement == "unified" {
				placement += fmt.Sprintf(":%v", page["device"])
			}
			assert.Equal(t, []string{page["id"].(string), fmt.Sprint(page["size"]), placement, page["epoch"].(string),
				page["version"].(string), fmt.Sprint(page["metadata_keys"])}, cells)
		}
		totals := decode(t, good(t, "snapshot", "info", "--json", path))["state"].(map[string]any)
		assert.EqualValues(t, len(rows), totals["pages"])
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		text      string
		arguments string
	}{
		{"unknown command", "bogus"},
		{"unknown command", "snapshot bogus"},
		{"mmsb snapshot needs a command", "snapshot"},
		{"mmsb journal needs a command", "journal"},
		{"unknown flag: --bogus; see mmsb snapshot ls --help", "snapshot ls --bogus x"},
		{"takes a FILE and ids", "snapshot ls"},
		{"takes two FILEs; 1", "snapshot diff a"},
		{"takes a FILE and an ID", "snapshot extract a"},
		{"takes FILEs", "snapshot verify"},
		{"\"0\" is not a page id", "snapshot ls a 0"},
		{"\"x\" is not a page id", "snapshot extract a x"},
		{"ends before it begins", "snapshot ls a 5-4"},
		{"\"output\"", "snapshot compact a"},
		{"\"output\"", "journal replay a"},
		{"--until is 0", "journal ls a --until 0"},
		{"is not a time", "journal ls a --until-time yesterday"},
		{"outside the years", "journal ls a --until-time 1969-12-31T23:59:59Z"},
		{"outside the years", "journal ls a --until-time 2300-01-01T00:00:00Z"},
		{"\"0\" is not a page id", "journal ls a --until-epoch 0:1"},
		{"is not PAGE:EPOCH", "journal ls a --until-epoch 7"},
		{"is not PAGE:EPOCH", "journal ls a --until-epoch 7:0"},
		{"until until-time", "journal replay a --snapshot b -o c --until 1 --until-time 2026-01-01T00:00:00Z"},
		{"not bash, fish or zsh", "completion powershell"},
	} {
		assert.Empty(t, bad(t, exitUsage, []string{c.text}, strings.Fields(c.arguments)...))
	}
}

func TestWhatIsNotThere(t *testing.T) {
	directory := t.TempDir()
	nothing := filepath.Join(directory, "nothing")
	for _, command := range []string{"ls", "info", "verify"} {
		bad(t, exitFailed, []string{nothing, "ENOENT"}, "snapshot", command, nothing)
	}
	bad(t, exitFailed, []string{nothing}, "snapshot", "diff", whole, nothing)
	bad(t, exitFailed, []string{nothing}, "snapshot", "extract", nothing, "1")
	bad(t, exitFailed, []string{nothing}, "snapshot", "compact", nothing, "-o", filepath.Join(directory, "out"))
	bad(t, exitFailed, []string{"nothing"}, "journal", "ls", nothing)
	bad(t, exitFailed, []string{"no journal in"}, "journal", "ls", directory)
	bad(t, exitFailed, []string{directory, "EISDIR"}, "snapshot", "verify", directory)
	bad(t, exitFailed, []string{whole, "no page 4"}, "snapshot", "extract", whole, "4")
	out := bad(t, exitFailed, []string{whole, "no page 4"}, "snapshot", "ls", whole, "1", "4", "5-9")
	assert.Contains(t, out, "4.0 KiB", "what is there is shown")
	fifo := filepath.Join(directory, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	bad(t, exitFailed, []string{"FIFO"}, "snapshot", "verify", fifo)
	lone := filepath.Join(directory, "lone")
	raw, err := os.ReadFile(change)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(lone, raw, 0o600))
	out = bad(t, exitFailed, []string{"whole.mmsb"}, "snapshot", "info", lone)
	assert.Contains(t, out, "02020202020202020202020202020202", "what the file alone says is shown")
	bad(t, exitFailed, []string{"whole.mmsb"}, "snapshot", "verify", lone)
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "nothing was written")
}

func TestDamage(t *testing.T) {
	directory := t.TempDir()
	raw, err := os.ReadFile(whole)
	require.NoError(t, err)
	at := bytes.Index(raw, []byte{1, 32, 63, 94}) // the bytes of page 1
	require.Positive(t, at)
	raw[at+2] ^= 4
	damaged := filepath.Join(directory, "damaged")
	require.NoError(t, os.WriteFile(damaged, raw, 0o600))
	where := []string{damaged, "page 1", fmt.Sprint("offset ", at)}
	bad(t, exitBad, where, "snapshot", "verify", damaged)
	bad(t, exitBad, where, "snapshot", "extract", damaged, "1")
	bad(t, exitBad, where, "snapshot", "compact", damaged, "-o", filepath.Join(directory, "out"))
	bad(t, exitBad, where, "snapshot", "extract", damaged, "1", "-o", filepath.Join(directory, "out"))
	good(t, "snapshot", "ls", damaged)

	out := bad(t, exitBad, where, "snapshot", "verify", whole, damaged, change)
	assert.Equal(t, 2, strings.Count(out, ": good, "), "the others are verified: %s", out)
	out = bad(t, exitBad, where, "snapshot", "verify", "--json", whole, damaged)
	files := decode(t, out)["files"].([]any)
	require.Len(t, files, 2)
	assert.Equal(t, true, files[0].(map[string]any)["good"])
	assert.Equal(t, false, files[1].(map[string]any)["good"])
	assert.Contains(t, files[1].(map[string]any)["error"], "page 1")

	// Damage counts more than what cannot be read.
	_, complaint, code := mmsb("snapshot", "verify", filepath.Join(directory, "nothing"), damaged,
		filepath.Join(directory, "nothing"))
	assert.Equal(t, exitBad, code)
	assert.Equal(t, 3, strings.Count(complaint, "\n"), "%s", complaint)

	require.NoError(t, os.WriteFile(damaged, raw[:len(raw)-4096], 0o600))
	bad(t, exitBad, []string{damaged}, "snapshot", "ls", damaged)
	require.NoError(t, os.WriteFile(damaged, []byte("something else"), 0o600))
	bad(t, exitBad, []string{damaged, "not a snapshot"}, "snapshot", "info", damaged)
	assert.NoFileExists(t, filepath.Join(directory, "out"))
}

func TestDamagedJournal(t *testing.T) {
	log := newJournal(t, false)
	names, err := filepath.Glob(filepath.Join(log, "journal-*.mmsbj"))
	require.NoError(t, err)
	raw, err := os.ReadFile(names[0])
	require.NoError(t, err)
	raw[4096+70] ^= 1
	require.NoError(t, os.WriteFile(names[0], raw, 0o600))
	out := filepath.Join(t.TempDir(), "out")
	bad(t, exitBad, []string{filepath.Base(names[0]), "offset 4096"}, "journal", "ls", log)
	bad(t, exitBad, []string{filepath.Base(names[0]), "offset 4096"}, "journal", "replay", log, "-s", whole, "-o", out)
	assert.NoFileExists(t, out)
}

func TestDiffOfEqualStates(t *testing.T) {
	assert.Empty(t, good(t, "snapshot", "diff", whole, whole))
	assert.Empty(t, good(t, "snapshot", "diff", "--ranges", original, original))
	document := decode(t, good(t, "snapshot", "diff", "--json", change, change))
	assert.Empty(t, document["pages"])
	assert.Empty(t, document["dependencies_added"])
}

// TestExtractGivesThePage reads every page in both ways.
func TestExtractGivesThePage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for _, path := range []string{whole, change, zstd, original} {
		s, err := snapshot.Open(path, snapshot.OpenOptions{})
		require.NoError(t, err)
		for page, err := range s.Pages() {
			require.NoError(t, err)
			want := make([]byte, page.Size)
			require.NoError(t, s.ReadAt(page.ID, snapshot.KindBytes, want, 0))
			id := fmt.Sprintf("%#x", page.ID)
			require.True(t, good(t, "snapshot", "extract", path, id) == string(want), "page %s of %s", id, path)
			require.Empty(t, good(t, "snapshot", "extract", path, id, "-o", out))
			written, err := os.ReadFile(out)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, written), "page %s of %s in a file", id, path)
		}
		require.NoError(t, s.Close())
	}
	assert.Equal(t, good(t, "snapshot", "extract", whole, "2"), good(t, "snapshot", "extract", whole, "2", "-o", "-"))
}

func TestWhatIsReadIsNotReplaced(t *testing.T) {
	directory := t.TempDir()
	var paths []string
	for _, path := range []string{whole, change} {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		paths = append(paths, filepath.Join(directory, filepath.Base(path)))
		require.NoError(t, os.WriteFile(paths[len(paths)-1], raw, 0o600))
	}
	base, newest := paths[0], paths[1]
	bad(t, exitUsage, []string{base}, "snapshot", "extract", newest, "1", "-o", base)
	bad(t, exitUsage, []string{newest}, "snapshot", "extract", newest, "1", "-o", newest)
	good(t, "snapshot", "compact", newest, "-o", base) // what newest rests on stays under another name
	assert.Contains(t, good(t, "snapshot", "info", newest), "mmsb-01010101010101010101010101010101.base")
	// Record 5 is of a page that is not there.
	good(t, "journal", "replay", newJournal(t, false), "--until", "4", "-s", newest, "-o", base)
	good(t, "snapshot", "verify", newest)
	good(t, "snapshot", "compact", newest, "-o", newest)
	require.NoError(t, os.Remove(base))
	good(t, "snapshot", "verify", newest)
}

func TestCompact(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for path, pages := range map[string]string{change: "3 pages", original: "5 pages", empty: "0 pages"} {
		said := good(t, "snapshot", "compact", path, "-o", out)
		assert.Contains(t, said, out+": "+pages)
		assert.Empty(t, good(t, "snapshot", "diff", path, out))
		assert.Len(t, decode(t, good(t, "snapshot", "info", "--json", out))["chain"], 1)
	}
}

func TestReplay(t *testing.T) {
	log, out := newJournal(t, true), filepath.Join(t.TempDir(), "out")
	said := good(t, "journal", "replay", log, "--snapshot", whole, "-o", out)
	assert.Contains(t, said, "4 pages")
	assert.Contains(t, said, "at record 9, 2026-01-02T03:04:09Z (8 records applied)")
	good(t, "snapshot", "verify", out)
	assert.Contains(t, good(t, "snapshot", "extract", out, "77"), "written")
	text, _, code := mmsb("snapshot", "diff", "--ranges", "--bytes", whole, out)
	assert.Equal(t, exitBad, code)
	assert.Equal(t, strings.TrimLeft(`
CHANGE                     ID  BEFORE  AFTER  WHAT
changed                     1    4096   4096  bytes, mask, attributes
                                              3 bytes at offset 0
                                              7 bytes at offset 7
changed                     2     100    100  metadata
removed                     3  524298      -
added                      77       -   4096
added    18446744073709551615       -   5000
dependency of page 3 on page 2 removed
dependency of page 77 on page 1 added
`, "\n"), text)

	// Up to the middle of a group, and to a time: without the group.
	for _, until := range [][]string{{"--until", "4"}, {"--until", "3"}, {"--until-time", "2026-01-02T03:04:04.5Z"},
		{"--until-epoch", "1:10"}} {
		said = good(t, append([]string{"journal", "replay", log, "-s", whole, "-o", out, "--compress"}, until...)...)
		assert.Contains(t, said, "at record 3, 2026-01-02T03:04:03Z (2 records applied)")
	}
	assert.Contains(t, good(t, "journal", "replay", log, "-s", whole, "-o", out, "--until-epoch", "999:1"), "at record 9, ",
		"no record moves that page's epoch beyond")
	assert.Contains(t, good(t, "journal", "replay", "--help"),
		"end before the first record that moves a page's epoch beyond PAGE:EPOCH,")
	bad(t, exitFailed, []string{"ends at record 9"}, "journal", "replay", log, "-s", whole, "-o", out, "--until", "10")
	bad(t, exitUsage, []string{"was taken at"}, "journal", "replay", log, "-s", whole, "-o", out, "--until-time",
		"2025-01-01T00:00:00Z")
	bad(t, exitBad, []string{"lineage"}, "journal", "replay", log, "-s", original, "-o", out)
}

func TestReplayFromTheEmptyState(t *testing.T) {
	log, out := filepath.Join(t.TempDir(), "journal"), filepath.Join(t.TempDir(), "out")
	w, err := journal.NewWriter(file.OS{}, log, journal.Options{})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	assert.Contains(t, good(t, "journal", "replay", log, "-o", out), "0 pages")
	good(t, "snapshot", "verify", out)
}

func TestTheDiskIsFull(t *testing.T) {
	directory := t.TempDir()
	out := filepath.Join(directory, "out")
	for _, arguments := range [][]string{
		{"snapshot", "compact", whole, "-o", out},
		{"snapshot", "extract", whole, "3", "-o", out},
		{"journal", "replay", newJournal(t, false), "-s", whole, "-o", out},
	} {
		fs := filetest.NewFaulty(file.OS{}, filetest.Fault{Kind: filetest.Write, Nth: 1, Forever: true, Errno: syscall.ENOSPC})
		_, complaint, code := mmsbOn(context.Background(), fs, arguments...)
		assert.Equal(t, exitFailed, code, "%v", arguments)
		assert.Contains(t, complaint, "ENOSPC")
		entries, err := os.ReadDir(directory)
		require.NoError(t, err)
		assert.Empty(t, entries, "%v", arguments)
	}
	if full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0); assert.NoError(t, err) {
		defer func() { _ = full.Close() }()
		// Also where the command has a code of its own to tell: that the two differ.
		for _, arguments := range [][]string{{"snapshot", "ls", whole}, {"snapshot", "diff", whole, change}} {
			var stderr bytes.Buffer
			code := Tool{FS: file.OS{}, Stdout: full, Stderr: &stderr}.Run(context.Background(), arguments)
			assert.Equal(t, exitFailed, code, "%v", arguments)
			assert.Contains(t, stderr.String(), "cannot write the output")
		}
	}
}

func TestHostileTextsDoNotReachTheTerminal(t *testing.T) {
	assert.Equal(t, `"a\x1b[31mb"`, shown("a\x1b[31mb"))
	assert.Equal(t, `"\xff"`, shown("\xff"))
	assert.Equal(t, `""`, shown(""))
	assert.Equal(t, "schlüssel der 2. Art", shown("schlüssel der 2. Art"))
	assert.NotContains(t, good(t, "journal", "ls", "--records", newJournal(t, false)), "\x1b")
}

func TestSizes(t *testing.T) {
	for bytes, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1<<20 - 1: "1.0 MiB",
		1<<20 - 1024: "1023.0 KiB", 3 << 29: "1.5 GiB", math.MaxUint64: "16.0 EiB"} {
		assert.Equal(t, want, sizes{}.of(bytes))
		assert.Equal(t, fmt.Sprint(bytes), sizes{exact: true}.of(bytes))
	}
}

func TestATableOfManyRows(t *testing.T) {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	table := newTable(w, ">N", "TEXT")
	for number := range 3 * rowsToFit {
		table.add(fmt.Sprint(number), "x")
	}
	table.finish()
	require.NoError(t, w.Flush())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 3*rowsToFit+1)
	assert.Equal(t, "4095  x", lines[rowsToFit])
}

func TestDevicesAreListed(t *testing.T) {
	node := 1
	two := []Device{
		{Ordinal: 0, Name: "NVIDIA H200", PCI: "0000:65:00.0", UUID: "00", Bytes: 141 << 30, FreeBytes: 140 << 30,
			Capability:      "9.0",
			Multiprocessors: 132, NUMANode: &node, Telemetry: &Telemetry{BytesOfOthers: 1 << 30, Utilization: 7, Temperature: -1,
				PCIeGeneration: 5,
				PCIeLanes:      16, Links: []string{"0000:66:00.0"}, Paths: []string{"0000:66:00.0: one switch"}}},
		{Ordinal: 1, Name: "simulated device 1", Simulated: true, UUID: "01", Bytes: 1 << 30, FreeBytes: 1 << 30,
			Capability: "9.0", Multiprocessors: 132},
	}
	var asked []int
	run := func(devices Devices, arguments ...string) (string, string, int) {
		var stdout, stderr bytes.Buffer
		code := Tool{FS: file.OS{}, Devices: devices, Stdout: &stdout, Stderr: &stderr}.Run(context.Background(),
			append([]string{"device", "ls"}, arguments...))
		return stdout.String(), stderr.String(), code
	}
	list := func(simulated int) ([]Device, error) {
		asked = append(asked, simulated)
		return two, nil
	}
	out, complaint, code := run(list)
	assert.Equal(t, exitGood, code, complaint)
	lines := strings.Split(out, "\n")
	assert.Regexp(t, `^ *device +name +memory +free +capability +use +temperature +pci +numa +nvlinks +paths$`, lines[0])
	assert.Regexp(t, `^ *0 +NVIDIA H200 +141.* +140.* +9\.0 +7% +- +0000:65:00\.0 +1 +1 +0000:66:00\.0: one switch$`, lines[1])
	assert.Regexp(t, `^ *1 +simulated device 1 .* 9\.0 +- +- +- +- +- +-$`, lines[2])
	out, _, code = run(list, "--simulate", "2", "--json")
	assert.Equal(t, exitGood, code)
	var document struct{ Devices []Device }
	require.NoError(t, json.Unmarshal([]byte(out), &document))
	assert.Equal(t, two, document.Devices)
	assert.Equal(t, []int{0, 2}, asked)

	_, complaint, code = run(list, "--simulate", "0")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, complaint, "--simulate is 0")
	_, _, code = run(list, "surplus")
	assert.Equal(t, exitUsage, code)
	_, complaint, code = run(func(int) ([]Device, error) { return nil, status.Errorf(status.NoDevice, "no NVIDIA driver") })
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, complaint, "no NVIDIA driver")
	_, complaint, code = run(nil)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, complaint, "without C")
}

func TestEveryCommandRefusesALie(t *testing.T) {
	for _, lie := range snapshottest.Lies {
		named, whole, change := lie.Files()
		directory := t.TempDir()
		path := filepath.Join(directory, named)
		require.NoError(t, os.WriteFile(filepath.Join(directory, snapshottest.Whole), whole, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(directory, snapshottest.Change), change, 0o600))
		commands := [][]string{{"verify", path}, {"compact", path, "-o", filepath.Join(directory, "out")}}
		if !lie.Content {
			commands = append(commands, []string{"ls", path}, []string{"diff", path, path}, []string{"extract", path, "3"})
		}
		for _, command := range commands {
			_, complaint, code := mmsb(append([]string{"snapshot"}, command...)...)
			assert.Equal(t, exitBad, code, "%s: %v: %s", lie.Name, command, complaint)
		}
	}
}
