package persist

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/snapshot"
)

func TestAChainIsNotLongerThanItsBound(t *testing.T) {
	directory, base, longest := t.TempDir(), "", 0
	context := newContext(t)
	handle := createFilled(t, context, 100, 1, 0)
	for number := range 2*mostFiles + 10 {
		write(t, handle, 3, []byte{byte(number)})
		path := filepath.Join(directory, fmt.Sprint(number))
		require.NoError(t, Save(context, ToPath(path), SaveOptions{Base: base, NotDurable: true}, nil))
		chain, err := snapshot.ChainOf(file.OS{}, path)
		require.NoError(t, err)
		longest = max(longest, len(chain))
		require.LessOrEqual(t, len(chain), mostFiles)
		base = path
	}
	require.Equal(t, mostFiles, longest)
	again := newContext(t)
	require.NoError(t, Load(again, FromPath(base), LoadOptions{}, nil))
	require.Equal(t, content(t, handle), content(t, pageWith(t, again, 1)))
}
