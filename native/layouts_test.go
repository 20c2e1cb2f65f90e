package native

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"libmmsb/core/layout"
)

func TestGoAndCHaveTheSameLayouts(t *testing.T) {
	for _, pair := range layouts() {
		assert.Empty(t, layout.Difference(pair[0], pair[1], otherNames))
	}
}

// One field of each is not as that of Saved.
func TestADifferentLayoutIsFound(t *testing.T) {
	type (
		otherName struct {
			Version, ID, Length uint64
			Generation, CRC     uint32
		}
		otherPlace struct {
			ID, Version, Size uint64
			Generation, CRC   uint32
		}
		otherSize struct {
			Version, ID, Size uint64
			Generation        uint16
			CRC               uint32
		}
		oneMore struct {
			Version, ID, Size     uint64
			Generation, CRC, More uint32
		}
	)
	assert.Contains(t, layout.Difference(Saved{}, otherName{}, otherNames), "Length")
	assert.Contains(t, layout.Difference(Saved{}, otherPlace{}, otherNames), ".Version")
	assert.Contains(t, layout.Difference(Saved{}, otherSize{}, otherNames), ".Generation")
	assert.Contains(t, layout.Difference(Saved{}, oneMore{}, otherNames), "6 and 40")
}
