//go:build cgo

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/cmd/mmsb/internal/command"
	"libmmsb/core/file"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

func mmsb(t *testing.T, arguments ...string) string {
	var stdout, stderr bytes.Buffer
	tool := command.Tool{FS: file.OS{}, Replay: replayTrace, Stdout: &stdout, Stderr: &stderr}
	code := tool.Run(context.Background(), arguments)
	require.Empty(t, stderr.String())
	require.Zero(t, code)
	return stdout.String()
}

// steady takes the times out, and the spaces that depend on them.
func steady(out string) string {
	out = regexp.MustCompile(`"(ns|busy_ns|ns_per_call)": [0-9.]+`).ReplaceAllString(out, `"$1": TIME`)
	out = regexp.MustCompile(`[0-9.]+(µs|ms|s),? +[0-9]+`).ReplaceAllString(out, "TIME")
	return regexp.MustCompile(`(\S) +`).ReplaceAllString(out, "$1 ")
}

func TestReplays(t *testing.T) {
	golden, err := filepath.Abs("testdata")
	require.NoError(t, err)
	t.Chdir(filepath.Join("..", "..", "testdata", "traces"))
	for name, arguments := range map[string][]string{
		"replay":         {"rmm.csv"},
		"replay-none":    {"rmm.csv", "none", "--bytes", "--memory", "1GiB"},
		"replay-pytorch": {"pytorch-protocol4.pickle", "slack:0.02,limit_mb:100", "--memory", "1G"},
		"replay-threads": {"runtime.csv", "--threads", "--speed", "1000", "--memory", "1G"},
		"replay-json":    {"pytorch-protocol2.pickle", "--json", "--memory", "1G"},
		"replay-compare": {"runtime.csv", "--memory", "1G", "--compare", "default", "large_segment_size_mb:2,slack:0.01", "none",
			"slack:0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			out := mmsb(t, append([]string{"memory", "replay"}, arguments...)...)
			if name == "replay-json" {
				assert.True(t, json.Valid([]byte(out)))
			}
			out = steady(out)
			path := filepath.Join(golden, name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(out), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), out)
		})
	}
}

// The configuration that wins reserves what a replay of it alone reserves, and not more than the default.
func TestTheWinnerOfTuneCanBeUsed(t *testing.T) {
	type shown struct {
		Best    string
		Replays []struct {
			Configuration string
			Failures      uint64
			Reserved      uint64 `json:"peak_reserved"`
		}
	}
	replay := func(arguments ...string) (s shown) {
		path := filepath.Join("..", "..", "testdata", "traces", "runtime.csv")
		out := mmsb(t, append([]string{"memory", "replay", path, "--json", "--memory", "1G"}, arguments...)...)
		require.NoError(t, json.Unmarshal([]byte(out), &s))
		return s
	}
	tuned, byDefault := replay("--tune"), replay()
	require.NotEmpty(t, tuned.Best)
	alone := replay(tuned.Best)
	assert.Equal(t, tuned.Best, tuned.Replays[0].Configuration)
	assert.Equal(t, tuned.Replays[0].Reserved, alone.Replays[0].Reserved)
	assert.LessOrEqual(t, alone.Replays[0].Reserved, byDefault.Replays[0].Reserved)
	for _, r := range tuned.Replays {
		assert.GreaterOrEqual(t, r.Reserved, alone.Replays[0].Reserved)
		assert.Equal(t, strings.TrimSpace(r.Configuration), r.Configuration)
	}
}

func TestADeviceThatIsNotThere(t *testing.T) {
	var stdout, stderr bytes.Buffer
	tool := command.Tool{FS: file.OS{}, Replay: replayTrace, Stdout: &stdout, Stderr: &stderr}
	code := tool.Run(context.Background(), []string{"memory", "replay", "--device", "99",
		filepath.Join("..", "..", "testdata", "traces", "rmm.csv")})
	assert.Equal(t, 3, code)
	assert.NotEmpty(t, stderr.String())
	assert.Empty(t, stdout.String())
}
