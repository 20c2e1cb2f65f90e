package page

import (
	"bytes"
	"fmt"
	"testing"

	"libmmsb/core/abi"
	"libmmsb/core/lasterror"
	"libmmsb/core/memory"
	"libmmsb/core/status"
	"libmmsb/native"
	"libmmsb/native/nativetest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each bug that tests/mutations plants must make one of these fail. tests/c/guard_test.c says what programs see.

func withGuard(t *testing.T, every, quarantine uint64, test func(h uint64, c *Context)) {
	t.Helper()
	options := defaults()
	options.GuardEvery, options.GuardQuarantine = every, quarantine
	withContext(t, options, func(h uint64, c *Context) {
		test(h, c)
		oldest, count, err := c.CheckGuard()
		require.NoError(t, err)
		require.Zero(t, count, "%v", oldest)
	})
}

// around is memory around a page's bytes, as a program reaches it through a pointer. Its first byte is the one at -before.
func around(page, before, behind uint64) []byte {
	record := native.RecordAt(native.Index(page))
	return native.Memory(native.Address(record.Locator)-uintptr(before), before+record.Size+behind)
}

func destroy(t *testing.T, page uint64) {
	t.Helper()
	require.NoError(t, lasterror.Load(nativetest.Destroy(page)))
}

// requireFound requires that one report waits, and takes it.
func requireFound(t *testing.T, c *Context, expected memory.Report) {
	t.Helper()
	oldest, count := c.memory.TakeReport()
	require.Equal(t, 1, count)
	require.Equal(t, expected, oldest)
}

func requireNothingFound(t *testing.T, c *Context) {
	t.Helper()
	oldest, count := c.memory.TakeReport()
	require.Zero(t, count, "%v", oldest)
}

// untilChecked are the ways of a page to where its canaries are looked at.
var untilChecked = map[string]func(t *testing.T, c *Context, page uint64){
	"end":     func(t *testing.T, _ *Context, page uint64) { destroy(t, page) },
	"resize":  func(t *testing.T, _ *Context, page uint64) { require.NoError(t, Resize(page, 77)) },
	"migrate": func(t *testing.T, _ *Context, page uint64) { require.NoError(t, Migrate(page, abi.LocationDisk, 0)) },
	"migrate many": func(t *testing.T, _ *Context, page uint64) {
		_, err := MigrateMany([]uint64{page}, abi.LocationDisk, 0, nil, nil)
		require.NoError(t, err)
	},
	"release": func(t *testing.T, _ *Context, page uint64) {
		address, _, err := Release(page)
		require.NoError(t, err)
		require.NoError(t, FreeReleased(address))
	},
	"check of everything": func(_ *testing.T, c *Context, _ uint64) { c.checkGuarded() },
}

func TestGuardFindsWritesPastAPagesEnds(t *testing.T) {
	for way, goes := range untilChecked {
		for _, size := range []uint64{1, 64, 200, 256, 4000, 4096, 70000, 2 << 20} {
			t.Run(fmt.Sprint(way, " ", size), func(t *testing.T) {
				withGuard(t, 1, 0, func(_ uint64, c *Context) {
					page := create(t, c, size, 5)
					around(page, 2, 0)[0] = 1
					goes(t, c, page)
					requireFound(t, c, memory.Report{
						Page: 5, Side: native.GuardBefore, Size: size, Offset: -2, Bytes: 1, Expected: 0xc5, Found: 1,
					})
					page = create(t, c, size, 0)
					id := IDOf(native.Index(page))
					around(page, 0, 40)[size] = 2
					around(page, 0, 40)[size+39] = 3
					goes(t, c, page)
					requireFound(t, c, memory.Report{
						Page: id, Side: native.GuardBehind, Size: size, Offset: int64(size), Bytes: 40, Expected: 0xc5, Found: 2,
					})
				})
			})
		}
	}
}

func TestGuardFindsWritesIntoMemoryThatAPageHasLeft(t *testing.T) {
	const size = 200
	for name, leave := range map[string]func(t *testing.T, c *Context, page uint64){
		"quarantine is full": func(t *testing.T, c *Context, _ uint64) {
			pages := make([]uint64, 10)
			for i := range pages {
				pages[i] = create(t, c, size, 0)
			}
			for _, page := range pages {
				destroy(t, page)
			}
		},
		"trim":                func(_ *testing.T, c *Context, _ uint64) { c.Trim() },
		"check of everything": func(_ *testing.T, c *Context, _ uint64) { c.checkGuarded() },
	} {
		t.Run(name, func(t *testing.T) {
			withGuard(t, 1, 4*512, func(_ uint64, c *Context) {
				page := create(t, c, size, 5)
				left := around(page, 0, 0)
				destroy(t, page)
				assert.Equal(t, bytes.Repeat([]byte{0xdd}, size), left)
				left[7] = 9
				leave(t, c, page)
				expected := memory.Report{
					Page: 5, Side: native.GuardEnded, Size: size, Offset: 7, Bytes: 1, Expected: 0xdd, Found: 9,
				}
				requireFound(t, c, expected)
				leave(t, c, page)
				requireNothingFound(t, c) // once

				page = create(t, c, size, 5)
				left = around(page, 0, 0)
				require.NoError(t, Migrate(page, abi.LocationDisk, 0))
				left[7] = 9
				leave(t, c, page)
				expected.Side = native.GuardLeft
				requireFound(t, c, expected)
			})
		})
	}
}

func TestGuardHoldsBackAsMuchAsItMay(t *testing.T) {
	withGuard(t, 1, 10000, func(_ uint64, c *Context) {
		first := create(t, c, 100, 0)
		left := around(first, 0, 0)
		destroy(t, first)
		for range 1000 {
			destroy(t, create(t, c, 100, 0))
			assert.LessOrEqual(t, c.memory.GuardBytes(), uint64(10000))
		}
		assert.Greater(t, c.memory.GuardBytes(), uint64(9000))
		left[0] = 1 // it was taken again, and nobody watches it
		destroy(t, create(t, c, 1<<20, 0))
		assert.Zero(t, c.memory.GuardBytes()) // what is larger than the quarantine pushes all others out
	})
}

func TestGuardFillsMemoryThatIsHandedOut(t *testing.T) {
	withGuard(t, 1, 0, func(_ uint64, c *Context) {
		for _, size := range []uint64{1, 300, 4096, 70000, 2 << 20} {
			page := create(t, c, size, 0)
			assert.Equal(t, make([]byte, size), content(t, page))
			destroy(t, page)
			options := plain
			options.Uninitialised = true
			page, err := c.Create(size, options)
			require.NoError(t, err)
			assert.Equal(t, bytes.Repeat([]byte{0xaa}, int(size)), content(t, page))
			destroy(t, page)
		}
	})
}

func TestGuardTakesEveryNthPage(t *testing.T) {
	guarded := func(page uint64) bool {
		return native.Class(native.RecordAt(native.Index(page)).LoadState()) == native.ClassGuarded
	}
	for _, every := range []uint64{0, 1, 3, 50} {
		options := defaults()
		options.GuardEvery = every
		withContext(t, options, func(h uint64, c *Context) {
			pages := make([]uint64, 1000)
			for i := range uint64(500) {
				pages[i] = create(t, c, 1+i*50, 0)
				assert.Equal(t, every != 0 && i%every == 0, guarded(pages[i]))
			}
			require.NoError(t, CreateMany(h, 100, plain, pages[500:], nil))
			count := uint64(0)
			for _, page := range pages {
				if guarded(page) {
					count++
				}
			}
			if every != 0 {
				count *= every
			}
			assert.InDelta(t, map[bool]int{true: 1000}[every != 0], count, float64(every))
		})
	}
}

func TestGuardTellsEachReportOnce(t *testing.T) {
	withGuard(t, 1, 0, func(_ uint64, c *Context) {
		for round := range uint64(3) {
			for id := range uint64(3) {
				page := create(t, c, 100, 10*round+id+1)
				around(page, 0, 1)[100] = 1
				defer destroy(t, page)
			}
			assert.False(t, c.memory.ReportWaits())
			c.checkGuarded()
			for id := range uint64(3) {
				_, err := c.Create(1, plain)
				require.Equal(t, status.Guard, status.CodeOf(err))
				assert.ErrorContains(t, err, fmt.Sprintf("page %d of 100 bytes", 10*round+id+1))
			}
			assert.False(t, nativetest.Watched())
			destroy(t, create(t, c, 1, 0))
			assert.Equal(t, 3*(round+1), c.memory.Reports())
		}
	})
}

func TestGuardTellsNativeCallsThatChangePages(t *testing.T) {
	withGuard(t, 2, 0, func(h uint64, c *Context) { // every other page is native code's alone
		victim, page := create(t, c, 100, 0), create(t, c, 100, 0)
		for name, change := range map[string]func() int32{
			"write":  func() int32 { return nativetest.WritePage(page, 0, []byte{1}) },
			"writes": func() int32 { return nativetest.WritePages([]uint64{page}, []uint64{0}, []uint64{1}, []byte{1}) },
			"runs":   func() int32 { return nativetest.ApplyRuns([]uint64{page}, []uint64{0}, 1, []byte{1}) },
			"create": func() int32 {
				_, err := c.Create(10, plain)
				return int32(status.CodeOf(err))
			},
			"pin": func() int32 {
				_, code := nativetest.PinPage(page, true)
				if code == 0 {
					code = nativetest.UnpinPage(page, true)
				}
				return code
			},
		} {
			around(victim, 0, 1)[100] = 1
			c.checkGuarded()
			version := native.RecordAt(native.Index(page)).Version
			assert.Equal(t, int32(status.Guard), change(), name)
			assert.Equal(t, version, native.RecordAt(native.Index(page)).Version, name)
			assert.Zero(t, change(), name)
		}
	})
}

func TestGuardEndsWithItsContext(t *testing.T) {
	for range 3 { // of which the next ones have the same index
		options := defaults()
		options.GuardEvery = 1
		h, err := NewContext(options)
		require.NoError(t, err)
		require.NoError(t, Use(h, func(c *Context) error {
			around(create(t, c, 10, 7), 1, 0)[0] = 0
			around(create(t, c, 10, 8), 1, 0)[0] = 0
			return nil
		}))
		err = Destroy(h)
		require.Equal(t, status.Guard, status.CodeOf(err))
		require.ErrorContains(t, err, "page 7 of 10 bytes was written before its beginning")
		require.False(t, nativetest.Watched())
		withContext(t, defaults(), func(_ uint64, c *Context) {
			_, _, err := c.CheckGuard()
			assert.Equal(t, status.InvalidState, status.CodeOf(err))
			require.Zero(t, nativetest.WritePage(create(t, c, 10, 0), 0, []byte{1}))
		})
	}
}
