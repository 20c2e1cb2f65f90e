package persist

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	gpupages "libmmsb/gpu/pages"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

var (
	histories = flag.Int("histories", 200, "random histories to run")
	from      = flag.Int("from", 0, "the first of them")
)

// steps are what a program does; a step is chosen as often as its weight says.
var steps = []struct {
	name   string
	weight int
	do     func(p *program)
}{
	{"change", 20, (*program).change},
	{"group", 4, (*program).group},
	{"save", 7, (*program).save},
	{"save beside changes", 3, (*program).saveBeside},
	{"open or close", 4, (*program).openOrClose},
	{"restore", 5, (*program).restore},
	{"compact", 2, (*program).compact},
	{"trim", 2, (*program).trim},
	{"write through a pointer", 3, (*program).writeThrough},
	{"rubbish", 1, (*program).leaveRubbish},
	{"kill", 2, (*program).kill},
	{"the other", 2, (*program).other},
	{"take over", 2, (*program).takeOver},
	{"gap", 1, (*program).gap},
	{"restart", 2, (*program).restart},
	{"twins", 1, (*program).twins},
}

const stepsOfAHistory = 40

// program is a random program of two users of the same files, and beside it what each file and directory must give.
type program struct {
	*testing.T
	random  *rand.Rand
	folder  string
	large   bool // see size
	devices bool // pages go there
	did     []string
	files   map[string]stored // snapshots, by path
	logs    map[string]stored // directories of journals that nobody has open, by path
	older   []olderBranch     // in them
	rubbish []string          // temporary files of a process that is dead
	serial  int               // of stored
	*user                     // whose turn it is
	users   [2]*user
	reader  *user // looks at what is stored
}

// stored is a state that was acknowledged.
type stored struct {
	world
	serial int
	past   []world // what was saved, and with what journals ended, on the way to it
}

// olderBranch is a branch of a directory that nobody goes on with any more. It stays until it is removed by hand.
type olderBranch struct {
	directory string
	segments  []string
	end       world
}

// user is a context and what is known of it.
type user struct {
	context uint64
	open    string                   // the journal that is open
	known   map[int]bool             // saves that the context's state comes from for certain
	past    []world                  // as stored
	end     int                      // the end of a journal that the context has closed or loaded, and nothing since
	chosen  bool                     // a file was loaded, and no journal was opened since
	waiting *world                   // what was loaded lazily, and nobody has looked at
	begun   *world                   // the state before the group that is open
	seen    map[[2]uint64]*pageState // by id and version; nil: it was written through a pointer
	adopted map[uint64][]byte        // the memory of adopted pages, by id
	memory  [][]byte                 // to be adopted
}

// newUser has a new context, and memory for pages that it adopts; nil: it adopts none.
func newUser(t *testing.T, memory []byte) *user {
	context, err := page.NewContext(page.Options{Simulate: abi.SimulateAlways, SimulatedDevices: devicesOfAUser,
		SimulatedMemory: 256 << 20})
	require.NoError(t, err)
	u := &user{context: context, seen: make(map[[2]uint64]*pageState), adopted: make(map[uint64][]byte)}
	if memory != nil {
		u.memory = [][]byte{memory[:native.ChunkBytes+5000], memory[native.ChunkBytes+5000:][:5000], memory[memoryOfAUser-300:]}
	}
	u.known = make(map[int]bool)
	return u
}

const (
	memoryOfAUser  = native.ChunkBytes + 11000
	devicesOfAUser = 2
)

func (u *user) ends(t *testing.T) {
	if u.begun == nil { // what an open group keeps is not counted
		require.NoError(t, page.Use(u.context, (*page.Context).Check))
	}
	require.NoError(t, page.Destroy(u.context))
}

// becomes notes that the context's state is a stored one.
func (u *user) becomes(s stored, known map[int]bool) {
	u.known, u.past, u.end = known, append(slices.Clip(s.past), s.world), 0
	if u.known == nil {
		u.known = make(map[int]bool)
	}
}

// now is the state of the user whose turn it is, without what an open group has changed. What was loaded lazily is not looked at.
func (p *program) now() world {
	if p.begun != nil {
		return *p.begun
	}
	if p.waiting != nil {
		return *p.waiting
	}
	return p.look()
}

// look reads the state. The same version of a page is the same page; that does not hold for what is written through pointers.
func (p *program) look() world {
	w := worldOf(p.T, p.context)
	for id, memory := range p.adopted {
		s := w.pages[id]
		require.True(p, s.bytes == string(memory), "adopted page %d has not the bytes of its memory", id)
		require.EqualValues(p, abi.LocationCPU, s.location)
		s.location = anywhere
		w.pages[id] = s
	}
	if p.waiting != nil {
		p.mustBe(*p.waiting, w, "what was loaded lazily")
		p.waiting = nil
	}
	p.notes(w)
	return w
}

