package persist

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/native/nativetest"
)

// A context that fills its limit, with small pages, large ones, masks and metadata, is restored in place.
func TestAFullContextIsRestoredInPlace(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const limit = 16 << 20
	full := func(context uint64) {
		for _, size := range []uint64{4 << 20, 300_000, 5000, 4096, 1000, 64} {
			for filled := uint64(0); ; filled += size {
				var handle uint64
				err := page.Use(context, func(c *page.Context) (err error) {
					handle, err = c.Create(size, page.CreateOptions{NUMANode: -1})
					return err
				})
				if status.CodeOf(err) == status.Limit || filled > 3<<20 {
					break
				}
				require.NoError(t, err)
				write(t, handle, 0, bytes.Repeat([]byte{byte(size), byte(filled), 3}, int(size)/3))
			}
		}
	}
	for _, way := range []string{"same", "other sizes"} {
		t.Run(way, func(t *testing.T) {
			context, err := page.NewContext(page.Options{MemoryLimit: limit, SimulatedDevices: 1})
			require.NoError(t, err)
			defer func() { _ = page.Destroy(context) }()
			full(context)
			path := filepath.Join(t.TempDir(), "state")
			require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
			before := contents(t, context)
			if way != "same" {
				require.NoError(t, page.Use(context, func(c *page.Context) error {
					var cursor uint64
					pages := make([]uint64, 1<<20)
					for n := c.Pages(&cursor, pages); n > 0; n = c.Pages(&cursor, pages) {
						for _, handle := range pages[:n] {
							require.Zero(t, nativetest.Destroy(handle))
						}
					}
					return nil
				}))
				for range 3 {
					createFilled(t, context, 5<<20, 0, 7)
				}
			}
			require.Equal(t, status.Limit, status.CodeOf(Load(context, FromPath(path), LoadOptions{}, nil)))
			require.NoError(t, Load(context, FromPath(path), LoadOptions{InPlace: true}, nil))
			require.Equal(t, before, contents(t, context))
			for range 3 {
				require.NoError(t, Load(context, FromPath(path), LoadOptions{InPlace: true}, nil))
			}
			require.Equal(t, before, contents(t, context))
		})
	}
}

// Damage is found before anything has changed.
func TestADamagedFileIsNotLoadedInPlace(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	context := newContext(t)
	createFilled(t, context, 1<<20, 1, 1)
	createFilled(t, context, 100, 2, 2)
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	createFilled(t, context, 50, 3, 3)
	before := contents(t, context)
	for at := 0; at < len(file); at += 1 + len(file)/50 {
		damaged := bytes.Clone(file)
		damaged[at] ^= 1
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		if err := Load(context, FromPath(path), LoadOptions{InPlace: true}, nil); err != nil {
			require.Equal(t, before, contents(t, context), "byte %d: %v", at, err)
		} else {
			require.Len(t, contents(t, context), 2, "byte %d is not part of the state", at)
			createFilled(t, context, 50, 3, 3)
		}
	}
}
