package messages

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/messages.txt anew")

const (
	root     = "../.."
	listFile = root + "/docs/messages.txt"
)

func TestTheListOfMessagesIsFresh(t *testing.T) {
	all, err := Collect(root)
	require.NoError(t, err)
	list := List(all)
	if *update {
		require.NoError(t, os.WriteFile(listFile, []byte(list), 0o644))
	}
	committed, err := os.ReadFile(listFile)
	require.NoError(t, err)
	assert.True(t, list == string(committed), "docs/messages.txt is stale: go test ./tests/messages -update")
}

func TestMessagesKeepTheRules(t *testing.T) {
	all, err := Collect(root)
	require.NoError(t, err)
	seen := 0
	for _, m := range all {
		if !checked(m.Room) {
			continue
		}
		seen++
		for _, fault := range Faults(m) {
			t.Errorf("%s: %s: %q: %s", m.Room, m.Code, m.Text, fault)
		}
	}
	assert.Greater(t, seen, 400, "messages that were looked at")
}

func TestRoomsThatAreNotYetCheckedExist(t *testing.T) {
	exist := 0
	for _, room := range notYet {
		if _, err := os.Stat(filepath.Join(root, room)); err == nil {
			exist++
		}
	}
	assert.True(t, exist > 0 || len(notYet) == 0, "none of %v exists: the list can go", notYet)
}

// Each of these stood in the library once.
func TestBadMessagesAreCaught(t *testing.T) {
	for _, bad := range []Message{
		{strerror, "INVALID_ARGUMENT", "an argument that is never right"},
		{"core/file", "IO", "cannot look at %s"},
		{"core/page", "INVALID_ARGUMENT", "%d is no location"},
		{"core/page", "INVALID_SIZE", "a size of %d bytes: 1 … %d can be"},
		{"core/mem", "LIMIT", "%d bytes wanted, but %d of memory_limit %d are in use"},
		{"core/page", "INVALID_ARGUMENT", "%s at position %d cannot be %q"},
		{"core/page", "INVALID_ARGUMENT", "segment_bytes is %d"},
		{"capi", "INVALID_ARGUMENT", "descriptor is %d"},
		{"core/page", "OUT_OF_MEMORY", "no stretch of %d blocks in a file of %d"},
		{"native", "OUT_OF_RANGE", "count is larger than what can be addressed"},
		{strerror, "FORMAT", "not ours, or newer than this library"},
		{"core", "IO", "The file is gone"},
		{"core", "IO", "the file is gone."},
		{"core", "IO", "the file is " + string(make([]byte, longest))},
		{"gpu/sim", "INVALID_HANDLE", "0x%x is no event any more"},
	} {
		assert.NotEmpty(t, Faults(bad), "%q", bad.Text)
	}
	for _, good := range []Message{
		{"core/page", "INVALID_SIZE", "size is %d; the smallest page has 1 byte, the largest %d"},
		{"core/mem", "LIMIT", "%d bytes exceed memory_limit %d, %d in use"},
		{"core/file", "NOT_FOUND", "cannot open %s"},
		{"cmd/mmsb", "help", "Help is prose. We may end it with a period."},
	} {
		assert.Empty(t, Faults(good), "%q", good.Text)
	}
}

// A source with each form in which a text reaches a user: all must be found, and nothing else.
func TestEveryFormIsCollected(t *testing.T) {
	at := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(at, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	write("core/status/status.go", "package status\nfunc Errorf(code Code, format string, args ...any) error { return nil }\n")
	write("core/log/log.go", "package log\nfunc Logf(level int, format string, args ...any) {}\n")
	write("core/x/x.go", `package x
func Refuse(code int, format string, args ...any) error { return nil }
func f() {
	status.Errorf(status.InvalidSize, "size is %d, "+"more than %d", 1, 2)
	Refuse(1, "by a function of its own", 2)
	fail := func(format string) {}
	fail("by a literal")
	log.Logf(log.Warning, "a line")
	fmt.Println("not this")
	errors.New("end")
	cobra.Command{Short: "short", Long: `+"`long `+tail"+`}
	c.Flags().Bool("name", false, "a flag")
	capability{Reason: "why: " + path}
}
`)
	write("core/x/x_test.go", `package x
func g() { fmt.Errorf("not of a test") }
`)
	write("capi/x.c", `CODE(MMSB_OK, "done")
	return bad ? mmsb__fail(MMSB_E_LIMIT, "%u of "
	    "%u", 1, 2) : mmsb__fail(code, "from elsewhere");
`)
	write("native/x.h", "mmsb_status_t mmsb__fail(mmsb_status_t code, const char *format, ...);\n")
	write("core/y/y.go", "package y\n\nimport \"x\"\n\nfunc h() { x.Refuse(1, \"from another room\") }\n")
	write("native/tests/x.c", `mmsb__fail(MMSB_E_IO, "not of a test");`)
	all, err := Collect(at)
	require.NoError(t, err)
	assert.Equal(t, []Message{
		{"capi", "-", "from elsewhere"}, {"capi", "LIMIT", "%u of %u"},
		{"core/x", "-", "by a function of its own"}, {"core/x", "-", "by a literal"}, {"core/x", "-", "end"},
		{"core/x", "INVALID_SIZE", "size is %d, more than %d"}, {"core/x", "capability", "why: %s"},
		{"core/x", "help", "a flag"}, {"core/x", "help", "long %s"}, {"core/x", "help", "short"},
		{"core/x", "log warning", "a line"}, {"core/y", "-", "from another room"},
		{strerror, "OK", "done"},
	}, all)

	write("capi/x.c", `mmsb__fail(MMSB_E_IO, text);`)
	_, err = Collect(at)
	assert.ErrorContains(t, err, "0 of 1 calls", "a text that cannot be read in the source")
}
