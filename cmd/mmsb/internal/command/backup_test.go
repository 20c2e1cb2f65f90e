package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/keeper"
	"libmmsb/core/page"
	"libmmsb/core/store"
	"libmmsb/native/nativetest"
)

// server is a server of S3 in this process, with one bucket.
type server struct {
	t         *testing.T
	backend   *s3mem.Backend
	listening *httptest.Server
	busy      sync.WaitGroup

	sync.Mutex
	requests int
	parts    map[string]int // how often the server has taken a part
	// before and after are called around the handling of a request, which has a number; before may answer itself.
	before func(n int, w http.ResponseWriter, r *http.Request) (answered bool)
	after  func(n int)
}

func (s *server) ServeHTTP(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.busy.Add(1)
		defer s.busy.Done()
		s.Lock()
		s.requests++
		n, before, after := s.requests, s.before, s.after
		s.Unlock()
		if before != nil && before(n, w, r) {
			return
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if number := r.URL.Query().Get("partNumber"); number != "" && answer.Code == http.StatusOK {
			s.Lock()
			s.parts[r.URL.Path+" "+number]++
			s.Unlock()
		}
		if after != nil {
			after(n)
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// hook sets what happens around requests, whose numbers begin with 1.
func (s *server) hook(before func(n int, w http.ResponseWriter, r *http.Request) bool, after func(n int)) {
	s.busy.Wait()
	s.Lock()
	defer s.Unlock()
	s.requests, s.before, s.after = 0, before, after
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, backend: s3mem.New(), parts: make(map[string]int)}
	require.NoError(t, s.backend.CreateBucket(context.Background(), "backups"))
	fake := gofakes3.New(s.backend, gofakes3.WithV4Auth(map[string]string{"somebody": "secret"}), gofakes3.WithoutVersioning())
	s.listening = httptest.NewServer(s.ServeHTTP(fake.Server()))
	t.Cleanup(s.listening.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": s.listening.URL, "AWS_ACCESS_KEY_ID": "somebody",
		"AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull} {
		t.Setenv(name, value)
	}
	return s
}

// keys are those of the objects that begin so.
func (s *server) keys(prefix string) (keys []string) {
	found, err := s.backend.ListBucket(context.Background(), "backups", &gofakes3.Prefix{HasPrefix: true, Prefix: prefix},
		gofakes3.ListBucketPage{})
	require.NoError(s.t, err)
	for _, content := range found.Contents {
		keys = append(keys, content.Key)
	}
	return keys
}

// replace changes an object's content.
func (s *server) replace(key string, change func([]byte) []byte) {
	object, err := s.backend.GetObject(context.Background(), "backups", key, nil)
	require.NoError(s.t, err)
	content, err := io.ReadAll(object.Contents)
	require.NoError(s.t, err)
	content = change(content)
	_, err = s.backend.PutObject(context.Background(), "backups", key, nil, bytes.NewReader(content), int64(len(content)))
	require.NoError(s.t, err)
}

// large is a store with a page of 1 MiB, a record behind its snapshot, and a second page; its writer has ended.
func large(t *testing.T) (directory string) {
	t.Helper()
	directory = filepath.Join(t.TempDir(), "state")
	context, err := keeper.Open(directory, page.Options{SimulatedDevices: 1}, keeperOptions, nil)
	require.NoError(t, err)
	createLarge(t, context)
	require.NoError(t, keeper.SetName(context, "first", nil))
	create(t, context)
	require.NoError(t, page.Destroy(context))
	return directory
}

func createLarge(t *testing.T, context uint64) (handle uint64) {
	t.Helper()
	random := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random)
	require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
		handle, err = c.Create(uint64(len(random)), page.CreateOptions{Location: abi.LocationDefault, NUMANode: -1})
		return err
	}))
	require.Zero(t, nativetest.WritePage(handle, 0, random))
	return handle
}

// copied runs backup or pull, and gives what it says.
func copied(t *testing.T, arguments ...string) (c copiedShown) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(good(t, append(arguments, "--json")...)), &c))
	return c
}

// files are those of a store, without what is only of its process.
func files(t *testing.T, directory string) map[string]string {
	all := contents(t, directory)
	for name := range all {
		if !store.IsFile(name) {
			delete(all, name)
		}
	}
	return all
}

