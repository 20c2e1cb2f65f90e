package persist

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// inFolder is the names in a directory that begin in a way.
func inFolder(t *testing.T, directory, prefix string) (found []string) {
	t.Helper()
	for _, name := range names(t, directory) {
		if strings.HasPrefix(name, prefix) {
			found = append(found, name)
		}
	}
	return found
}

func requireLoads(t *testing.T, context uint64, path, directory string) {
	t.Helper()
	loaded := replayed(t, path, directory, LoadOptions{})
	require.Equal(t, contents(t, context), contents(t, loaded))
	require.NoError(t, page.Destroy(loaded))
}

func TestTwoFilesInTurn(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	handle := createFilled(t, context, 5000, 5, 1)
	createFilled(t, context, 64, 6, 2)
	folder := t.TempDir()
	paths := []string{filepath.Join(folder, "a"), filepath.Join(folder, "b"), filepath.Join(folder, "c")}
	for _, count := range []int{2, 3} {
		base := ""
		for turn := range 9 {
			write(t, handle, uint64(turn), []byte{byte(100 + turn)})
			path := paths[turn%count]
			require.NoError(t, Save(context, ToPath(path), SaveOptions{Base: base}, nil))
			for _, there := range paths[:min(turn+1, count)] {
				s, err := snapshot.Open(there, snapshot.OpenOptions{})
				require.NoError(t, err, "turn %d", turn)
				require.NoError(t, s.Close())
			}
			requireLoads(t, context, path, "")
			base = path
		}
		require.LessOrEqual(t, len(inFolder(t, folder, "mmsb-")), 1)
	}
	require.NoError(t, Save(context, ToPath(paths[0]), SaveOptions{}, nil))
	require.NoError(t, Save(context, ToPath(paths[1]), SaveOptions{Base: paths[0]}, nil))
	for _, base := range []string{"", paths[0], paths[1]} {
		err := Save(context, ToPath(paths[0]), SaveOptions{Base: base, RefuseInUse: true}, nil)
		require.Equal(t, status.Busy, status.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "rests on it")
	}
	linked := filepath.Join(folder, "linked") // the directory by another name
	require.NoError(t, os.Symlink(folder, linked))
	err := Save(context, ToPath(filepath.Join(linked, "a")), SaveOptions{Base: paths[1], RefuseInUse: true}, nil)
	require.Equal(t, status.Busy, status.CodeOf(err), "%v", err)
}

func TestAJournalThatIsOpenedLate(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	directory := filepath.Join(t.TempDir(), "journal")
	handle := createFilled(t, context, 5000, 5, 1)
	err := OpenJournal(context, directory, JournalOptions{IntervalMs: 1, RefuseBase: true}, nil)
	require.Equal(t, status.InvalidState, status.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "1 pages")
	openJournal(t, context, directory)
	require.Len(t, inFolder(t, directory, "base-"), 1)
	write(t, handle, 7, []byte("recorded"))
	require.NoError(t, SyncJournal(context, nil))
	requireLoads(t, context, "", directory)

	// Nothing happens while it is closed: it goes on.
	for range 3 {
		require.NoError(t, CloseJournal(context))
		require.NoError(t, OpenJournal(context, directory, JournalOptions{IntervalMs: 1, RefuseBase: true}, nil))
	}
	require.Len(t, inFolder(t, directory, "journal-"), 1)

	// Something happens, and another base closes the gap.
	for turn := range byte(3) {
		require.NoError(t, CloseJournal(context))
		write(t, handle, uint64(turn), []byte("between"))
		createFilled(t, context, 64, uint64(10+turn), turn)
		err := OpenJournal(context, directory, JournalOptions{IntervalMs: 1, RefuseBase: true}, nil)
		require.Equal(t, status.InvalidState, status.CodeOf(err), "%v", err)
		openJournal(t, context, directory)
		write(t, handle, uint64(turn), []byte("after"))
		require.NoError(t, SyncJournal(context, nil))
		requireLoads(t, context, "", directory)
		require.Len(t, inFolder(t, directory, "base-"), 1)
		require.Len(t, inFolder(t, directory, "journal-0"), 1)
	}
	require.NoError(t, CloseJournal(context))
}

