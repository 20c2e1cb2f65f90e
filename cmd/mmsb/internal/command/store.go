// mmsb store: shows, verifies, prunes and copies stores. restore.go, watch.go and
// backup.go have the rest.

package command

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"libmmsb/core/journal"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/store"
)

func (r *run) store() *cobra.Command {
	return group("store", "inspect, watch, verify, prune, copy and restore stores", r.storeInfo(), r.storeList(), r.storeVerify(),
		r.storePrune(), r.storeBackup(), r.storePull(), r.storeRestore(), r.storeWatch())
}

// -------------------------------------------------------------------------------------------------------------- info ----

// storeShown is a store in JSON.
type storeShown struct {
	Store         string  `json:"store"`
	Lineage       string  `json:"lineage"`
	First         uint64  `json:"first"`
	Last          uint64  `json:"last"`
	Snapshots     int     `json:"snapshots"`
	SnapshotBytes int64   `json:"snapshot_bytes"`
	Lost          int     `json:"lost"` // snapshots that are damaged or cannot be read
	Segments      int     `json:"segments"`
	JournalBytes  int64   `json:"journal_bytes"`
	Branches      uint64  `json:"branches"`
	Newest        *string `json:"newest"`
	Writer        string  `json:"writer"`
}

func (r *run) storeInfo() *cobra.Command {
	c := &cobra.Command{Use: "info DIR", Short: "show what a store has",
		Long: `info shows how many snapshots and records a store has, how many bytes they take, when the newest snapshot
was taken, and which process writes it. Records that only the writer's process has are not counted. Where a snapshot is damaged
or cannot be read, it shows the others and ends with an error.`,
		Example: "  mmsb store info state/",
		Args:    takes("a DIRectory", 1, 1), ValidArgsFunction: directories}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		directory := arguments[0]
		s, err := store.Look(r.FS, directory)
		if err != nil {
			return err
		}
		writer, err := journal.WriterOf(r.FS, directory)
		if err != nil {
			return err
		}
		info := storeShown{Store: directory, Lineage: s.Line.ID.String(), First: s.Journal.First, Last: s.Journal.Last,
			Snapshots: len(s.Points), Segments: len(s.Journal.Segments), Branches: s.Journal.Branches, Writer: writer}
		info.SnapshotBytes, info.Lost = s.SnapshotBytes(), len(s.Lost)
		info.JournalBytes = journalBytes(s)
		var taken time.Time
		if newest := s.Newest(); newest != nil {
			taken = newest.Taken
		}
		if *asJSON {
			info.Newest = momentOrNothing(taken)
			encoded(r.out, info)
			return r.lost(s)
		}
		if writer == "" {
			writer = "nobody"
		}
		list(r.out, "store", shown(directory), "lineage", line(s.Line), "branch", branch(&s.Journal),
			"records", span(info.First, info.Last), "journal", count(uint64(info.Segments), "segment")+", "+
				show.within(uint64(info.JournalBytes)),
			"snapshots", decimal(uint64(info.Snapshots))+", "+show.within(uint64(info.SnapshotBytes)),
			"newest", moment(taken), "written by", shown(writer))
		return r.lost(s)
	}
	return c
}

// lost tells of a store's snapshots that cannot be read; the exit code says so, too.
func (r *run) lost(s *store.Store) error {
	v := verification{run: r}
	for _, l := range s.Lost {
		v.bad(l.Path, l.Err)
	}
	return v.end(nil)
}

// -------------------------------------------------------------------------------------------------------------- list ----

// pointShown is a snapshot of a store in JSON.
type pointShown struct {
	File     string   `json:"file"`
	ID       string   `json:"id"`
	Position uint64   `json:"position"`
	Lineage  string   `json:"lineage"`
	Taken    *string  `json:"taken"`
	Bytes    int64    `json:"bytes"`
	Whole    bool     `json:"whole"`
	RestsOn  *string  `json:"rests_on"` // a file of the same directory
	OnLine   bool     `json:"on_line"`
	Leads    bool     `json:"leads"`
	Names    []string `json:"names"`
}