// notes takes note of the versions of pages, which do not come twice.
func (p *program) notes(w world) {
	for id, s := range w.pages {
		key := [2]uint64{id, w.versions[id]}
		if before, ok := p.seen[key]; ok && before != nil && !before.is(s) {
			require.Fail(p, "a version twice", "page %d, version %d: %v, was %v", id, key[1], s, before)
		} else if !ok {
			p.seen[key] = &s
		}
	}
}

func (p *program) mustBe(want, got world, format string, arguments ...any) {
	p.Helper()
	if !want.is(got) {
		require.Fail(p, "another state", "%s\n%s", fmt.Sprintf(format, arguments...), want.unlike(got))
	}
}

func (p *program) says(format string, arguments ...any) {
	p.did = append(p.did, fmt.Sprintf(format, arguments...))
}

func (p *program) oneOf(n int) bool { return p.random.IntN(n) == 0 }

// isOpen is who has a journal open.
func (p *program) isOpen(directory string) *user {
	for _, u := range p.users {
		if u.open == directory {
			return u
		}
	}
	return nil
}

func (p *program) pick(paths []string) string { return paths[p.random.IntN(len(paths))] }

func (p *program) pickFile() string { return p.pick(slices.Sorted(maps.Keys(p.files))) }

func (p *program) paths() (paths []string) {
	for _, name := range []string{"a", "b", "c"} {
		paths = append(paths, filepath.Join(p.folder, name))
	}
	return paths
}

// change changes a page, or makes or ends one.
func (p *program) change() {
	if p.waiting != nil {
		p.look()
	}
	handles := handlesOf(p.T, p.context)
	if len(handles) == 0 || len(handles) < 10 && p.oneOf(4) {
		p.create(handles)
		return
	}
	if p.large && p.oneOf(4) { // a byte of each chunk up to some place
		handle := handles[p.random.IntN(len(handles))]
		end := p.random.Uint64N(native.RecordAt(native.Index(handle)).Size)
		for at := uint64(0); at <= end; at += native.ChunkBytes {
			write(p.T, handle, at, []byte{byte(p.random.Uint32())})
		}
		return
	}
	p.call(handles)
}

// call changes some of the pages by one call.
func (p *program) call(handles []uint64) {
	handle, other := handles[p.random.IntN(len(handles))], handles[p.random.IntN(len(handles))]
	id := page.IDOf(native.Index(handle))
	adopted := p.adopted[id] != nil
	size := native.RecordAt(native.Index(handle)).Size
	if p.devices && p.oneOf(5) {
		p.moves(handle, adopted)
		return
	}
	switch p.random.IntN(13) {
	case 10:
		if other == handle {
			return
		}
		adopted = adopted || p.adopted[page.IDOf(native.Index(other))] != nil
		_, err := page.ResizeMany([]uint64{handle, other}, []uint64{p.size(), p.size()})
		p.refusesAdopted(adopted, err)
	case 11:
		both := []uint64{handle, other}
		require.Zero(p, nativetest.WritePages(both, []uint64{0, 0}, []uint64{1, 1}, []byte{byte(p.random.Uint32()), 1}))
	case 12:
		_ = page.RemoveDependency(handle, other) // or there is none
	case 0:
		require.Zero(p, nativetest.Destroy(handle))
		delete(p.adopted, id)
	case 1:
		p.refusesAdopted(adopted, page.Resize(handle, p.size()))
	case 2:
		require.NoError(p, page.SetMetadata(handle, []byte("key"), fmt.Appendf(nil, "%d", p.random.Uint32())))
	case 3, 4:
		_ = page.AddDependency(handle, other) // or it is there, or would make a cycle
	case 5:
		p.refusesAdopted(adopted, page.Migrate(handle, abi.LocationDisk, 0))
	case 6:
		require.NoError(p, page.Migrate(handle, abi.LocationCPU, 0))
	case 7:
		require.Zero(p, nativetest.ApplyRuns([]uint64{handle}, []uint64{size - 1}, 1, []byte{byte(p.random.Uint32())}))
	default:
		write(p.T, handle, p.random.Uint64N(size), []byte{byte(p.random.Uint32())})
	}
}

// moves moves a page, or its bytes, between the host and devices.
func (p *program) moves(handle uint64, adopted bool) {
	device := int32(p.random.IntN(devicesOfAUser))
	switch p.random.IntN(5) {
	case 0, 1:
		places := []int32{abi.LocationGPU, abi.LocationUnified, abi.LocationPinned}
		p.refusesAdopted(adopted, page.Migrate(handle, places[p.random.IntN(len(places))], device))
	case 2:
		_ = page.Replicate(handle, device) // or its bytes may change beside it, or it is on disk
	case 3:
		require.NoError(p, page.DropReplica(handle, device))
	default:
		_, _ = page.SyncMany([]uint64{handle}, page.Direction(1+p.random.IntN(3)), device, nil, nil)
	}
}