func TestADependencyIsAChangeOfTheState(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	directory := filepath.Join(t.TempDir(), "journal")
	openJournal(t, context, directory)
	parent, child := createFilled(t, context, 64, 1, 1), createFilled(t, context, 64, 2, 2)
	require.NoError(t, CloseJournal(context))
	require.NoError(t, page.AddDependency(parent, child))
	err := OpenJournal(context, directory, JournalOptions{IntervalMs: 1, RefuseBase: true}, nil)
	require.Equal(t, status.InvalidState, status.CodeOf(err), "%v", err)
}

func TestASnapshotOfAnotherContextIsRefused(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	path, other := filepath.Join(folder, "a"), filepath.Join(folder, "journal")
	context := newContext(t)
	createFilled(t, context, 64, 1, 1)
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	second := newContext(t)
	openJournal(t, second, other)
	for id := range uint64(9) {
		createFilled(t, second, 64, id+1, 3)
	}
	require.NoError(t, CloseJournal(second))
	err := Load(newContext(t), FromPath(path), LoadOptions{Journal: other}, nil)
	require.Equal(t, status.Mismatch, status.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "lineage")
	err = OpenJournal(context, other, JournalOptions{IntervalMs: 1}, nil)
	require.Equal(t, status.Mismatch, status.CodeOf(err), "%v", err)
	requireLoads(t, second, "", other)
}

// A snapshot elsewhere takes the place of the records before it, and stays when its own name goes to another file.
func TestASnapshotElsewhereBecomesTheBase(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	directory := filepath.Join(folder, "journal")
	context := newContext(t)
	handle := createFilled(t, context, 64, 1, 1)
	require.NoError(t, OpenJournal(context, directory, JournalOptions{IntervalMs: 1, SegmentBytes: 1}, nil))
	base := ""
	for turn := range byte(6) {
		write(t, handle, 0, []byte{turn})
		require.NoError(t, SyncJournal(context, nil))
		path := filepath.Join(folder, []string{"a", "b"}[turn%2])
		require.NoError(t, Save(context, ToPath(path), SaveOptions{Base: base}, nil))
		base = path
		write(t, handle, 1, []byte{turn})
		require.NoError(t, SyncJournal(context, nil))
		requireLoads(t, context, "", directory)
		requireLoads(t, context, path, directory)
		require.Len(t, inFolder(t, directory, "base-"), 1)
	}
	require.NoError(t, CloseJournal(context))
	before := contents(t, replayed(t, "", directory, LoadOptions{}))
	write(t, handle, 2, []byte("later"))
	require.NoError(t, Save(context, ToPath(base), SaveOptions{}, nil))
	require.NoError(t, os.Remove(filepath.Join(folder, "a")))
	require.Equal(t, before, contents(t, replayed(t, "", directory, LoadOptions{})))
}

func TestTheContextGoesOnFromACompactedFile(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	context := newContext(t)
	handle := createFilled(t, context, 70_000, 1, 1)
	paths := []string{filepath.Join(folder, "a"), filepath.Join(folder, "b"), filepath.Join(folder, "c")}
	require.NoError(t, Save(context, ToPath(paths[0]), SaveOptions{}, nil))
	write(t, handle, 0, []byte("first"))
	require.NoError(t, Save(context, ToPath(paths[1]), SaveOptions{Base: paths[0]}, nil))
	_, err := snapshot.Compact(paths[1], paths[1], snapshot.CompactOptions{})
	require.NoError(t, err)
	write(t, handle, 100, []byte("second"))
	require.NoError(t, Save(context, ToPath(paths[2]), SaveOptions{Base: paths[1]}, nil))
	requireLoads(t, context, paths[2], "")
	chain, err := snapshot.ChainOf(file.OS{}, paths[2])
	require.NoError(t, err)
	require.True(t, slices.Equal([]string{paths[2], paths[1]}, chain), "%v", chain)
}

