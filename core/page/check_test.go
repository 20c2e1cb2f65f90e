package page

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Each kind of damage must be seen: a walk that sees nothing proves nothing. Each is undone, so that the context can end.
func TestCheckSeesDamage(t *testing.T) {
	options := defaults()
	options.DiskPath = t.TempDir()
	withContext(t, options, func(_ uint64, c *Context) {
		host, chosen := create(t, c, 100, 0), create(t, c, 100, 17)
		a, b := create(t, c, 4096, 0), create(t, c, 4096, 0)
		for _, page := range []uint64{a, b} {
			require.NoError(t, Migrate(page, abi.LocationDisk, 0))
		}
		require.NoError(t, SetMetadata(chosen, []byte("key"), []byte("value")))
		require.NoError(t, c.Check())
		at := func(page uint64) *native.Record { return native.RecordAt(native.Index(page)) }
		side := func(page uint64) *native.Side { return native.SideAt(at(page).Side) }

		for text, damage := range map[string]func() (undo func()){
			"overlaps":               func() func() { return damaged(&side(a).BackingAt, side(b).BackingAt) },
			"lacks space":            func() func() { return damaged(&side(a).BackingAt, 1<<40) },
			"pages have 12288":       func() func() { return lengthen(side(a), side(b)) },
			"has backing of 0 bytes": func() func() { return damaged(&side(a).BackingLength, 0) },
			"is resident, but has":   func() func() { return damaged(&at(a).State, at(a).State&^native.Nonresident) },
			"is locked":              func() func() { return damaged(&at(host).State, at(host).State|native.OwnerLibrary) },
			"are counted": func() func() {
				return damaged(&at(host).State, native.State(native.StateFrame, 1, at(host).State&native.ClassMask))
			},
			"the change mask of": func() func() { return damaged(&at(host).MaskFrame, native.Index(chosen)) },
			"the metadata of":    func() func() { return damaged(&side(chosen).MetadataFrame, native.Index(host)) },
			"whose record has":   func() func() { c.ids.explicit.Put(18, host); return func() { c.ids.explicit.Remove(18) } },
			"which has id 17":    func() func() { c.ids.explicit.Put(18, chosen); return func() { c.ids.explicit.Remove(18) } },
			"ids are known":      func() func() { c.ids.explicit.Remove(17); return func() { c.ids.explicit.Put(17, chosen) } },
			"marks wait":         func() func() { return damaged(&c.ids.waits, c.ids.waits+1) },
			"same memory":        func() func() { return damaged(&at(host).Locator, at(chosen).Locator) },
		} {
			undo := damage()
			err := c.Check()
			undo()
			assert.Equal(t, status.Internal, status.CodeOf(err), text)
			assert.ErrorContains(t, err, text)
			require.NoError(t, c.Check(), text)
		}
	})
}

// damaged changes a value; undo gives it the old one.
func damaged[T any](at *T, value T) (undo func()) {
	old := *at
	*at = value
	return func() { *at = old }
}

// lengthen makes the backing that lies last in the file twice as long.
func lengthen(a, b *native.Side) (undo func()) {
	if a.BackingAt < b.BackingAt {
		a = b
	}
	return damaged(&a.BackingLength, 2*a.BackingLength)
}
