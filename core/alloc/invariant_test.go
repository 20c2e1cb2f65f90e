//go:build invariants

package alloc

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDamageIsFoundWithinSomeOperations(t *testing.T) {
	e := NewExtents(1000)
	allocate(t, e, 10, 1)
	allocate(t, e, 20, 1)
	e.extents[1].count--
	const wrong = "MMSB_E_INTERNAL: extent at unit 10 does not begin where the one before ends, at 9"
	assert.PanicsWithError(t, "invariant broken: "+wrong, func() {
		for range 100 {
			offset, _ := e.Allocate(1, 1)
			_ = e.Free(offset, 1)
		}
	})
}

func TestMoreUnitsThanThereAreAreFoundAtOnce(t *testing.T) {
	e := NewExtents(1000)
	offset := allocate(t, e, 10, 1)
	e.used = 2000
	assert.PanicsWithError(t, "invariant broken: 1990 units are allocated, the limit is 1000", func() { _ = e.Free(offset, 10) })
}
