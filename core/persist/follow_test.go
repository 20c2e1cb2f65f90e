package persist

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/page"
	"libmmsb/core/status"
)

// A save between a load and the look at the journal gives the state a name of its own; it is followed all the same.
func TestAStateIsFollowedThatWasSavedSince(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "journal")
	writer := newContext(t)
	openJournal(t, writer, directory)
	var handle uint64
	require.NoError(t, page.Use(writer, func(c *page.Context) error {
		handle = create(t, c, 100)
		return nil
	}))
	write(t, handle, 0, []byte("first"))
	require.NoError(t, SyncJournal(writer, nil))
	context := newContext(t)
	for range 2 { // the second time the pages have versions of their own
		require.NoError(t, Load(context, FromPath(""), LoadOptions{Journal: directory, Follows: true}, nil))
		if stateOf(t, context).journals.refused() == nil {
			require.NoError(t, Refuse(context, status.Errorf(status.InvalidState, "it is only read")))
		}
		require.NoError(t, Save(context, ToPath(filepath.Join(t.TempDir(), "saved")), SaveOptions{}, nil))
		f, err := Follow(context, directory)
		require.NoError(t, err)
		write(t, handle, 0, []byte("later"))
		require.NoError(t, SyncJournal(writer, nil))
		_, err = f.Poll()
		require.NoError(t, err)
		require.Equal(t, contents(t, writer), contents(t, context))
		f.Close()
	}
}

// A save that does not wait for a follower does not need to.
func TestASaveThatWaitsForNobody(t *testing.T) {
	context := newContext(t)
	for range 30 {
		require.NoError(t, SaveWithin(context, ToPath(filepath.Join(t.TempDir(), "saved")), SaveOptions{}, 0))
	}
}
