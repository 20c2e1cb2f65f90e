// mmsb memory: replays recorded traces of allocators.

package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"libmmsb/core/file"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/core/trace"
)

// ReplayOn is the device of a replay, and how it goes on there.
type ReplayOn struct {
	Ordinal int     // the driver's; less than 0: a simulated device
	Memory  uint64  // bytes of a simulated device
	Threads bool    // each recorded thread is one
	Speed   float64 // how often faster than recorded the calls come; 0: as fast as they can
}

// Replay plays a trace on a device that is made for it, with a pool of these options, without one where they are nil.
type Replay func(ctx context.Context, t *trace.Trace, on ReplayOn, options *pool.Options,
	progress func(done, total uint64)) (Replayed, error)

// Replayed is what a replay took, in JSON. Peaks are in bytes.
type Replayed struct {
	Configuration string  `json:"configuration"`
	Device        string  `json:"device"`
	DeviceBytes   uint64  `json:"device_bytes"`
	Calls         uint64  `json:"calls"`
	Hits          uint64  `json:"hits"` // allocations that did not enter Go
	Nanoseconds   int64   `json:"ns"`
	Busy          int64   `json:"busy_ns"` // of all threads together
	PerCall       float64 `json:"ns_per_call"`
	Reserved      uint64  `json:"peak_reserved"`
	Live          uint64  `json:"peak_live"`
	Ratio         float64 `json:"ratio"`
	DriverCalls   uint64  `json:"driver_calls"`
	Created       uint64  `json:"physical_created"`
	Destroyed     uint64  `json:"physical_destroyed"`
	Mapped        uint64  `json:"mapped"`
	Unmapped      uint64  `json:"unmapped"`
	Allocated     uint64  `json:"driver_allocations"`
	Freed         uint64  `json:"driver_frees"`
	Retries       uint64  `json:"retries"`
	Waits         uint64  `json:"waits"`
	Failures      uint64  `json:"failures"`
	FirstFailure  string  `json:"first_failure,omitempty"`
}

const (
	defaultPool = "default"
	withoutPool = "none"

	replayedMemory = 80 << 30
)

func (r *run) memory() *cobra.Command {
	return group("memory", "draw and replay what programs have on devices", r.memoryReport(), r.memoryReplay())
}

