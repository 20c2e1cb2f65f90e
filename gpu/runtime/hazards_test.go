package runtime

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
	"libmmsb/gpu/sim/simtest"
)

const blockBytes = 512

// lane is a thread of a program that uses one block on a stream of its own: each use is begun, queued and ended in three steps.
type lane struct {
	accesses []Access
	step     int
	use      uint64
	skipped  bool // the running use was refused
}

// laneProgram is two lanes, a step that frees the block, and the order in which they come. After the free the memory is taken
// again.
type laneProgram struct {
	lanes   [2][]Access
	order   []int // which lane has the next step
	freeAt  int   // the free comes before this step
	freeOn  int
	againOn int
	done    bool // the device has done everything whenever it is asked, or nothing
}

// run runs a program. What the runtime did not order, the simulated device reports.
func (p *laneProgram) run(w *world) error {
	handle, address, err := w.allocate(0, blockBytes)
	if err != nil {
		return err
	}
	lanes := [2]lane{{accesses: p.lanes[0]}, {accesses: p.lanes[1]}}
	freed := false
	free := func() error {
		freed = true
		if _, err := freeBlock(handle, w.streams[p.freeOn]); err != nil {
			return err
		}
		again, address, err := w.allocate(p.againOn, blockBytes)
		if err != nil {
			return err
		}
		if err := w.use(p.againOn, again, address, blockBytes, Write); err != nil {
			return err
		}
		_, err = freeBlock(again, nil)
		return err
	}
	for at, which := range p.order {
		if at == p.freeAt {
			if err := free(); err != nil {
				return err
			}
		}
		if err := lanes[which].next(w, which, handle, address, freed); err != nil {
			return err
		}
		if p.done && at%3 == 2 {
			w.driver.Finish()
			w.runtime.Reap()
		}
	}
	if !freed {
		if err := free(); err != nil {
			return err
		}
	}
	w.runtime.Reap()
	w.driver.Finish()
	w.runtime.Reap()
	if usage := w.runtime.Usage(); usage.Outstanding != 0 {
		return fmt.Errorf("%d bytes are outstanding, %d pending", usage.Outstanding, usage.Pending)
	}
	return nil
}

// next does a lane's next step.
func (l *lane) next(w *world, stream int, handle uint64, address driver.Address, freed bool) error {
	access := l.accesses[l.step/3]
	defer func() { l.step++ }()
	switch l.step % 3 {
	case 0:
		use, _, err := BeginUse(w.streams[stream], Use{Block: handle, Access: access})
		switch code := status.CodeOf(err); {
		case code == status.Busy || code == status.StaleHandle && freed:
			l.skipped = true
			return nil
		case err != nil:
			return err
		}
		l.use, l.skipped = use, false
	case 1:
		if !l.skipped {
			return w.work(stream, address, blockBytes, access)
		}
	case 2:
		if !l.skipped {
			return EndUse(l.use)
		}
	}
	return nil
}

// orders calls visit with every order of two lanes' steps.
func orders(first, second int, order []int, visit func(order []int) bool) bool {
	if first == 0 && second == 0 {
		return visit(order)
	}
	return (first == 0 || orders(first-1, second, append(order, 0), visit)) &&
		(second == 0 || orders(first, second-1, append(order, 1), visit))
}

// allPrograms calls visit with each program of two streams with two uses each: every combination of accesses, every order of the
// lanes' steps, the free at every place and on either stream, the memory taken again on either stream, the device done at once or
// late. every > 1 leaves out all but every how many-th.
func allPrograms(every int, visit func(p *laneProgram) bool) {
	accesses := []Access{Read, Write}
	count := 0
	for combination := range 16 {
		a := func(bit int) Access { return accesses[combination>>bit&1] }
		lanes := [2][]Access{{a(0), a(1)}, {a(2), a(3)}}
		goOn := orders(6, 6, nil, func(order []int) bool {
			for freeAt := 0; freeAt <= 12; freeAt++ {
				for variant := range 8 {
					if count++; count%every != 0 {
						continue
					}
					p := &laneProgram{lanes: lanes, order: order, freeAt: freeAt, freeOn: variant & 1, againOn: variant >> 1 & 1,
						done: variant>>2 == 1}
					if !visit(p) {
						return false
					}
				}
			}
			return true
		})
		if !goOn {
			return
		}
	}
}

