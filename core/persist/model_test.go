package persist

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/memory"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

var (
	histories = flag.Int("histories", 200, "random histories to run")
	from      = flag.Int("from", 0, "the first of them")
)

// world is what a state has, as a program sees it.
type world struct {
	pages map[uint64]string // bytes and metadata
	edges string
}

func worldOf(t *testing.T, context uint64) world {
	t.Helper()
	w := world{pages: make(map[uint64]string)}
	require.NoError(t, page.Use(context, func(c *page.Context) error {
		var cursor uint64
		handles := make([]uint64, 100)
		for n := c.Pages(&cursor, handles); n > 0; n = c.Pages(&cursor, handles) {
			for _, handle := range handles[:n] {
				w.pages[page.IDOf(native.Index(handle))] = fmt.Sprintf("%x %x", content(t, handle), metadataOf(t, handle))
			}
		}
		var edges []string
		for _, edge := range c.Moment(func([]memory.Leaf) {}) {
			edges = append(edges, fmt.Sprint(edge))
		}
		slices.Sort(edges)
		w.edges = fmt.Sprint(edges)
		return nil
	}))
	return w
}

func (w world) is(other world) bool {
	return w.edges == other.edges && maps.Equal(w.pages, other.pages)
}

// program is a random program of two users of the same files, and beside it what each file and directory must give.
type program struct {
	*testing.T
	random  *rand.Rand
	folder  string
	files   map[string]world // snapshots, by path
	logs    map[string]world // directories of journals that were closed, by path
	journal []string
	*user   // whose turn it is
	users   [2]*user
}

type user struct {
	context uint64
	saved   []string // paths of saves that the context can name as a base
	open    string   // the journal that is open
}

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

func (p *program) handles() (handles []uint64) {
	require.NoError(p, page.Use(p.context, func(c *page.Context) error {
		var cursor uint64
		found := make([]uint64, 100)
		for n := c.Pages(&cursor, found); n > 0; n = c.Pages(&cursor, found) {
			handles = append(handles, found[:n]...)
		}
		return nil
	}))
	return handles
}

// change changes a page, or makes or ends one.
func (p *program) change() {
	handles := p.handles()
	if len(handles) == 0 || len(handles) < 12 && p.random.IntN(4) == 0 {
		createFilled(p.T, p.context, 1+p.random.Uint64N(9000), uint64(p.random.IntN(2))*p.random.Uint64N(1<<40),
			byte(p.random.Uint32()))
		return
	}
	handle, other := handles[p.random.IntN(len(handles))], handles[p.random.IntN(len(handles))]
	switch p.random.IntN(7) {
	case 0:
		require.Zero(p, nativetest.Destroy(handle))
	case 1:
		require.NoError(p, page.Resize(handle, 1+p.random.Uint64N(9000)))
	case 2:
		require.NoError(p, page.SetMetadata(handle, []byte("key"), fmt.Appendf(nil, "%d", p.random.Uint32())))
	case 3:
		_ = page.AddDependency(handle, other) // or it is there, or would make a cycle
	default:
		size := native.RecordAt(native.Index(handle)).Size
		write(p.T, handle, p.random.Uint64N(size), []byte{byte(p.random.Uint32())})
	}
}

func (p *program) save(path string) {
	base := ""
	if len(p.saved) > 0 && p.random.IntN(3) > 0 {
		base = p.pick(p.saved)
	}
	now := worldOf(p.T, p.context)
	err := Save(p.context, ToPath(path), SaveOptions{Base: base, RefuseInUse: p.random.IntN(8) == 0}, nil)
	if code := status.CodeOf(err); err != nil {
		// The base is another file by now, or the save was told to refuse.
		require.Contains(p, []status.Code{status.Mismatch, status.Busy}, code, "%v", err)
		return
	}
	p.files[path] = now
	p.saved = append(p.saved, path)
}

func (p *program) openJournal(directory string) {
	if err := OpenJournal(p.context, directory, JournalOptions{IntervalMs: 1000,
		SegmentBytes: 1 << (12 + p.random.IntN(6))}, nil); err != nil {
		want := status.Mismatch
		if p.isOpen(directory) != nil {
			want = status.Busy
		}
		require.Equal(p, want, status.CodeOf(err), "%v", err)
		return
	}
	p.open = directory
}

func (p *program) closeJournal() {
	require.NoError(p, CloseJournal(p.context))
	p.logs[p.open] = worldOf(p.T, p.context)
	p.open = ""
}

// restore replaces the context's state by one of a file, or of a directory.
func (p *program) restore() {
	if p.open != "" {
		p.closeJournal()
	}
	if len(p.logs) > 0 && p.random.IntN(2) == 0 {
		if directory := p.pick(slices.Sorted(maps.Keys(p.logs))); p.isOpen(directory) == nil {
			p.restoreFromJournal(directory)
		}
	} else if len(p.files) > 0 {
		path := p.pick(slices.Sorted(maps.Keys(p.files)))
		require.NoError(p, Load(p.context, FromPath(path), LoadOptions{Lazy: p.random.IntN(2) == 0}, nil))
		require.True(p, p.files[path].is(worldOf(p.T, p.context)))
		p.saved = []string{path}
	}
}

func (p *program) restoreFromJournal(directory string) {
	require.NoError(p, Load(p.context, FromPath(""), LoadOptions{Journal: directory}, nil))
	require.True(p, p.logs[directory].is(worldOf(p.T, p.context)))
}

