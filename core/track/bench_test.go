package track

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// go test ./core/track -run '^$' -bench . -benchtime 5x; needs 4 GiB of memory.

// benchMemory is memory with content, in small or huge pages.
func benchMemory(b *testing.B, size int, huge bool) []byte {
	b.Helper()
	whole := mappedWith(b, size+hugePage, private, -1)
	memory := whole[-rangeOf(whole).Start&(hugePage-1):][:size]
	advice := unix.MADV_NOHUGEPAGE
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	require.NoError(b, unix.Madvise(memory, advice))
	touch(memory, 1)
	return memory
}

// touch writes to each n-th page.
func touch(memory []byte, n int) {
	for at := 0; at < len(memory); at += n * int(systemPage) {
		memory[at]++
	}
}

func perKind(b *testing.B, run func(b *testing.B, memory []byte)) {
	needTracking(b)
	for _, gigabytes := range []int{1, 4} {
		for _, huge := range []bool{false, true} {
			b.Run(fmt.Sprintf("GiB=%d/huge=%v", gigabytes, huge), func(b *testing.B) {
				memory := benchMemory(b, gigabytes<<30, huge)
				b.ResetTimer()
				run(b, memory)
			})
		}
	}
}

// processor measures what a loop takes of the processors, which other programs on the machine disturb less than the time.
type processor struct {
	b     *testing.B
	spent time.Duration
	from  time.Duration
}

func startProcessor(b *testing.B) *processor { return &processor{b: b, from: processorTime()} }

func processorTime() time.Duration {
	var spent unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &spent)
	return time.Duration(spent.Nano())
}

// aside runs what is not measured.
func (p *processor) aside(work func()) {
	p.b.StopTimer()
	p.spent += processorTime() - p.from
	work()
	p.from = processorTime()
	p.b.StartTimer()
}

func (p *processor) report() {
	p.spent += processorTime() - p.from
	p.b.ReportMetric(float64(p.spent.Nanoseconds())/float64(p.b.N)/1e6, "cpu-ms/op")
}

// Watching memory that was never watched, and arming it.
func BenchmarkWatchAndArm(b *testing.B) {
	perKind(b, func(b *testing.B, memory []byte) {
		p := startProcessor(b)
		for range b.N {
			m := armed(b, memory)
			p.aside(m.Release)
		}
		p.report()
	})
}

func BenchmarkRelease(b *testing.B) {
	perKind(b, func(b *testing.B, memory []byte) {
		p := startProcessor(b)
		for range b.N {
			var m *Memory
			p.aside(func() { m = armed(b, memory) })
			m.Release()
		}
		p.report()
	})
}

func BenchmarkCollectNothing(b *testing.B) {
	perKind(b, func(b *testing.B, memory []byte) {
		m := armed(b, memory)
		p := startProcessor(b)
		for range b.N {
			collectAll(b, m, nil)
		}
		p.report()
	})
}

func BenchmarkCollectTwoPercent(b *testing.B) {
	perKind(b, func(b *testing.B, memory []byte) {
		m := armed(b, memory)
		var ranges []Range
		p := startProcessor(b)
		for range b.N {
			p.aside(func() { touch(memory, 50) })
			ranges = collectAll(b, m, ranges[:0])
		}
		p.report()
	})
}

func collectAll(b *testing.B, m *Memory, to []Range) []Range {
	to, err := m.Collect(m.Whole(), true, to)
	require.NoError(b, err)
	return to
}

// The first write to a page after arming: to all pages, and to 2 % of them when all are in huge pages again.
func BenchmarkFirstWrite(b *testing.B) {
	needTracking(b)
	const size = 1 << 30
	for _, huge := range []bool{false, true} {
		for _, n := range []int{1, 50} {
			b.Run(fmt.Sprintf("huge=%v/each=%d", huge, n), func(b *testing.B) {
				p := startProcessor(b)
				for range b.N {
					var m *Memory
					var memory []byte
					p.aside(func() {
						memory = benchMemory(b, size, huge)
						m = armed(b, memory)
					})
					touch(memory, n)
					p.aside(func() {
						m.Release()
						require.NoError(b, unix.Madvise(memory, unix.MADV_DONTNEED))
					})
				}
				p.report()
				b.ReportMetric(float64(p.spent.Nanoseconds())/float64(b.N*size/int(systemPage)/n), "cpu-ns/page")
			})
		}
	}
}

func BenchmarkWriteUnwatched(b *testing.B) {
	memory := benchMemory(b, 1<<30, false)
	b.ResetTimer()
	p := startProcessor(b)
	for range b.N {
		touch(memory, 1)
	}
	p.report()
	b.ReportMetric(float64(p.spent.Nanoseconds())/float64(b.N*len(memory)/int(systemPage)), "cpu-ns/page")
}
