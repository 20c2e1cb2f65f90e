package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

// replaceWith writes a snapshot of one page to a path, with a base or without.
func replaceWith(fs file.FS, path string, id byte, base byte, baseName string, o ReplaceOptions) error {
	header := Header{ID: goldenID(id)}
	if base != 0 {
		o.Base, o.BaseName = goldenID(base), baseName
		header.Base, header.BaseName = o.Base, baseName
	}
	sink, err := Replace(fs, path, o)
	if err != nil {
		return err
	}
	w, err := NewWriter(sink, header, Options{})
	if err == nil {
		err = w.Add(Page{ID: uint64(id), Size: 5, NUMANode: -1}, KindBytes, 0, fmt.Appendf(nil, "is %02d", id), Uncompressed)
	}
	if err == nil {
		pages := uint64(len(chainOf(fs, path, base, baseName)) + 1)
		_, err = w.Finish(pages, 5*pages)
	}
	if err != nil {
		w.Abort()
	}
	return err
}

// chainOf is the chain that a new file rests on; its pages are one each.
func chainOf(fs file.FS, path string, base byte, baseName string) []Info {
	if base == 0 {
		return nil
	}
	s, err := Open(filepath.Join(filepath.Dir(path), baseName), OpenOptions{FS: fs})
	if err != nil {
		return nil
	}
	defer func() { _ = s.Close() }()
	return s.Chain()
}

// requireHas: the state of a file has these pages.
func requireHas(t *testing.T, fs file.FS, path string, ids ...byte) {
	t.Helper()
	s, err := Open(path, OpenOptions{FS: fs})
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	assert.Equal(t, uint64(len(ids)), s.Totals().StatePages)
	for _, id := range ids {
		got := make([]byte, 5)
		require.NoError(t, s.ReadAt(uint64(id), KindBytes, got, 0))
		assert.Equal(t, fmt.Sprintf("is %02d", id), string(got))
	}
}

func namesIn(t *testing.T, fs file.FS, directory string) string {
	t.Helper()
	names, err := fs.List(directory)
	require.NoError(t, err)
	return strings.Join(names, " ")
}

func TestWhatOthersRestOnIsKept(t *testing.T) {
	disk := filetest.NewDisk()
	require.NoError(t, replaceWith(disk, "/a", 1, 0, "", ReplaceOptions{}))
	require.NoError(t, replaceWith(disk, "/b", 2, 1, "a", ReplaceOptions{}))
	require.NoError(t, replaceWith(disk, "/c", 3, 2, "b", ReplaceOptions{}))

	err := replaceWith(disk, "/a", 4, 0, "", ReplaceOptions{RefuseInUse: true})
	assert.Equal(t, status.Busy, status.CodeOf(err), "%v", err)
	assert.ErrorContains(t, err, "cannot replace /a: b rests on it")
	requireHas(t, disk, "/c", 1, 2, 3)

	require.NoError(t, replaceWith(disk, "/a", 4, 0, "", ReplaceOptions{}))
	assert.Contains(t, namesIn(t, disk, "/"), KeptName(goldenID(1)))
	requireHas(t, disk, "/a", 4)
	requireHas(t, disk, "/c", 1, 2, 3)
	require.NoError(t, replaceWith(disk, "/b", 5, 4, "a", ReplaceOptions{}))
	requireHas(t, disk, "/b", 4, 5)
	requireHas(t, disk, "/c", 1, 2, 3)
	assert.Equal(t, 2, strings.Count(namesIn(t, disk, "/"), "mmsb-"))

	// Nothing rests on them any more, on one through the other.
	require.NoError(t, replaceWith(disk, "/c", 6, 5, "b", ReplaceOptions{}))
	assert.NotContains(t, namesIn(t, disk, "/"), "mmsb-")
	requireHas(t, disk, "/c", 4, 5, 6)
}

// few is a file system whose process has no descriptor left for files of some names.
type few struct {
	file.FS
	without string
}

func (f few) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	if strings.Contains(path, f.without) {
		return nil, syscall.EMFILE
	}
	return f.FS.Open(path, flags, mode)
}

