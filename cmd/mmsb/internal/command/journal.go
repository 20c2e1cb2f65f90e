// mmsb journal: lists and replays journals.

package command

import (
	"bufio"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"libmmsb/cmd/mmsb/internal/replay"
	"libmmsb/core/abi"
	"libmmsb/core/journal"
	"libmmsb/core/snapshot"
)

func (r *run) journal() *cobra.Command {
	return group("journal", "inspect and replay journals", r.journalList(), r.journalReplay())
}

// directories has a shell complete directories only.
func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// untilFlags say how far to go.
type untilFlags struct {
	sequence    uint64
	time, epoch string
}

func (u *untilFlags) add(c *cobra.Command) {
	c.Flags().Uint64Var(&u.sequence, "until", 0, "end at record `N`")
	c.Flags().StringVar(&u.time, "until-time", "", "end at the last record at or before `TIME`, like 2026-01-31T12:00:00Z")
	c.Flags().StringVar(&u.epoch, "until-epoch", "",
		"end before the first record that moves a page's epoch beyond `PAGE:EPOCH`, or at the end where none does")
	c.MarkFlagsMutuallyExclusive("until", "until-time", "until-epoch")
}

func (u *untilFlags) given(c *cobra.Command) bool {
	return c.Flags().Changed("until") || c.Flags().Changed("until-time") || c.Flags().Changed("until-epoch")
}

func (u *untilFlags) parse(c *cobra.Command) (until journal.Until, err error) {
	if c.Flags().Changed("until") && u.sequence == 0 {
		return until, fmt.Errorf("--until is 0; the first record is 1")
	}
	until.Sequence = u.sequence
	if c.Flags().Changed("until-time") {
		if until.Time, err = parseTime(u.time); err != nil {
			return until, err
		}
	}
	if c.Flags().Changed("until-epoch") {
		page, epoch, found := strings.Cut(u.epoch, ":")
		if until.Page, err = parseID(page); err != nil {
			return until, err
		}
		until.Epoch, err = strconv.ParseUint(epoch, 0, 64)
		if !found || err != nil || until.Epoch == 0 {
			return until, fmt.Errorf("%q is not PAGE:EPOCH with an epoch above 0, like 7:100", u.epoch)
		}
	}
	return until, nil
}

// parseTime reads a time that files can have.
func parseTime(text string) (nanoseconds int64, err error) {
	moment, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time like 2026-01-31T12:00:00Z", text)
	}
	if nanoseconds = moment.UnixNano(); nanoseconds <= 0 || moment.Year() > 2261 {
		return 0, fmt.Errorf("%q is outside the years 1970 to 2261", text)
	}
	return nanoseconds, nil
}

// -------------------------------------------------------------------------------------------------------------- list ----

func (r *run) journalList() *cobra.Command {
	c := &cobra.Command{Use: "ls DIR", Short: "list the segments and records of a journal",
		Long: `ls shows a journal's segments, which records they hold, and how many bytes at its end are torn: half
written when the writer died, or being written now. With --records, --from or --until it also lists the records. It ends with
the last whole group of records, as replay does.`,
		Example: "  mmsb journal ls journal/\n  mmsb journal ls journal/ --from 1000 --until 1100",
		Args:    takes("a DIRectory", 1, 1), ValidArgsFunction: directories}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	records := c.Flags().Bool("records", false, "list all records")
	from := c.Flags().Uint64("from", 0, "list records from record `N` on")
	var until untilFlags
	until.add(c)
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		end, err := until.parse(c)
		if err != nil {
			return err
		}
		l := logList{directory: arguments[0], from: *from, until: end, show: *show}
		l.records = *records || c.Flags().Changed("from") || until.given(c)
		return r.beside(l.directory, func(r *run) (err error) {
			l.run = r
			if l.log, err = journal.Open(r.FS, l.directory); err == nil {
				l.first, l.last, err = l.log.Times()
			}
			if err != nil {
				return err
			}
			l.info = l.log.Info()
			if *asJSON {
				return l.json()
			}
			return l.text()
		})
	}
	return c
}