// size is a page's: in few histories large ones, of which a segment does not take one.
func (p *program) size() uint64 {
	if p.large && p.oneOf(2) {
		return snapshot.SegmentBytes + p.random.Uint64N(4*native.ChunkBytes)
	}
	return 1 + p.random.Uint64N(9000)
}

func (p *program) refusesAdopted(adopted bool, err error) {
	if adopted {
		require.Equal(p, status.InvalidState, status.CodeOf(err))
	} else {
		require.NoError(p, err)
	}
}

// create makes a page: with an id that others had before, over memory of the program, or neither.
func (p *program) create(handles []uint64) {
	id, fill := p.random.Uint64N(10), byte(p.random.Uint32())
	if slices.ContainsFunc(handles, func(handle uint64) bool { return page.IDOf(native.Index(handle)) == id }) {
		id = 0
	}
	if len(p.memory) == 0 {
		createFilled(p.T, p.context, p.size(), id, fill)
		return
	}
	memory := p.memory[p.random.IntN(len(p.memory))]
	free := p.begun == nil // a page that the group has destroyed may come back, over memory that nobody has changed
	for _, used := range p.adopted {
		free = free && &used[0] != &memory[0]
	}
	if id == 0 || !free || p.oneOf(2) {
		createFilled(p.T, p.context, p.size(), id, fill)
		return
	}
	memory[p.random.IntN(len(memory))] = fill
	require.NoError(p, page.Use(p.context, func(c *page.Context) error {
		_, err := c.Adopt(uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uint64(len(memory)), page.AdoptOptions{ID: id})
		return err
	}))
	p.adopted[id] = memory
}

// group makes several changes one, or none. Until the commit they are nowhere but in memory: who is killed has the state before.
func (p *program) group() {
	before, adopted := p.now(), maps.Clone(p.adopted)
	if p.waiting != nil {
		p.look()
	}
	require.NoError(p, page.BeginGroup(p.context))
	p.begun = &before
	for range 1 + p.random.IntN(6) {
		p.change()
		p.notes(pagesOf(p.T, p.context))
	}
	switch p.random.IntN(6) {
	case 0:
		p.kill()
	case 1:
		p.otherMeanwhile()
	case 2:
		require.Equal(p, status.Busy, status.CodeOf(Save(p.context, ToPath(p.pick(p.paths())), SaveOptions{}, nil)))
	}
	undone := p.oneOf(3)
	p.says("undone: %t", undone)
	if !undone {
		require.NoError(p, page.CommitGroup(p.context))
		p.begun = nil
	} else if p.oneOf(4) {
		p.anew() // which rolls it back
	} else {
		require.NoError(p, page.RollbackGroup(p.context))
		p.begun, p.adopted = nil, adopted
		p.mustBe(before, p.look(), "a group that was rolled back")
	}
	if p.oneOf(3) {
		p.kill()
	}
}

// otherMeanwhile lets the other user change and save within a group.
func (p *program) otherMeanwhile() {
	turn := p.user
	defer func() { p.user = turn }()
	if p.user = p.users[0]; turn == p.user {
		p.user = p.users[1]
	}
	p.change()
	p.saveTo(p.pick(p.paths()), p.oneOf(3))
}

// writeThrough changes a page without a call, which no journal records, and lets a save follow.
func (p *program) writeThrough() {
	handles := handlesOf(p.T, p.context)
	if p.open != "" || len(handles) == 0 {
		return
	}
	w := p.look()
	handle := handles[p.random.IntN(len(handles))]
	id := page.IDOf(native.Index(handle))
	size := native.RecordAt(native.Index(handle)).Size
	p.seen[[2]uint64{id, w.versions[id]}] = nil
	memory := p.adopted[id]
	if memory == nil && w.pages[id].location == abi.LocationCPU && p.oneOf(3) {
		record := native.RecordAt(native.Index(handle))
		record.Exposed = 1 // as mmsb_page_address does
		memory = native.Bytes(record.Locator, size)
	}
	if memory != nil {
		memory[p.random.Uint64N(size)]++
		for path := p.pick(p.paths()); !p.saveTo(path, p.oneOf(4)); { // else nothing tells a journal that is opened
		}
		return
	}
	if w.pages[id].location == abi.LocationGPU { // which the host does not reach
		return
	}
	address, code := nativetest.PinPage(handle, true)
	require.Zero(p, code)
	at := &native.Memory(address, size)[p.random.Uint64N(size)]
	*at++
	if p.oneOf(2) {
		err := Save(p.context, ToPath(p.pick(p.paths())), SaveOptions{RawWrites: abi.RawWritesRefuse}, nil)
		require.Equal(p, status.Busy, status.CodeOf(err), "%v", err)
	}
	if p.oneOf(2) {
		p.saveTo(p.pick(p.paths()), p.oneOf(4))
		*at++
	}
	require.Zero(p, nativetest.UnpinPage(handle, true))
	if p.oneOf(2) {
		p.saveTo(p.pick(p.paths()), p.oneOf(4))
	}
}