// A base has two names. That it is at neither must not be said of one that cannot be read now.
func TestABaseThatCannotBeReadIsNotMissing(t *testing.T) {
	disk := filetest.NewDisk()
	require.NoError(t, replaceWith(disk, "/a", 1, 0, "", ReplaceOptions{}))
	require.NoError(t, replaceWith(disk, "/b", 2, 1, "a", ReplaceOptions{}))
	require.NoError(t, replaceWith(disk, "/a", 3, 0, "", ReplaceOptions{}))
	_, err := ChainOf(few{disk, "/a"}, "/b")
	assert.Equal(t, status.Limit, status.CodeOf(err), "%v", err)
	for _, other := range []string{"another file", "none"} { // under the name that the base had
		_, err := Open("/b", OpenOptions{FS: few{disk, KeptName(goldenID(1))}})
		assert.Equal(t, status.Limit, status.CodeOf(err), "%s: %v", other, err)
		if other == "another file" {
			require.NoError(t, Retire(disk, "/a"))
		}
	}
	require.NoError(t, disk.MakeDirectory("/journal", 0o777))
	header, err := InspectHeader("/b", disk)
	require.NoError(t, err)
	require.NoError(t, NameBase(disk, "/journal", "/b", &header))
	_, lost := Bases(few{disk, "/b"}, "/journal")
	assert.Equal(t, status.Limit, status.CodeOf(lost), "%v", lost)
}

// A file that was kept for others can be a base by its name, too, and stays when those are gone.
func TestAKeptFileIsABase(t *testing.T) {
	disk := filetest.NewDisk()
	require.NoError(t, replaceWith(disk, "/a", 1, 0, "", ReplaceOptions{}))
	require.NoError(t, replaceWith(disk, "/b", 2, 1, "a", ReplaceOptions{}))
	require.NoError(t, replaceWith(disk, "/a", 3, 0, "", ReplaceOptions{}))
	require.NoError(t, replaceWith(disk, "/c", 4, 1, KeptName(goldenID(1)), ReplaceOptions{}))
	require.NoError(t, Retire(disk, "/b"))
	requireHas(t, disk, "/c", 1, 4)
	require.NoError(t, Retire(disk, "/c"))
	assert.NotContains(t, namesIn(t, disk, "/"), "mmsb-")
}

func TestABaseThatIsReplacedMeanwhile(t *testing.T) {
	disk := filetest.NewDisk()
	require.NoError(t, replaceWith(disk, "/a", 1, 0, "", ReplaceOptions{}))
	sink, err := Replace(disk, "/b", ReplaceOptions{Base: goldenID(1), BaseName: "a"})
	require.NoError(t, err)
	require.NoError(t, replaceWith(disk, "/a", 2, 0, "", ReplaceOptions{}))
	w, err := NewWriter(sink, Header{Base: goldenID(1), BaseName: "a"}, Options{})
	require.NoError(t, err)
	_, err = w.Finish(0, 0)
	assert.Equal(t, status.Mismatch, status.CodeOf(err), "%v", err)
	w.Abort()
	assert.Equal(t, "a", namesIn(t, disk, "/"))
}

// A power cut, or a failure of the disk, at every step: what was there loads, with all that it rests on.
func TestKeepingSurvivesEverything(t *testing.T) {
	prepare := func() *filetest.Disk {
		disk := filetest.NewDisk()
		durable := ReplaceOptions{Options: file.Options{Durable: true}}
		require.NoError(t, replaceWith(disk, "/a", 1, 0, "", durable))
		require.NoError(t, replaceWith(disk, "/b", 2, 1, "a", durable))
		return disk
	}
	durable := ReplaceOptions{Options: file.Options{Durable: true}}
	check := func(disk *filetest.Disk, what string) {
		t.Helper()
		requireHas(t, disk, "/b", 1, 2)
		s, err := Open("/a", OpenOptions{FS: disk})
		require.NoError(t, err, what)
		require.NoError(t, s.Close())
	}
	counting := filetest.NewFaulty(prepare())
	var operations atomic.Int32 // the replaced file is closed beside
	counting.Before = func(filetest.Kind, int) { operations.Add(1) }
	require.NoError(t, replaceWith(counting, "/a", 3, 0, "", durable))
	for cut := int32(1); cut <= operations.Load(); cut++ {
		disk := prepare()
		var at atomic.Int32
		fs := filetest.NewFaulty(disk)
		fs.Before = func(kind filetest.Kind, _ int) {
			if at.Add(1) == cut {
				for seed := range uint64(20) {
					check(disk.Crash(seed), fmt.Sprintf("cut before operation %d (%s), seed %d", cut, kind, seed))
				}
			}
		}
		require.NoError(t, replaceWith(fs, "/a", 3, 0, "", durable))
		check(disk, "at the end")
	}
	for _, kind := range []filetest.Kind{filetest.Link, filetest.Rename, filetest.SyncDirectory, filetest.Sync} {
		for nth := 1; nth <= counting.Count(kind); nth++ {
			disk := prepare()
			fs := filetest.NewFaulty(disk, filetest.Fault{Kind: kind, Nth: nth, Errno: syscall.EIO})
			require.Error(t, replaceWith(fs, "/a", 3, 0, "", durable), "%s %d", kind, nth)
			check(disk, fmt.Sprintf("%s number %d failed", kind, nth))
		}
	}
}

