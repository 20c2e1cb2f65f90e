package sim_test

import (
	"testing"

	"libmmsb/core/region"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"

	"github.com/stretchr/testify/require"
)

// program is what a test runs on devices: two devices, streams a and b of the first one and c of the second.
type program struct {
	*require.Assertions
	t       *testing.T
	driver  *sim.Driver
	d, e    driver.Device
	a, b, c driver.Stream
}

const size = 4096

func newProgram(t *testing.T, d *sim.Driver) *program {
	p := &program{Assertions: require.New(t), t: t, driver: d}
	p.d, p.e = p.device(0), p.device(1)
	p.a, p.b, p.c = p.stream(p.d), p.stream(p.d), p.stream(p.e)
	return p
}

func (p *program) device(ordinal int) driver.Device {
	device, err := p.driver.Open(ordinal)
	p.NoError(err)
	return device
}

func (p *program) stream(device driver.Device) driver.Stream {
	stream, err := device.CreateStream(0)
	p.NoError(err)
	return stream
}

// end gives the streams back.
func (p *program) end() {
	p.NoError(p.d.DestroyStream(p.a))
	p.NoError(p.d.DestroyStream(p.b))
	p.NoError(p.e.DestroyStream(p.c))
}

func (p *program) allocate(kind driver.Memory) driver.Address {
	address, err := p.d.Allocate(kind, size)
	p.NoError(err)
	return address
}

func (p *program) allocateOrdered(on driver.Stream) driver.Address {
	address, err := p.d.AllocateOrdered(on, size)
	p.NoError(err)
	return address
}

func (p *program) free(kind driver.Memory, address driver.Address) {
	p.NoError(p.d.Free(kind, address))
}

func (p *program) freeOrdered(on driver.Stream, address driver.Address) {
	p.NoError(p.d.FreeOrdered(on, address))
}

func (p *program) fill(on driver.Stream, address driver.Address) {
	p.NoError(p.d.Fill(on, address, 1, size))
}

func (p *program) copy(on driver.Stream, to, from driver.Address) {
	p.NoError(p.d.Copy(on, driver.Copy{To: to, From: from, Bytes: size}))
}

// order makes a stream wait for what is queued on another one of the first device.
func (p *program) order(later, earlier driver.Stream) {
	event, err := p.d.CreateEvent()
	p.NoError(err)
	p.NoError(p.d.RecordEvent(event, earlier))
	p.NoError(p.d.Wait(later, event))
	p.NoError(p.d.DestroyEvent(event))
}

func (p *program) synchronize() {
	p.NoError(p.d.Synchronize())
	p.NoError(p.e.Synchronize())
}

// mistake is a program that is right, and wrong where planted is set.
type mistake struct {
	name          string
	problem       sim.Problem
	first, second sim.Call // that are reported
	run           func(p *program, planted bool)
}

