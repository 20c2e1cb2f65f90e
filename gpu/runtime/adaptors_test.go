package runtime

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// stacks are adaptors in several orders; each must behave as the bare runtime does.
var stacks = map[string]func() []Adaptor{
	"bare":       func() []Adaptor { return nil },
	"budget":     func() []Adaptor { return []Adaptor{NewBudget(NewLedger(1 << 20))} },
	"statistics": func() []Adaptor { return []Adaptor{&Statistics{}} },
	"log":        func() []Adaptor { return []Adaptor{NewLog(16)} },
	"guard":      func() []Adaptor { return []Adaptor{NewGuard(GuardOptions{})} },
	"quarantine": func() []Adaptor { return []Adaptor{NewGuard(GuardOptions{Quarantine: 8192})} },
	"sampled":    func() []Adaptor { return []Adaptor{NewGuard(GuardOptions{Every: 3, Quarantine: 8192})} },
	"failure":    func() []Adaptor { return []Adaptor{NewFailure(2, func(Request, int, error) bool { return true })} },
	"all": func() []Adaptor {
		return []Adaptor{NewLog(16), NewGuard(GuardOptions{Quarantine: 4096}), &Statistics{}, NewBudget(NewLedger(1 << 20)),
			NewFailure(1, func(Request, int, error) bool { return false })}
	},
	"turned round": func() []Adaptor {
		return []Adaptor{NewFailure(1, func(Request, int, error) bool { return false }), NewBudget(NewLedger(1 << 20)),
			&Statistics{},
			NewGuard(GuardOptions{Quarantine: 4096, Every: 2}), NewLog(16)}
	},
	"log within budget within log": func() []Adaptor { return []Adaptor{NewLog(4), NewBudget(NewLedger(1 << 20)), NewLog(4)} },
}

// overPools are the stacks over the device's memory, and over a pool.
func overPools(t *testing.T, test func(t *testing.T, options func() Options)) {
	for name, adaptors := range stacks {
		t.Run(name, func(t *testing.T) { test(t, func() Options { return Options{Adaptors: adaptors()} }) })
		t.Run(name+" over a pool", func(t *testing.T) {
			test(t, func() Options { return Options{Adaptors: adaptors(), Pool: &pool.Options{}} })
		})
		t.Run(name+" over whole segments", func(t *testing.T) {
			test(t, func() Options { return Options{Adaptors: adaptors(), Pool: &pool.Options{Origin: pool.Plain}} })
		})
	}
}

// stackMemory is enough for a pool's pages, too.
const stackMemory = 16 << 20

// TestEveryStackBehavesAlike runs the same random programs over each stack: every call is answered alike, order holds, and
// nothing is left.
func TestEveryStackBehavesAlike(t *testing.T) {
	overPools(t, func(t *testing.T, options func() Options) {
		for seed := range uint64(20) {
			d, err := sim.New(sim.Options{Memory: stackMemory, Scheduler: sim.Seeded, Seed: seed + 1})
			require.NoError(t, err)
			of := options()
			stack := of.Adaptors
			w, err := newWorldOf(d, 4, of)
			require.NoError(t, err)
			for i := range uint64(10) {
				require.NoError(t, randomProgram(w, rand.New(rand.NewPCG(seed, i)), 30), "seed %d", seed)
			}
			require.NoError(t, w.end())
			for _, adaptor := range stack {
				switch a := adaptor.(type) {
				case *Budget:
					require.Zero(t, a.State().Charged)
				case *Statistics:
					require.Zero(t, a.All().Live)
					require.Zero(t, a.All().Blocks)
					require.NotZero(t, a.All().Ever)
				case *Guard:
					_, found := a.Reports()
					require.Zero(t, found)
				}
			}
			require.NoError(t, d.Problems())
			d.Close()
		}
	})
}