func (r *run) memoryReplay() *cobra.Command {
	c := &cobra.Command{Use: "replay TRACE [CONFIGURATION]...",
		Short: "replay a trace of allocations under configurations of the pool",
		Long: `replay makes the allocations and frees of a recorded trace anew, on a simulated device or one of the driver's, and
shows the time, the most bytes that the driver had given (reserved), the most that were asked for and not freed (live), and the
calls of the driver.

TRACE is the CSV that a runtime's log and RMM's logging adaptor write, or a memory snapshot of PyTorch
(torch.cuda.memory._dump_snapshot), of which no code is run. In a snapshot, blocks whose allocation is lost count as allocated
before the first event. CONFIGURATION is what mmsb_runtime_options_t.pool takes, "default" for the pool as it is, or "none" for
the device's own stream-ordered memory, which a simulated device has in its own way, not in NVIDIA's. --compare takes several,
and --tune tries all combinations of slack 0.01, 0.05 and 0.2, large_segment_size_mb 2, 20 and 128, and roundup_power2_divisions
none and 8: the best has the fewest failures, then the least reserved, then the least time.

The calls are made as programs in C make them, one after the other and as fast as they can; hits are allocations that did not
enter Go. With --threads each recorded thread is one, which makes its calls in their order; a free waits for its allocation.
--speed 1 lets no call come before its recorded time, and --speed 10 makes that ten times faster. The time for a call is without
such waits. No work is queued on the streams. A simulated device takes memory of the host only where it is written, which a
replay does not. Ctrl-C ends it without a result.`,
		Example: "  mmsb memory replay app.csv\n  mmsb memory replay snapshot.pickle slack:0.02 --memory 24GiB\n" +
			"  mmsb memory replay app.csv --compare default large_segment_size_mb:128 none\n" +
			"  mmsb memory replay app.csv --threads --speed 1\n  mmsb memory replay snapshot.pickle --tune --json",
		Args: takes("a TRACE and CONFIGURATIONs", 1, math.MaxInt)}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	on := ReplayOn{Ordinal: -1, Memory: replayedMemory}
	memory := c.Flags().String("memory", "80GiB", "give the simulated device `SIZE` bytes, like 24GiB")
	c.Flags().IntVar(&on.Ordinal, "device", -1, "replay on device `N` of the driver; -1: on a simulated one")
	recorded := c.Flags().Int("recorded-device", -1, "replay what device `N` of a snapshot of several recorded")
	lost := lostFlag(c)
	c.Flags().BoolVar(&on.Threads, "threads", false, "play each recorded thread in one of its own")
	c.Flags().Float64Var(&on.Speed, "speed", 0, "play the calls at their times, `FACTOR` times as fast as recorded")
	compare := c.Flags().Bool("compare", false, "put two or more CONFIGURATIONs side by side")
	tune := c.Flags().Bool("tune", false, "try configurations, and print the best")
	c.MarkFlagsMutuallyExclusive("memory", "device")
	c.MarkFlagsMutuallyExclusive("compare", "tune")
	c.RunE = func(c *cobra.Command, arguments []string) (err error) {
		names := arguments[1:]
		switch {
		case on.Ordinal < -1:
			return misused(c, fmt.Sprintf("--device is %d, at least -1 is needed", on.Ordinal))
		case c.Flags().Changed("speed") && !(on.Speed > 0 && on.Speed <= math.MaxInt32):
			return misused(c, fmt.Sprintf("--speed is %v, more than 0 and at most %d is needed", on.Speed, math.MaxInt32))
		case *compare && len(names) < 2:
			return misused(c, fmt.Sprintf("--compare takes at least 2 configurations; %d given", len(names)))
		case *tune && len(names) > 0:
			return misused(c, fmt.Sprintf("--tune takes no configuration; %d given", len(names)))
		case !*compare && len(names) > 1:
			return misused(c, fmt.Sprintf("%d configurations need --compare", len(names)))
		case *tune:
			names = tuned()
		case len(names) == 0:
			names = []string{defaultPool}
		}
		if on.Memory, err = parseBytes(*memory); err != nil {
			return err
		}
		p := replays{run: r, path: arguments[0], on: on}
		if err := p.all(names, trace.Options{Device: *recorded, Lost: *lost}); err != nil {
			return err
		}
		if *tune {
			slices.SortStableFunc(p.results, better)
		}
		switch {
		case *asJSON:
			p.json(*tune)
		case len(p.results) == 1:
			p.list(*show)
		default:
			p.table(*show, *tune)
		}
		return nil
	}
	return c
}

func lostFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("lost-beginning", false,
		"take what a CSV frees without an allocation for allocated before, as in a log that was full")
}

// tuned are the configurations that --tune tries, the default first.
func tuned() (all []string) {
	for _, slack := range []string{"", "slack:0.01", "slack:0.2"} {
		for _, step := range []string{"", "large_segment_size_mb:2", "large_segment_size_mb:128"} {
			for _, divisions := range []string{"", "roundup_power2_divisions:8"} {
				options := slices.DeleteFunc([]string{slack, step, divisions}, func(option string) bool { return option == "" })
				all = append(all, cmp.Or(strings.Join(options, ","), defaultPool))
			}
		}
	}
	return all
}

// better compares what two configurations took.
func better(a, b Replayed) int {
	return cmp.Or(cmp.Compare(a.Failures, b.Failures), cmp.Compare(a.Reserved, b.Reserved),
		cmp.Compare(a.Nanoseconds, b.Nanoseconds))
}