// A context that has closed its journal, and another one that goes on with that journal, do not give the same names to states
// that differ.
func TestTwoContextsGoOnFromOneJournal(t *testing.T) {
	onOneThread(t)
	for _, records := range []int{1, 5} {
		folder := t.TempDir()
		directory, path := filepath.Join(folder, "journal"), filepath.Join(folder, "one.mmsb")
		one := newContext(t)
		openJournal(t, one, directory)
		handle := createFilled(t, one, 100, 1, 1)
		require.NoError(t, CloseJournal(one))

		other := newContext(t)
		require.NoError(t, Load(other, FromPath(""), LoadOptions{Journal: directory}, nil))
		openJournal(t, other, directory)
		for i := range records {
			write(t, handleOf(t, other, 1), uint64(i), []byte{2})
		}
		require.NoError(t, CloseJournal(other))

		write(t, handle, 99, []byte{3})
		require.NoError(t, Save(one, ToPath(path), SaveOptions{}, nil))
		err := Load(newContext(t), FromPath(path), LoadOptions{Journal: directory}, nil)
		require.Equal(t, status.Mismatch, code(err), "%v", err)
		refusesJournal(t, one, directory)
		require.NoError(t, Load(one, FromPath(path), LoadOptions{}, nil)) // now it is chosen
		openJournal(t, one, directory)                                    // as a branch
		requireLoads(t, one, "", directory)
		require.NoError(t, CloseJournal(one))
		requireLoads(t, one, "", directory)
	}
}

// refusesJournal: a context must not leave records behind that another one has written since it closed or loaded the journal.
func refusesJournal(t *testing.T, context uint64, directory string) {
	t.Helper()
	err := OpenJournal(context, directory, JournalOptions{IntervalMs: 1}, nil)
	require.Equal(t, status.Mismatch, code(err), "%v", err)
	require.ErrorContains(t, err, "has gone on to position")
}

// A process that stands by has loaded the journal while another one still wrote it.
func TestAJournalThatWentOnIsNotLeftBehind(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	directory, path := filepath.Join(folder, "journal"), filepath.Join(folder, "s")
	first := newContext(t)
	openJournal(t, first, directory)
	handle := createFilled(t, first, 100, 1, 1)
	require.NoError(t, Save(first, ToPath(path), SaveOptions{NotDurable: true}, nil))
	require.NoError(t, SyncJournal(first, nil))
	standby := replayed(t, "", directory, LoadOptions{})
	withBoth := replayed(t, path, directory, LoadOptions{})
	write(t, handle, 0, []byte("later"))
	require.NoError(t, CloseJournal(first))
	for range 2 {
		refusesJournal(t, standby, directory)
		refusesJournal(t, withBoth, directory)
	}
	write(t, handleOf(t, standby, 1), 0, []byte("other"))
	refusesJournal(t, standby, directory)
	require.NoError(t, Load(standby, FromPath(""), LoadOptions{Journal: directory}, nil))
	openJournal(t, standby, directory)
	write(t, handleOf(t, standby, 1), 7, []byte("goes on"))
	require.NoError(t, CloseJournal(standby))
	refusesJournal(t, first, directory) // it had closed the journal

	past := replayed(t, "", directory, LoadOptions{JournalUntil: 2}) // chosen
	openJournal(t, past, directory)
	require.NoError(t, CloseJournal(past))
	requireLoads(t, past, "", directory)
}