// programsIn runs programs on one device, a new one now and then, until one is not in order. It returns how many ran.
func programsIn(every, most int) (programs int, err error) {
	var w *world
	end := func() error {
		if w == nil {
			return nil
		}
		if err := w.end(); err != nil {
			return err
		}
		err := w.driver.Problems()
		w.driver.Close()
		w = nil
		return err
	}
	allPrograms(every, func(p *laneProgram) bool {
		if w == nil {
			var d *sim.Driver
			if d, err = sim.New(sim.Options{Memory: 1 << 20, Scheduler: sim.Stepped}); err == nil {
				w, err = newWorldOn(d, 2)
			}
			if err != nil {
				return false
			}
		}
		programs++
		if err = p.run(w); err == nil {
			if violations, _ := w.driver.Violations(); len(violations) > 0 {
				err = fmt.Errorf("%v", violations[0])
			}
		}
		if err == nil && programs%1000 == 0 {
			err = end()
		}
		if err != nil {
			err = fmt.Errorf("program %+v: %w", *p, err)
		}
		return err == nil && programs < most
	})
	if err == nil {
		err = end()
	}
	return programs, err
}

// TestAllInterleavings is the hazard table of docs/devices.md, for two streams with two uses each, a free and the reuse of the
// memory. That no wait is missing does not depend on when the device does what: the check compares what was ordered, not what
// happened. `make simulate` runs all programs (MMSB_EVERY=1), without it every fifth of them runs.
func TestAllInterleavings(t *testing.T) {
	every := 5
	if raceDetector {
		every = 97
	}
	if text := os.Getenv("MMSB_EVERY"); text != "" {
		every, _ = strconv.Atoi(text)
	}
	programs, err := programsIn(every, 1<<30)
	require.NoError(t, err)
	t.Logf("report: %d programs, all in order", programs)
}

// TestEverySchedule runs programs in each order that the device may work in, as far as a program sees it: in what it reaps.
func TestEverySchedule(t *testing.T) {
	programs, schedules := 0, 0
	every := 40009
	if os.Getenv("MMSB_EVERY") != "" {
		every = 20011
	}
	if raceDetector {
		every *= 20
	}
	allPrograms(every, func(p *laneProgram) bool {
		p.done = false
		count, err := simtest.Explore(sim.Options{Memory: 1 << 20}, func(d *sim.Driver) error {
			w, err := newWorldOn(d, 2)
			if err != nil {
				return err
			}
			if err := p.run(w); err != nil {
				return err
			}
			return w.end()
		})
		programs, schedules = programs+1, schedules+count
		require.NoError(t, err, "%+v", *p)
		return true
	})
	t.Logf("report: %d programs in %d schedules, all in order", programs, schedules)
}