var mistakes = []mistake{
	{"a read that does not wait for the write", sim.Unordered, sim.Fill, sim.Copy, func(p *program, planted bool) {
		from, to := p.allocate(driver.Plain), p.allocate(driver.Plain)
		p.fill(p.a, from)
		if !planted {
			p.order(p.b, p.a)
		}
		p.copy(p.b, to, from)
		p.synchronize()
		p.free(driver.Plain, from)
		p.free(driver.Plain, to)
	}},
	{"a write that does not wait for the write", sim.Unordered, sim.Fill, sim.Fill, func(p *program, planted bool) {
		block := p.allocate(driver.Plain)
		p.fill(p.a, block)
		if !planted {
			p.order(p.b, p.a)
		}
		p.fill(p.b, block)
		p.synchronize()
		p.free(driver.Plain, block)
	}},
	{"a write that does not wait for the read", sim.Unordered, sim.Copy, sim.Fill, func(p *program, planted bool) {
		from, to := p.allocate(driver.Plain), p.allocate(driver.Plain)
		p.copy(p.a, to, from)
		if !planted {
			p.order(p.b, p.a)
		}
		p.fill(p.b, from)
		p.synchronize()
		p.free(driver.Plain, from)
		p.free(driver.Plain, to)
	}},
	{"a write that forgets the first of two readers", sim.Unordered, sim.Copy, sim.Fill, func(p *program, planted bool) {
		from, to, other := p.allocate(driver.Plain), p.allocate(driver.Plain), p.allocate(driver.Plain)
		p.copy(p.b, to, from)
		p.copy(p.a, other, from)
		if !planted {
			p.order(p.a, p.b)
		}
		p.fill(p.a, from)
		p.synchronize()
		p.free(driver.Plain, from)
		p.free(driver.Plain, to)
		p.free(driver.Plain, other)
	}},
	{"a use that does not wait for the allocation", sim.Unordered, sim.AllocateOrdered, sim.Fill, func(p *program, planted bool) {
		block := p.allocateOrdered(p.a)
		if !planted {
			p.order(p.b, p.a)
		}
		p.fill(p.b, block)
		p.order(p.a, p.b)
		p.freeOrdered(p.a, block)
	}},
	{"a free that does not wait for the use", sim.Unordered, sim.Fill, sim.FreeOrdered, func(p *program, planted bool) {
		block := p.allocateOrdered(p.a)
		p.order(p.b, p.a)
		p.fill(p.b, block)
		if !planted {
			p.order(p.a, p.b)
		}
		p.freeOrdered(p.a, block)
	}},
	{"a use after the free", sim.UseAfterFree, sim.FreeOrdered, sim.Fill, func(p *program, planted bool) {
		block := p.allocateOrdered(p.a)
		if planted {
			p.freeOrdered(p.a, block)
		}
		p.fill(p.a, block)
		if !planted {
			p.freeOrdered(p.a, block)
		}
	}},
	{"a use after the free at once", sim.UseAfterFree, sim.Free, sim.Fill, func(p *program, planted bool) {
		block := p.allocate(driver.Pinned)
		if planted {
			p.free(driver.Pinned, block)
		}
		p.fill(p.a, block)
		p.synchronize()
		if !planted {
			p.free(driver.Pinned, block)
		}
	}},
	{"a free at once beside queued work", sim.Unordered, sim.Fill, sim.Free, func(p *program, planted bool) {
		block := p.allocate(driver.Plain)
		p.fill(p.a, block)
		if !planted {
			p.NoError(p.d.SynchronizeStream(p.a))
		}
		p.free(driver.Plain, block)
	}},
	{"a late use of what is in use again", sim.Unordered, sim.AllocateOrdered, sim.Fill, func(p *program, planted bool) {
		old := p.allocateOrdered(p.a)
		p.order(p.b, p.a)
		if !planted {
			p.fill(p.b, old)
			p.order(p.a, p.b)
		}
		p.freeOrdered(p.a, old)
		again := p.allocateOrdered(p.a)
		p.Equal(old, again, "addresses are used again at once")
		if planted {
			p.fill(p.b, old)
			p.order(p.a, p.b)
		}
		p.freeOrdered(p.a, again)
	}},
	{"another device that does not wait", sim.Unordered, sim.Fill, sim.Copy, func(p *program, planted bool) {
		from, to := p.allocate(driver.Plain), p.allocate(driver.Pinned)
		p.fill(p.a, from)
		event, err := p.d.CreateEvent()
		p.NoError(err)
		p.NoError(p.d.RecordEvent(event, p.a))
		if !planted {
			p.NoError(p.e.Wait(p.c, event))
		}
		p.NoError(p.e.Copy(p.c, driver.Copy{To: to, From: from, Bytes: size}))
		p.NoError(p.d.DestroyEvent(event))
		p.synchronize()
		p.free(driver.Plain, from)
		p.free(driver.Pinned, to)
	}},
	{"the host reads what is not done", sim.Unordered, sim.Fill, sim.HostAccess, func(p *program, planted bool) {
		block := p.allocate(driver.Pinned)
		p.fill(p.a, block)
		if !planted {
			p.NoError(p.d.SynchronizeStream(p.a))
		}
		p.NoError(p.driver.HostAccess(block+100, 10, false))
		p.synchronize()
		p.free(driver.Pinned, block)
	}},
	{"the host overwrites what is still read", sim.Unordered, sim.Copy, sim.HostAccess, func(p *program, planted bool) {
		from, to := p.allocate(driver.Pinned), p.allocate(driver.Plain)
		p.NoError(p.driver.HostAccess(from, size, true))
		p.copy(p.a, to, from)
		event, err := p.d.CreateEvent()
		p.NoError(err)
		p.NoError(p.d.RecordEvent(event, p.a))
		if !planted {
			p.NoError(p.d.SynchronizeEvent(event))
		}
		p.NoError(p.driver.HostAccess(from, size, true))
		p.synchronize()
		p.NoError(p.d.DestroyEvent(event))
		p.free(driver.Pinned, from)
		p.free(driver.Plain, to)
	}},
	{"mapped memory is taken away too early", sim.Unordered, sim.Fill, sim.Unmap, func(p *program, planted bool) {
		unit := p.d.Info().Granularity
		addresses, err := p.d.Reserve(unit)
		p.NoError(err)
		memory, err := p.d.CreatePhysical(unit)
		p.NoError(err)
		p.NoError(p.d.Map(addresses, false, memory))
		p.fill(p.a, addresses)
		if !planted {
			p.synchronize()
		}
		p.NoError(p.d.Unmap(addresses))
		p.NoError(p.d.DestroyPhysical(memory))
		p.NoError(p.d.Release(addresses, unit))
	}},
	{"registered memory is taken away too early", sim.Unordered, sim.Fill, sim.Unregister, func(p *program, planted bool) {
		number, err := region.Map(size, false)
		p.NoError(err)
		address := driver.Address(region.Base(number))
		p.NoError(p.d.Register(address, size))
		p.fill(p.a, address)
		if !planted {
			p.synchronize()
		}
		p.NoError(p.d.Unregister(address))
		p.driver.Finish()
		p.synchronize()
		region.Unmap(number)
	}},
	{"an event that was recorded too early", sim.Unordered, sim.Fill, sim.Copy, func(p *program, planted bool) {
		from, to := p.allocate(driver.Plain), p.allocate(driver.Plain)
		event, err := p.d.CreateEvent()
		p.NoError(err)
		p.NoError(p.d.RecordEvent(event, p.a))
		p.fill(p.a, from)
		if !planted {
			p.NoError(p.d.RecordEvent(event, p.a))
		}
		p.NoError(p.d.Wait(p.b, event))
		p.copy(p.b, to, from)
		p.NoError(p.d.DestroyEvent(event))
		p.synchronize()
		p.free(driver.Plain, from)
		p.free(driver.Plain, to)
	}},
	{"a wait for only one of two", sim.Unordered, sim.Fill, sim.Copy, func(p *program, planted bool) {
		third := p.stream(p.d)
		block, to := p.allocate(driver.Plain), p.allocate(driver.Plain)
		p.fill(p.a, block)
		p.order(p.b, p.a)
		p.fill(p.b, block)
		if planted {
			p.order(third, p.a)
		} else {
			p.order(third, p.b) // and so for a, too
		}
		p.copy(third, to, block)
		p.NoError(p.d.DestroyStream(third))
		p.synchronize()
		p.free(driver.Plain, block)
		p.free(driver.Plain, to)
	}},
	{"two copies of one call to one place", sim.Unordered, sim.Copy, sim.Copy, func(p *program, planted bool) {
		block := p.allocate(driver.Plain)
		second := driver.Copy{To: block + 1024, From: block + 3072, Bytes: 1000}
		if planted {
			second.To -= 100
		}
		p.NoError(p.d.Copy(p.a, driver.Copy{To: block, From: block + 2048, Bytes: 1024}, second))
		p.synchronize()
		p.free(driver.Plain, block)
	}},
	{"a kernel that does not wait", sim.Unordered, sim.Fill, sim.Launch, func(p *program, planted bool) {
		block := p.allocate(driver.Plain)
		module, err := p.d.LoadModule(nil)
		p.NoError(err)
		function, err := p.d.Function(module, "nothing")
		p.NoError(err)
		p.fill(p.a, block)
		if !planted {
			p.order(p.b, p.a)
		}
		p.NoError(p.d.Launch(p.b, &driver.Launch{
			Function: function, Blocks: 1, Threads: 1,
			Accesses: []driver.Access{{Address: block, Bytes: 100}, {Address: block + 50, Bytes: 100, Write: true}},
		}))
		p.synchronize()
		p.NoError(p.d.UnloadModule(module))
		p.free(driver.Plain, block)
	}},
}