// beside runs what reads a journal's directory and writes what it finds, again where the directory's writer removes files
// meanwhile, as long as nothing is written: long lists are not held back.
func (r *run) beside(directory string, show func(r *run) error) (err error) {
	held := &heldBack{to: r.out}
	_ = journal.Beside(r.FS, directory, func() error {
		held.bytes = held.bytes[:0]
		again := *r
		again.out = bufio.NewWriter(held)
		err = show(&again)
		_ = again.out.Flush() // what it has written is kept by to
		if held.flows {
			return nil
		}
		return err
	})
	held.flow()
	return err
}

// heldBack is an output that can begin anew until it is long.
type heldBack struct {
	to    *bufio.Writer // which keeps its error
	bytes []byte
	flows bool
}

func (h *heldBack) Write(p []byte) (int, error) {
	const most = 64 << 20
	h.bytes = append(h.bytes, p...)
	if h.flows || len(h.bytes) > most {
		h.flow()
	}
	return len(p), nil
}

func (h *heldBack) flow() {
	_, _ = h.to.Write(h.bytes)
	h.bytes, h.flows = h.bytes[:0], true
}

// logList is a journal being listed.
type logList struct {
	*run
	log       *journal.Journal
	info      journal.Info
	first     int64 // when the first record and the last were written
	last      int64
	directory string
	records   bool
	from      uint64
	until     journal.Until
	show      sizes
}

// each walks the records that are wanted.
func (l *logList) each(visit func(record *journal.Record)) error {
	if !l.records || l.info.First > l.info.Last {
		return nil
	}
	last := uint64(math.MaxUint64)
	if l.until != (journal.Until{}) {
		var err error
		if last, err = l.log.Find(l.info.First-1, l.until); err != nil {
			return err
		}
	}
	for record, err := range l.log.RecordsBetween(l.from, last) {
		if err != nil {
			return err
		}
		visit(record)
	}
	return nil
}

func span(first, last uint64) string {
	if first > last {
		return "none"
	}
	return fmt.Sprintf("%d to %d", first, last)
}

// branch is the number of the lineage in the directory, where it is not the only one.
func branch(info *journal.Info) string {
	if info.Branches == 1 {
		return "-"
	}
	return fmt.Sprintf("%d, the newest of %d", info.Branch, info.Branches)
}

func (l *logList) text() error {
	info := &l.info
	end := "open: being written, or its writer died"
	if info.Closed {
		end = "closed"
	}
	if info.TornBytes > 0 {
		end = fmt.Sprintf("torn: %s behind record %d do not count", l.show.within(uint64(info.TornBytes)), info.Last)
	}
	list(l.out, "journal", shown(l.directory), "lineage", line(info.Lineage), "branch", branch(info), "records", span(info.First,
		info.Last),
		"first", moment(nanoseconds(l.first)), "last", moment(nanoseconds(l.last)), "end", end)
	_ = l.out.WriteByte('\n')
	t := newTable(l.out, "SEGMENT", "RECORDS", ">SIZE", "BEGUN", "BEHIND")
	for _, s := range info.Segments {
		behind := "the records before"
		switch {
		case s.Based:
			behind = "a base"
		case s.First == 1:
			behind = "the empty state"
		}
		t.add(s.Name, span(s.First, s.Last), l.show.of(uint64(s.Bytes)), moment(nanoseconds(s.Created)), behind)
	}
	t.finish()
	if err := l.bases(); err != nil {
		return err
	}
	if !l.records {
		return nil
	}
	_ = l.out.WriteByte('\n')
	t = newTable(l.out, ">RECORD", ">GROUP", "TIME", "KIND", ">PAGE", ">VERSION", ">EPOCH", "WHAT")
	if err := l.each(func(r *journal.Record) {
		t.add(decimal(r.Sequence), decimal(r.Group), moment(time.Unix(0, r.Time)), r.Kind.String(), decimal(r.Page),
			decimal(r.Version), decimal(r.Epoch), l.what(r))
	}); err != nil {
		return err
	}
	t.finish()
	return nil
}

// bases lists the snapshots that records go on from.
func (l *logList) bases() error {
	bases, lost := snapshot.Bases(l.FS, l.directory)
	if len(bases) == 0 {
		return lost
	}
	_ = l.out.WriteByte('\n')
	t := newTable(l.out, "BASE", ">POSITION", "LINEAGE", "TAKEN")
	for _, b := range bases {
		t.add(shown(b.Path), decimal(b.Position), line(b.Lineage), moment(b.Taken))
	}
	t.finish()
	return lost
}