// TestABackupOfAKilledWriter has the records that are only in its ring.
func TestABackupOfAKilledWriter(t *testing.T) {
	newServer(t)
	directory := filepath.Join(t.TempDir(), "state")
	options := keeperOptions
	options.IntervalMs = 1 << 20
	context, err := keeper.Open(directory, page.Options{SimulatedDevices: 1}, options, nil)
	require.NoError(t, err)
	create(t, context)
	create(t, context)
	killed := filepath.Join(t.TempDir(), "killed")
	ring, err := os.ReadFile(filepath.Join(directory, "journal.ring")) // first: what is written meanwhile is then in both
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(killed, os.DirFS(directory)))
	require.NoError(t, os.WriteFile(filepath.Join(killed, "journal.ring"), ring, 0o600))
	require.NoError(t, page.Destroy(context))
	good(t, "store", "backup", killed, "s3://backups/state")
	goOn(t, killed, 1)
	assert.Equal(t, 2, pulledPages(t, "s3://backups/state"))
	good(t, "store", "backup", killed, "s3://backups/state")
	assert.Equal(t, 3, pulledPages(t, "s3://backups/state"))
}

// In a bucket, too, a backup follows a store to another branch.
func TestABackupOfABranch(t *testing.T) {
	newServer(t)
	const place = "s3://backups/branch"
	directory := large(t)
	backup := []string{"store", "backup", directory, place}
	good(t, backup...)
	leave := func(o keeper.Options, name string) {
		context, err := keeper.Open(directory, page.Options{SimulatedDevices: 1}, o, nil)
		require.NoError(t, err)
		create(t, context)
		if name != "" {
			require.NoError(t, keeper.SetName(context, name, nil))
		}
		require.NoError(t, page.Destroy(context))
	}
	leave(keeperOptions, "left")
	branch := keeperOptions
	branch.Mode, branch.At = abi.StoreBranch, store.At{Name: "first"}
	leave(branch, "")
	good(t, backup...)
	pulled, left := filepath.Join(t.TempDir(), "pulled"), filepath.Join(t.TempDir(), "left")
	good(t, "store", "pull", place, pulled)
	assert.Equal(t, files(t, directory), files(t, pulled))
	assert.Equal(t, 2, pagesOf(t, pulled))
	good(t, "store", "restore", pulled, left, "--at", "left")
	assert.Equal(t, 3, pagesOf(t, left))

	leave(branch, "") // the backup's newest state is only in a record of the branch that was left
	bad(t, exitBad, []string{" is not a backup of "}, backup...)
	assert.Equal(t, 2, pulledPages(t, place))
}

func TestBackupsInABucket(t *testing.T) {
	s := newServer(t)
	directory := large(t)
	const place = "s3://backups/of/state/"
	first := copied(t, "store", "backup", directory, place)
	assert.Greater(t, first.Bytes, int64(1<<20))
	assert.Equal(t, len(files(t, directory)), first.Files)
	assert.Greater(t, len(s.parts), 15)
	assert.Len(t, s.keys("of/state/"), first.Files+1)

	again := copied(t, "store", "backup", directory, place)
	assert.Equal(t, copiedShown{Target: place}, again)

	target := filepath.Join(t.TempDir(), "new")
	pulled := copied(t, "store", "pull", place, target)
	assert.Equal(t, first.Bytes, pulled.Bytes)
	assert.Equal(t, files(t, directory), files(t, target))
	bad(t, exitFailed, []string{"is not empty: it has "}, "store", "pull", place, target)

	goOn(t, directory, 3)
	grown := copied(t, "store", "backup", directory, place)
	assert.Equal(t, 1, grown.Files, "a segment")
	assert.Less(t, grown.Bytes, int64(64<<10))
	for key := range s.parts {
		assert.Equal(t, 1, s.parts[key], key)
	}
	bad(t, exitBad, []string{"s3://backups/of/state is not a backup of ", "position 10 of"}, "store", "backup", target, place)
	bad(t, exitBad, []string{" is not a backup of ", "position 10 of"}, "store", "backup", target, copyOf(t, directory))
	goOn(t, target, 4)
	bad(t, exitBad, []string{"s3://backups/of/state is not a backup of the store of ", " bytes differ"}, "store", "backup",
		target, place)
	other := filepath.Join(t.TempDir(), "other")
	good(t, "store", "pull", place, other)
	assert.Equal(t, 5, pagesOf(t, other))
	entries, err := os.ReadDir(filepath.Dir(other))
	require.NoError(t, err)
	assert.Len(t, entries, 1)

	local := filepath.Join(t.TempDir(), "local") // and back from a directory
	good(t, "store", "backup", directory, local)
	back := filepath.Join(t.TempDir(), "back")
	assert.Positive(t, copied(t, "store", "pull", local, back).Linked)
	assert.Equal(t, files(t, directory), files(t, back))
	goOn(t, back, 1)
	good(t, "store", "verify", local)
}

