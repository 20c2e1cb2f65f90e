package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Each kind of damage must be seen: a walk that sees nothing proves nothing. Each is undone, so that the driver can end.
func TestCheckSeesDamage(t *testing.T) {
	d, err := New(Options{})
	require.NoError(t, err)
	opened, err := d.Open(0)
	require.NoError(t, err)
	a := opened.(*device).arena
	blocks := make(map[uint64]*block)
	for _, bytes := range []uint64{256, 512, 1 << 20, 2 << 20} {
		address, err := opened.Allocate(driver.Plain, bytes)
		require.NoError(t, err)
		blocks[bytes] = a.find(address)
	}
	freed, err := opened.Allocate(driver.Plain, 256)
	require.NoError(t, err)
	require.NoError(t, opened.Free(driver.Plain, freed))
	require.NoError(t, a.check())

	for text, damage := range map[string]func() (undo func()){
		"are used, blocks have": func() func() { a.used.Add(1); return func() { a.used.Add(^uint64(0)) } },
		"leads to a block of 256 bytes": func() func() {
			return damaged(&blocks[256].address, blocks[256].address+256)
		},
		"two blocks have": func() func() {
			b := blocks[1<<20]
			return damaged(&b.slot, b.slot+uint64(blocks[2<<20].address-b.address))
		},
		"a charge of 1":    func() func() { return damaged(&blocks[512].charge, 1) },
		"free twice: true": func() func() { b := a.small[0].youngest; return damaged(&b.older, b) },
		"in state 1; free": func() func() { return damaged(&a.small[0].youngest, blocks[256]) },
	} {
		undo := damage()
		err := a.check()
		undo()
		assert.Equal(t, status.Internal, status.CodeOf(err), text)
		assert.ErrorContains(t, err, text)
		require.NoError(t, a.check(), text)
	}
	for bytes, b := range blocks {
		require.NoError(t, opened.Free(driver.Plain, b.address), bytes)
	}
	d.Close()
}

// damaged changes a value; undo gives it the old one.
func damaged[T any](at *T, value T) (undo func()) {
	old := *at
	*at = value
	return func() { *at = old }
}