func (p *program) save() {
	if p.oneOf(6) {
		p.saveToAFullDisk(p.pick(p.paths()))
		return
	}
	p.saveTo(p.pick(p.paths()), p.oneOf(3))
	for p.large && !p.oneOf(6) {
		for range 4 {
			p.change()
		}
		p.saveTo(p.pick(p.paths()), p.oneOf(8))
	}
}

// base is a snapshot to save onto. certain says that the context's state comes from it.
func (p *program) base(whole bool) (path string, certain bool) {
	if whole || len(p.files) == 0 {
		return "", true
	}
	known := slices.Sorted(maps.Keys(p.files))
	known = slices.DeleteFunc(known, func(path string) bool { return !p.known[p.files[path].serial] })
	if len(known) > 0 && p.large && !p.oneOf(4) { // of large pages much depends on what the newest one noted
		return slices.MaxFunc(known, func(a, b string) int { return p.files[a].serial - p.files[b].serial }), true
	}
	if len(known) > 0 && !p.oneOf(4) {
		return p.pick(known), true
	}
	path = p.pickFile()
	return path, p.known[p.files[path].serial]
}

// saveTo saves, onto a base where it is not to be whole, and says whether that was possible.
func (p *program) saveTo(path string, whole bool) (done bool) {
	base, certain := p.base(whole)
	o := SaveOptions{
		Base: base, RefuseInUse: p.oneOf(8), NotDurable: p.oneOf(8), Compression: int32(p.random.IntN(4) / 3),
		NotWatched: p.oneOf(8),
	}
	p.says("%s onto %q", filepath.Base(path), filepath.Base(base))
	now := p.now()
	err := Save(p.context, ToPath(path), o, nil)
	switch code := status.CodeOf(err); {
	case err == nil:
		p.saved(path, now)
	case code == status.Busy && o.RefuseInUse:
	case code == status.Mismatch && !certain:
	default:
		require.NoError(p, err)
	}
	return err == nil
}

func (p *program) saved(path string, now world) {
	p.serial++
	p.files[path] = stored{now, p.serial, p.past}
	p.known[p.serial] = true
	p.past = append(slices.Clip(p.past), now)
	p.sweeps(p.folder)
}

// saveBeside saves while the user goes on: the file has a state that the context had meanwhile.
func (p *program) saveBeside() {
	path, states, saved := p.pick(p.paths()), []world{p.look()}, make(chan error, 1)
	base, certain := p.base(p.oneOf(3))
	p.says("%s onto %q", filepath.Base(path), filepath.Base(base))
	go func(context uint64) { saved <- Save(context, ToPath(path), SaveOptions{Base: base}, nil) }(p.context)
	for range p.random.IntN(5) {
		handles := handlesOf(p.T, p.context)
		if len(handles) == 0 {
			break
		}
		p.call(handles)
		states = append(states, p.look())
	}
	if err := <-saved; err != nil {
		require.False(p, certain, "%v", err)
		require.Equal(p, status.Mismatch, status.CodeOf(err), "%v", err)
		return
	}
	require.NoError(p, Load(p.reader.context, FromPath(path), LoadOptions{}, nil))
	got := worldOf(p.T, p.reader.context)
	at := slices.IndexFunc(states, got.is)
	if at < 0 {
		unlike := ""
		for i, state := range states {
			unlike += fmt.Sprintf("after %d changes:\n%s", i, state.unlike(got))
		}
		require.Fail(p, "no state that the context had", "%s\n%s", path, unlike)
	}
	p.saved(path, states[at])
}