// What cannot be read at the moment may rest on the file that is replaced, or on what is kept.
func TestUnreadableFilesAreNotTakenForNothing(t *testing.T) {
	prepare := func() *filetest.Disk {
		disk := filetest.NewDisk()
		require.NoError(t, replaceWith(disk, "/a", 1, 0, "", ReplaceOptions{}))
		require.NoError(t, replaceWith(disk, "/b", 2, 1, "a", ReplaceOptions{}))
		require.NoError(t, replaceWith(disk, "/a", 3, 0, "", ReplaceOptions{})) // 1 is kept
		require.NoError(t, replaceWith(disk, "/c", 4, 3, "a", ReplaceOptions{}))
		return disk
	}
	counting := filetest.NewFaulty(prepare())
	require.NoError(t, replaceWith(counting, "/a", 5, 0, "", ReplaceOptions{}))
	for _, kind := range []filetest.Kind{filetest.Open, filetest.Stat, filetest.StatFile, filetest.Read, filetest.List} {
		for nth := 1; nth <= counting.Count(kind); nth++ {
			for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.EIO} {
				for _, refuse := range []bool{false, true} {
					disk := prepare()
					fs := filetest.NewFaulty(disk, filetest.Fault{Kind: kind, Nth: nth, Errno: errno})
					err := replaceWith(fs, "/a", 5, 0, "", ReplaceOptions{RefuseInUse: refuse})
					assert.True(t, !refuse || err != nil)
					requireHas(t, disk, "/b", 1, 2)
					requireHas(t, disk, "/c", 3, 4)
					assert.Less(t, strings.Count(namesIn(t, disk, "/"), "mmsb-"), 3)
				}
			}
		}
	}
}

// Another process replaces a file and its base, at every step of a reader: the reader has one state or the other.
func TestOpenOfAFileThatIsReplacedMeanwhile(t *testing.T) {
	prepare := func() *filetest.Disk {
		disk := filetest.NewDisk()
		require.NoError(t, replaceWith(disk, "/a", 1, 0, "", ReplaceOptions{}))
		require.NoError(t, replaceWith(disk, "/b", 2, 1, "a", ReplaceOptions{}))
		return disk
	}
	replace := func(disk *filetest.Disk) {
		require.NoError(t, replaceWith(disk, "/a", 3, 0, "", ReplaceOptions{}))
		require.NoError(t, replaceWith(disk, "/b", 4, 3, "a", ReplaceOptions{}))
		require.NotContains(t, namesIn(t, disk, "/"), "mmsb-")
	}
	states := make(map[string]bool)
	for step, steps := 1, 1; step <= steps; step++ {
		disk := prepare()
		fs := filetest.NewFaulty(disk)
		at := 0
		fs.Before = func(filetest.Kind, int) {
			if at++; at == step {
				replace(disk)
			}
		}
		s, err := Open("/b", OpenOptions{FS: fs})
		require.NoError(t, err, "replaced before step %d", step)
		chain := s.Chain()
		require.Len(t, chain, 2)
		states[fmt.Sprint(chain[0].ID == goldenID(2), chain[1].ID == goldenID(1))] = true
		require.NoError(t, s.Close())
		steps = max(steps, at)
	}
	assert.Equal(t, map[string]bool{"true true": true, "false false": true}, states)
}

