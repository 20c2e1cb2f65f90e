//go:build invariants

package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/gpu/driver"
)

func TestABlockThatIsLiveIsNotTakenAgain(t *testing.T) {
	d, err := New(Options{})
	require.NoError(t, err)
	opened, err := d.Open(0)
	require.NoError(t, err)
	address, err := opened.Allocate(driver.Plain, 256)
	require.NoError(t, err)
	a := opened.(*device).arena
	used := a.used.Load()
	assert.Panics(t, func() { a.begin(a.find(address), 256, 256) }, "a live block")
	a.used.Store(used)
	other := &block{address: address, slot: 256, arena: a}
	assert.Panics(t, func() { a.begin(other, 256, 256) }, "another one at its address")
	a.used.Store(used)
	require.NoError(t, opened.Free(driver.Plain, address))
	d.Close()
}