// what says what a record does, in a few words.
func (l *logList) what(r *journal.Record) string {
	text := ""
	switch r.Kind {
	case journal.Create, journal.Adopt:
		text = l.show.within(r.Size) + ", " + placement(r.Location, r.Device)
	case journal.Clone:
		text = fmt.Sprintf("of page %d at version %d", r.Other, r.OtherVersion)
	case journal.Resize:
		text = l.show.within(r.Size)
	case journal.Migrate:
		text = placement(r.Location, r.Device)
	case journal.Write, journal.Run:
		text = fmt.Sprintf("%s at offset %d", l.show.within(uint64(len(r.Bytes))), r.Offset)
	case journal.Delta:
		text = fmt.Sprintf("%s, %s", form(r.Form), l.show.within(uint64(len(r.Bytes))))
	case journal.MetadataSet:
		text = fmt.Sprintf("%s, %s", shown(string(r.Key)), l.show.within(uint64(len(r.Value))))
	case journal.MetadataRemove:
		text = shown(string(r.Key))
	case journal.MetadataImport:
		text = l.show.within(uint64(len(r.Bytes)))
	case journal.DependencyAdd, journal.DependencyRemove:
		text = fmt.Sprintf("page %d depends on it", r.Other)
	}
	if len(r.Source) > 0 {
		text += ", by " + shown(string(r.Source))
	}
	if len(r.Intent) > 0 {
		text += ": " + shown(string(r.Intent))
	}
	return text
}

func form(number uint16) string {
	if number == journal.Indexed32 {
		return "indexed32"
	}
	return abi.DeltaNames[number] // the reader knows no other
}

// segmentShown is a file of a journal in JSON.
type segmentShown struct {
	Name  string  `json:"name"`
	Based bool    `json:"based"`
	First uint64  `json:"first"`
	Last  uint64  `json:"last"`
	Bytes int64   `json:"bytes"`
	Begun *string `json:"begun"`
}

// recordShown is a record in JSON.
type recordShown struct {
	Record  uint64 `json:"record"`
	Group   uint64 `json:"group"`
	Time    string `json:"time"`
	Kind    string `json:"kind"`
	Page    uint64 `json:"page,string"`
	Version uint64 `json:"version,string"`
	Epoch   uint64 `json:"epoch,string"`

	Size     *uint64 `json:"size,omitempty"`
	Location string  `json:"location,omitempty"`
	Device   *int32  `json:"device,omitempty"`
	NUMANode *int32  `json:"numa_node,omitempty"`
	Adopted  bool    `json:"adopted,omitempty"`
	ReadOnly bool    `json:"read_only,omitempty"`
	Offset   *uint64 `json:"offset,omitempty"`
	Bytes    *int    `json:"bytes,omitempty"`
	Form     string  `json:"form,omitempty"`
	Key      string  `json:"key,omitempty"`
	Source   string  `json:"source,omitempty"`
	Intent   string  `json:"intent,omitempty"`
	Child    uint64  `json:"child,omitempty,string"`
	Of       uint64  `json:"of,omitempty,string"`
	OfAt     uint64  `json:"of_version,omitempty,string"`
}

func showRecord(r *journal.Record) recordShown {
	s := recordShown{Record: r.Sequence, Group: r.Group, Time: moment(time.Unix(0, r.Time)), Kind: r.Kind.String(), Page: r.Page,
		Version: r.Version, Epoch: r.Epoch, Key: string(r.Key), Source: string(r.Source), Intent: string(r.Intent)}
	length := len(r.Bytes)
	switch r.Kind {
	case journal.Create, journal.Adopt:
		s.Size, s.Adopted, s.ReadOnly = &r.Size, r.State&1 != 0, r.State&2 != 0
		s.Location, s.Device, s.NUMANode = location(r.Location), &r.Device, &r.NUMANode
	case journal.Resize:
		s.Size = &r.Size
	case journal.Migrate:
		s.Location, s.Device, s.NUMANode = location(r.Location), &r.Device, &r.NUMANode
	case journal.Write, journal.Run:
		s.Offset, s.Bytes = &r.Offset, &length
	case journal.Delta:
		s.Form, s.Bytes = form(r.Form), &length
	case journal.MetadataSet:
		length = len(r.Value)
		s.Bytes = &length
	case journal.MetadataImport:
		s.Bytes = &length
	case journal.Clone:
		s.Of, s.OfAt = r.Other, r.OtherVersion
	case journal.DependencyAdd, journal.DependencyRemove:
		s.Child = r.Other
	}
	return s
}