func (r *run) storeList() *cobra.Command {
	c := &cobra.Command{Use: "ls DIR", Short: "list the snapshots of a store",
		Long: `ls lists the snapshots of a store, the newest first: the number of the last record that each has, when it was
taken, how many bytes its file has, whether it rests on others, and its names. From a snapshot with records, every state since
can be opened. Those of branches that were left come last. Where a snapshot is damaged or cannot be read, it lists the others and
ends with an error.`,
		Example: "  mmsb store ls state/",
		Args:    takes("a DIRectory", 1, 1), ValidArgsFunction: directories}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		s, err := store.Look(r.FS, arguments[0])
		if err != nil {
			return err
		}
		points := []pointShown{}
		t := newTable(r.out, ">POSITION", "TAKEN", ">SIZE", "RESTS ON", "BEHIND IT", "NAMES")
		for i := range s.Points {
			p := &s.Points[i]
			isWhole := p.Header.Base == snapshot.ID{}
			rests, behind := "-", "-"
			var base *string
			if !isWhole {
				name, there := r.baseOf(p)
				base, rests = &name, shown(name)
				if !there {
					rests += " (missing)"
				}
			}
			switch {
			case !p.OnLine:
				behind = "a branch that was left"
			case p.Leads:
				behind = "records"
			}
			names := make([]string, 0, len(p.Names))
			for _, name := range p.Names {
				names = append(names, shown(name))
			}
			if !*asJSON {
				t.add(decimal(p.Position), moment(p.Taken), show.of(uint64(p.Bytes)), rests, behind, strings.Join(names, ", "))
				continue
			}
			points = append(points, pointShown{File: p.Path, ID: p.ID.String(), Position: p.Position,
				Lineage: p.Lineage.ID.String(), Taken: momentOrNothing(p.Taken), Bytes: p.Bytes, Whole: isWhole,
				RestsOn: base, OnLine: p.OnLine, Leads: p.Leads, Names: append([]string{}, p.Names...)})
		}
		if *asJSON {
			encoded(r.out, map[string]any{"snapshots": points})
			return r.lost(s)
		}
		t.finish()
		return r.lost(s)
	}
	return c
}

// baseOf is the name of the file that a snapshot rests on, which may be kept under another one than its header says.
func (r *run) baseOf(p *store.Point) (name string, there bool) {
	if chain, _ := snapshot.ChainOf(r.FS, p.Path); len(chain) > 1 {
		if _, err := r.FS.Stat(chain[1]); err == nil {
			return filepath.Base(chain[1]), true
		}
	}
	return p.BaseName, false
}

// ------------------------------------------------------------------------------------------------------------ verify ----

func (r *run) storeVerify() *cobra.Command {
	c := &cobra.Command{Use: "verify DIR", Short: "verify every snapshot and record of a store",
		Long: `verify reads all snapshots of a store with what they rest on, all records of its journal and the file of names, and
checks every checksum and everything else that the formats require, also that each name leads to a snapshot. It reports the first
damage in each and goes on with the next. What the store's writer removes meanwhile is left out. The exit code is 1 if anything is
damaged, else 3 if it cannot be read.`,
		Example: "  mmsb store verify state/",
		Args:    takes("a DIRectory", 1, 1), ValidArgsFunction: directories}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		directory := arguments[0]
		paths, lost, err := store.Contents(r.FS, directory)
		if err != nil {
			return err
		}
		v := verification{run: r, show: *show, asJSON: *asJSON, beside: true}
		files, err := v.all(paths)
		if err != nil {
			return err
		}
		for _, l := range lost {
			files = append(files, v.bad(l.Path, l.Err))
		}
		log := verifiedJournal{Directory: directory}
		log.Records, err = r.records(directory)
		if err == nil && len(lost) == 0 { // else a snapshot that is lost may be the one that they lead on from
			err = r.leads(directory)
		}
		switch {
		case status.CodeOf(err) == status.Cancelled:
			return err
		case err != nil:
			log.Error = v.bad(directory, err).Error
		default:
			log.Good = true
			if !*asJSON {
				_, _ = r.out.WriteString(shown(directory) + ": good, " + count(log.Records, "record") + "\n")
			}
		}
		return v.end(map[string]any{"files": files, "journal": log})
	}
	return c
}