// However a layer fails, those above and below it agree on what is charged.
func TestEveryStackKeepsItsBooksWhenCallsFail(t *testing.T) {
	overPools(t, func(t *testing.T, options func() Options) {
		for _, call := range []sim.Call{sim.AllocateOrdered, sim.FreeOrdered, sim.Fill, sim.Copy, sim.Allocate} {
			for after := range 8 {
				d, err := sim.New(sim.Options{Memory: stackMemory})
				require.NoError(t, err)
				of := options()
				stack := of.Adaptors
				w, err := newWorldOf(d, 1, of)
				require.NoError(t, err)
				require.NoError(t, d.Inject(sim.Fault{Call: call, After: after}))
				var live []uint64
				for range 12 {
					if handle, _, err := w.allocate(0, 512); err == nil {
						live = append(live, handle)
					}
					if len(live) > 2 {
						if _, err := freeBlock(live[0], nil); err == nil {
							live = live[1:]
						}
					}
					w.runtime.Reap()
				}
				for _, handle := range live {
					_, err := freeBlock(handle, nil)
					if err != nil {
						_, err = freeBlock(handle, nil)
					}
					require.NoError(t, err)
				}
				require.NoError(t, w.end(), "%v, call %d", call, after)
				for _, adaptor := range stack {
					if budget, ok := adaptor.(*Budget); ok {
						require.Zero(t, budget.State().Charged, "%v, call %d", call, after)
					}
				}
				require.NoError(t, d.Problems())
				d.Close()
			}
		}
	})
}

func TestEveryStackOutlivesItsDevice(t *testing.T) {
	overPools(t, func(t *testing.T, options func() Options) {
		d, err := sim.New(sim.Options{Memory: stackMemory})
		require.NoError(t, err)
		defer d.Close()
		of := options()
		stack := of.Adaptors
		w, err := newWorldOf(d, 2, of)
		require.NoError(t, err)
		faults := []sim.Fault{{Call: sim.AllocateOrdered, After: 20}, {Call: sim.Map}} // the second one is a pool's
		if of.Pool != nil && of.Pool.Origin.Whole() {
			faults = []sim.Fault{{Call: sim.Allocate}}
		}
		for _, fault := range faults {
			fault.Effect = sim.Lose
			require.NoError(t, d.Inject(fault))
		}
		var live []uint64
		for i := range 30 {
			if handle, _, err := w.allocate(i%2, 512); err == nil {
				live = append(live, handle)
			}
			if i%3 == 0 && len(live) > 0 {
				_, err := freeBlock(live[0], nil)
				require.NoError(t, err)
				live = live[1:]
			}
		}
		for _, handle := range live {
			_, err := freeBlock(handle, nil)
			require.NoError(t, err)
		}
		_, _ = w.runtime.Close()
		require.Zero(t, w.runtime.Usage().Outstanding)
		for _, adaptor := range stack {
			switch a := adaptor.(type) {
			case *Budget:
				require.Zero(t, a.State().Charged)
			case *Statistics:
				require.Zero(t, a.All().Live)
			case *Guard:
				_, found := a.Reports()
				require.Zero(t, found)
			}
		}
	})
}

func TestStatisticsCountByTag(t *testing.T) {
	statistics := &Statistics{}
	w := newWorld(t, sim.Options{}, 1, statistics)
	cache, err := TagOf("cache")
	require.NoError(t, err)
	same, err := TagOf("cache")
	require.NoError(t, err)
	require.Equal(t, cache, same)
	a, _, err := w.runtime.Allocate(Request{Bytes: 1000, Stream: w.streams[0], Tag: cache})
	require.NoError(t, err)
	b, _, err := w.allocate(0, 500)
	require.NoError(t, err)
	require.NoError(t, w.driver.Inject(sim.Fault{Call: sim.AllocateOrdered}))
	_, _, err = w.runtime.Allocate(Request{Bytes: 7, Stream: w.streams[0], Tag: cache})
	requireCode(t, status.OutOfMemory, err)
	require.Equal(t, Tally{Live: 1000, Peak: 1000, Total: 1000, Blocks: 1, Ever: 1, Failed: 1}, statistics.OfTag(cache))
	require.Equal(t, Tally{Live: 1500, Peak: 1500, Total: 1500, Blocks: 2, Ever: 2, Failed: 1}, statistics.All())
	for _, handle := range []uint64{a, b} {
		_, err := freeBlock(handle, nil)
		require.NoError(t, err)
	}
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.Equal(t, Tally{Peak: 1500, Total: 1500, Ever: 2, Failed: 1}, statistics.All())
	_, err = TagOf(string(make([]byte, 65)))
	requireCode(t, status.InvalidArgument, err)
}

