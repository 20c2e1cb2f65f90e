package native

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestGoAndCHaveTheSameLayouts(t *testing.T) {
	for _, pair := range layouts() {
		assert.Empty(t, difference(pair[0], pair[1]))
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
	assert.Contains(t, difference(Saved{}, otherName{}), "Length")
	assert.Contains(t, difference(Saved{}, otherPlace{}), ".Version")
	assert.Contains(t, difference(Saved{}, otherSize{}), ".Generation")
	assert.Contains(t, difference(Saved{}, oneMore{}), "6 and 40")
}
