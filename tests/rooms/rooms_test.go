// Package rooms draws the arrows between the packages of the library, and compares them with those that docs/architecture.md
// allows.
package rooms

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "libmmsb/"
)

// arrows are the packages that each package uses.
type arrows map[string]map[string]bool

func (a arrows) add(from string, to ...string) {
	if a[from] == nil {
		a[from] = make(map[string]bool)
	}
	for _, name := range to {
		a[from][name] = true
	}
}

// drawn are the arrows of the source, whatever it is built for. Tests may use every package.
func drawn(t *testing.T) arrows {
	found := make(arrows)
	for _, room := range []string{"core", "gpu", "capi", "native", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			found.add(filepath.ToSlash(folder))
			for _, imported := range file.Imports {
				name, err := strconv.Unquote(imported.Path.Value)
				if err != nil {
					return err
				}
				if own, ok := strings.CutPrefix(name, module); ok {
					found.add(filepath.ToSlash(folder), own)
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
	return found
}

// architecture is the text that allows arrows.
func architecture(t *testing.T) string {
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	require.NoError(t, err)
	return string(text)
}

// allowed are the arrows that the block ```arrows of a text has: in each line a package, a colon, and the packages that it uses.
func allowed(t *testing.T, text string) arrows {
	_, block, found := strings.Cut(text, "\n```arrows\n")
	require.True(t, found, "there is no block of arrows")
	block, _, found = strings.Cut(block, "\n```\n")
	require.True(t, found, "the block of arrows has no end")
	listed := make(arrows)
	for line := range strings.Lines(block) {
		from, to, found := strings.Cut(line, ":")
		require.True(t, found, "no colon in %q", line)
		require.NotContains(t, listed, from)
		listed.add(from, strings.Fields(to)...)
	}
	return listed
}

// differences say which arrows and packages are only in the source, and which only in the text.
func differences(drawn, allowed arrows) (found []string) {
	only := func(a, b arrows, fault string) {
		for _, from := range slices.Sorted(maps.Keys(a)) {
			if b[from] == nil {
				found = append(found, fmt.Sprintf("package %s is %s", from, fault))
				continue
			}
			for _, to := range slices.Sorted(maps.Keys(a[from])) {
				if !b[from][to] {
					found = append(found, fmt.Sprintf("the arrow %s -> %s is %s", from, to, fault))
				}
			}
		}
	}
	only(drawn, allowed, "not in docs/architecture.md")
	only(allowed, drawn, "not in the source")
	return found
}

func TestArrowsAreThoseOfTheArchitecture(t *testing.T) {
	require.Empty(t, differences(drawn(t), allowed(t, architecture(t))))
}

// Each change of the text has to show.
func TestADifferenceIsFound(t *testing.T) {
	found, text := drawn(t), architecture(t)
	edited := func(old, replacement string) []string {
		require.Equal(t, 1, strings.Count(text, old), old)
		return differences(found, allowed(t, strings.Replace(text, old, replacement, 1)))
	}
	line := "\ncore/region: core/limits core/status native\n"
	require.Equal(t, []string{"the arrow core/region -> native is not in docs/architecture.md"},
		edited(line, "\ncore/region: core/limits core/status\n"))
	require.Equal(t, []string{"package core/region is not in docs/architecture.md"}, edited(line, "\n"))
	require.Equal(t, []string{"the arrow core/region -> core/page is not in the source"},
		edited(line, "\ncore/region: core/limits core/page core/status native\n"))
	require.Equal(t, []string{"package core/attic is not in the source"}, edited(line, line+"core/attic:\n"))
}