// saveToAFullDisk fails, and leaves everything as it was.
func (p *program) saveToAFullDisk(path string) {
	base, certain := p.base(p.oneOf(2))
	kind := []filetest.Kind{filetest.Write, filetest.Sync, filetest.Link, filetest.Rename}[p.random.IntN(4)]
	fault := filetest.Fault{Kind: kind, Nth: 1 + p.random.IntN(2), Forever: true, Errno: syscall.ENOSPC}
	disk := filetest.NewFaulty(file.OS{}, fault)
	target := ToPath(path)
	target.FS = disk
	now := p.now()
	err := Save(p.context, target, SaveOptions{Base: base}, nil)
	switch {
	case err == nil:
		require.Zero(p, disk.Hits(), "the disk was full, and the save says that it is done")
		p.saved(path, now)
	case disk.Hits() == 0:
		require.False(p, certain, "%v", err)
		require.Equal(p, status.Mismatch, status.CodeOf(err), "%v", err)
	default:
		temporary, globErr := filepath.Glob(filepath.Join(p.folder, ".*.tmp"))
		require.NoError(p, globErr)
		require.Empty(p, slices.DeleteFunc(temporary, func(path string) bool { return slices.Contains(p.rubbish, path) }))
	}
}

// leaveRubbish is what a save leaves whose process was killed.
func (p *program) leaveRubbish() {
	folder := p.pick(append(slices.Sorted(maps.Keys(p.logs)), p.folder))
	name := ".a.mmsb-999999999-ABCDEFGHIJKLMNOP.tmp"
	require.NoError(p, os.WriteFile(filepath.Join(folder, name), []byte("half"), 0o600))
	p.rubbish = append(p.rubbish, filepath.Join(folder, name))
}

// sweeps says that no rubbish is left in a folder.
func (p *program) sweeps(folder string) {
	p.rubbish = slices.DeleteFunc(p.rubbish, func(path string) bool {
		if filepath.Dir(path) != folder {
			return false
		}
		require.NoFileExists(p, path)
		return true
	})
}

func (p *program) openOrClose() {
	if p.open != "" {
		p.closeJournal()
	} else {
		p.openJournal(p.pick([]string{filepath.Join(p.folder, "log1"), filepath.Join(p.folder, "log2")}))
	}
}

func (p *program) openJournal(directory string) {
	before, beforeErr := os.ReadDir(directory)
	o := JournalOptions{IntervalMs: 1000, SegmentBytes: 1 << (12 + p.random.IntN(4)), Keep: p.oneOf(4), RefuseBase: p.oneOf(8)}
	err := OpenJournal(p.context, directory, o, nil)
	p.says("%s: %v", filepath.Base(directory), err)
	log, exists := p.logs[directory]
	switch code := status.CodeOf(err); {
	case err == nil:
		require.Nil(p, p.isOpen(directory))
		p.open, p.end = directory, 0
		defer func() { p.chosen = false }()
		delete(p.logs, directory)
		p.sweeps(directory)
		if beforeErr == nil {
			p.beginsBranch(directory, before, log.world)
		}
	case p.isOpen(directory) != nil:
		require.Equal(p, status.Busy, code, "%v", err)
	case o.RefuseBase && code == status.InvalidState:
	default: // another lineage
		require.Equal(p, status.Mismatch, code, "%v", err)
		require.True(p, exists, "%v", err)
		require.NotEqual(p, p.end, log.serial, "%v", err)
	}
}

// beginsBranch takes note of what a directory had before, where a branch has begun.
func (p *program) beginsBranch(directory string, before []os.DirEntry, end world) {
	after, err := os.ReadDir(directory)
	require.NoError(p, err)
	branch := branchOf(before...)
	if branchOf(after...) == branch {
		return
	}
	require.True(p, p.chosen || slices.ContainsFunc(p.past, end.is), "what another context has written is left behind")
	older := olderBranch{directory: directory, end: end}
	for _, entry := range before {
		if name := entry.Name(); strings.HasSuffix(name, segmentSuffix) && branchOf(entry) == branch {
			older.segments = append(older.segments, name)
		}
	}
	p.older = append(p.older, older)
}

const segmentSuffix = ".mmsbj"

// branchOf is the newest branch in a directory: segments are called journal-RECORD.mmsbj or journal-BRANCH-RECORD.mmsbj.
func branchOf(entries ...os.DirEntry) (branch int) {
	for _, entry := range entries {
		name, ends := strings.CutSuffix(entry.Name(), segmentSuffix)
		if parts := strings.Split(name, "-"); ends && len(parts) == 3 {
			number, _ := strconv.Atoi(parts[1])
			branch = max(branch, number)
		}
	}
	return branch
}

func (p *program) closeJournal() {
	now := p.now()
	require.NoError(p, CloseJournal(p.context))
	p.closed(now)
}

// closed takes note of a journal's end.
func (p *program) closed(now world) {
	p.serial++
	p.end = p.serial
	p.logs[p.open] = stored{now, p.serial, p.past}
	p.past = append(slices.Clip(p.past), now)
	p.open = ""
}

// trim removes what a snapshot has made unnecessary, if it is one of the journal's.
func (p *program) trim() {
	if p.open == "" || len(p.files) == 0 {
		return
	}
	for range p.random.IntN(4) {
		p.change()
		require.NoError(p, SyncJournal(p.context, nil))
	}
	if err := TrimJournal(p.context, p.pickFile(), nil); err != nil {
		require.Equal(p, status.Mismatch, status.CodeOf(err), "%v", err)
	}
}

