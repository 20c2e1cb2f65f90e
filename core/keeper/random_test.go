package keeper

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
	"libmmsb/core/store"
)

var (
	programs = flag.Uint64("programs", inTests, "random programs of a store")
	from     = flag.Uint64("from", 0, "number of the first one")
	alone    = flag.Bool("alone", false, "run the first one in this process")
)

// TestRandomPrograms runs programs of a store's user beside a model. A process that is killed is a copy of the directory that is
// opened while the writer lives: what has returned is in it. Each program has a process of its own: while the disk is full, what
// go test writes down of a test would be refused, too.
func TestRandomPrograms(t *testing.T) {
	if *alone {
		runProgram(t, *from)
		return
	}
	for number := *from; number < *from+*programs; number++ {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run=^TestRandomPrograms$", "-from", fmt.Sprint(number), "-alone")
			if said, err := child.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
		})
	}
}

func runProgram(t *testing.T, number uint64) {
	runtime.LockOSThread() // as a program's thread that calls the library is
	defer runtime.UnlockOSThread()
	folder, err := os.MkdirTemp(inMemory(), "mmsb-store-")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(folder) }()
	p := &program{changer: newChanger(t, number, 14), folder: folder,
		directory: filepath.Join(folder, "store"), last: 1 << 10, names: map[string]pages{}, records: map[uint64]pages{}}
	p.changed = p.learn
	p.run()
}

// inMemory is a folder whose syncs cost nothing, where there is one. Nothing here depends on what a power cut takes away.
func inMemory() string {
	const folder = "/dev/shm"
	if info, err := os.Stat(folder); err != nil || !info.IsDir() || os.Getenv("TMPDIR") != "" {
		return os.TempDir()
	}
	return folder
}

// program is a user of a store, and what must be there.
type program struct {
	changer
	folder    string
	directory string
	state     pages
	last      int              // the smallest keep_last so far
	names     map[string]pages // states by name
	records   map[uint64]pages // states behind records, of this line
	since     uint64           // the record that the store went on behind when the disk was full; none leads there
	copies    int
}

func (p *program) run() {
	p.state = pages{}
	p.open(p.options())
	for range 10 + p.IntN(60) {
		p.step()
	}
	p.check(p.directory)
	require.NoError(p, page.Destroy(p.context))
	require.Equal(p, p.state, read(p.T, p.directory, store.At{}))
}

func (p *program) options() Options {
	o := quiet()
	o.SegmentBytes = 4096 << p.IntN(5)
	o.Retention.Last = 1 + p.IntN(4)
	p.last = min(p.last, o.Retention.Last) // what was removed before does not come back
	o.Retention.Hourly = p.IntN(3)
	o.Durability = int32(p.IntN(3))
	o.Lazy = p.IntN(2) == 0
	if p.IntN(3) == 0 {
		o.SaveBytes = 8 << 10
	}
	return o
}

func (p *program) open(o Options) {
	p.context = openStore(p.T, p.directory, o)
	require.Equal(p, p.state, stateOf(p.T, p.context))
	p.goesOnWith(p.context)
	p.note()
}

// note notes the state behind the last record.
func (p *program) note() {
	info, err := persist.GetJournalInfo(p.context)
	require.NoError(p, err)
	p.records[info.Last] = p.state
}

func (p *program) step() {
	switch p.IntN(15) {
	case 0:
		require.NoError(p, Save(p.context, p.IntN(4) == 0, nil))
	case 1:
		name := string(rune('a' + p.IntN(4)))
		require.NoError(p, SetName(p.context, name, nil))
		p.names[name] = p.state
	case 2:
		name := string(rune('a' + p.IntN(4)))
		_, known := p.names[name]
		err := RemoveName(p.context, name, nil)
		require.Equal(p, known, err == nil, "%v", err)
		delete(p.names, name)
	case 3:
		copied := p.killed()
		p.check(copied)
		to := copied + "-backup"
		_, err := store.Backup(file.OS{}, copied, store.Directory(file.OS{}, to), nil)
		require.NoError(p, err)
		p.check(to)
	case 4: // it dies, and another one goes on
		copied := p.killed()
		require.NoError(p, page.Destroy(p.context))
		p.directory = copied
		p.open(p.options())
	case 5:
		require.NoError(p, page.Destroy(p.context))
		p.open(p.options())
	case 6:
		p.branch()
	case 7:
		p.group()
	case 10:
		p.backup()
	case 9: // a save that is none of the store's business
		path := filepath.Join(p.folder, "elsewhere")
		require.NoError(p, persist.Save(p.context, persist.ToPath(path), persist.SaveOptions{Queue: true}, nil))
	case 11:
		p.fullDisk()
	default:
		p.change()
	}
}