func (l *logList) json() error {
	info := &l.info
	head := struct {
		Directory string         `json:"directory"`
		Lineage   *string        `json:"lineage"`
		Parent    *string        `json:"parent"`
		Fork      uint64         `json:"fork"`
		Branch    uint64         `json:"branch"`
		Branches  uint64         `json:"branches"`
		First     uint64         `json:"first"`
		Last      uint64         `json:"last"`
		FirstTime *string        `json:"first_time"`
		LastTime  *string        `json:"last_time"`
		TornBytes int64          `json:"torn_bytes"`
		Closed    bool           `json:"closed"`
		Segments  []segmentShown `json:"segments"`
	}{l.directory, lineageOrNothing(info.Lineage.ID), lineageOrNothing(info.Lineage.Parent.Lineage), info.Lineage.Parent.Position,
		info.Branch, info.Branches, info.First, info.Last, momentOrNothing(nanoseconds(l.first)),
		momentOrNothing(nanoseconds(l.last)), info.TornBytes, info.Closed, nil}
	for _, s := range info.Segments {
		begun := momentOrNothing(nanoseconds(s.Created))
		head.Segments = append(head.Segments, segmentShown{s.Name, s.Based, s.First, s.Last, s.Bytes, begun})
	}
	if !l.records {
		encoded(l.out, head)
		return nil
	}
	list := newStream(l.out, head, "records")
	if err := l.each(func(r *journal.Record) { list.add(showRecord(r)) }); err != nil {
		return err
	}
	list.end()
	return nil
}

// ------------------------------------------------------------------------------------------------------------ replay ----

func (r *run) journalReplay() *cobra.Command {
	c := &cobra.Command{Use: "replay DIR [--snapshot FILE] -o OUT", Short: "write an earlier state as a snapshot",
		Long: `replay applies a journal's records to the pages of a snapshot, from the first that the snapshot does not hold
to the end, to a record or to a time, and writes the state as a new whole snapshot, which appears whole or not at all. Calls
that changed several pages at once are applied whole or not at all. The snapshot must not be newer than the state, must
be of the journal's lineage, and the journal must reach back to it; without --snapshot it is the journal's own base, or the empty
state if the journal has all records from the first on. Bytes that programs wrote through pointers are not in a journal.

Memory is needed for what the records change; the snapshot is read from disk.`,
		Example: "  mmsb journal replay journal/ -o now.mmsb\n" +
			"  mmsb journal replay journal/ --snapshot monday.mmsb -o noon.mmsb --until-time 2026-01-31T12:00:00Z",
		Args: takes("a DIRectory", 1, 1), ValidArgsFunction: directories}
	out := output(c, "`FILE` to write")
	from := c.Flags().StringP("snapshot", "s", "", "snapshot `FILE` to begin with (default: what the journal begins with)")
	compress := c.Flags().Bool("compress", false, "compress changed pages with zstd")
	show := bytesFlag(c)
	var until untilFlags
	until.add(c)
	_ = c.MarkFlagRequired("output")
	c.RunE = func(c *cobra.Command, arguments []string) error {
		if err := notOutput(c, *out); err != nil {
			return err
		}
		end, err := until.parse(c)
		if err != nil {
			return err
		}
		applying, writing := r.bar("replaying"), r.bar("writing "+filepath.Base(*out))
		o := replay.Options{FS: r.FS, Snapshot: *from, Journal: arguments[0], Output: *out, Until: end, Done: r.ctx.Done(),
			Records: applying.records, Bytes: writing.bytes}
		if *compress {
			o.Compression = snapshot.Zstd
		}
		var report replay.Report
		err = journal.Beside(r.FS, o.Journal, func() (err error) {
			report, err = replay.Run(o)
			return err
		})
		applying.clear()
		writing.clear()
		if err != nil {
			return err
		}
		applied := report.Last - report.First + 1
		r.written(*out, &report.Report, *show,
			fmt.Sprintf(", at record %d, %s (%s applied)", report.Last, moment(report.Taken), count(applied, "record")))
		return nil
	}
	return c
}
