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
		all, err := c.Moment(nil, func([]memory.Leaf) {})
		if err != nil {
			return err
		}
		for _, edge := range all {
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

// program is a random program of one user, and beside it what each file and directory must give.
type program struct {
	*testing.T
	random  *rand.Rand
	folder  string
	context uint64
	files   map[string]world // snapshots, by path
	saved   []string         // paths of saves that the context can name as a base
	logs    map[string]world // directories of journals that were closed, by path
	open    string           // the one that is open
	journal []string
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
		SegmentBytes: 1 << (12 + p.random.IntN(6))}); err != nil {
		require.Equal(p, status.Mismatch, status.CodeOf(err), "%v", err)
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
		directory := p.pick(slices.Sorted(maps.Keys(p.logs)))
		require.NoError(p, Load(p.context, FromPath(""), LoadOptions{Journal: directory}, nil))
		require.True(p, p.logs[directory].is(worldOf(p.T, p.context)))
	} else if len(p.files) > 0 {
		path := p.pick(slices.Sorted(maps.Keys(p.files)))
		require.NoError(p, Load(p.context, FromPath(path), LoadOptions{Lazy: p.random.IntN(2) == 0}, nil))
		require.True(p, p.files[path].is(worldOf(p.T, p.context)))
		p.saved = []string{path}
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
	at := func(path string) string { return filepath.Join(copied, filepath.Base(path)) }
	p.mustGive(func(path string) LoadSource { return FromPath(at(path)) }, at)
	if p.open != "" {
		p.gives(FromPath(""), at(p.open), worldOf(p.T, p.context), "the journal "+p.open+" that was open")
	}
	require.NoError(p, os.RemoveAll(copied))
}

func (p *program) rings() []string {
	found, err := filepath.Glob(filepath.Join(p.folder, "*", "journal.ring"))
	require.NoError(p, err)
	return found
}

func (p *program) mustGive(source func(path string) LoadSource, at func(path string) string) {
	for path, want := range p.files {
		p.gives(source(path), "", want, path)
	}
	for directory, want := range p.logs {
		if directory != p.open {
			p.gives(FromPath(""), at(directory), want, directory)
		}
	}
}

func (p *program) gives(source LoadSource, directory string, want world, what string) {
	context, err := page.NewContext(page.Options{SimulatedDevices: 1})
	require.NoError(p, err)
	require.NoError(p, Load(context, source, LoadOptions{Journal: directory}, nil), "%s\n%s", what, p.journal)
	if got := worldOf(p.T, context); !want.is(got) {
		for id, text := range want.pages {
			if got.pages[id] != text {
				p.Logf("page %d: %.60s, not %.60s", id, got.pages[id], text)
			}
		}
		require.Fail(p, what, "%s\nedges %s, not %s; %d pages, not %d", p.journal, got.edges, want.edges, len(got.pages),
			len(want.pages))
	}
	require.NoError(p, page.Destroy(context))
}

// What was acknowledged loads as it was, whatever a program did before, and whenever it is killed; all else is an error.
func TestRandomHistories(t *testing.T) {
	onOneThread(t)
	if raceDetector { // its histories are no others, and slower
		*histories = min(*histories, 20)
	}
	for seed := uint64(*from); seed < uint64(*from+*histories); seed++ {
		p := &program{T: t, random: rand.New(rand.NewPCG(seed, 7)), folder: t.TempDir(), context: newContext(t),
			files: map[string]world{}, logs: map[string]world{}}
		logs := []string{filepath.Join(p.folder, "log1"), filepath.Join(p.folder, "log2")}
		p.journal = append(p.journal, fmt.Sprint("history ", seed))
		for range 30 {
			what := p.random.IntN(14)
			p.journal = append(p.journal, []string{"save", "save", "open or close", "open or close", "restore", "compact",
				"kill"}[min(what, 6)])
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
			default:
				p.journal[len(p.journal)-1] = "change"
				p.change()
			}
		}
		p.kill()
		if p.open != "" {
			p.closeJournal()
		}
		p.mustGive(FromPath, func(path string) string { return path })
		require.NoError(t, page.Destroy(p.context))
	}
}