// TestABackupBesideItsWriter sends backups while pages come and snapshots come and go: each can be brought back.
func TestABackupBesideItsWriter(t *testing.T) {
	newServer(t)
	directory, context := stored(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if create(t, context); n%50 == 0 {
				assert.NoError(t, keeper.Save(context, n%100 == 0, nil))
			}
		}
	}()
	last := 0
	for range 10 {
		good(t, "store", "backup", directory, "s3://backups")
		target := filepath.Join(t.TempDir(), "new")
		good(t, "store", "pull", "s3://backups", target)
		pages := pagesOf(t, target)
		assert.GreaterOrEqual(t, pages, last)
		last = pages
	}
	close(stop)
	<-stopped
	require.NoError(t, page.Destroy(context))
}

// killed runs the tool, and has it killed around each request, one after the other, until one run ends. prepare comes before each
// run, and check after each kill.
func (s *server) killed(arguments func() []string, check func(name string)) (kills int) {
	for n := 1; ; n++ {
		for _, is := range []string{"before", "after"} {
			given := arguments()
			var p *exec.Cmd
			started := make(chan struct{})
			kill := func(number int) {
				if number == n {
					<-started
					_ = p.Process.Kill()
				}
			}
			if is == "before" {
				s.hook(func(number int, _ http.ResponseWriter, _ *http.Request) bool { kill(number); return false }, nil)
			} else {
				s.hook(nil, kill)
			}
			p = process(s.t, "", given...)
			require.NoError(s.t, p.Start())
			close(started)
			err := p.Wait()
			s.listening.CloseClientConnections() // what the killed process has sent is not to be answered later
			s.hook(nil, nil)
			if err == nil {
				return kills
			}
			require.Equal(s.t, -1, p.ProcessState.ExitCode())
			kills++
			check(fmt.Sprintf("%s request %d", is, n))
		}
	}
}

func TestABackupThatIsKilledOnTheWayToABucket(t *testing.T) {
	s := newServer(t)
	older, newer := filepath.Join(t.TempDir(), "older"), filepath.Join(t.TempDir(), "state")
	goOn(t, newer, 1)
	good(t, "store", "backup", newer, older)
	context, err := keeper.Open(newer, page.Options{SimulatedDevices: 1}, keeperOptions, nil)
	require.NoError(t, err)
	createLarge(t, context)
	require.NoError(t, keeper.Save(context, true, nil))
	create(t, context)
	require.NoError(t, page.Destroy(context))
	place, number, seen := "", 0, map[int]int{}
	kills := s.killed(func() []string {
		number++
		place = fmt.Sprintf("s3://backups/%d", number)
		good(t, "store", "backup", older, place)
		return []string{"store", "backup", newer, place}
	}, func(name string) {
		pages := pulledPages(t, place)
		require.Contains(t, []int{1, 3}, pages, name)
		seen[pages]++
		good(t, "store", "backup", newer, place)
		require.Equal(t, 3, pulledPages(t, place), name)
		uploads, err := s.backend.ListBucket(t.Context(), "backups", &gofakes3.Prefix{HasPrefix: true,
			Prefix: fmt.Sprintf("%d/files/", number)}, gofakes3.ListBucketPage{})
		require.NoError(t, err)
		require.Len(t, uploads.Contents, len(files(t, newer)), name)
	})
	assert.Greater(t, kills, 40)
	assert.Greater(t, seen[1], 30)
	assert.Greater(t, seen[3], 2)
	s.Lock()
	defer s.Unlock()
	for part, times := range s.parts {
		assert.Equal(t, 1, times, part)
	}
}

func pulledPages(t *testing.T, place string) int {
	t.Helper()
	target := filepath.Join(t.TempDir(), "pulled")
	good(t, "store", "pull", place, target)
	return pagesOf(t, target)
}

func TestAPullThatIsKilled(t *testing.T) {
	s := newServer(t)
	directory := large(t)
	const place = "s3://backups/state"
	all := copied(t, "store", "backup", directory, place)
	local := copyOf(t, directory)
	target := filepath.Join(t.TempDir(), "new")
	unfinished, least := 0, all.Bytes
	check := func(arguments ...string) {
		is, err := store.Is(file.OS{}, target)
		require.NoError(t, err)
		if !is {
			unfinished++
			require.NoDirExists(t, target)
			least = min(least, copied(t, arguments...).Bytes)
		}
		require.Equal(t, files(t, directory), files(t, target))
		removed(t, target)
	}
	pull := []string{"store", "pull", place, target}
	assert.Greater(t, s.killed(func() []string { return pull }, func(string) { check(pull...) }), 5)
	require.NoError(t, os.RemoveAll(target))
	assert.Less(t, least, int64(64<<10), "the large file had come")

	least = all.Bytes
	unfinished = 0
	killedAtEveryStep(t, pull, func(int) { check(pull...) })
	require.NoError(t, os.RemoveAll(target))
	assert.Greater(t, unfinished, 50)
	assert.Zero(t, least, "all files had come")

	unfinished = 0
	pull[2] = local
	killedAtEveryStep(t, pull, func(int) { check(pull...) })
	assert.Greater(t, unfinished, 50)
}