// Every kind of mistake is reported with both uses and the place of the allocation, and the program without it is not, whatever
// the devices happened to run first.
func TestMistakesAreReportedAndRightProgramsAreNot(t *testing.T) {
	schedulers := map[string]sim.Scheduler{"eager": sim.Eager, "seeded": sim.Seeded}
	for name, scheduler := range schedulers {
		for _, m := range mistakes {
			for _, planted := range []bool{false, true} {
				t.Run(name+"/"+m.name, func(t *testing.T) {
					d, err := sim.New(sim.Options{
						Devices: 2, Memory: 16 << 20, Scheduler: scheduler,
						Kernels: map[string]sim.Kernel{"nothing": func(*driver.Launch, func(driver.Address, uint64) []byte) {}},
					})
					require.NoError(t, err)
					defer d.Close()
					p := newProgram(t, d)
					m.run(p, planted)
					p.end()
					d.Finish()
					if !planted {
						require.NoError(t, d.Problems())
						return
					}
					violations, count := d.Violations()
					require.Len(t, violations, count)
					found := violations[0]
					require.Equal(t, m.problem, found.Problem, found.String())
					require.Equal(t, m.first, found.First.Call, found.String())
					require.Equal(t, m.second, found.Second.Call, found.String())
					for _, use := range []*sim.Use{found.First, found.Second, found.Block} {
						require.Contains(t, use.Where(), "order_test.go")
						require.NotZero(t, use.Bytes)
					}
					require.ErrorContains(t, d.Problems(), found.String())
				})
			}
		}
	}
}

