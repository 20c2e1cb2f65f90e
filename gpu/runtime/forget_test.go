package runtime

import (
	"os"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"libmmsb/gpu/sim"
)

// Records of blocks and uses are there for ever. What has ended must not stay with them.
func TestAnEndedRuntimeIsForgotten(t *testing.T) {
	driverOf := func() weak.Pointer[sim.Driver] {
		d, err := sim.New(sim.Options{})
		require.NoError(t, err)
		w, err := newWorldOn(d, 3)
		require.NoError(t, err)
		var open []uint64
		// Many more blocks than streams keep slots for: some wait in the table, some in streams.
		for i := range 4 * slotBatch {
			handle, address, err := w.allocate(i%3, 256)
			require.NoError(t, err)
			require.NoError(t, w.use(i%3, handle, address, 256, Write))
			require.NoError(t, w.use((i+1)%3, handle, address, 256, Read))
			require.NoError(t, w.use((i+2)%3, handle, address, 256, Read))
			use, _, err := BeginUse(w.streams[i%3], Use{Block: handle, Access: Read})
			require.NoError(t, err)
			if i%2 == 0 {
				deferred, err := freeBlock(handle, w.streams[(i+1)%3])
				require.NoError(t, err)
				require.True(t, deferred)
				require.NoError(t, EndUse(use))
			} else {
				open = append(open, use)
			}
			recorded, err := RecordUse(w.streams[0], false)
			require.NoError(t, err)
			require.Error(t, AddUse(use, Use{Block: handle, Access: Read})) // kept in the record of the use
			require.NoError(t, AbortUse(recorded))
		}
		leaks, err := w.runtime.Close()
		require.NoError(t, err)
		require.Len(t, leaks.Blocks, len(open))
		require.Equal(t, len(open), leaks.Uses)
		d.Close()
		return weak.Make(d)
	}
	left := driverOf()
	patience := time.Minute
	if bug := os.Getenv("MMSB_MUTANT"); bug != "" && bug != "0" { // then it may never come
		patience = 2 * time.Second
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return left.Value() == nil
	}, patience, 50*time.Millisecond, "something still points to the ended driver")
}
