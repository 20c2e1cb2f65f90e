package pages

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// Damage to where pages on devices lie must be seen. Each is undone, so that the context can end.
func TestCheckSeesDamageOnDevices(t *testing.T) {
	on(t, func(w *world) {
		a, b := w.create(abi.LocationGPU, 0, 4096), w.create(abi.LocationGPU, 0, 4096)
		at := func(handle uint64) *native.Record { return native.RecordAt(native.Index(handle)) }
		side := func(handle uint64) *native.Side { return native.SideAt(at(handle).Side) }
		w.check()
		for text, field := range map[string]*uint64{
			"without a host copy": &at(a).Locator,
			"overlaps":            &side(a).BackingAt,
		} {
			old := *field
			*field = side(b).BackingAt + 1
			err := page.Use(w.context, (*page.Context).Check)
			*field = old
			assert.Equal(t, status.Internal, status.CodeOf(err), text)
			assert.ErrorContains(t, err, text)
			w.check()
		}
		require.Zero(t, nativetest.Destroy(a))
		require.Zero(t, nativetest.Destroy(b))
	})
}
