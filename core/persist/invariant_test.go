//go:build invariants

package persist

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/native"
)

func TestAJournalThatLosesARecordIsFoundWhenItIsClosed(t *testing.T) {
	context := newContext(t)
	openJournal(t, context, filepath.Join(t.TempDir(), "journal"))
	opened := stateOf(t, context).journals.open.Load()
	right := opened.ring
	require.NoError(t, SyncJournal(context, nil))
	another := stateOf(t, newContext(t)).context.Index()
	other, code := native.OpenRing(another, 17, RingBytes, 0, false, nil)
	require.Zero(t, code)
	other.Fail(50, 0, 0, "this is not the journal's ring")
	opened.ring = other
	right.Stop()
	assert.PanicsWithError(t, "invariant broken: the journal ends with record 16, 0 were written",
		func() { _ = CloseJournal(context) })
	opened.ring = right
	other.Close()
	require.NoError(t, CloseJournal(context))
}
