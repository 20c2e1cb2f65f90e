package pages

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/gpu/sim"
)

const (
	linkPages = 1000
	linkBytes = linkPages * 4096
)

// modelled is what a link of so many bytes a second takes for a batch.
func modelled(link uint64) time.Duration {
	return time.Duration(linkBytes * uint64(time.Second) / link)
}

// linkRun is one sync of a thousand pages of 4 KiB, and what the device did meanwhile.
type linkRun struct {
	begin, end time.Time
	spells     []sim.Spell
}

// share is how busy it kept a link.
func (r *linkRun) share(link uint64) float64 {
	return float64(modelled(link)) / float64(r.end.Sub(r.begin))
}

// overlap is how much of the program's kernel bytes moved beside.
func (r *linkRun) overlap() float64 {
	var kernel sim.Spell
	for _, s := range r.spells {
		if s.Bytes == 0 {
			kernel = s
		}
	}
	var beside time.Duration
	for _, s := range r.spells {
		if s.Bytes > 0 && s.Begin.Before(kernel.End) && s.End.After(kernel.Begin) {
			begin, end := s.Begin, s.End
			if begin.Before(kernel.Begin) {
				begin = kernel.Begin
			}
			if end.After(kernel.End) {
				end = kernel.End
			}
			beside += end.Sub(begin)
		}
	}
	return float64(beside) / float64(kernel.End.Sub(kernel.Begin))
}

// overLink syncs a thousand pages of 4 KiB over a link, beside a kernel of the program's own that takes half as long and moves
// nothing. It stops when one has kept it busy to a share, and returns the best of the tries: the machine does other work, too.
func overLink(t *testing.T, link uint64, direction residency.Direction, enough float64, tries int) (best linkRun) {
	sleep := func(*driver.Launch, func(driver.Address, uint64) []byte) { time.Sleep(modelled(link) / 2) }
	onDevices(t, sim.Options{Bandwidth: link, Latency: 8 * time.Microsecond, Unchecked: true, Trace: true,
		Kernels: map[string]sim.Kernel{"compute": sleep},
	}, func(w *world) {
		compute := w.computation()
		var pages []uint64
		for range linkPages {
			pages = append(pages, w.create(abi.LocationCPU, 0, 4096))
		}
		_, err := page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
		require.NoError(t, err)
		content := string(make([]byte, 4096))
		for range tries {
			for _, handle := range pages {
				if direction == residency.ToHost { // a holder of the address may have written
					w.pin(handle)
					w.unpin(handle)
				} else {
					require.Equal(t, status.OK, w.write(handle, 0, content))
				}
			}
			before := len(w.sim.Timeline())
			finish := compute()
			this := linkRun{begin: time.Now()}
			_, err := page.SyncMany(pages, direction, 0, nil, nil)
			require.NoError(t, err)
			this.end = time.Now()
			finish()
			this.spells = w.sim.Timeline()[before:]
			if best.spells == nil || this.share(link) > best.share(link) {
				best = this
			}
			if best.share(link) >= enough {
				break
			}
		}
	})
	return best
}

// computation queues the program's kernel on a stream of its own when it is called, and waits for it then.
func (w *world) computation() func() (finish func()) {
	set, err := SetOf(w.context)
	require.NoError(w, err)
	shared, err := set.Shared(0)
	require.NoError(w, err)
	handle, err := shared.AcquireStream(0)
	require.NoError(w, err)
	stream, err := gpu.FindStream(handle)
	require.NoError(w, err)
	module, err := shared.Device().LoadModule([]byte{1})
	require.NoError(w, err)
	function, err := shared.Device().Function(module, "compute")
	require.NoError(w, err)
	w.Cleanup(func() { _ = gpu.ReleaseStream(handle) })
	return func() func() {
		require.NoError(w, stream.Launch(&driver.Launch{Function: function, Blocks: 1, Threads: 1}))
		return func() { require.NoError(w, stream.Synchronize()) }
	}
}

// schedule is what the device did, an operation a line: when it was queued, and when its bytes moved, in microseconds from the
// beginning of the call.
func (r *linkRun) schedule() string {
	const columns = 60
	end := r.end
	for _, s := range r.spells {
		if s.End.After(end) {
			end = s.End
		}
	}
	us := func(at time.Time) int64 { return at.Sub(r.begin).Microseconds() }
	column := func(at time.Time) int {
		return min(max(int(float64(at.Sub(r.begin))/float64(end.Sub(r.begin))*columns), 0), columns-1)
	}
	spells := slices.Clone(r.spells)
	slices.SortFunc(spells, func(a, b sim.Spell) int { return a.Begin.Compare(b.Begin) })
	var b strings.Builder
	fmt.Fprintf(&b, "the call took %d us\nstream  work       bytes  queued   begin     end\n", us(r.end))
	for _, s := range spells {
		from, until := column(s.Begin), column(s.End)
		fmt.Fprintf(&b, "%6d  %-6s %9d %7d %7d %7d  |%s%s%s|\n", s.Stream, s.Call, s.Bytes, us(s.Queued), us(s.Begin), us(s.End),
			strings.Repeat(" ", from), strings.Repeat("#", until-from+1), strings.Repeat(" ", columns-1-until))
	}
	return b.String()
}

// BenchmarkLink says how busy a batch of a thousand small pages keeps links like those of PCI Express, and what the device did.
func BenchmarkLink(b *testing.B) {
	for _, link := range []struct {
		name  string
		bytes uint64
	}{{"3.0_x1", 985_000_000}, {"3.0_x2", 1_970_000_000}, {"3.0_x4", 3_940_000_000}} {
		for i, name := range []string{"to_device", "to_host"} {
			b.Run(link.name+"/"+name, func(b *testing.B) {
				for range b.N {
					best := overLink(&testing.T{}, link.bytes, residency.ToDevice<<i, 0.97, 30)
					b.ReportMetric(best.share(link.bytes), "of_the_link")
					b.ReportMetric(best.overlap(), "of_the_kernel")
					b.Log("\n" + best.schedule())
				}
			})
		}
	}
}

// The bytes of a step are on their way while those of the one before still are: on a device where each takes its time, six steps
// take that of three, and not of six. The machine does other work at times, so the best of some tries counts.
func TestTwoStepsAreOnTheirWayAtATime(t *testing.T) {
	const latency, steps = 30 * time.Millisecond, 6
	onDevices(t, sim.Options{Latency: latency, Unchecked: true}, func(w *world) {
		handle := w.create(abi.LocationCPU, 0, steps*payloadBytes)
		best := time.Hour
		for range 10 {
			require.Equal(t, status.OK, w.write(handle, 0, string(make([]byte, steps*payloadBytes))))
			begin := time.Now()
			w.sync(handle, residency.ToDevice)
			if best = min(best, time.Since(begin)); best < 4*latency {
				return
			}
		}
		require.Less(t, best, 4*latency)
	})
}