// parseConfiguration is the options of a pool; nil: none.
func parseConfiguration(name string) (*pool.Options, error) {
	switch name {
	case withoutPool:
		return nil, nil
	case defaultPool:
		name = ""
	}
	options, err := pool.Parse(name)
	return &options, err
}

// parseBytes reads a size like 512MiB or 24G, in powers of 1024.
func parseBytes(text string) (uint64, error) {
	number := strings.TrimRight(text, "KMGTiB")
	unit := text[len(number):]
	if short := strings.TrimSuffix(unit, "B"); short != "i" {
		unit = strings.TrimSuffix(short, "i")
	}
	by, known := map[string]int{"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]
	value, err := strconv.ParseUint(number, 10, 64)
	if err != nil || !known || value == 0 || value > math.MaxUint64>>by {
		return 0, fmt.Errorf("%q is not a size above 0, like 512MiB or 24GiB", text)
	}
	return value << by, nil
}

// replays are those of a trace.
type replays struct {
	*run
	path    string
	on      ReplayOn
	trace   *trace.Trace
	results []Replayed
}

// all reads the trace and replays it under each configuration.
func (p *replays) all(names []string, of trace.Options) error {
	configurations := make([]*pool.Options, len(names))
	for number, name := range names {
		var err error
		if configurations[number], err = parseConfiguration(name); err != nil {
			return err
		}
	}
	if p.Replay == nil {
		return status.Errorf(status.Unsupported, "cannot replay a trace: this mmsb was built without C")
	}
	if err := p.read(of); err != nil {
		return err
	}
	for number, name := range names {
		bar := p.bar(fmt.Sprintf("%d of %d", number+1, len(names)))
		result, err := p.Replay(p.ctx, p.trace, p.on, configurations[number], bar.events)
		bar.clear()
		if err != nil {
			return err
		}
		result.Configuration = name
		result.PerCall = float64(result.Busy) / float64(max(result.Calls, 1))
		result.Ratio = float64(result.Reserved) / float64(max(result.Live, 1))
		p.results = append(p.results, result)
	}
	return nil
}

func (p *replays) read(of trace.Options) error {
	source, err := file.Open(p.FS, p.path)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	bar := p.bar(filepath.Base(p.path))
	defer bar.clear()
	size := source.Size()
	from := &metered{Reader: io.NewSectionReader(source, 0, size), read: func(done uint64) { bar.bytes(done, uint64(size)) }}
	p.trace, err = trace.Read(from, of)
	return p.unread(p.path, err)
}

// unread is the error of reading a file that was opened. A trace above a limit is refused as a damaged one is: its exit code is
// not that of a file that does not exist.
func (r *run) unread(path string, err error) error {
	if err == nil {
		return nil
	}
	err = status.Errorf(status.CodeOf(err), "%s: %s", path, status.Of(err).Text)
	if status.CodeOf(err) == status.Limit {
		r.complain(err)
		return result(exitBad)
	}
	return err
}

// metered is a reader that tells how much was read.
type metered struct {
	io.Reader
	done uint64
	read func(done uint64)
}

func (w *metered) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.done += uint64(n)
	w.read(w.done)
	return n, err
}

// traceShown is a trace in JSON.
type traceShown struct {
	File     string  `json:"file"`
	Format   string  `json:"format"`
	Events   int     `json:"events"`
	Blocks   uint64  `json:"blocks"`
	Streams  int     `json:"streams"`
	Before   uint64  `json:"before"`
	Refused  uint64  `json:"refused"`
	Other    uint64  `json:"other"`
	Reserved *uint64 `json:"recorded_reserved"`
}

func (p *replays) json(tune bool) {
	t := p.trace
	document := struct {
		Trace   traceShown `json:"trace"`
		Replays []Replayed `json:"replays"`
		Best    *string    `json:"best,omitempty"`
	}{Trace: traceShown{File: p.path, Format: t.Format, Events: len(t.Events), Blocks: t.Blocks, Streams: t.Streams,
		Before: t.Before, Refused: t.Refused, Other: t.Other}, Replays: p.results}
	if t.Reserved > 0 {
		document.Trace.Reserved = &t.Reserved
	}
	if tune {
		document.Best = &p.results[0].Configuration
	}
	encoded(p.out, document)
}