// What a context saves after it has closed its journal is newer than the journal, and goes on with it.
func TestASnapshotBehindTheJournal(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	directory, path := filepath.Join(folder, "journal"), filepath.Join(folder, "last.mmsb")
	context := newContext(t)
	require.NoError(t, OpenJournal(context, directory, JournalOptions{IntervalMs: 1, Keep: true}, nil))
	handle := createFilled(t, context, 100, 1, 1)
	require.NoError(t, SyncJournal(context, nil))
	early := contents(t, context)
	last := stateOf(t, context).journals.open.Load().ring.Last()
	for turn := range byte(3) { // each turn is a process that begins with both
		require.NoError(t, CloseJournal(context))
		write(t, handle, 5, []byte{turn + 10})
		require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
		requireLoads(t, context, path, directory)
		context = replayed(t, path, directory, LoadOptions{})
		require.NoError(t, OpenJournal(context, directory, JournalOptions{IntervalMs: 1, Keep: true}, nil))
		handle = handleOf(t, context, 1)
		write(t, handle, 6, []byte{turn + 20})
		require.NoError(t, SyncJournal(context, nil))
		requireLoads(t, context, path, directory)
		requireLoads(t, context, "", directory)
		// What was kept still gives the past, across the gaps.
		require.Equal(t, early, contents(t, replayed(t, "", directory, LoadOptions{JournalUntil: last})))
	}
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	require.NoError(t, TrimJournal(context, path, nil)) // one branch: all before it goes
	require.Len(t, inFolder(t, directory, "journal-0"), 1)
	require.Len(t, inFolder(t, directory, "base-"), 1)
	requireLoads(t, context, "", directory)
}

// A journal can be trimmed to the snapshot that its lineage begins behind. That one is then the base of its branch.
func TestABranchKeepsTheSnapshotThatItBeginsBehind(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	directory, path := filepath.Join(folder, "journal"), filepath.Join(folder, "state.mmsb")
	first := newContext(t)
	createFilled(t, first, 100, 1, 1)
	require.NoError(t, Save(first, ToPath(path), SaveOptions{}, nil))
	for branch := range byte(2) {
		context := newContext(t)
		require.NoError(t, Load(context, FromPath(path), LoadOptions{}, nil))
		openJournal(t, context, directory)
		if branch == 0 {
			require.NoError(t, TrimJournal(context, path, nil))
		}
		write(t, handleOf(t, context, 1), 1, []byte{branch + 5})
		require.NoError(t, CloseJournal(context))
		requireLoads(t, context, "", directory)
	}
	require.Len(t, inFolder(t, directory, "journal-0"), 2)
	require.Len(t, inFolder(t, directory, "base-"), 2)
}

func TestWhatIsKnownOfEarlierSavesDoesNotGrow(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	context := newContext(t)
	handle := createFilled(t, context, 100, 1, 1)
	for n := range byte(20) {
		write(t, handle, 0, []byte{n})
		require.NoError(t, Save(context, ToPath(filepath.Join(folder, string('a'+rune(n)))), SaveOptions{}, nil))
	}
	require.Len(t, stateOf(t, context).saved.chain, 1)
	write(t, handle, 0, []byte{99})
	path := filepath.Join(folder, "last")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{Base: filepath.Join(folder, "c")}, nil))
	requireLoads(t, context, path, "")
}

// Writes through pointers move no version. A context that was loaded does not take the bytes of an older file for those
// that it has.
func TestABaseOfAnotherContextAndWritesThroughPointers(t *testing.T) {
	onOneThread(t)
	for _, incremental := range []bool{false, true} {
		folder := t.TempDir()
		at := func(name string) string { return filepath.Join(folder, name) }
		first := newContext(t)
		_, memory := adoptMapping(t, first, 1, 100)
		createFilled(t, first, 100, 2, 2)
		require.NoError(t, Save(first, ToPath(at("a")), SaveOptions{}, nil))
		memory[0]++
		base := ""
		if incremental {
			base = at("a")
		}
		require.NoError(t, Save(first, ToPath(at("c")), SaveOptions{Base: base}, nil))
		second := replayed(t, at("c"), "", LoadOptions{})
		require.NoError(t, Save(second, ToPath(at("b")), SaveOptions{Base: at("a")}, nil))
		requireLoads(t, second, at("b"), "")
		if incremental { // what lies in the base alone is not written again
			require.Equal(t, uint64(1), filePages(t, at("b")))
		}
	}
}

