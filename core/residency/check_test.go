package residency

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/memory"
	"libmmsb/native"
)

// What is known by record of pages that are none must be seen. What a page's record can say is tested in core/page and gpu/pages.
func TestCheckSeesDamage(t *testing.T) {
	require.Zero(t, native.Start())
	require.Zero(t, native.OpenLeaf(0))
	const bare, live = 77, 78 // a record of no page, and one of a page
	native.RecordAt(live).StoreState(native.State(native.KindPage, 1, 0))
	defer native.RecordAt(live).StoreState(0)
	for text, damage := range map[string]func(r *Residency){
		"has a host copy":     func(r *Residency) { r.copies.put(bare, hostCopy{version: 1}) },
		"waits in a snapshot": func(r *Residency) { r.waiting.put(bare, NewSource(nil)) },
		"that counts 0 users": func(r *Residency) {
			r.waiting.put(live, &Source{})
		},
	} {
		r := New(memory.New(memory.Options{}), NoDevices{}, Options{})
		require.NoError(t, r.Check())
		damage(r)
		assert.ErrorContains(t, r.Check(), text)
	}
}
