// mmsb snapshot diff: compares two states.

package command

import (
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"libmmsb/core/snapshot"
)

func (r *run) snapshotDiff() *cobra.Command {
	c := &cobra.Command{Use: "diff A B", Short: "compare the states of two snapshots",
		Long: `diff shows which pages and dependencies only B has, which only A has, and what changed in the
others: bytes, change mask, metadata, or attributes (size, location, epoch, flags). A page of which only the version changed
is equal. The exit code is 0 where the states are equal and 1 where they differ.`,
		Example: "  mmsb snapshot diff monday.mmsb tuesday.mmsb\n  mmsb snapshot diff --ranges monday.mmsb tuesday.mmsb",
		Args:    takes("two FILEs", 2, 2)}
	d := comparison{run: r}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.Flags().BoolVar(&d.withRanges, "ranges", false, "show which bytes of the changed pages differ")
	c.RunE = func(_ *cobra.Command, arguments []string) (err error) {
		d.show = *show
		if d.a, err = r.open(arguments[0]); err != nil {
			return err
		}
		defer func() { _ = d.a.Close() }()
		if d.b, err = r.open(arguments[1]); err != nil {
			return err
		}
		defer func() { _ = d.b.Close() }()
		if *asJSON {
			err = d.json(arguments[0], arguments[1])
		} else {
			err = d.text()
		}
		if err == nil && d.differs {
			err = result(exitBad)
		}
		return err
	}
	return c
}

// comparison is one of two states.
type comparison struct {
	*run
	a, b       *snapshot.Snapshot
	withRanges bool
	show       sizes
	differs    bool
}

// ranges are those of a changed page, where they are wanted.
func (c *comparison) ranges(d *snapshot.Difference) iter.Seq2[snapshot.Range, error] {
	if !c.withRanges || d.What != snapshot.Changed || !d.Bytes {
		return func(func(snapshot.Range, error) bool) {}
	}
	return snapshot.Ranges(c.a, c.b, d.ID)
}

// what names the things of a changed page that differ.
func what(d *snapshot.Difference) []string {
	var names []string
	for _, thing := range []struct {
		differs bool
		name    string
	}{{d.Bytes, "bytes"}, {d.Mask, "mask"}, {d.Metadata, "metadata"}, {d.Attributes, "attributes"}} {
		if thing.differs {
			names = append(names, thing.name)
		}
	}
	return names
}

func (c *comparison) text() error {
	t := newTable(c.out, "CHANGE", ">ID", ">BEFORE", ">AFTER", "WHAT")
	size := func(p *snapshot.Page) string {
		if p.ID == 0 {
			return "-"
		}
		return c.show.of(p.Size)
	}
	for d, err := range snapshot.Diff(c.a, c.b, nil) {
		if err != nil {
			return err
		}
		c.differs = true
		t.add(d.What.String(), decimal(d.ID), size(&d.Before), size(&d.After), strings.Join(what(&d), ", "))
		for piece, err := range c.ranges(&d) {
			if err != nil {
				return err
			}
			t.add("", "", "", "", fmt.Sprintf("%d bytes at offset %d", piece.Length, piece.Offset))
		}
	}
	if c.differs {
		t.finish()
	}
	added, removed, err := snapshot.DiffEdges(c.a, c.b)
	if err != nil {
		return err
	}
	for number, edge := range append(removed, added...) {
		change := "removed"
		if number >= len(removed) {
			change = "added"
		}
		c.differs = true
		_, _ = fmt.Fprintf(c.out, "dependency of page %d on page %d %s\n", edge[1], edge[0], change)
	}
	return nil
}

// rangeShown is a range of bytes in JSON.
type rangeShown struct {
	Offset uint64 `json:"offset"`
	Length uint64 `json:"length"`
}

// differenceShown is a page that differs in JSON.
type differenceShown struct {
	ID     uint64       `json:"id,string"`
	Change string       `json:"change"`
	What   []string     `json:"what,omitempty"`
	Before *pageShown   `json:"before"`
	After  *pageShown   `json:"after"`
	Ranges []rangeShown `json:"ranges,omitempty"`
}

// edgeShown is a dependency in JSON.
type edgeShown struct {
	Parent uint64 `json:"parent,string"`
	Child  uint64 `json:"child,string"`
}

func (c *comparison) json(a, b string) error {
	added, removed, err := snapshot.DiffEdges(c.a, c.b)
	if err != nil {
		return err
	}
	c.differs = len(added)+len(removed) > 0
	list := newStream(c.out, struct {
		A       string      `json:"a"`
		B       string      `json:"b"`
		Added   []edgeShown `json:"dependencies_added"`
		Removed []edgeShown `json:"dependencies_removed"`
	}{a, b, showEdges(added), showEdges(removed)}, "pages")
	for d, err := range snapshot.Diff(c.a, c.b, nil) {
		if err != nil {
			return err
		}
		c.differs = true
		one := differenceShown{ID: d.ID, Change: d.What.String(), What: what(&d)}
		if d.What != snapshot.Added {
			one.Before = showPage(&d.Before)
		}
		if d.What != snapshot.Removed {
			one.After = showPage(&d.After)
		}
		for piece, err := range c.ranges(&d) {
			if err != nil {
				return err
			}
			one.Ranges = append(one.Ranges, rangeShown(piece))
		}
		list.add(one)
	}
	list.end()
	return nil
}

func showEdges(edges [][2]uint64) []edgeShown {
	list := make([]edgeShown, 0, len(edges))
	for _, edge := range edges {
		list = append(list, edgeShown{edge[0], edge[1]})
	}
	return list
}