// restore replaces the context's state, or some pages of it, by what a file has, or a directory.
func (p *program) restore() {
	if p.open != "" {
		p.closeJournal()
	}
	directories := slices.DeleteFunc(slices.Sorted(maps.Keys(p.logs)), func(path string) bool { return p.isOpen(path) != nil })
	switch what := p.random.IntN(3); {
	case what == 0 && len(directories) > 0:
		p.restoreFromJournal(p.pick(directories))
	case what == 1 && len(p.files) > 0:
		p.restoreChosen(p.pickFile())
	case len(p.files) > 0:
		p.restoreFromFile(p.pickFile())
	}
}

func (p *program) restoreFromFile(path string) {
	p.says("%s", filepath.Base(path))
	from := p.files[path]
	if p.load(path, p.inAWay(LoadOptions{}), from.world) {
		p.becomes(from, map[int]bool{from.serial: true})
		p.chosen = p.open == ""
	}
}

func (p *program) restoreFromJournal(directory string) bool {
	p.says("%s", filepath.Base(directory))
	from := p.logs[directory]
	done := p.load("", p.inAWay(LoadOptions{Journal: directory}), from.world)
	if done {
		p.becomes(from, nil)
		p.end, p.chosen = from.serial, false
	}
	return done
}

// inAWay chooses how something is loaded: at once, lazily or in place.
func (p *program) inAWay(o LoadOptions) LoadOptions {
	way := p.random.IntN(3)
	o.Lazy, o.InPlace = way == 1, way == 2
	return o
}

// load loads a whole state. It can only fail where adopted memory has another size, and has changed nothing then.
func (p *program) load(path string, o LoadOptions, from world) (done bool) {
	want, fits := from.intoAdopted(p.adopted)
	var before world
	if !fits {
		before = p.now()
	}
	err := Load(p.context, FromPath(path), o, nil)
	if !fits {
		require.Equal(p, status.Mismatch, status.CodeOf(err), "%v", err)
		p.mustBe(before, p.look(), "a load that failed")
		return false
	}
	require.NoError(p, err)
	maps.DeleteFunc(p.adopted, func(id uint64, _ []byte) bool { return !want.has(id) })
	for id := range p.adopted {
		require.True(p, isAdopted(handleOf(p.T, p.context, id)), "page %d", id)
	}
	p.waiting = &want
	if !o.Lazy || p.oneOf(2) {
		p.look()
	}
	return true
}

// restoreChosen loads some pages of a file.
func (p *program) restoreChosen(path string) {
	from, before := p.files[path], p.look()
	ids := slices.SortedFunc(maps.Keys(from.pages), func(a, b uint64) int { // not by ids, which a seed does not repeat
		return strings.Compare(from.pages[a].bytes, from.pages[b].bytes)
	})
	ids = slices.DeleteFunc(ids, func(uint64) bool { return p.oneOf(2) })
	p.says("%s %v", filepath.Base(path), ids)
	if len(ids) == 0 {
		return
	}
	chosen := make(map[uint64][]byte)
	for id, memory := range p.adopted {
		if slices.Contains(ids, id) {
			chosen[id] = memory
		}
	}
	loaded, fits := from.intoAdopted(chosen)
	want := before.with(loaded, ids)
	err := Load(p.context, FromPath(path), p.inAWay(LoadOptions{IDs: ids}), nil)
	if !fits || want.hasCycle() {
		require.Equal(p, status.Mismatch, status.CodeOf(err), "%v", err)
		p.mustBe(before, p.look(), "a load that failed")
		return
	}
	require.NoError(p, err)
	p.end, p.waiting = 0, &want
	if p.oneOf(2) {
		p.look()
	}
}

// other lets the other user go on.
func (p *program) other() { p.user = p.users[p.random.IntN(2)] }

// restart ends the context, with its journal, and goes on with a new one.
func (p *program) restart() {
	p.anew()
	p.restore()
}

func (p *program) anew() {
	now := p.now()
	p.ends(p.T)
	if p.open != "" {
		p.closed(now)
	}
	memory := p.memory
	*p.user = *newUser(p.T, nil)
	p.memory = memory
}

// twins lets both users begin with the same file, and save what they make of it.
func (p *program) twins() {
	if len(p.files) == 0 {
		return
	}
	path := p.pickFile()
	for _, p.user = range p.users {
		p.anew()
		p.restoreFromFile(path)
		p.change()
		p.change()
	}
	for _, p.user = range p.users {
		p.saveTo(p.pick(p.paths()), false)
	}
}

