package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/cmd/mmsb/internal/command"
)

func TestThePageHasEveryCommandAndFlag(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, generate(folder, "1.2.3"))
	raw, err := os.ReadFile(filepath.Join(folder, "man", "man1", "mmsb.1"))
	require.NoError(t, err)
	page := string(raw)
	assert.True(t, strings.HasPrefix(page, `.TH MMSB 1 "" "libmmsb 1.2.3"`))
	commands := leaves(command.Root())
	assert.Greater(t, len(commands), 8)
	for _, c := range commands {
		assert.Contains(t, page, ".SS \""+roff.Replace(usage(c))+"\"\n")
		assert.NotEmpty(t, c.Short)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			assert.Contains(t, page, roff.Replace("--"+f.Name), c.CommandPath())
			assert.NotEmpty(t, f.Usage, f.Name)
		})
	}
	assert.Equal(t, 1, strings.Count(page, "left half"), "exit codes are told once")
	for number, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, ".") {
			assert.Regexp(t, `^\.(TH|SH|SS|B|br|PP|TP|nf|fi)( "|$| 1|MMSB| MMSB)`, line, "line %d", number+1)
		}
	}
	assert.Contains(t, page, ".SH \"EXIT STATUS\"\n0: good.")
}

func TestTheCompletionsParse(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, generate(folder, "1.2.3"))
	bash := filepath.Join(folder, "bash-completion", "completions", "mmsb")
	output, err := exec.Command("bash", "-n", bash).CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, path := range []string{bash, filepath.Join(folder, "zsh", "site-functions", "_mmsb"),
		filepath.Join(folder, "fish", "vendor_completions.d", "mmsb.fish")} {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(raw), "__complete", path)
	}
	require.Error(t, generate(filepath.Join(bash, "below a file"), "1.2.3"))
}

func TestTextsAreNoMacros(t *testing.T) {
	var p page
	p.text(".SH not a heading\n\nback\\slash 'quoted' --flag")
	p.macro("B", `a "b" -c`)
	assert.Equal(t, "\\&.SH not a heading\n.PP\nback\\eslash \\(aqquoted\\(aq \\-\\-flag\n.B \"a \\(dqb\\(dq \\-c\"\n",
		p.String())
}
