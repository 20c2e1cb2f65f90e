package command

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/core/trace"
)

var traced = filepath.Join("..", "..", "..", "..", "testdata", "traces", "rmm.csv")

// replaying runs the tool with a device that says what a test wants.
func replaying(ctx context.Context, replay Replay, arguments ...string) (out, complaint string, code int) {
	var stdout, stderr bytes.Buffer
	tool := Tool{FS: file.OS{}, Stdout: &stdout, Stderr: &stderr, Replay: replay}
	code = tool.Run(ctx, append([]string{"memory", "replay"}, arguments...))
	return stdout.String(), stderr.String(), code
}

// invented takes a fixed number of bytes for each configuration; those that none has reserves most.
func invented(_ context.Context, t *trace.Trace, _ ReplayOn, o *pool.Options,
	progress func(done, total uint64)) (Replayed, error) {
	progress(1, 2)
	r := Replayed{Device: "invented", Calls: uint64(len(t.Events)), Nanoseconds: 1e6, Busy: 1e6, Live: 1 << 30, Reserved: 3 << 30}
	if o == nil {
		return r, nil
	}
	r.Reserved = 2<<30 + uint64(o.Slack)<<20 - o.LargeStep/1024
	r.Nanoseconds += int64(o.Divisions[0])
	if o.LargeStep == 2<<20 { // the least memory, but not enough
		r.Failures, r.FirstFailure, r.Reserved = 1, "MMSB_E_OUT_OF_MEMORY: it was too much", 1
	}
	return r, nil
}

func TestTuneChoosesTheBest(t *testing.T) {
	out, complaint, code := replaying(context.Background(), invented, traced, "--tune")
	require.Empty(t, complaint)
	require.Zero(t, code)
	assert.Contains(t, out, "\nbest: large_segment_size_mb:128, 0.0 % less reserved than by default, 0 failures instead of 0\n")
	document := decode(t, func() string {
		out, _, _ := replaying(context.Background(), invented, traced, "--tune", "--json")
		return out
	}())
	assert.Equal(t, "large_segment_size_mb:128", document["best"])
	replays := document["replays"].([]any)
	require.Len(t, replays, 18)
	for at, one := range replays[1:] {
		before, one := replays[at].(map[string]any), one.(map[string]any)
		failures := one["failures"].(float64) - before["failures"].(float64)
		reserved := one["peak_reserved"].(float64) - before["peak_reserved"].(float64)
		sooner := one["ns"].(float64) < before["ns"].(float64)
		assert.True(t, failures > 0 || failures == 0 && (reserved > 0 || reserved == 0 && !sooner))
	}
	names := map[string]bool{}
	for _, name := range tuned() {
		names[name] = true
		_, err := parseConfiguration(name)
		require.NoError(t, err)
	}
	require.Len(t, names, 18)
}

func TestReplaysSideBySide(t *testing.T) {
	out, complaint, code := replaying(context.Background(), invented, traced, "--bytes", "--compare", "none", "default",
		"slack:0.5")
	require.Empty(t, complaint)
	require.Zero(t, code)
	rows := strings.Split(strings.TrimSpace(out[strings.Index(out, "CONFIGURATION"):]), "\n")
	require.Len(t, rows, 4)
	for at, want := range []string{"none 1ms 3279 0 3221225472 1073741824 3.000 0 0 0 0", "default 1ms 3279 0 2147483648",
		"slack:0.5 1ms 3279 0 2671771648"} {
		assert.True(t, strings.HasPrefix(strings.Join(strings.Fields(rows[at+1]), " "), want), "%q", rows[at+1])
	}
	assert.NotContains(t, out, "best")
}

func TestReplaysThatCannotBe(t *testing.T) {
	cut := filepath.Join(t.TempDir(), "cut.csv")
	content, err := os.ReadFile(traced)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cut, content[:1000], 0o600))
	large := filepath.Join(t.TempDir(), "large.pickle")
	require.NoError(t, os.WriteFile(large, []byte("\x80\x04"+strings.Repeat("]", 1<<20)), 0o600))
	for _, c := range []struct {
		code      int
		complaint string
		arguments []string
	}{
		{exitUsage, "takes a TRACE and CONFIGURATIONs; 0 arguments given", nil},
		{exitUsage, "2 configurations need --compare", []string{traced, "default", "none"}},
		{exitUsage, "--compare takes at least 2 configurations; 1 given", []string{traced, "default", "--compare"}},
		{exitUsage, "--tune takes no configuration; 1 given", []string{traced, "default", "--tune"}},
		{exitUsage, "compare tune", []string{traced, "--compare", "--tune"}},
		{exitUsage, "device memory", []string{traced, "--device", "0", "--memory", "1G"}},
		{exitUsage, "--device is -2, at least -1 is needed", []string{traced, "--device=-2"}},
		{exitUsage, "--speed is 0, more than 0 and at most 2147483647 is needed", []string{traced, "--speed", "0"}},
		{exitUsage, "--speed is NaN, more than 0", []string{traced, "--speed", "NaN"}},
		{exitUsage, `"many" is not a size above 0`, []string{traced, "--memory", "many"}},
		{exitUsage, `configuration of the pool, position 6: "x"`, []string{traced, "slack:x"}},
		{exitUsage, `position 8: "y" has no value`, []string{traced, "--compare", "default", "slack:1,y"}},
		{exitFailed, "cannot open nowhere", []string{"nowhere"}},
		{exitBad, large + ": pickle takes ", []string{large}},
		{exitBad, cut + ": line 19 of the trace: line is cut off after ", []string{cut}},
	} {
		out, complaint, code := replaying(context.Background(), invented, c.arguments...)
		assert.Equal(t, c.code, code, "%v: %s", c.arguments, complaint)
		assert.Contains(t, complaint, c.complaint)
		assert.Empty(t, out)
	}
	_, complaint, code := replaying(context.Background(), invented, traced, "--device", "-1")
	assert.Equal(t, exitGood, code, "what the help says is the default: %s", complaint)
	out, complaint, code := replaying(context.Background(), nil, traced)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, complaint, "cannot replay a trace: this mmsb was built without C")
	assert.Empty(t, out)
}

// What was done before a signal is not shown: it is not the whole.
func TestASignalEndsReplays(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	runs := 0
	out, complaint, code := replaying(ctx, func(of context.Context, t *trace.Trace, on ReplayOn, o *pool.Options,
		progress func(done, total uint64)) (Replayed, error) {
		if runs++; runs == 3 {
			cancel(interrupted{syscall.SIGINT})
			return Replayed{}, status.Errorf(status.Cancelled, "replay is cancelled")
		}
		return invented(of, t, on, o, progress)
	}, traced, "--tune")
	assert.Equal(t, exitSignals+int(syscall.SIGINT), code)
	assert.Empty(t, out)
	assert.Empty(t, complaint)
	assert.Equal(t, 3, runs)
	_, _, code = replaying(ctx, invented, traced) // nothing is read any more
	assert.Equal(t, exitSignals+int(syscall.SIGINT), code)
}

func TestSizesThatAreGiven(t *testing.T) {
	for text, want := range map[string]uint64{"1": 1, "5B": 5, "512KiB": 512 << 10, "3M": 3 << 20, "24GiB": 24 << 30,
		"2TB": 2 << 40, "18446744073709551615": math.MaxUint64} {
		got, err := parseBytes(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "0", "G", "-1", "1.5G", "1GG", "1iB", "1 G", "18446744073709551616", "16777216T", "1PiB"} {
		_, err := parseBytes(text)
		assert.ErrorContains(t, err, "is not a size above 0", text)
	}
}