// takeOver lets a user go on with a journal that the other one closes, who goes on without.
func (p *program) takeOver() {
	if p.open == "" || p.users[0].open != "" && p.users[1].open != "" {
		return
	}
	directory := p.open
	p.closeJournal()
	for _, p.user = range p.users {
		if p.open == "" && p.oneOf(2) && p.restoreFromJournal(directory) {
			p.openJournal(directory)
			p.change()
			return
		}
	}
}

// gap saves, and closes and opens the journal again behind a change that it does not have.
func (p *program) gap() {
	if p.open == "" {
		return
	}
	directory := p.open
	p.saveTo(p.pick(p.paths()), p.oneOf(2))
	p.change()
	p.closeJournal()
	p.change()
	p.openJournal(directory)
	if p.open != "" {
		p.change()
	}
}

func (p *program) compact() {
	if len(p.files) == 0 {
		return
	}
	from, to := p.pickFile(), p.pick(p.paths())
	p.says("%s to %s", filepath.Base(from), filepath.Base(to))
	_, err := snapshot.Compact(from, to, snapshot.CompactOptions{})
	require.NoError(p, err)
	p.files[to] = p.files[from]
}

// kill looks at what a kill at this moment would leave: a copy of all files, the ring's memory among them, and nobody's lock.
func (p *program) kill() {
	copied := p.folder + "-killed"
	require.NoError(p, os.Mkdir(copied, 0o700))
	folders := []string{""}
	entries, err := os.ReadDir(p.folder)
	require.NoError(p, err)
	for _, entry := range entries {
		if entry.IsDir() {
			folders = append(folders, entry.Name())
			require.NoError(p, os.Mkdir(filepath.Join(copied, entry.Name()), 0o700))
		}
	}
	// Rings before segments: what the writer takes out meanwhile is then in both, never in neither.
	for _, folder := range folders[1:] {
		p.copyRing(filepath.Join(p.folder, folder), filepath.Join(copied, folder))
	}
	for _, folder := range folders {
		p.copyFiles(filepath.Join(p.folder, folder), filepath.Join(copied, folder))
	}
	at := func(path string) string { return filepath.Join(copied, filepath.Base(path)) }
	ends := p.mustGive(at)
	for _, directory := range slices.Sorted(maps.Keys(ends)) {
		if p.oneOf(4) {
			p.goOn(at(directory), ends[directory])
		}
	}
	require.NoError(p, os.RemoveAll(copied))
}

const ringFile = "journal.ring"

func (p *program) copyRing(from, to string) {
	ring, err := os.ReadFile(filepath.Join(from, ringFile))
	if os.IsNotExist(err) {
		return
	}
	require.NoError(p, err)
	require.NoError(p, os.WriteFile(filepath.Join(to, ringFile), ring, 0o600))
}

// copyFiles copies the files of a folder, again where the journal's goroutine has renamed one of them meanwhile.
func (p *program) copyFiles(from, to string) {
	for again := true; again; {
		entries, err := os.ReadDir(from)
		require.NoError(p, err)
		again = slices.ContainsFunc(entries, func(entry os.DirEntry) bool {
			return !entry.IsDir() && entry.Name() != ringFile && os.IsNotExist(p.copyFile(from, to, entry.Name()))
		})
	}
}

// copyFile copies a file. A snapshot is never written again, so that a link is as good.
func (p *program) copyFile(from, to, name string) error {
	source, target := filepath.Join(from, name), filepath.Join(to, name)
	if !strings.HasPrefix(name, "journal") {
		err := os.Link(source, target)
		require.True(p, err == nil || os.IsExist(err) || os.IsNotExist(err), "%v", err)
		return err
	}
	content, err := os.ReadFile(source)
	if os.IsNotExist(err) {
		return err
	}
	require.NoError(p, err)
	require.NoError(p, os.WriteFile(target, content, 0o600))
	return nil
}

// goOn is what the next process does with a directory: it loads the state and goes on in the journal.
func (p *program) goOn(directory string, end world) {
	turn := p.user
	defer func() { p.user = turn }()
	p.user = p.reader
	p.gives("", directory, end)
	require.NoError(p, OpenJournal(p.context, directory, JournalOptions{IntervalMs: 1000, SegmentBytes: 1 << 12}, nil))
	p.change()
	p.change()
	end = p.look()
	require.NoError(p, CloseJournal(p.context))
	p.gives("", directory, end)
}

// mustGive looks at all files, and all directories, where they lie now, and returns what the directories end with.
func (p *program) mustGive(at func(path string) string) map[string]world {
	ends := make(map[string]world)
	for directory, log := range p.logs {
		ends[directory] = log.world
	}
	turn := p.user
	for _, p.user = range p.users {
		if p.open != "" {
			ends[p.open] = p.now()
		}
	}
	p.user = turn
	for _, directory := range slices.Sorted(maps.Keys(ends)) {
		p.gives("", at(directory), ends[directory])
	}
	for _, path := range slices.Sorted(maps.Keys(p.files)) {
		p.gives(at(path), "", p.files[path].world)
	}
	return ends
}

