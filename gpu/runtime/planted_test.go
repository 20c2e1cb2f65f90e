//go:build plants

package runtime

import (
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/plant"
)

// TestPlantedBugsAreFound plants each bug, and looks for it as the tests do. None may need more than 10 000 schedules.
func TestPlantedBugsAreFound(t *testing.T) {
	const most = 10_000
	caught := 0
	for bug := noBug + 1; bug < bugs; bug++ {
		plant.Planted = bug
		_, err := programsIn(37, most)
		if err == nil {
			_, err = randomSchedules(1, most)
		}
		if err == nil {
			err = accountsAreKept()
		}
		plant.Planted = nil
		if err == nil {
			t.Errorf("not caught: bug %d", bug)
			continue
		}
		caught++
		t.Logf("bug %d: %v", bug, err)
	}
	_, err := programsIn(3001, most)
	require.NoError(t, err, "without a bug")
	require.NoError(t, accountsAreKept())
	t.Logf("report: planted bugs: caught %d of %d", caught, int(bugs)-1)
}
