// mmsb store watch: shows what happens in a store.

package command

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/snapshot"
	"libmmsb/core/store"
)

func (r *run) storeWatch() *cobra.Command {
	c := &cobra.Command{Use: "watch DIR", Short: "show what happens in a store",
		Long: `watch shows, every second, how many records and bytes of journal come to a store, how many lie behind the newest
snapshot (what the next save takes, and what an open replays), the snapshots that have come since watch began, the space of
journal and snapshots, what the file system has left, and the lag: how long ago the newest record in the files was made. It reads
files only, and asks nothing of the writer. On a terminal it is a screen, else it is a line each time. A snapshot that is
damaged or cannot be read is named once. It ends with Ctrl-C.`,
		Example: "  mmsb store watch state/\n  mmsb store watch state/ --interval 10 --json | jq .records_per_second",
		Args:    takes("a DIRectory", 1, 1), ValidArgsFunction: directories}
	interval := c.Flags().Float64("interval", 1, "look every `S` seconds")
	asJSON := c.Flags().Bool("json", false, "print one JSON document on a line each time")
	show := bytesFlag(c)
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		const least, most = 0.01, 86400
		if !(*interval >= least && *interval <= most) {
			return fmt.Errorf("--interval is %v, not %v to %v seconds", *interval, least, most)
		}
		w := watch{run: r, directory: arguments[0], show: *show, seen: make(map[snapshot.ID]bool), named: make(map[string]bool)}
		print := w.line
		switch {
		case *asJSON:
			print = w.json
		case isTerminal(r.Stdout) && os.Getenv("TERM") != "dumb":
			print = w.screen
		}
		return w.every(time.Duration(*interval*float64(time.Second)), print)
	}
	return c
}

// seen is a look at a store, in JSON. What needs an earlier look is null in the first.
type seen struct {
	Time             string   `json:"time"`
	Writer           string   `json:"writer"`
	Last             uint64   `json:"last"`
	RecordsPerSecond *float64 `json:"records_per_second"`
	BytesPerSecond   *float64 `json:"bytes_per_second"`
	RecordsSinceSave uint64   `json:"records_since_save"`
	BytesSinceSave   int64    `json:"bytes_since_save"` // about: of a segment that has older records, too, by their number
	Saves            int      `json:"saves"`            // whose snapshots were there at a look
	Newest           *string  `json:"newest"`
	Segments         int      `json:"segments"`
	JournalBytes     int64    `json:"journal_bytes"`
	Snapshots        int      `json:"snapshots"`
	SnapshotBytes    int64    `json:"snapshot_bytes"`
	Lost             int      `json:"lost"` // snapshots that are damaged or cannot be read
	FreeBytes        uint64   `json:"free_bytes"`
	LagSeconds       *float64 `json:"lag_seconds"` // null: no record is known

	newest *store.Point
}

// watch is a store being watched.
type watch struct {
	*run
	directory string
	show      sizes

	store  *store.Store
	writer string
	at     time.Time
	ends   map[string]int64     // of the segments, at the last look
	end    string               // the last of them
	last   uint64               // record
	seen   map[snapshot.ID]bool // snapshots
	saves  int
	named  map[string]bool // snapshots that are lost, by path

	table *table // of line
	drawn int    // lines of screen
}

func (w *watch) every(interval time.Duration, print func(*seen)) error {
	clock := time.NewTicker(interval)
	defer clock.Stop()
	for {
		s, err := w.look()
		if err != nil {
			return err
		}
		w.nameLost()
		print(s)
		if err := w.out.Flush(); err != nil {
			return err
		}
		select {
		case <-w.ctx.Done():
			return errCancelled(w.ctx)
		case <-clock.C:
		}
	}
}

// look looks at the store, and compares it with the last look.
func (w *watch) look() (*seen, error) {
	writer, err := journal.WriterOf(w.FS, w.directory)
	if err != nil {
		return nil, err
	}
	isFirst := w.store == nil
	if isFirst || writer != w.writer { // one that was killed may have left records
		w.store, err = store.Look(w.FS, w.directory)
	} else {
		w.store, err = w.store.LookAgain()
	}
	if err != nil {
		return nil, err
	}
	var space unix.Statfs_t
	if err := unix.Statfs(w.directory, &space); err != nil {
		return nil, file.Failed(err, "cannot ask for the space of %s", w.directory)
	}
	now, info := time.Now(), &w.store.Journal
	s := &seen{Time: moment(now), Writer: writer, Last: info.Last, Segments: len(info.Segments),
		Snapshots: len(w.store.Points), Lost: len(w.store.Lost),
		FreeBytes: space.Bavail * uint64(space.Bsize), newest: w.store.Newest()}
	written, ends := int64(0), make(map[string]int64, len(info.Segments))
	for i := range info.Segments {
		segment := &info.Segments[i]
		if i == len(info.Segments)-1 {
			segment.Bytes = info.End
		}
		ends[segment.Name] = segment.Bytes
		s.JournalBytes += segment.Bytes
		written += segment.Bytes - w.ends[segment.Name]
	}
	s.SnapshotBytes = w.store.SnapshotBytes()
	for i := range w.store.Points {
		p := &w.store.Points[i]
		if !w.seen[p.ID] && !isFirst {
			w.saves++
		}
		w.seen[p.ID] = true
	}
	s.Saves = w.saves
	s.RecordsSinceSave, s.BytesSinceSave = since(info, s.newest)
	if s.newest != nil {
		s.Newest = momentOrNothing(s.newest.Taken)
	}
	if info.LastTime != 0 {
		lag := max(0, now.Sub(time.Unix(0, info.LastTime)).Seconds())
		s.LagSeconds = &lag
	}
	if !isFirst {
		seconds := now.Sub(w.at).Seconds()
		records, bytes := float64(info.Last-min(w.last, info.Last)), float64(max(0, written))
		// Where segments have come and gone, their records had the mean size.
		if _, there := ends[w.end]; !there && info.Last >= info.First {
			bytes = records * float64(s.JournalBytes) / float64(info.Last-info.First+1)
		}
		records, bytes = records/seconds, bytes/seconds
		s.RecordsPerSecond, s.BytesPerSecond = &records, &bytes
	}
	w.writer, w.at, w.ends, w.last, w.end = writer, now, ends, info.Last, info.Segments[len(info.Segments)-1].Name
	return s, nil
}