// fullDisk lets the disk be full for some steps. What a call refuses is not there; all else is, also for one that is killed then;
// and the store goes on by itself when there is space.
func (p *program) fullDisk() {
	restore := filetest.Full(p.T, uint64(p.IntN(64<<10)))
	defer restore()
	changed := p.changed
	p.full, p.changed = true, func() {}
	for range p.IntN(12) {
		name := string(rune('a' + p.IntN(4)))
		switch p.IntN(8) {
		case 0:
			p.takes(Save(p.context, p.IntN(2) == 0, nil))
		case 1:
			if p.takes(SetName(p.context, name, nil)) {
				p.names[name] = p.state
			}
		case 2:
			p.groupOnFullDisk(restore)
		default:
			p.change()
		}
		p.refuses()
	}
	p.full, p.changed = false, changed
	if p.IntN(2) == 0 {
		copied := p.killedWith(restore)
		require.Equal(p, p.state, read(p.T, copied, store.At{}))
	}
	restore()
	require.Eventually(p, func() bool {
		return page.Use(p.context, func(c *page.Context) error {
			handle, err := c.Create(1, page.CreateOptions{NUMANode: -1})
			if err == nil {
				p.handles = append(p.handles, handle)
			}
			return err
		}) == nil
	}, patience, time.Millisecond)
	p.learn()
	p.since = infoOf(p.T, p.context).Journal.Last
}

// refuses looks at the state: a call that was refused has changed nothing.
func (p *program) refuses() {
	now := stateOf(p.T, p.context)
	if p.code == status.NoSpace {
		require.Equal(p, p.state, now, "a call that was refused has changed something")
	}
	p.state = now
}

// groupOnFullDisk makes a group of changes of which some may be refused, and so may its end: then it is still open.
func (p *program) groupOnFullDisk(restore func()) {
	before, handles := p.state, slices.Clone(p.handles)
	require.NoError(p, page.BeginGroup(p.context))
	for range 1 + p.IntN(6) {
		p.change()
		p.refuses()
	}
	if p.IntN(2) == 0 {
		if p.takes(page.CommitGroup(p.context)) {
			return
		}
		require.Equal(p, p.state, stateOf(p.T, p.context), "the group is open")
	}
	if p.code = status.CodeOf(page.RollbackGroup(p.context)); p.code != status.OK { // bytes on disk cannot come back
		require.Contains(p, []status.Code{status.NoSpace, status.IO}, p.code)
		restore()
		require.NoError(p, page.RollbackGroup(p.context))
	}
	p.handles, p.code = handles, status.OK
	require.Equal(p, before, stateOf(p.T, p.context), "after a rollback")
	p.state = before
}

// learn takes what the context has for what must be there.
func (p *program) learn() {
	p.state = stateOf(p.T, p.context)
	p.note()
}

// backup brings a backup up to date, beside the writer.
func (p *program) backup() {
	require.NoError(p, persist.SyncJournal(p.context, nil))
	to := filepath.Join(p.folder, "backup")
	_, err := store.Backup(file.OS{}, p.directory, store.Directory(file.OS{}, to), nil)
	if status.CodeOf(err) == status.Mismatch { // of what a branch has left
		require.NoError(p, os.RemoveAll(to))
		_, err = store.Backup(file.OS{}, p.directory, store.Directory(file.OS{}, to), nil)
	}
	require.NoError(p, err)
	p.check(to)
}

// branch leaves the newest states for an older one.
func (p *program) branch() {
	at, state := store.At{}, pages{}
	for name, named := range p.names {
		at, state = store.At{Name: name}, named
	}
	if record, known := p.someRecord(); p.IntN(2) == 0 && record != 0 {
		at, state = store.At{Record: record}, known
	}
	if at == (store.At{}) {
		return
	}
	require.NoError(p, page.Destroy(p.context))
	o := p.options()
	o.Mode, o.At = abi.StoreBranch, at
	if at.Record != 0 && status.CodeOf(p.tryRead(at)) == status.NotFound { // its snapshot is not kept
		o.Mode, o.At, state = abi.StoreWrite, store.At{}, p.state
	} else {
		p.records, p.since = map[uint64]pages{}, 0
	}
	p.state = state
	p.open(o)
}