// gives loads a state where only this one is right.
func (p *program) gives(path, directory string, want world) {
	err := Load(p.reader.context, FromPath(path), LoadOptions{Journal: directory, Lazy: p.oneOf(2)}, nil)
	require.NoError(p, err, "%s %s", path, directory)
	p.mustBe(want, worldOf(p.T, p.reader.context), "%s %s", path, directory)
}

// pairsMustFit loads each file with each directory: they give the end of the directory, or the file if its state comes from that
// end, or they do not fit.
func (p *program) pairsMustFit() {
	for _, path := range slices.Sorted(maps.Keys(p.files)) {
		for _, directory := range slices.Sorted(maps.Keys(p.logs)) {
			state, log := p.files[path], p.logs[directory]
			err := Load(p.reader.context, FromPath(path), LoadOptions{Journal: directory}, nil)
			if status.CodeOf(err) == status.Mismatch {
				continue
			}
			require.NoError(p, err, "%s %s", path, directory)
			got := worldOf(p.T, p.reader.context)
			if !slices.ContainsFunc(state.past, log.is) || !state.is(got) {
				p.mustBe(log.world, got, "%s %s", path, directory)
			}
		}
	}
}

// finish closes everything, and looks at all that is stored.
func (p *program) finish() {
	p.kill()
	for _, p.user = range p.users {
		if p.open != "" {
			p.closeJournal()
		}
	}
	p.mustGive(func(path string) string { return path })
	p.pairsMustFit()
	for i, older := range p.older {
		p.stillGives(older, filepath.Join(p.folder, fmt.Sprint("older", i)))
	}
}

// stillGives loads an older branch, whose files have a directory of their own for that.
func (p *program) stillGives(older olderBranch, at string) {
	require.NoError(p, os.Mkdir(at, 0o700))
	entries, err := os.ReadDir(older.directory)
	require.NoError(p, err)
	for _, entry := range entries {
		if name := entry.Name(); slices.Contains(older.segments, name) || strings.HasPrefix(name, "base-") ||
			strings.HasPrefix(name, "mmsb-") {
			require.NoError(p, os.Link(filepath.Join(older.directory, name), filepath.Join(at, name)))
		}
	}
	p.gives("", at, older.end)
}

// run runs one history.
func (p *program) run() {
	defer func() {
		if p.Failed() {
			p.Log(strings.Join(p.did, "\n"))
		}
	}()
	weights := 0
	for _, step := range steps {
		weights += step.weight
	}
	for range stepsOfAHistory {
		number, which := p.random.IntN(weights), 0
		for ; number >= steps[which].weight; which++ {
			number -= steps[which].weight
		}
		p.says("%d: %s", slices.Index(p.users[:], p.user), steps[which].name)
		steps[which].do(p)
	}
	p.says("the end")
	p.finish()
}

// inMemory is a folder in memory where the system has one: a kill is not a power cut, and asks nothing of the disk.
func inMemory(t *testing.T) string {
	folder, err := os.MkdirTemp("/dev/shm", "mmsb-histories-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return folder
}

// What was acknowledged loads as it was, whatever a program did before, and whenever it is killed; all else is an error.
func TestRandomHistories(t *testing.T) {
	onOneThread(t)
	gpupages.Use()
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // little lives long, but for states of large pages
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	if raceDetector { // its histories are no others, and slower
		*histories = min(*histories, 20)
	}
	memory, err := unix.Mmap(-1, 0, 2*memoryOfAUser, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(memory)) }()
	all := inMemory(t)
	reader := newUser(t, nil)
	defer reader.ends(t)
	for seed := uint64(*from); seed < uint64(*from+*histories); seed++ {
		p := &program{T: t, random: rand.New(rand.NewPCG(seed, 7)), folder: filepath.Join(all, fmt.Sprint(seed)), reader: reader,
			did: []string{fmt.Sprint("history ", seed)}, files: make(map[string]stored), logs: make(map[string]stored)}
		require.NoError(t, os.Mkdir(p.folder, 0o700))
		for i := range p.users {
			p.users[i] = newUser(t, memory[i*memoryOfAUser:][:memoryOfAUser])
		}
		p.user, p.devices = p.users[0], p.oneOf(5)
		p.large = p.oneOf(30) || p.devices && p.oneOf(10)
		p.run()
		for _, u := range p.users {
			u.ends(t)
		}
		require.NoError(t, os.RemoveAll(p.folder))
	}
}