// head tells of the trace and the device.
func (p *replays) head(show sizes) {
	t := p.trace
	events := count(uint64(len(t.Events)), "event") + ", " + count(t.Blocks, "block") + ", " + count(uint64(t.Streams), "stream")
	if t.Before > 0 {
		events += ", " + decimal(t.Before) + " of the blocks from before"
	}
	rows := []string{"trace", shown(p.path) + ", " + t.Format, "recorded", events, "left out", decimal(t.Other) + ", " +
		decimal(t.Refused) + " refused"}
	if t.Reserved > 0 {
		rows = append(rows, "was reserved", show.of(t.Reserved))
	}
	first := &p.results[0]
	list(p.out, append(rows, "device", shown(first.Device)+", "+show.within(first.DeviceBytes))...)
}

func (p *replays) list(show sizes) {
	p.head(show)
	r := &p.results[0]
	list(p.out, "settings", shown(r.Configuration),
		"calls", decimal(r.Calls)+", "+decimal(r.Hits)+" hits, "+decimal(r.Failures)+" failed",
		"time", duration(r.Nanoseconds)+", "+perCall(r)+" ns a call",
		"peak reserved", show.of(r.Reserved), "peak live", show.of(r.Live), "ratio", ratio(r),
		"driver calls", fmt.Sprintf("%d: %d created, %d destroyed, %d mapped, %d unmapped, %d allocations, %d frees",
			r.DriverCalls, r.Created, r.Destroyed, r.Mapped, r.Unmapped, r.Allocated, r.Freed),
		"retries", decimal(r.Retries), "waits", decimal(r.Waits))
	if r.FirstFailure != "" {
		list(p.out, "first failure", shown(r.FirstFailure))
	}
}

func (p *replays) table(show sizes, tune bool) {
	p.head(show)
	_ = p.out.WriteByte('\n')
	t := newTable(p.out, "CONFIGURATION", ">TIME", ">NS/CALL", ">HITS", ">RESERVED", ">LIVE", ">RATIO", ">DRIVER CALLS",
		">RETRIES", ">WAITS", ">FAILURES")
	for at := range p.results {
		r := &p.results[at]
		t.add(shown(r.Configuration), duration(r.Nanoseconds), perCall(r), decimal(r.Hits), show.of(r.Reserved), show.of(r.Live),
			ratio(r), decimal(r.DriverCalls), decimal(r.Retries), decimal(r.Waits), decimal(r.Failures))
	}
	t.finish()
	if tune {
		p.best()
	}
}

// best tells of the first, and how much less it reserves than the default.
func (p *replays) best() {
	best := &p.results[0]
	at := slices.IndexFunc(p.results, func(r Replayed) bool { return r.Configuration == defaultPool })
	by := &p.results[at]
	less := "as much reserved as"
	switch {
	case best.Reserved < by.Reserved:
		less = fmt.Sprintf("%.1f %% less reserved than", 100*(1-float64(best.Reserved)/float64(by.Reserved)))
	case best.Reserved > by.Reserved:
		less = fmt.Sprintf("%.1f %% more reserved than", 100*(float64(best.Reserved)/float64(max(by.Reserved, 1))-1))
	}
	_, _ = fmt.Fprintf(p.out, "\nbest: %s, %s by default, %d failures instead of %d\n", best.Configuration, less, best.Failures,
		by.Failures)
}

func perCall(r *Replayed) string { return fmt.Sprintf("%.0f", r.PerCall) }
func ratio(r *Replayed) string   { return fmt.Sprintf("%.3f", r.Ratio) }

// duration shows a time to the millisecond.
func duration(nanoseconds int64) string {
	return time.Duration(nanoseconds).Round(time.Millisecond).String()
}