// takeOver lets a user go on with a journal that the other one closes, who goes on without.
func (p *program) takeOver() {
	if p.open == "" || p.users[0].open != "" && p.users[1].open != "" {
		return
	}
	directory := p.open
	p.closeJournal()
	for _, p.user = range p.users {
		if p.open == "" && p.random.IntN(2) == 0 {
			p.restoreFromJournal(directory)
			p.openJournal(directory)
			p.change()
			return
		}
	}
}

func (p *program) compact() {
	if len(p.files) == 0 {
		return
	}
	from, to := p.pick(slices.Sorted(maps.Keys(p.files))), p.pick(p.paths())
	_, err := snapshot.Compact(from, to, snapshot.CompactOptions{})
	require.NoError(p, err)
	p.files[to] = p.files[from]
}

func (p *program) paths() (paths []string) {
	for _, name := range []string{"a", "b", "c"} {
		paths = append(paths, filepath.Join(p.folder, name))
	}
	return paths
}

// kill looks at what a kill at this moment would leave: a copy of all files, the ring's memory among them, and nobody's lock.
func (p *program) kill() {
	copied := p.TempDir()
	rings := map[string][]byte{} // before the segments: what the writer takes out meanwhile is then in both, never in neither
	for _, path := range p.rings() {
		content, err := os.ReadFile(path)
		require.NoError(p, err)
		rings[path] = content
	}
	require.NoError(p, os.CopyFS(copied, os.DirFS(p.folder)))
	for path, content := range rings {
		at := filepath.Join(copied, filepath.Base(filepath.Dir(path)), filepath.Base(path))
		require.NoError(p, os.WriteFile(at, content, 0o600))
	}
	p.mustGive(func(path string) string { return filepath.Join(copied, filepath.Base(path)) })
	require.NoError(p, os.RemoveAll(copied))
}

func (p *program) rings() []string {
	found, err := filepath.Glob(filepath.Join(p.folder, "*", "journal.ring"))
	require.NoError(p, err)
	return found
}

// mustGive looks at all files, and all directories, where they lie now. A file and a directory together give the end of one of them,
// or an error.
func (p *program) mustGive(at func(path string) string) {
	ends := maps.Clone(p.logs)
	for _, u := range p.users {
		if u.open != "" {
			ends[u.open] = worldOf(p.T, u.context)
		}
	}
	for directory, end := range ends {
		p.gives("", at(directory), end)
	}
	for path, want := range p.files {
		p.gives(at(path), "", want)
		for directory, end := range ends {
			p.gives(at(path), at(directory), end, want)
		}
	}
}

// gives loads a state: it must be one of these. Only where there is more than one it may be none.
func (p *program) gives(path, directory string, wants ...world) {
	context, err := page.NewContext(page.Options{SimulatedDevices: 1})
	require.NoError(p, err)
	defer func() { require.NoError(p, page.Destroy(context)) }()
	err = Load(context, FromPath(path), LoadOptions{Journal: directory}, nil)
	if len(wants) > 1 && status.CodeOf(err) == status.Mismatch {
		return
	}
	require.NoError(p, err, "%s %s\n%s", path, directory, p.journal)
	got := worldOf(p.T, context)
	if slices.ContainsFunc(wants, got.is) {
		return
	}
	for id, text := range wants[0].pages {
		if got.pages[id] != text {
			p.Logf("page %d: %.60s, not %.60s", id, got.pages[id], text)
		}
	}
	require.Fail(p, "another state", "%s %s\n%s\nedges %s, not %s; %d pages, not %d", path, directory, p.journal, got.edges,
		wants[0].edges, len(got.pages), len(wants[0].pages))
}

// What was acknowledged loads as it was, whatever a program did before, and whenever it is killed; all else is an error.
func TestRandomHistories(t *testing.T) {
	onOneThread(t)
	if raceDetector { // its histories are no others, and slower
		*histories = min(*histories, 20)
	}
	for seed := uint64(*from); seed < uint64(*from+*histories); seed++ {
		p := &program{T: t, random: rand.New(rand.NewPCG(seed, 7)), folder: t.TempDir(), files: map[string]world{},
			logs: map[string]world{}, users: [2]*user{{context: newContext(t)}, {context: newContext(t)}}}
		p.user = p.users[0]
		logs := []string{filepath.Join(p.folder, "log1"), filepath.Join(p.folder, "log2")}
		p.journal = append(p.journal, fmt.Sprint("history ", seed))
		for range 30 {
			what := p.random.IntN(18)
			p.journal = append(p.journal, []string{"save", "save", "open or close", "open or close", "restore", "compact",
				"kill", "the other", "take over", "change"}[min(what, 9)])
			switch what {
			case 0, 1:
				p.save(p.pick(p.paths()))
			case 2, 3:
				if p.open == "" {
					p.openJournal(p.pick(logs))
				} else {
					p.closeJournal()
				}
			case 4:
				p.restore()
			case 5:
				p.compact()
			case 6:
				p.kill()
			case 7:
				p.user = p.users[p.random.IntN(2)]
			case 8:
				p.takeOver()
			default:
				p.change()
			}
		}
		p.kill()
		for _, p.user = range p.users {
			if p.open != "" {
				p.closeJournal()
			}
		}
		p.mustGive(func(path string) string { return path })
		for _, u := range p.users {
			require.NoError(t, page.Destroy(u.context))
		}
	}
}