func TestTheLogKeepsTheLastEvents(t *testing.T) {
	log := NewLog(5)
	w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, 1, log)
	tag, err := TagOf("weights")
	require.NoError(t, err)
	handle, address, err := w.runtime.Allocate(Request{Bytes: 1024, Stream: w.streams[0], Tag: tag})
	require.NoError(t, err)
	require.NoError(t, w.driver.Inject(sim.Fault{Call: sim.AllocateOrdered}))
	_, _, err = w.allocate(0, 77)
	requireCode(t, status.OutOfMemory, err)
	_, err = freeBlock(handle, nil)
	require.NoError(t, err)
	w.driver.Finish()
	w.runtime.Reap()
	records := make([]LogRecord, 10)
	count, lost := log.Read(0, records)
	require.Equal(t, 4, count)
	require.Zero(t, lost)
	for i, want := range []LogRecord{
		{Action: LogAllocate, Address: address, Bytes: 1024, Tag: tag, Stream: w.streams[0].index, Native: w.streams[0].native},
		{Action: LogAllocateFailure, Bytes: 77, Code: status.OutOfMemory, Stream: w.streams[0].index,
			Native: w.streams[0].native},
		{Action: LogFree, Address: address, Bytes: 1024, Tag: tag, Stream: w.streams[0].index, Native: w.streams[0].native},
		{Action: LogReleased, Address: address, Bytes: 1024, Tag: tag},
	} {
		require.Equal(t, want.Action != LogReleased, records[i].Thread != 0)
		require.NotZero(t, records[i].Time)
		want.Number, want.Thread, want.Time = uint64(i+1), records[i].Thread, records[i].Time
		require.Equal(t, want, records[i])
	}
	count, _ = log.Read(3, records)
	require.Equal(t, 1, count)
	count, _ = log.Read(4, records)
	require.Zero(t, count)

	var out bytes.Buffer
	require.NoError(t, log.WriteCSV(&out))
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"Thread", "Time", "Action", "Pointer", "Size", "Stream"}, rows[0])
	require.Len(t, rows, 4)
	require.Equal(t, []string{"allocate", fmt.Sprintf("0x%x", uintptr(address)), "1024"}, rows[1][2:5])
	require.Equal(t, []string{"allocate failure", "0x0", "77"}, rows[2][2:5])
	require.Equal(t, "free", rows[3][2])
	require.Regexp(t, `^\d\d:\d\d:\d\d\.\d{6}$`, rows[1][1])
	stream, err := strconv.ParseUint(rows[1][5], 0, 64)
	require.NoError(t, err)
	require.EqualValues(t, w.streams[0].native, stream)

	for range 3 {
		handle, _, err := w.allocate(0, 1)
		require.NoError(t, err)
		_, err = freeBlock(handle, nil)
		require.NoError(t, err)
	}
	count, lost = log.Read(2, records)
	require.Equal(t, 5, count)
	require.EqualValues(t, 3, lost)
	require.EqualValues(t, 6, records[0].Number)
	w.driver.Finish()
}