// randomProgram is a program of 8 streams and several blocks in one thread of control, with uses that overlap.
func randomProgram(w *world, random *rand.Rand, steps int) error {
	type live struct {
		handle  uint64
		address driver.Address
		bytes   uint64
	}
	type open struct {
		use    uint64
		stream int
		uses   []Use
		at     []live
	}
	var blocks []live
	var uses []open
	finish := func(i int) error {
		o := uses[i]
		for j, use := range o.uses {
			if err := w.work(o.stream, o.at[j].address, o.at[j].bytes, use.Access); err != nil {
				return err
			}
		}
		uses = append(uses[:i], uses[i+1:]...)
		return EndUse(o.use)
	}
	for range steps {
		switch random.IntN(8) {
		case 0, 1:
			bytes := uint64(256 << random.IntN(2))
			handle, address, err := w.allocate(random.IntN(len(w.streams)), bytes)
			if err != nil {
				return err
			}
			blocks = append(blocks, live{handle, address, bytes})
		case 2, 3, 4:
			if len(blocks) == 0 || len(uses) > 4 {
				continue
			}
			o := open{stream: random.IntN(len(w.streams))}
			for range 1 + random.IntN(2) {
				b := blocks[random.IntN(len(blocks))]
				o.uses, o.at = append(o.uses, Use{Block: b.handle, Access: Access(1 + random.IntN(3))}), append(o.at, b)
			}
			var err error
			if o.use, _, err = BeginUse(w.streams[o.stream], o.uses...); status.CodeOf(err) == status.Busy {
				continue
			} else if err != nil {
				return err
			}
			uses = append(uses, o)
		case 5:
			if len(uses) > 0 {
				if err := finish(random.IntN(len(uses))); err != nil {
					return err
				}
			}
		case 6:
			if len(blocks) == 0 {
				continue
			}
			i := random.IntN(len(blocks))
			var on *Stream
			if random.IntN(2) == 0 {
				on = w.streams[random.IntN(len(w.streams))]
			}
			if _, err := freeBlock(blocks[i].handle, on); err != nil {
				return err
			}
			blocks = append(blocks[:i], blocks[i+1:]...)
		case 7:
			w.runtime.Reap()
		}
	}
	for len(uses) > 0 {
		if err := finish(0); err != nil {
			return err
		}
	}
	for _, b := range blocks {
		if _, err := freeBlock(b.handle, nil); err != nil {
			return err
		}
	}
	for range 3 { // what is released may queue more, where a quarantine ends
		w.driver.Finish()
		w.runtime.Reap()
	}
	if usage := w.runtime.Usage(); usage.Outstanding != 0 {
		return fmt.Errorf("%d bytes are outstanding", usage.Outstanding)
	}
	return nil
}

// randomSchedules runs programs with seeds from one on, and returns the first seed that is not in order.
// pooled: the runtime has a pool, whose blocks C gives out and frees.
func randomSchedules(first uint64, count int, pooled bool) (bad uint64, err error) {
	const together = 100 // programs of one device, so that they meet what others left
	for seed := first; seed < first+uint64(count); {
		simulated, of := sim.Options{Memory: 1 << 20, Scheduler: sim.Seeded, Seed: seed}, Options{}
		if pooled {
			simulated.Memory, of.Pool = 16*mib, &pool.Options{}
		}
		d, err := sim.New(simulated)
		if err != nil {
			return seed, err
		}
		w, err := newWorldOf(d, 8, of)
		for range together {
			if err != nil || seed == first+uint64(count) {
				break
			}
			err = randomProgram(w, rand.New(rand.NewPCG(seed, 1)), 24)
			if violations, _ := d.Violations(); err == nil && len(violations) > 0 {
				err = fmt.Errorf("%v", violations[0])
			}
			seed++
		}
		if err == nil {
			err = w.end()
		}
		if err == nil {
			err = d.Problems()
		}
		d.Close()
		if err != nil {
			return seed - 1, err
		}
	}
	return 0, nil
}

// TestRandomSchedules runs MMSB_SCHEDULES programs on 8 streams, 20 000 without it, from MMSB_SEED on.
func TestRandomSchedules(t *testing.T) {
	count, first := 20_000, rand.Uint64()
	if raceDetector {
		count = 1000
	}
	if text := os.Getenv("MMSB_SCHEDULES"); text != "" {
		count, _ = strconv.Atoi(text)
	}
	if text := os.Getenv("MMSB_SEED"); text != "" {
		first, _ = strconv.ParseUint(text, 10, 64)
	}
	for _, pooled := range []bool{false, true} {
		bad, err := randomSchedules(first, count/2, pooled)
		require.NoError(t, err, "MMSB_SEED=%d, pooled: %t", bad, pooled)
	}
	t.Logf("report: %d schedules from seed %d on, half of them on a pool, all in order", count, first)
}