// cut answers a request with the beginning of the answer, and breaks the connection.
func (s *server) cut(bytes int) func(int, http.ResponseWriter, *http.Request) bool {
	return func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/files/base-") {
			return false
		}
		rangeAsked := &gofakes3.ObjectRangeRequest{End: -1}
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &rangeAsked.Start)
		object, err := s.backend.GetObject(r.Context(), "backups", strings.TrimPrefix(r.URL.Path, "/backups/"), rangeAsked)
		if !assert.NoError(s.t, err) {
			return false
		}
		content, _ := io.ReadAll(object.Contents)
		if len(content) <= bytes {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(content[:bytes])
		_ = http.NewResponseController(w).Flush()
		connection, _, err := http.NewResponseController(w).Hijack()
		if assert.NoError(s.t, err) {
			_ = connection.Close()
		}
		return true
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	s := newServer(t)
	directory := large(t)
	const place = "s3://backups/state"
	good(t, "store", "backup", directory, place)
	target := filepath.Join(t.TempDir(), "new")
	s.hook(s.cut(100_000), nil)
	all := copied(t, "store", "pull", place, target)
	assert.Greater(t, s.requests, 10)
	assert.Equal(t, files(t, directory), files(t, target))
	require.NoError(t, os.RemoveAll(target))

	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	came := 0 // and one that no longer comes back
	s.hook(func(n int, w http.ResponseWriter, r *http.Request) bool {
		if came++; came > 6 {
			connection, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				_ = connection.Close()
			}
			return true
		}
		return s.cut(200_000)(n, w, r)
	}, nil)
	bad(t, exitFailed, []string{"cannot read s3://backups/state/files/base-", "EOF"}, "store", "pull", place, target)
	assert.NoDirExists(t, target)
	s.hook(nil, nil)
	rest := copied(t, "store", "pull", place, target)
	assert.Less(t, rest.Bytes, all.Bytes*2/3)
	assert.Equal(t, files(t, directory), files(t, target))

	t.Setenv("AWS_MAX_ATTEMPTS", "5")
	s.hook(func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n%5 == 0 {
			connection, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				_ = connection.Close()
			}
		}
		return n%5 == 0
	}, nil)
	good(t, "store", "backup", directory, "s3://backups/again")
	s.hook(nil, nil)
	assert.Equal(t, 2, pulledPages(t, "s3://backups/again"))
}

func TestANewerBackupDuringAPull(t *testing.T) {
	s := newServer(t)
	directory := large(t)
	const place = "s3://backups/state"
	good(t, "store", "backup", directory, place)
	context, err := keeper.Open(directory, page.Options{SimulatedDevices: 1}, keeperOptions, nil)
	require.NoError(t, err)
	require.NoError(t, keeper.RemoveName(context, "first", nil))
	create(t, context)
	create(t, context)
	require.NoError(t, keeper.Save(context, true, nil))
	require.NoError(t, page.Destroy(context))
	var once sync.Once
	s.hook(func(_ int, _ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/files/base-") {
			once.Do(func() { good(t, "store", "backup", directory, place) })
		}
		return false
	}, nil)
	assert.Equal(t, 4, pulledPages(t, place))
}

