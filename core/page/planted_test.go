//go:build plants

package page

import (
	"runtime"
	"testing"

	"libmmsb/core/plant"
)

// search is a test that fails where a bug is found.
type search struct {
	*testing.T
	found bool
}

func (s *search) Errorf(string, ...any) { s.found = true }
func (s *search) FailNow()              { runtime.Goexit() }

// lookForBug does the checks of ids until one fails, and says which.
func lookForBug(t *testing.T) (foundBy string) {
	for _, c := range idChecks {
		s := &search{T: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.check(s)
		}()
		<-ended
		if s.found {
			return c.name
		}
	}
	return ""
}

// TestPlantedBugsAreFound plants each bug, and looks for it as the tests do. What is only found by chance needs a few looks, but not so many.
func TestPlantedBugsAreFound(t *testing.T) {
	const most = 1000
	caught := 0
	for bug := noBug + 1; bug < bugs; bug++ {
		plant.Planted = bug
		foundBy, looks := "", 0
		for ; foundBy == "" && looks < most; looks++ {
			foundBy = lookForBug(t)
		}
		plant.Planted = nil
		if foundBy == "" {
			t.Errorf("not caught: bug %d", bug)
			continue
		}
		caught++
		t.Logf("bug %d, look %d: %s", bug, looks, foundBy)
	}
	if foundBy := lookForBug(t); foundBy != "" {
		t.Errorf("without a bug: %s", foundBy)
	}
	t.Logf("report: planted bugs: caught %d of %d", caught, int(bugs)-1)
}