// checkKept looks whether records lead on from the newest snapshots of this line.
func (p *program) checkKept(directory string) {
	s, err := store.Look(file.OS{}, directory)
	require.NoError(p, err)
	for i := range s.Points[:min(p.last, len(s.Points))] {
		point := &s.Points[i]
		require.True(p, point.Leads || point.Lineage.ID != s.Line.ID || point.Position < p.since,
			"snapshot at %d, records from %d", point.Position, s.Journal.First)
	}
}

// someRecord is a record that is kept, with the state behind it; 0: there is none.
func (p *program) someRecord() (record uint64, state pages) {
	info := infoOf(p.T, p.context)
	var kept []uint64
	for record := range p.records {
		if record >= max(1, info.Journal.First) {
			kept = append(kept, record)
		}
	}
	if len(kept) == 0 {
		return 0, nil
	}
	slices.Sort(kept)
	record = kept[p.IntN(len(kept))]
	return record, p.records[record]
}

func (p *program) tryRead(at store.At) error {
	o := quiet()
	o.Mode, o.At = abi.StoreRead, at
	context, err := Open(p.directory, hostPages, o, nil)
	if err == nil {
		err = page.Destroy(context)
	}
	return err
}

// killed is a copy of the directory as a killed process leaves it. The keeper of the writer may save and remove meanwhile; a
// process is killed at one moment.
func (p *program) killed() string { return p.killedWith(func() {}) }

// killedWith is killed, where something else must be before the copy is made: the disk of the copy is not full.
func (p *program) killedWith(before func()) string {
	p.copies++
	to := filepath.Join(p.folder, fmt.Sprint(p.copies))
	keepers.Lock()
	k := keepers.byContext[p.context]
	keepers.Unlock()
	require.NoError(p, k.alone(nil, func() error {
		before()
		require.NoError(p, os.Mkdir(to, 0o700))
		// The ring goes first: what is written meanwhile is then in both, never in neither.
		const ring = "journal.ring"
		require.NoError(p, copyFile(filepath.Join(p.directory, ring), filepath.Join(to, ring)))
		for copied := map[string]bool{ring: true}; p.copyMore(to, copied); {
		}
		return nil
	}))
	return to
}

// copyMore copies what was not copied, and says whether there was anything: the journal's goroutine may rename a file meanwhile.
func (p *program) copyMore(to string, copied map[string]bool) (more bool) {
	entries, err := os.ReadDir(p.directory)
	require.NoError(p, err)
	for _, entry := range entries {
		if name := entry.Name(); !copied[name] {
			more, copied[name] = true, true
			if err := copyFile(filepath.Join(p.directory, name), filepath.Join(to, name)); !os.IsNotExist(err) {
				require.NoError(p, err)
			}
		}
	}
	return more
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if closed := target.Close(); err == nil {
		err = closed
	}
	return err
}

// check compares what a directory gives with the model.
func (p *program) check(directory string) {
	if directory == p.directory { // a reader beside it does not see what only the writer's process has
		require.NoError(p, persist.SyncJournal(p.context, nil))
	}
	require.Equal(p, p.state, read(p.T, directory, store.At{}))
	for name, state := range p.names {
		require.Equal(p, state, read(p.T, directory, store.At{Name: name}), "name %q", name)
	}
	p.checkKept(directory)
	for range 3 {
		record, state := p.someRecord()
		if record == 0 {
			break
		}
		o := quiet()
		o.Mode, o.At = abi.StoreRead, store.At{Record: record}
		context, err := Open(directory, hostPages, o, nil)
		if status.CodeOf(err) == status.NotFound { // no snapshot before it is kept
			continue
		}
		require.NoError(p, err)
		require.Equal(p, state, stateOf(p.T, context), "record %d", record)
		require.Equal(p, record, infoOf(p.T, context).Journal.Last)
		require.NoError(p, page.Destroy(context))
	}
	if p.IntN(4) == 0 {
		require.Equal(p, p.state, read(p.T, directory, store.At{Time: time.Now().Add(time.Hour).UnixNano()}))
	}
}