func TestWhatABucketCanHave(t *testing.T) {
	s := newServer(t)
	directory := large(t)
	become := func(text, other string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(text), []byte(other), 1) }
	}
	object := func(prefix, part string) string {
		keys := s.keys(prefix)
		return keys[slices.IndexFunc(keys, func(key string) bool { return strings.Contains(key, part) })]
	}
	for number, row := range []struct {
		object string
		change func([]byte) []byte
		code   int
		text   string
	}{
		{"base-", func(b []byte) []byte { b[len(b)/2]++; return b }, exitBad, " has the SHA-256 "},
		{"base-", func(b []byte) []byte { return b[:len(b)-1] }, exitBad, " ends after "},
		{"base-", func([]byte) []byte { return nil }, exitBad, " ends after 0 bytes, not "},
		{"journal-", func(b []byte) []byte { b[5000]++; return b }, exitBad, " has the SHA-256 "},
		{"store.names", func(b []byte) []byte { return append(b, ' ') }, exitGood, ""}, // its first bytes are what they were
		{"manifest", func(b []byte) []byte { return b[:len(b)/2] }, exitBad, "is not a manifest: "},
		{"manifest", func(b []byte) []byte { return nil }, exitBad, "of 0 bytes is not a manifest: "},
		{"manifest", become(`"version": 1`, `"version": 2`), exitBad,
			"has version 2, this mmsb reads version 1"},
		{"manifest", become(`"base-`, `"../base-`), exitBad,
			"is not a file of a store"},
		{"manifest", become(`"base-`, `"base-/../../`), exitBad,
			"is not a file of a store"},
		{"manifest", become(`"sha256": "`, `"sha256": "zz`), exitBad,
			"is not a checksum"},
		{"manifest", become(`"lineage": "`, `"lineage": "0`), exitBad,
			"is not a lineage"},
	} {
		prefix := fmt.Sprintf("%d", number)
		place, target := "s3://backups/"+prefix, filepath.Join(t.TempDir(), "new")
		good(t, "store", "backup", directory, place)
		s.replace(object(prefix+"/", row.object), row.change)
		if row.code == exitGood {
			good(t, "store", "pull", place, target)
		} else {
			bad(t, row.code, []string{place, row.text}, "store", "pull", place, target)
			assert.NoDirExists(t, target)
		}
	}
	const place = "s3://backups/lost"
	good(t, "store", "backup", directory, place)
	_, err := s.backend.DeleteObject(t.Context(), "backups", object("lost/", "journal-"))
	require.NoError(t, err)
	bad(t, exitBad, []string{" has lost files/journal-"}, "store", "pull", place, filepath.Join(t.TempDir(), "new"))
	s.replace(object("lost/", "base-"), func(b []byte) []byte { return b[:100] })
	good(t, "store", "backup", directory, place) // which sends what is missing, or has another size
	assert.Equal(t, 2, pulledPages(t, place))
}

func TestBucketsThatDoNotAnswer(t *testing.T) {
	newServer(t)
	directory := large(t)
	target := filepath.Join(t.TempDir(), "new")
	both := func(code int, place string, texts ...string) {
		t.Helper()
		bad(t, code, texts, "store", "pull", place, target)
		bad(t, code, texts, "store", "backup", directory, place)
	}
	bad(t, exitFailed, []string{"there is no backup in s3://backups/nothing"}, "store", "pull", "s3://backups/nothing", target)
	both(exitFailed, "s3://missing/state", "s3://missing/state", `there is no bucket "missing"`)
	both(exitUsage, "s3://", `"s3://" is not s3://BUCKET or s3://BUCKET/PREFIX`)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	both(exitFailed, "s3://backups/state", "cannot read s3://backups/state/manifest.json: ", "SignatureDoesNotMatch",
		"(HTTP 403)")
	t.Setenv("AWS_ACCESS_KEY_ID", "nobody")
	both(exitFailed, "s3://backups/state", "InvalidAccessKeyId")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	both(exitFailed, "s3://backups/state", "no credentials for s3://backups/state: set AWS_ACCESS_KEY_ID and ")
	t.Setenv("AWS_ACCESS_KEY_ID", "somebody")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	both(exitFailed, "s3://backups/state", "http://127.0.0.1:1/backups/state/manifest.json", "connection refused")
	entries, err := os.ReadDir(filepath.Dir(target))
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestASignalEndsABackup(t *testing.T) {
	s := newServer(t)
	directory := large(t)
	reached, ended := make(chan struct{}), make(chan struct{})
	s.hook(func(n int, _ http.ResponseWriter, _ *http.Request) bool {
		if n == 5 {
			close(reached)
			<-ended
		}
		return false
	}, nil)
	p := process(t, "", "store", "backup", directory, "s3://backups/state")
	var complaint bytes.Buffer
	p.Stderr = &complaint
	require.NoError(t, p.Start())
	<-reached
	require.NoError(t, p.Process.Signal(os.Interrupt))
	assert.Error(t, p.Wait())
	close(ended)
	assert.Equal(t, 130, p.ProcessState.ExitCode())
	assert.Empty(t, complaint.String())
	s.hook(nil, nil)
	good(t, "store", "backup", directory, "s3://backups/state")
	assert.Equal(t, 2, pulledPages(t, "s3://backups/state"))
}