// What the host saw done is before what it queues then; what it did not see done is not, even if it happens to be.
func TestWhatTheHostSawDoneIsOrdered(t *testing.T) {
	d, err := sim.New(sim.Options{Devices: 2, Memory: 16 << 20, Scheduler: sim.Stepped})
	require.NoError(t, err)
	defer d.Close()
	p := newProgram(t, d)
	block := p.allocate(driver.Plain)
	event, err := p.d.CreateEvent()
	p.NoError(err)
	p.fill(p.a, block)
	p.NoError(p.d.RecordEvent(event, p.a))
	done, err := p.d.QueryEvent(event)
	p.NoError(err)
	p.False(done)
	p.NoError(d.Step(0, p.a))
	done, err = p.d.QueryEvent(event)
	p.NoError(err)
	p.True(done)
	p.fill(p.b, block)
	_, count := d.Violations()
	p.Zero(count)

	p.NoError(d.Step(0, p.b))
	p.fill(p.a, block)
	_, count = d.Violations()
	p.Equal(1, count, "that b was done nobody saw")
}

// Clocks are as long as streams are there at a time, and an ended stream's work is ordered before a new one's only if the host
// saw it done.
func TestStreamsComeAndGo(t *testing.T) {
	d, err := sim.New(sim.Options{Devices: 2, Memory: 16 << 20})
	require.NoError(t, err)
	defer d.Close()
	p := newProgram(t, d)
	block := p.allocate(driver.Plain)
	before := d.Parties()
	for i := range 100 {
		s := p.stream(p.d)
		p.fill(s, block)
		if i%2 == 0 {
			p.NoError(p.d.SynchronizeStream(s))
			p.NoError(p.d.DestroyStream(s))
		} else {
			p.NoError(p.d.DestroyStream(s))
			p.NoError(p.d.Synchronize())
		}
	}
	_, count := d.Violations()
	p.Zero(count)
	p.LessOrEqual(d.Parties(), before+1)

	s := p.stream(p.d)
	p.fill(s, block)
	p.NoError(p.d.DestroyStream(s))
	p.fill(p.stream(p.d), block)
	violations, count := d.Violations()
	p.Equal(1, count, "that the last one was done nobody saw")
	p.Equal(s, violations[0].First.Stream)
}

// A violation is one however many bytes and blocks two operations share, and a repeated one is counted.
func TestTooManyViolationsAreCounted(t *testing.T) {
	d, err := sim.New(sim.Options{Devices: 2, Memory: 16 << 20})
	require.NoError(t, err)
	defer d.Close()
	p := newProgram(t, d)
	block := p.allocate(driver.Plain)
	for range 150 {
		p.fill(p.a, block)
		p.fill(p.b, block)
	}
	violations, count := d.Violations()
	p.Equal(299, count)
	p.Len(violations, 100)
}

// The history of bytes that are used in pieces says of each piece who used it.
func TestHistoryIsKeptByBytes(t *testing.T) {
	d, err := sim.New(sim.Options{Devices: 2, Memory: 16 << 20})
	require.NoError(t, err)
	defer d.Close()
	p := newProgram(t, d)
	block := p.allocate(driver.Plain)
	fill := func(on driver.Stream, from, to int) int {
		_, before := d.Violations()
		p.NoError(p.d.Fill(on, block+driver.Address(from), 1, uint64(to-from)))
		_, after := d.Violations()
		return after - before
	}
	p.Zero(fill(p.a, 0, 1000))
	p.Zero(fill(p.b, 1000, 2000), "beside it")
	p.Zero(fill(p.a, 2000, 3000))
	p.Zero(fill(p.a, 500, 600))
	p.Equal(1, fill(p.b, 999, 1001), "the last byte of a")
	p.Zero(fill(p.b, 999, 1001), "it is b's now")
	p.Zero(fill(p.a, 998, 999))
	p.Equal(1, fill(p.a, 1000, 1001))
	p.Equal(1, fill(p.b, 2999, 4000))
	p.Zero(fill(p.b, 3000, 4000))
	p.Equal(4, fill(p.a, 0, 4000), "b's uses: 999, 1001 to 2000, 2999, 3000 on")
	p.Zero(fill(p.a, 0, 4000))
}