// A snapshot that a killed process had saved, and that the journal goes beyond, is one that the state comes from.
func TestASnapshotThatTheReplayWentThroughIsABase(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	directory, path := filepath.Join(folder, "journal"), filepath.Join(folder, "s")
	context := newContext(t)
	openJournal(t, context, directory)
	handle := createFilled(t, context, 100, 1, 1)
	require.NoError(t, Save(context, ToPath(path), SaveOptions{NotDurable: true}, nil)) // it does not become the journal's base
	write(t, handle, 0, []byte("later"))
	require.NoError(t, CloseJournal(context))
	again := replayed(t, "", directory, LoadOptions{})
	next := filepath.Join(folder, "next")
	require.NoError(t, Save(again, ToPath(next), SaveOptions{Base: path}, nil))
	requireLoads(t, again, next, "")
}

// A snapshot has a state with other versions than a journal that goes on from it: a load has given its pages versions above all
// that its context has had. No record behind the snapshot is taken for one that it has.
func TestASnapshotWithHigherVersionsThanItsJournal(t *testing.T) {
	folder := t.TempDir()
	directory, path := filepath.Join(folder, "journal"), filepath.Join(folder, "saved")
	first := newContext(t)
	openKept := func(context uint64) {
		require.NoError(t, OpenJournal(context, directory, JournalOptions{IntervalMs: 1, Keep: true}, nil))
	}
	openKept(first)
	handles := []uint64{createFilled(t, first, 64, 1, 'a'), createFilled(t, first, 5000, 2, 'a')}
	require.NoError(t, CloseJournal(first))
	for range 20 { // versions that no journal has
		for _, handle := range handles {
			write(t, handle, 1, []byte{'b'})
		}
	}
	require.NoError(t, Load(first, FromPath(""), LoadOptions{Journal: directory}, nil))
	openKept(first)
	require.NoError(t, Save(first, ToPath(path), SaveOptions{}, nil))
	require.NoError(t, CloseJournal(first))

	second := replayed(t, "", directory, LoadOptions{})
	openKept(second)
	handle := handleOf(t, second, 1)
	require.NoError(t, page.SetMetadata(handle, []byte("key"), []byte("value")))
	write(t, handle, 0, []byte{'c'})
	large := handleOf(t, second, 2)
	for range 3 {
		write(t, large, 3, []byte{'d'})
	}
	_, err := page.Clone(large, 3)
	require.NoError(t, err)
	require.NoError(t, CloseJournal(second))
	for _, lazy := range []bool{false, true} {
		require.Equal(t, contents(t, second), contents(t, replayed(t, path, directory, LoadOptions{Lazy: lazy})))
	}
}

// What is written through a pointer has no record, so two snapshots may be of one position. Who loads the older one and goes on
// with the journal gets that state back with what it has done since, not the newer one.
func TestWhoGoesOnFromTheOlderOfTwoStatesOfOnePosition(t *testing.T) {
	onOneThread(t)
	for _, keep := range []bool{false, true} {
		folder := t.TempDir()
		directory := filepath.Join(folder, "journal")
		older, newer := filepath.Join(folder, "older"), filepath.Join(folder, "newer")
		context := newContext(t)
		openJournal(t, context, directory)
		handle := createFilled(t, context, 64, 1, 'A')
		pinToWrite(t, handle, 1)
		require.NoError(t, Save(context, ToPath(older), SaveOptions{}, nil))
		require.NoError(t, page.Read(handle, func(p *page.Page) error { p.Bytes()[0] = 'B'; return nil }))
		require.NoError(t, Save(context, ToPath(newer), SaveOptions{}, nil))
		pinToWrite(t, handle, -1)
		require.NoError(t, page.Destroy(context))

		again := newContext(t)
		require.NoError(t, Load(again, FromPath(older), LoadOptions{}, nil))
		require.NoError(t, OpenJournal(again, directory, JournalOptions{IntervalMs: 1, Keep: keep}, nil))
		write(t, handleOf(t, again, 1), 10, []byte("new"))
		require.NoError(t, SyncJournal(again, nil))
		requireLoads(t, again, "", directory)
		require.Equal(t, byte('A'), contents(t, again)[1][0])
		require.NoError(t, CloseJournal(again))

		// Nothing else is between them now: it goes on without another base.
		require.NoError(t, OpenJournal(again, directory, JournalOptions{IntervalMs: 1, Keep: keep, RefuseBase: true}, nil))
	}
}