// leads says whether a store's records lead on from a state that it has.
func (r *run) leads(directory string) error {
	s, err := store.Look(r.FS, directory)
	if err != nil {
		return err
	}
	return s.CheckLeads()
}

// verifiedJournal is what became of a store's journal, in JSON.
type verifiedJournal struct {
	Directory string `json:"directory"`
	Good      bool   `json:"good"`
	Records   uint64 `json:"records"` // as many as are good, up to the first that is not
	Error     string `json:"error,omitempty"`
}

// records counts the records of a journal, each of which is looked at.
func (r *run) records(directory string) (records uint64, err error) {
	err = journal.Beside(r.FS, directory, func() error {
		records = 0
		log, err := journal.Open(r.FS, directory)
		if err != nil {
			return err
		}
		for _, err := range log.RecordsFrom(0) {
			if err != nil {
				return err
			}
			records++
		}
		return nil
	})
	return records, err
}

// ------------------------------------------------------------------------------------------------------------- prune ----

// prunedShown is what was removed, in JSON.
type prunedShown struct {
	Store     string `json:"store"`
	Snapshots int    `json:"snapshots"`
	Bytes     int64  `json:"bytes"` // of the store's files
}

func (r *run) storePrune() *cobra.Command {
	c := &cobra.Command{Use: "prune DIR", Short: "remove snapshots and records that no rule keeps",
		Long: `prune removes what the rules do not keep: the newest snapshots stay, the newest of each of the last hours and
days (UTC) that have any, those with a name, and those of branches that were left, unless --branches is given. Records stay behind
the oldest of the --keep-last newest. A store that a process writes is left alone: its own rules do the same. It tells by how many
bytes the files of the store are less: a removed snapshot on which another one rests stays as a file.`,
		Example: "  mmsb store prune state/ --keep-last 3 --keep-daily 7",
		Args:    takes("a DIRectory", 1, 1), ValidArgsFunction: directories}
	rules := store.Retention{}
	c.Flags().IntVar(&rules.Last, "keep-last", 1, "keep the newest `N` snapshots, and the records behind them")
	c.Flags().IntVar(&rules.Hourly, "keep-hourly", 0, "keep one snapshot of each of the last `N` hours that have any")
	c.Flags().IntVar(&rules.Daily, "keep-daily", 0, "keep one snapshot of each of the last `N` days that have any")
	left := c.Flags().Bool("branches", false, "remove the snapshots of branches that were left")
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.RunE = func(c *cobra.Command, arguments []string) error {
		if err := rules.Check(); err != nil { // which knows the rules as fields of options
			return misused(c, "--"+strings.ReplaceAll(status.Of(err).Text, "_", "-"))
		}
		rules.Branches = !*left
		if is, err := store.Is(r.FS, arguments[0]); err != nil {
			return err
		} else if !is { // whose lock would be made
			return status.Errorf(status.NotFound, "no journal in %s", arguments[0])
		}
		held, err := journal.Hold(r.FS, arguments[0])
		if err != nil {
			return err
		}
		defer held.Release()
		s, err := store.Look(r.FS, arguments[0])
		if err != nil {
			return err
		}
		bytes := s.SnapshotBytes() + journalBytes(s)
		pruned, err := s.Prune(rules, held.Drop)
		if err != nil {
			return err
		}
		after, err := s.LookAgain()
		if err != nil {
			return err
		}
		bytes = max(0, bytes-after.SnapshotBytes()-journalBytes(after))
		if *asJSON {
			encoded(r.out, prunedShown{arguments[0], pruned.Snapshots, bytes})
			return nil
		}
		_, _ = r.out.WriteString(count(uint64(pruned.Snapshots), "snapshot") + " removed; the store has " +
			show.within(uint64(bytes)) + " less\n")
		return nil
	}
	return c
}

func journalBytes(s *store.Store) (bytes int64) {
	for _, segment := range s.Journal.Segments {
		bytes += segment.Bytes
	}
	return bytes
}