func TestTheHookMayMakeRoom(t *testing.T) {
	var kept []uint64
	var attempts []int
	hook := func(request Request, attempt int, err error) bool {
		attempts = append(attempts, attempt)
		if len(kept) == 0 {
			return false
		}
		_, freeErr := freeBlock(kept[0], nil) // outside every lock
		kept = kept[1:]
		return freeErr == nil
	}
	failure := NewFailure(3, hook)
	w := newWorld(t, sim.Options{}, 1, NewBudget(NewLedger(1000)), failure)
	for range 4 {
		handle, _, err := w.allocate(0, 250)
		require.NoError(t, err)
		kept = append(kept, handle)
	}
	handle, _, err := w.allocate(0, 500)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, attempts)
	require.EqualValues(t, 2, failure.Calls())
	attempts = nil
	_, _, err = w.allocate(0, 1001)
	requireCode(t, status.Limit, err)
	require.Equal(t, []int{1, 2, 3}, attempts, "the third time nothing was left to free")
	require.EqualValues(t, 5, failure.Calls())
	_, _, err = w.allocate(0, 1001)
	requireCode(t, status.Limit, err)
	_, err = freeBlock(handle, nil)
	require.NoError(t, err)
}

func TestTheGuardFindsWhoWritesPastTheEnds(t *testing.T) {
	for _, c := range []struct {
		what   string
		offset int
	}{{"before the block", -1}, {"before the block", -256}, {"behind the block", 100}, {"behind the block", 355}} {
		guard := NewGuard(GuardOptions{})
		w := newWorld(t, sim.Options{Memory: 1 << 20}, 1, guard)
		handle, address, err := w.allocate(0, 100)
		require.NoError(t, err)
		require.NoError(t, w.device.Fill(w.streams[0].native, address+driver.Address(c.offset), 0x77, 1))
		_, err = freeBlock(handle, nil)
		require.NoError(t, err)
		require.NoError(t, w.device.Synchronize())
		w.runtime.Reap()
		reports, found := guard.Reports()
		require.EqualValues(t, 1, found)
		require.Equal(t, []GuardReport{{What: c.what, Address: address, Bytes: 100, Offset: int64(c.offset), Found: 0x77}},
			reports)
		require.Contains(t, reports[0].String(), c.what)
	}
}

// A write to freed memory, by address: the device's check is off, as on a real one.
func TestTheGuardFindsWhoWritesAfterTheFree(t *testing.T) {
	for _, late := range []bool{false, true} {
		guard := NewGuard(GuardOptions{Quarantine: 2048})
		w := newWorld(t, sim.Options{Unchecked: true}, 1, guard)
		handle, address, err := w.allocate(0, 100)
		require.NoError(t, err)
		_, err = freeBlock(handle, nil)
		require.NoError(t, err)
		if late {
			require.NoError(t, w.device.Fill(w.streams[0].native, address+40, 0x77, 1))
		}
		for range 20 { // until it comes out of quarantine
			handle, again, err := w.allocate(0, 100)
			require.NoError(t, err)
			if guard.held > 0 {
				require.NotEqual(t, address, again)
			}
			_, err = freeBlock(handle, nil)
			require.NoError(t, err)
			require.NoError(t, w.device.Synchronize())
			w.runtime.Reap()
			if guard.quarantine[0].user.Address != address {
				break
			}
		}
		require.NoError(t, w.end())
		reports, found := guard.Reports()
		if !late {
			require.Zero(t, found)
			continue
		}
		require.EqualValues(t, 1, found, "also where both ends of a short block are the same bytes")
		require.Equal(t, GuardReport{What: "after the free", Address: address, Bytes: 100, Offset: 40, Found: 0x77}, reports[0])
	}
}

func TestAnAdaptorServesOneRuntime(t *testing.T) {
	budget := NewBudget(NewLedger(1))
	w := newWorld(t, sim.Options{}, 1, budget)
	_, err := New(w.device, Options{Adaptors: []Adaptor{budget}})
	requireCode(t, status.InvalidState, err)
}

func TestADeviceWithoutOrderedMemoryIsRefused(t *testing.T) {
	d, err := sim.New(sim.Options{NoOrdered: true})
	require.NoError(t, err)
	defer d.Close()
	device, err := d.Open(0)
	require.NoError(t, err)
	_, err = New(device, Options{})
	requireCode(t, status.Unsupported, err)
}