// Savers in one directory, on the real file system: each file that is there loads at all times.
func TestManySaversInOneDirectory(t *testing.T) {
	directory := t.TempDir()
	var savers sync.WaitGroup
	for saver := range byte(3) {
		savers.Add(1)
		go func() {
			defer savers.Done()
			for turn := range byte(20) {
				path := filepath.Join(directory, []string{"a", "b", "c"}[(saver+turn)%3])
				id := 10 + 30*saver + turn
				baseName := []string{"a", "b", "c"}[(saver+2*turn+1)%3]
				base, err := InspectHeader(filepath.Join(directory, baseName), file.OS{})
				if err != nil || baseName == filepath.Base(path) {
					assert.NoError(t, replaceWith(file.OS{}, path, id, 0, "", ReplaceOptions{}))
					continue
				}
				err = replaceWith(file.OS{}, path, id, base.ID[0], baseName, ReplaceOptions{})
				if code := status.CodeOf(err); err != nil && code != status.Mismatch {
					assert.NoError(t, err)
				}
			}
		}()
	}
	savers.Wait()
	for _, name := range []string{"a", "b", "c"} {
		s, err := Open(filepath.Join(directory, name), OpenOptions{})
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
}

// everything is a journal that has records from 2 on.
type everything struct{}

func (everything) First() uint64             { return 2 }
func (everything) FromTheBeginning() bool    { return false }
func (everything) Leads(lineage.Point) error { return nil }

// A base of which a step may be behind the record that ends a replay has perhaps more than the state there.
func TestABaseWithLaterSteps(t *testing.T) {
	disk := filetest.NewDisk()
	require.NoError(t, disk.MakeDirectory("/journal", 0o777))
	line := lineage.New(lineage.Point{})
	for _, header := range []Header{
		{ID: goldenID(1), Lineage: line, Position: 3}, {ID: goldenID(2), Lineage: line, Position: 6, Latest: 8},
	} {
		sink, err := Replace(disk, "/journal/"+BaseFileName(header.Position, header.ID), ReplaceOptions{})
		require.NoError(t, err)
		w, err := NewWriter(sink, header, Options{})
		require.NoError(t, err)
		_, err = w.Finish(0, 0)
		require.NoError(t, err)
	}
	for record, position := range map[uint64]uint64{0: 6, 3: 3, 6: 3, 7: 3, 8: 6, 9: 6} {
		base, err := FindBase(disk, "/journal", everything{}, record, 0, false)
		require.NoError(t, err)
		assert.Equal(t, position, base.Position, "until record %d", record)
	}
	_, err := FindBase(disk, "/journal", everything{}, 2, 0, false)
	assert.Equal(t, status.Mismatch, status.CodeOf(err))
}

func TestBasesOfAJournal(t *testing.T) {
	disk := filetest.NewDisk()
	require.NoError(t, disk.MakeDirectory("/journal", 0o777))
	require.NoError(t, disk.MakeDirectory("/elsewhere", 0o777))
	line := lineage.New(lineage.Point{})
	save := func(path string, id byte, position uint64) Header {
		header := Header{ID: goldenID(id), Lineage: line, Position: position}
		sink, err := Replace(disk, path, ReplaceOptions{})
		require.NoError(t, err)
		w, err := NewWriter(sink, header, Options{})
		require.NoError(t, err)
		_, err = w.Finish(0, 0)
		require.NoError(t, err)
		return w.Header()
	}
	save("/journal/"+BaseFileName(7, goldenID(1)), 1, 7)
	newer := save("/elsewhere/b", 2, 9)
	require.NoError(t, NameBase(disk, "/journal", "/elsewhere/b", &newer))
	bases, lost := Bases(disk, "/journal")
	require.NoError(t, lost)
	require.Len(t, bases, 2)
	assert.Equal(t, []uint64{9, 7}, []uint64{bases[0].Position, bases[1].Position})
	assert.Equal(t, "/elsewhere/b", bases[0].Path)
	assert.Equal(t, newer.ID, bases[0].ID)

	require.NoError(t, RemoveBases(disk, "/journal", &newer, func(*Base) bool { return false }))
	bases, lost = Bases(disk, "/journal")
	require.NoError(t, lost)
	require.Len(t, bases, 1)

	save("/elsewhere/b", 3, 12) // another snapshot takes its place
	bases, lost = Bases(disk, "/journal")
	assert.Empty(t, bases)
	assert.Equal(t, status.NotFound, status.CodeOf(lost))
	assert.ErrorContains(t, lost, newer.ID.String())
}

func TestANamedBaseThatIsDamaged(t *testing.T) {
	directory := t.TempDir()
	header := Header{ID: goldenID(2), Position: 9}
	require.NoError(t, NameBase(file.OS{}, directory, "/elsewhere/crc b", &header))
	name := filepath.Join(directory, strings.TrimSuffix(BaseFileName(9, goldenID(2)), baseSuffix)+pointerSuffix)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for at := range text {
		text[at] ^= 1
		require.NoError(t, os.WriteFile(name, text, 0o600))
		_, lost := Bases(file.OS{}, directory)
		assert.Equal(t, status.Corrupt, status.CodeOf(lost), "byte %d", at)
		text[at] ^= 1
	}
}
