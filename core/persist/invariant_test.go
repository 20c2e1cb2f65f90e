//go:build invariants

package persist

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAJournalThatGoesBackIsFoundWhenItIsClosed(t *testing.T) {
	context := newContext(t)
	openJournal(t, context, filepath.Join(t.TempDir(), "journal"))
	stateOf(t, context).journals.at = 17
	assert.PanicsWithError(t, "invariant broken: the journal was opened behind record 17 and ends with record 0, 0 were written",
		func() { _ = CloseJournal(context) })
	require.NoError(t, CloseJournal(context))
}
