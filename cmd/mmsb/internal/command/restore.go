// mmsb store restore: makes a new store of an earlier state of one.

package command

import (
	"fmt"
	"path/filepath"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"libmmsb/cmd/mmsb/internal/replay"
	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/store"
)

// parseAt tells names, records and times apart: a name begins with a letter, and a time has more than digits.
func parseAt(text string) (at store.At, err error) {
	if first, _ := utf8.DecodeRuneInString(text); unicode.IsLetter(first) {
		at.Name = text
		return at, nil
	}
	if at.Record, err = strconv.ParseUint(text, 10, 64); err == nil {
		if at.Record == 0 {
			return at, fmt.Errorf("--at is record 0; the first record is 1")
		}
		return at, nil
	}
	at.Time, err = parseTime(text)
	if err != nil {
		return at, fmt.Errorf("--at: %w; a record is a number, and a name begins with a letter", err)
	}
	return at, nil
}

// restoredShown is a new store in JSON.
type restoredShown struct {
	Store   string  `json:"store"`
	Record  uint64  `json:"record"`
	Taken   *string `json:"taken"`
	Pages   uint64  `json:"pages"`
	Bytes   uint64  `json:"bytes"`
	Applied uint64  `json:"applied"`
	Lineage string  `json:"lineage"`
	Parent  string  `json:"parent"`
}

func (r *run) storeRestore() *cobra.Command {
	c := &cobra.Command{Use: "restore DIR TARGET [--at WHEN]", Short: "make a new store of an earlier state of one",
		Long: `restore makes TARGET, a directory that is missing or empty, a store that begins with a state of the store DIR:
the one with a name, the one behind a record, or that of a time; without --at the newest. The state becomes one whole snapshot,
every byte of which is verified on the way. What a program changes there is a branch of its own: a lineage that begins behind
the state. DIR is only read, also while a process writes it. TARGET is there whole or not at all; where restore was killed, run it
again. It fills a directory beside TARGET, so TARGET cannot be where a file system is mounted.

Memory is needed for what the records since the snapshot before the state change. A program that wants DIR itself to go on from an
earlier state opens it as a branch (mmsb_store_open).`,
		Example: "  mmsb store restore state/ noon/ --at 2026-01-31T12:00:00Z\n" +
			"  mmsb store restore state/ before/ --at before-migration\n  mmsb store restore state/ copy/ --at 100",
		Args: takes("a DIRectory and a TARGET", 2, 2), ValidArgsFunction: directories}
	when := c.Flags().String("at", "", "the state with a `NAME`, behind a record, or of a time like 2026-01-31T12:00:00Z")
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.RunE = func(c *cobra.Command, arguments []string) error {
		var at store.At
		if c.Flags().Changed("at") {
			var err error
			if at, err = parseAt(*when); err != nil {
				return err
			}
		}
		stage, err := stage(r.FS, arguments[1])
		if err != nil {
			return err
		}
		result, line, err := r.restore(arguments[0], at, stage)
		if err != nil {
			stage.discard()
			return err
		}
		if err := stage.publish(); err != nil {
			return err
		}
		applied := result.Last + 1 - result.First
		if *asJSON {
			encoded(r.out, restoredShown{arguments[1], result.Last, momentOrNothing(result.Taken), result.StatePages,
				result.StateBytes, applied, line.ID.String(), line.Parent.Lineage.String()})
			return nil
		}
		r.written(arguments[1], &result.Report, *show,
			fmt.Sprintf(", at record %d, %s (%s applied)", result.Last, moment(result.Taken), count(applied, "record")))
		return nil
	}
	return c
}

// restore fills a directory with a store that begins with a state.
func (r *run) restore(from string, at store.At, stage *staging) (result replay.Report, line lineage.Lineage, err error) {
	if err := stage.empty(); err != nil {
		return result, line, err
	}
	base := filepath.Join(stage.path, "base.mmsb")
	err = journal.Beside(r.FS, from, func() error {
		source, err := store.Find(r.FS, from, at)
		if err != nil {
			return err
		}
		result, err = r.materialise(from, source, base)
		return err
	})
	if err != nil {
		return result, line, err
	}
	header, err := snapshot.InspectHeader(base, r.FS)
	if err != nil {
		return result, line, err
	}
	state := header.Lineage.At(header.Position)
	if state.Lineage == (lineage.ID{}) {
		return result, line, status.Errorf(status.Unsupported, "the store %q is of an older format, without a lineage: no other "+
			"can begin with a state of it until a program has written it", from)
	}
	named := filepath.Join(stage.path, snapshot.BaseFileName(header.Position, header.ID))
	if err := r.FS.Rename(base, named); err != nil {
		return result, line, file.Failed(err, "cannot rename %s to %s", base, named)
	}
	line = lineage.New(state)
	log, err := journal.NewWriter(r.FS, stage.path, journal.Options{
		From: journal.State{Names: []lineage.Point{state}, GoesOn: line, Before: header.Lineage.Parent}})
	if err != nil {
		return result, line, err
	}
	err = log.HasBase()
	if closed := log.Close(); err == nil {
		err = closed
	}
	return result, line, err
}

// materialise writes a state as one whole snapshot.
func (r *run) materialise(from string, source store.Source, to string) (result replay.Report, err error) {
	applying, writing := r.bar("replaying"), r.bar("writing")
	defer applying.clear()
	defer writing.clear()
	if source.Path == "" {
		return replay.Run(replay.Options{FS: r.FS, Journal: from, Output: to, Until: source.Until, Done: r.ctx.Done(),
			Records: applying.records, Bytes: writing.bytes})
	}
	result.Report, err = snapshot.Compact(source.Path, to, snapshot.CompactOptions{
		OpenOptions: snapshot.OpenOptions{FS: r.FS}, Progress: writing.bytes,
		Replace: snapshot.ReplaceOptions{Options: file.Options{Durable: true, Done: r.ctx.Done()}}})
	if err != nil {
		return result, err
	}
	header, err := snapshot.InspectHeader(to, r.FS)
	result.First, result.Last, result.Taken = header.Position+1, header.Position, header.Taken
	return result, err
}
