// mmsb memory report: pictures of the memory of a device's runtime, from a file that a program wrote.

package command

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"libmmsb/core/file"
	"libmmsb/core/picture"
)

func (r *run) memoryReport() *cobra.Command {
	c := &cobra.Command{Use: "report FILE [-o PAGE] [--torch PICKLE]", Short: "draw a picture of a runtime's memory",
		Long: `report reads a picture of memory that a program wrote (mmsb_runtime_snapshot_write, in Python
runtime.snapshot("memory.json")), or, by the ending .csv, the log of a runtime or of RMM's logging adaptor. It writes a page for a
browser, one file that needs no other: segments as rows of blocks by tag, bytes and fragmentation over time, and who allocated
what. --torch writes the pickle that pytorch.org/memory_viz opens. Without either it prints the statistics.

A log has no segments: each block that is live at its end is shown as one. One that was full has lost its beginning, and needs
--lost-beginning where it frees what was allocated there.`,
		Example: "  mmsb memory report memory.json -o memory.html\n" +
			"  mmsb memory report log.csv -o memory.html --torch memory.pickle",
		Args: takes("a FILE", 1, 1)}
	out := output(c, "`PAGE` of HTML to write")
	torch := c.Flags().String("torch", "", "`PICKLE` to write")
	lost := lostFlag(c)
	c.RunE = func(c *cobra.Command, arguments []string) error {
		for _, path := range []string{*out, *torch} {
			if err := notOutput(c, path); err != nil {
				return err
			}
		}
		p, err := r.picture(arguments[0], *lost)
		if err != nil {
			return err
		}
		for _, form := range []struct {
			path  string
			write func(to io.Writer) error
		}{{*out, p.WriteHTML}, {*torch, p.WriteTorch}} {
			if form.path == "" {
				continue
			}
			sink, err := file.Replace(r.FS, form.path, file.Options{Durable: true, Done: r.ctx.Done()})
			if err != nil {
				return err
			}
			if err := file.WriteAll(sink, form.write); err != nil {
				return err
			}
		}
		if *out == "" && *torch == "" {
			r.memoryNumbers(p)
		}
		return nil
	}
	return c
}

// picture reads a picture, or a log, which may have lost its beginning.
func (r *run) picture(path string, lost bool) (p *picture.Picture, err error) {
	source, err := file.Open(r.FS, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = source.Close() }()
	from := io.NewSectionReader(source, 0, source.Size())
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		p, err = picture.ReadLog(from, lost)
	} else {
		p, err = picture.ReadJSON(from)
	}
	return p, r.unread(path, err)
}

func (r *run) memoryNumbers(p *picture.Picture) {
	live, reserved := p.Totals()
	_, peak := p.Timeline(1)
	table := newTable(r.out, "name", ">value")
	for _, e := range append([]picture.Entry{{Name: "live", Value: live}, {Name: "reserved", Value: reserved},
		{Name: "peak of live", Value: peak.Live}, {Name: "segments", Value: uint64(len(p.Segments))},
		{Name: "events", Value: uint64(len(p.Events))}, {Name: "events lost", Value: p.Lost}}, p.Statistics...) {
		table.add(shown(e.Name), fmt.Sprint(e.Value))
	}
	table.finish()
}
