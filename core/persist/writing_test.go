package persist

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

var writtenSizes = []uint64{64, 4096, 300_000, 1 << 20}

// countUp adds one to the first and the last word of some memory, with a moment between.
func countUp(bytes []byte) {
	for _, word := range [][]byte{bytes[:8], bytes[len(bytes)-8:]} {
		binary.LittleEndian.PutUint64(word, binary.LittleEndian.Uint64(word)+1)
		runtime.Gosched()
	}
}

// TestRawWritersThatAreWaitedFor counts words of several pages up together, through pins or in sections: each save has all equal.
func TestRawWritersThatAreWaitedFor(t *testing.T) {
	for _, adopted := range []bool{false, true} {
		t.Run(fmt.Sprint("adopted ", adopted), func(t *testing.T) {
			context := newContext(t)
			handles := make([]uint64, len(writtenSizes))
			memory := make([][]byte, len(writtenSizes))
			for i, size := range writtenSizes {
				if adopted {
					handles[i], memory[i] = adoptMapping(t, context, uint64(i+1), size)
				} else {
					handles[i] = createFilled(t, context, size, uint64(i+1), 0)
				}
			}
			var stop atomic.Bool
			var together sync.Mutex
			var writers sync.WaitGroup
			for range 3 {
				writers.Add(1)
				go func() {
					defer writers.Done()
					runtime.LockOSThread()
					for !stop.Load() {
						writeRaw(t, context, handles, memory, adopted, &together)
					}
				}()
			}
			folder, base := t.TempDir(), ""
			for turn := range 15 {
				path := filepath.Join(folder, []string{"a", "b"}[turn%2])
				o := SaveOptions{RawWrites: abi.RawWritesWait, NotDurable: true, Base: base}
				if turn%3 == 0 {
					o.Base = ""
				}
				require.NoError(t, Save(context, ToPath(path), o, nil))
				base = path
				requireEqualWords(t, contents(t, load(t, path)))
			}
			stop.Store(true)
			writers.Wait()
			require.NoError(t, Save(context, ToPath(filepath.Join(folder, "last")),
				SaveOptions{RawWrites: abi.RawWritesWait, Base: base}, nil))
			require.Equal(t, contents(t, context), contents(t, load(t, filepath.Join(folder, "last"))))
			require.NoError(t, page.Destroy(context)) // before the memory goes
			runtime.KeepAlive(memory)
		})
	}
}

func writeRaw(t *testing.T, context uint64, handles []uint64, memory [][]byte, adopted bool, together *sync.Mutex) {
	if adopted {
		assert.Zero(t, nativetest.BeginWriting(context))
		together.Lock()
		for _, bytes := range memory {
			countUp(bytes)
		}
		together.Unlock()
		assert.Zero(t, nativetest.EndWriting(context))
		return
	}
	pinned := make([][]byte, len(handles))
	for i, handle := range handles {
		address, code := nativetest.PinPage(handle, true)
		assert.Zero(t, code)
		pinned[i] = native.Memory(address, writtenSizes[i])
	}
	together.Lock()
	for _, bytes := range pinned {
		countUp(bytes)
	}
	together.Unlock()
	for _, handle := range handles {
		assert.Zero(t, nativetest.UnpinPage(handle, true))
	}
}

func requireEqualWords(t *testing.T, saved map[uint64][]byte) {
	t.Helper()
	words := make(map[uint64]struct{})
	for _, bytes := range saved {
		words[binary.LittleEndian.Uint64(bytes)] = struct{}{}
		words[binary.LittleEndian.Uint64(bytes[len(bytes)-8:])] = struct{}{}
	}
	require.Len(t, words, 1)
}

// Work that is queued comes in the order of the calls that started it, and what is cancelled meanwhile never comes.
func TestSavesQueueInTheirOrder(t *testing.T) {
	context := newContext(t)
	createFilled(t, context, 100, 1, 1)
	folder := t.TempDir()
	begin := make(chan struct{})
	var order []int
	require.NoError(t, use(context, func(s *state) error {
		s.busy <- struct{}{}
		return nil
	}))
	tickets := make([]*ticket.Ticket, 100)
	for i := range tickets {
		turn, err := TakeTurn(context, true)
		require.NoError(t, err)
		tickets[i] = ticket.StartThen(0, nil, func(w *ticket.Work) error {
			if i%10 == 3 { // it does not come that far
				return nil
			}
			return useQueued(context, turn, w, func(*state) error {
				<-begin
				order = append(order, i)
				return nil
			})
		}, turn.Leave)
	}
	require.Equal(t, status.Busy, status.CodeOf(Save(context, ToPath(filepath.Join(folder, "s")), SaveOptions{}, nil)))
	tickets[2].Cancel()
	require.Equal(t, status.Cancelled, status.CodeOf(tickets[2].Wait(ticket.Forever)))
	close(begin)
	require.NoError(t, use(context, func(s *state) error {
		<-s.busy
		return nil
	}))
	var want []int
	for i, each := range tickets {
		if i != 2 {
			require.NoError(t, each.Wait(ticket.Forever))
		}
		if i != 2 && i%10 != 3 {
			want = append(want, i)
		}
		each.Close()
	}
	require.Equal(t, want, order)
}

// What is started without a queue runs from the call on that starts it, whether its work comes that far or not.
func TestWhatIsStartedIsNotOvertaken(t *testing.T) {
	context := newContext(t)
	createFilled(t, context, 100, 1, 1)
	target := ToPath(filepath.Join(t.TempDir(), "s"))
	turn, err := TakeTurn(context, false)
	require.NoError(t, err)
	require.Equal(t, status.Busy, code(Save(context, target, SaveOptions{}, nil)))
	none, err := TakeTurn(context, false)
	require.NoError(t, err)
	require.Nil(t, none)
	require.NoError(t, Save(context, target, SaveOptions{Turn: turn}, nil))
	turn.Leave()
	none.Leave()
	for _, queue := range []bool{false, true} {
		turn, err = TakeTurn(context, queue)
		require.NoError(t, err)
		require.Equal(t, status.Busy, code(Save(context, target, SaveOptions{}, nil)))
		turn.Leave()
		require.NoError(t, Save(context, target, SaveOptions{}, nil))
	}
}

// A save that tries waits for no writer, and one with a time-out only until then.
func TestASaveDoesNotWaitForWritersLongerThanItMay(t *testing.T) {
	context := newContext(t)
	createFilled(t, context, 100, 1, 1)
	begun, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		assert.Zero(t, nativetest.BeginWriting(context))
		close(begun)
		<-leave
		assert.Zero(t, nativetest.EndWriting(context))
		close(left)
	}()
	<-begun
	target, o := ToPath(filepath.Join(t.TempDir(), "s")), SaveOptions{RawWrites: abi.RawWritesWait}
	require.Equal(t, status.WouldBlock, code(SaveWithin(context, target, o, 0)))
	require.Equal(t, status.Timeout, code(SaveWithin(context, target, o, 1e6)))
	close(leave)
	<-left
	require.NoError(t, SaveWithin(context, target, o, 0))
}