// nameLost complains of each snapshot that is lost, once. A screen that was drawn stays above it.
func (w *watch) nameLost() {
	for _, l := range w.store.Lost {
		if !w.named[l.Path] {
			w.named[l.Path], w.drawn = true, 0
			w.complain(l.Err)
		}
	}
}

// since is how many records lie behind a snapshot, and about how many bytes they have: those of a segment that lies around it are
// taken to be of one size.
func since(info *journal.Info, newest *store.Point) (records uint64, bytes int64) {
	from := info.First
	if newest != nil {
		from = max(from, newest.Position+1)
	}
	for i := range info.Segments {
		s := &info.Segments[i]
		if first := max(from, s.First); first <= s.Last {
			records += s.Last - first + 1
			bytes += int64(float64(s.Bytes) * float64(s.Last-first+1) / float64(s.Last-s.First+1))
		}
	}
	return records, bytes
}

func (w *watch) json(s *seen) { _, _ = w.out.Write(append(marshalled(s), '\n')) }

// rate shows a number per second; "-" where it is not known.
func rate(perSecond *float64, show func(uint64) string) string {
	if perSecond == nil {
		return "-"
	}
	return show(uint64(*perSecond+0.5)) + "/s"
}

func lag(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	return time.Duration(*seconds * float64(time.Second)).Round(time.Millisecond).String()
}

func (w *watch) line(s *seen) {
	if w.table == nil {
		w.table = newTable(w.out, "TIME", ">RECORD", ">RECORDS", ">JOURNAL", ">SINCE SAVE", ">SAVES", ">SEGMENTS", ">SNAPSHOTS",
			">FREE", ">LAG")
		w.table.fit([]string{"2026-01-31T12:00:00Z", "1000000000", "10000000/s", "1000.0 MiB/s", "1000.0 MiB", "", "1000.0 MiB",
			"1000.0 MiB", "1000.0 GiB", "1m0.001s"})
		w.table.finish()
	}
	w.table.print([]string{w.at.UTC().Format(time.RFC3339), decimal(s.Last), rate(s.RecordsPerSecond, decimal),
		rate(s.BytesPerSecond, w.show.of), w.show.of(uint64(s.BytesSinceSave)), decimal(uint64(s.Saves)),
		w.show.of(uint64(s.JournalBytes)), w.show.of(uint64(s.SnapshotBytes)), w.show.of(s.FreeBytes), lag(s.LagSeconds)})
}

// screen draws over what it has drawn.
func (w *watch) screen(s *seen) {
	if w.drawn > 0 {
		_, _ = fmt.Fprintf(w.out, "\x1b[%dA\r\x1b[J", w.drawn)
	}
	writer, saved := s.Writer, "-"
	if writer == "" {
		writer = "nobody"
	}
	if p := s.newest; p != nil {
		ago := w.at.Sub(p.Taken).Round(time.Second)
		saved = fmt.Sprintf("at record %d, %s ago, %s", p.Position, max(0, ago), w.show.within(uint64(p.Bytes)))
	}
	rows := []string{"store", shown(w.directory) + ", " + w.at.UTC().Format(time.RFC3339), "written by", shown(writer),
		"records", fmt.Sprintf("%s, the newest is %d, made %s ago", rate(s.RecordsPerSecond, decimal), s.Last, lag(s.LagSeconds)),
		"journal", rate(s.BytesPerSecond, w.show.of) + ", " + count(uint64(s.Segments), "segment") + ", " +
			w.show.within(uint64(s.JournalBytes)),
		"since save", count(s.RecordsSinceSave, "record") + ", about " + w.show.within(uint64(s.BytesSinceSave)),
		"saves", fmt.Sprintf("%d since watch began; the newest: %s", s.Saves, saved),
		"space", count(uint64(s.Snapshots), "snapshot") + " of " + w.show.within(uint64(s.SnapshotBytes)) + "; free: " +
			w.show.within(s.FreeBytes)}
	if s.Lost > 0 {
		rows = append(rows, "lost", count(uint64(s.Lost), "snapshot")+", damaged or not readable: mmsb store verify names them")
	}
	var text strings.Builder
	list(&text, rows...)
	_, _ = w.out.WriteString(w.cut(text.String()))
	w.drawn = len(rows) / 2
}

// cut cuts lines at the width of the terminal: one that goes on would not be drawn over.
func (w *watch) cut(text string) string {
	terminal, ok := w.Stdout.(*os.File)
	if !ok {
		return text
	}
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if runes := []rune(strings.TrimSuffix(line, "\n")); len(runes) > int(size.Col) {
			lines[i] = string(runes[:size.Col]) + "\n"
		}
	}
	return strings.Join(lines, "")
}
