// mmsb snapshot: lists, describes, verifies, extracts and compacts snapshots.

package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/lineage"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

func (r *run) snapshot() *cobra.Command {
	return group("snapshot", "inspect, verify and convert snapshots", r.snapshotList(), r.snapshotInfo(), r.snapshotVerify(),
		r.snapshotDiff(), r.snapshotExtract(), r.snapshotCompact())
}

func (r *run) open(path string) (*snapshot.Snapshot, error) {
	return snapshot.Open(path, snapshot.OpenOptions{FS: r.FS})
}

func jsonFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("json", false, "print one JSON document")
}

// bytesFlag is how sizes are shown, once the flags are known.
func bytesFlag(c *cobra.Command) *sizes {
	var show sizes
	c.Flags().BoolVar(&show.exact, "bytes", false, "show sizes as exact numbers of bytes")
	return &show
}

// ------------------------------------------------------------------------------------------------------------- pages ----

// pageShown is a page in JSON. Ids, epochs and versions, which can be any 64-bit number, are strings: many programs that read
// JSON keep 53 bits of a number.
type pageShown struct {
	ID       uint64 `json:"id,string"`
	Size     uint64 `json:"size"`
	Location string `json:"location"`
	Device   int32  `json:"device"`
	NUMANode int32  `json:"numa_node"`
	Epoch    uint64 `json:"epoch,string"`
	Version  uint64 `json:"version,string"`
	Keys     uint32 `json:"metadata_keys"`
	Adopted  bool   `json:"adopted"`
	ReadOnly bool   `json:"read_only"`
}

func showPage(p *snapshot.Page) *pageShown {
	return &pageShown{ID: p.ID, Size: p.Size, Location: location(p.Location), Device: p.Device, NUMANode: p.NUMANode,
		Epoch: p.Epoch, Version: p.Version, Keys: p.MetadataCount, Adopted: p.Flags&snapshot.FlagAdopted != 0,
		ReadOnly: p.Flags&snapshot.FlagReadOnly != 0}
}

func location(number int32) string {
	if number < 0 || int(number) >= len(abi.LocationNames) {
		return strconv.Itoa(int(number))
	}
	return abi.LocationNames[number]
}

// placement is a location with its device, where there can be several.
func placement(number, device int32) string {
	if number == abi.LocationGPU || number == abi.LocationUnified {
		return location(number) + ":" + strconv.Itoa(int(device))
	}
	return location(number)
}

// idRange is ids from one to another, both with it.
type idRange struct{ first, last uint64 }

func parseID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 0, 64)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%q is not a page id", text)
	}
	return id, nil
}

func parseRanges(arguments []string) ([]idRange, error) {
	var ranges []idRange
	for _, argument := range arguments {
		from, to, isRange := strings.Cut(argument, "-")
		first, err := parseID(from)
		last := first
		if err == nil && isRange {
			last, err = parseID(to)
		}
		if err != nil {
			return nil, err
		}
		if last < first {
			return nil, fmt.Errorf("page range %q ends before it begins", argument)
		}
		ranges = append(ranges, idRange{first, last})
	}
	return ranges, nil
}

func (r *run) snapshotList() *cobra.Command {
	c := &cobra.Command{Use: "ls FILE [ID | FIRST-LAST]...", Short: "list the pages of a snapshot",
		Long: `ls lists the pages of the state that a snapshot and its bases give together, by id: all, or those with the ids
given. A single id must exist. With --arrays it lists the arrays of a state of a program, which mmsb.state of the Python
package has saved: their names, types and shapes.`,
		Example: "  mmsb snapshot ls state.mmsb\n  mmsb snapshot ls state.mmsb 7 100-199 --bytes\n" +
			"  mmsb snapshot ls checkpoint.mmsb --arrays\n" +
			"  mmsb snapshot ls state.mmsb --json | jq '[.pages[].size] | add'",
		Args: takes("a FILE and ids", 1, math.MaxInt)}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	asArrays := c.Flags().Bool("arrays", false, "list the arrays of a state of a program")
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		ranges, err := parseRanges(arguments[1:])
		if err != nil {
			return err
		}
		s, err := r.open(arguments[0])
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		pages, err := choose(s, ranges)
		if err != nil {
			return err
		}
		var arrays []arrayShown
		if *asArrays {
			if arrays, err = arraysOf(arguments[0], s, pages); err != nil {
				return err
			}
		}
		switch {
		case *asArrays && *asJSON:
			r.arraysJSON(arguments[0], arrays)
		case *asArrays:
			r.arraysTable(arrays, *show)
		case *asJSON:
			r.listJSON(arguments[0], pages)
		default:
			r.listTable(pages, *show)
		}
		return missing(arguments[0], pages, ranges)
	}
	return c
}

// choose collects pages, sorted by id.
func choose(s *snapshot.Snapshot, ranges []idRange) ([]snapshot.Page, error) {
	var pages []snapshot.Page
	for page, err := range s.Pages() {
		if err != nil {
			return nil, err
		}
		within := func(r idRange) bool { return r.first <= page.ID && page.ID <= r.last }
		if len(ranges) == 0 || slices.ContainsFunc(ranges, within) {
			pages = append(pages, page)
		}
	}
	slices.SortFunc(pages, func(a, b snapshot.Page) int { return cmp.Compare(a.ID, b.ID) })
	return pages, nil
}

// missing is an error where an id that was given alone is not there.
func missing(path string, pages []snapshot.Page, ranges []idRange) error {
	for _, wanted := range ranges {
		by := func(p snapshot.Page, id uint64) int { return cmp.Compare(p.ID, id) }
		_, there := slices.BinarySearchFunc(pages, wanted.first, by)
		if wanted.first == wanted.last && !there {
			return status.Errorf(status.NotFound, "%s has no page %d", path, wanted.first)
		}
	}
	return nil
}

func (r *run) listTable(pages []snapshot.Page, show sizes) {
	t := newTable(r.out, ">ID", ">SIZE", "LOCATION", ">EPOCH", ">VERSION", ">KEYS")
	row := func(p *snapshot.Page) []string {
		return []string{decimal(p.ID), show.of(p.Size), placement(p.Location, p.Device), decimal(p.Epoch), decimal(p.Version),
			decimal(uint64(p.MetadataCount))}
	}
	for at := range pages {
		t.fit(row(&pages[at]))
	}
	t.finish()
	for at := range pages {
		t.print(row(&pages[at]))
	}
}

func (r *run) listJSON(path string, pages []snapshot.Page) {
	list := newStream(r.out, struct {
		File string `json:"file"`
	}{path}, "pages")
	for at := range pages {
		list.add(showPage(&pages[at]))
	}
	list.end()
}

// -------------------------------------------------------------------------------------------------------------- info ----

// fileShown is a file of a chain in JSON.
type fileShown struct {
	File         string  `json:"file"`
	Format       uint32  `json:"format"`
	ID           *string `json:"id"`
	Base         *string `json:"base"`
	BaseName     *string `json:"base_name"`
	Taken        *string `json:"taken"`
	Lineage      *string `json:"lineage"`
	Position     uint64  `json:"position"`
	Parent       *string `json:"parent"`
	Fork         uint64  `json:"fork"`
	FileBytes    uint64  `json:"file_bytes"`
	Segments     uint64  `json:"segments"`
	Pages        uint64  `json:"pages"`
	StoredBytes  uint64  `json:"stored_bytes"`
	Removed      uint64  `json:"removed"`
	Dependencies uint64  `json:"dependencies"`
}

func showFile(i *snapshot.Info) fileShown {
	f := fileShown{File: i.Name, Format: i.Version, Taken: momentOrNothing(i.Taken), Position: i.Position, FileBytes: i.FileBytes,
		Segments: i.Segments, Pages: i.Pages, StoredBytes: i.StoredBytes, Removed: i.Removed, Dependencies: i.Edges}
	none := snapshot.ID{}
	if i.ID != none {
		id := i.ID.String()
		f.ID = &id
	}
	if i.Base != none {
		base := i.Base.String()
		f.Base, f.BaseName = &base, &i.BaseName
	}
	f.Lineage, f.Parent, f.Fork = lineageOrNothing(i.Lineage.ID), lineageOrNothing(i.Lineage.Parent.Lineage),
		i.Lineage.Parent.Position
	return f
}

func lineageOrNothing(id lineage.ID) *string {
	if id == (lineage.ID{}) {
		return nil
	}
	text := id.String()
	return &text
}

// line is a lineage and where it begins.
func line(l lineage.Lineage) string {
	switch {
	case l.ID == lineage.ID{}:
		return "-"
	case l.Parent == lineage.Point{}:
		return l.ID.String()
	default:
		return fmt.Sprintf("%s, from position %d of %s", l.ID, l.Parent.Position, l.Parent.Lineage)
	}
}

func (r *run) snapshotInfo() *cobra.Command {
	c := &cobra.Command{Use: "info FILE", Short: "show a snapshot's header and chain",
		Long: `info shows a snapshot's header and the files of its chain: the snapshot, its base, the base of that, down to a
whole one. If a base is missing, it shows the file alone and ends with an error.`,
		Example: "  mmsb snapshot info state.mmsb",
		Args:    takes("a FILE", 1, 1)}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		chain, broken := r.chain(arguments[0])
		if len(chain) == 0 {
			return broken
		}
		print := r.infoText
		if *asJSON {
			print = r.infoJSON
		}
		print(chain, *show)
		return broken
	}
	return c
}

// chain is the files of a snapshot; the snapshot alone, and why, where a base cannot be opened.
func (r *run) chain(path string) ([]snapshot.Info, error) {
	s, err := r.open(path)
	if err == nil {
		defer func() { _ = s.Close() }()
		return s.Chain(), nil
	}
	alone, bad := snapshot.Inspect(path, snapshot.OpenOptions{FS: r.FS})
	if bad != nil {
		return nil, err
	}
	return []snapshot.Info{alone}, err
}

func (r *run) infoJSON(chain []snapshot.Info, _ sizes) {
	newest := &chain[0]
	document := struct {
		fileShown
		State struct {
			Pages uint64 `json:"pages"`
			Bytes uint64 `json:"bytes"`
		} `json:"state"`
		Chain []fileShown `json:"chain"`
	}{fileShown: showFile(newest)}
	document.State.Pages, document.State.Bytes = newest.StatePages, newest.StateBytes
	for number := range chain {
		document.Chain = append(document.Chain, showFile(&chain[number]))
	}
	encoded(r.out, document)
}

func (r *run) infoText(chain []snapshot.Info, show sizes) {
	newest, none := &chain[0], snapshot.ID{}
	id, base := "-", "-"
	if newest.ID != none {
		id = newest.ID.String()
	}
	if newest.Base != none {
		base = newest.Base.String() + " " + shown(newest.BaseName)
	}
	list(r.out, "file", shown(newest.Name), "format", decimal(uint64(newest.Version)), "id", id, "base", base,
		"taken", moment(newest.Taken), "lineage", line(newest.Lineage), "position", decimal(newest.Position),
		"state", count(newest.StatePages, "page")+", "+show.within(newest.StateBytes), "dependencies", decimal(newest.Edges))
	_ = r.out.WriteByte('\n')
	t := newTable(r.out, "FILE", ">SIZE", ">SEGMENTS", ">PAGES", ">STORED", ">REMOVED", "TAKEN")
	for number := range chain {
		f := &chain[number]
		t.add(shown(f.Name), show.of(f.FileBytes), decimal(f.Segments), decimal(f.Pages), show.of(f.StoredBytes),
			decimal(f.Removed), moment(f.Taken))
	}
	t.finish()
}

// ------------------------------------------------------------------------------------------------------------ verify ----

func (r *run) snapshotVerify() *cobra.Command {
	c := &cobra.Command{Use: "verify FILE...", Short: "verify every byte of snapshots",
		Long: `verify reads snapshots with all their bases and checks every checksum and everything else that the format
requires. It reports the first damage in each: the file, the page, the offset. Then it continues with the next file. The exit
code is 1 if a file is damaged, else 3 if one cannot be read.`,
		Example: "  mmsb snapshot verify backups/*.mmsb",
		Args:    takes("FILEs", 1, math.MaxInt)}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		v := verification{run: r, show: *show, asJSON: *asJSON}
		files, err := v.all(arguments)
		if err != nil {
			return err
		}
		return v.end(map[string]any{"files": files})
	}
	return c
}

// verifiedShown is what became of a file, in JSON.
type verifiedShown struct {
	File  string `json:"file"`
	Good  bool   `json:"good"`
	Files uint64 `json:"files,omitempty"`
	Pages uint64 `json:"pages"`
	Bytes uint64 `json:"bytes"`
	Error string `json:"error,omitempty"`
}

type verification struct {
	*run
	show   sizes
	asJSON bool
	beside bool // a writer may remove files meanwhile, which are left out then
	worst  int  // exit code
}

func (v *verification) all(paths []string) ([]verifiedShown, error) {
	shown := []verifiedShown{}
	for _, path := range paths {
		one, err := v.one(path)
		if err != nil {
			return nil, err
		}
		if one == (verifiedShown{}) {
			continue
		}
		shown = append(shown, one)
		if !v.asJSON && one.Good {
			_, _ = fmt.Fprintf(v.out, "%s: good, %s, %s, %s\n", status.Plain(path), count(one.Pages, "page"),
				v.show.within(one.Bytes), count(one.Files, "file"))
			if err := v.out.Flush(); err != nil { // the next one may take long
				return nil, err
			}
		}
	}
	return shown, nil
}

// end prints the document, if one is wanted, and gives the exit code.
func (v *verification) end(document map[string]any) error {
	if v.asJSON {
		encoded(v.out, document)
	}
	if v.worst != exitGood {
		return result(v.worst)
	}
	return nil
}

// one verifies a file, and tells of what is wrong with it; it is empty where the file is gone. Its error is that of the whole
// run.
func (v *verification) one(path string) (verifiedShown, error) {
	totals, files, err := v.read(path)
	if err == nil {
		return verifiedShown{File: path, Good: true, Files: files, Pages: totals.StatePages, Bytes: totals.StateBytes}, nil
	}
	if status.CodeOf(err) == status.Cancelled {
		return verifiedShown{}, err
	}
	if _, gone := v.FS.Stat(path); v.beside && errors.Is(gone, fs.ErrNotExist) { // before what it rests on
		return verifiedShown{}, nil
	}
	return v.bad(path, err), nil
}

// bad tells of what is wrong with a file.
func (v *verification) bad(path string, err error) verifiedShown {
	v.complain(err)
	if v.worst != exitBad {
		v.worst = codeOf(err)
	}
	return verifiedShown{File: path, Error: status.Of(err).Text}
}

func (v *verification) read(path string) (snapshot.Totals, uint64, error) {
	s, err := v.open(path)
	if err != nil {
		return snapshot.Totals{}, 0, err
	}
	defer func() { _ = s.Close() }()
	bar := v.bar(filepath.Base(path))
	defer bar.clear()
	if err := s.Verify(bar.bytes); err != nil {
		return snapshot.Totals{}, 0, err
	}
	return s.Totals(), uint64(len(s.Chain())), nil
}

// ----------------------------------------------------------------------------------------------------------- extract ----

// output is the flag for the file that is written.
func output(c *cobra.Command, usage string) *string {
	return c.Flags().StringP("output", "o", "", usage)
}

// notOutput is an error where a file that a command writes has the name that means the standard output elsewhere.
func notOutput(c *cobra.Command, path string) error {
	if path == "-" {
		return misused(c, c.CommandPath()+" does not write to the standard output: - is no file to write, ./- is one")
	}
	return nil
}

func (r *run) snapshotExtract() *cobra.Command {
	c := &cobra.Command{Use: "extract FILE ID [-o OUT]", Short: "extract the bytes of a page",
		Long: `extract writes the bytes of a page, verified, to a file, which appears whole or not at all, or to the standard
output. They go to a terminal only with --force.`,
		Example: "  mmsb snapshot extract state.mmsb 7 -o page7\n  mmsb snapshot extract state.mmsb 0x2a | sha256sum",
		Args:    takes("a FILE and an ID", 2, 2)}
	out := output(c, "`FILE` to write; - is the standard output")
	force := c.Flags().BoolP("force", "f", false, "write page bytes even to a terminal")
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		id, err := parseID(arguments[1])
		if err != nil {
			return err
		}
		toOutput := *out == "" || *out == "-"
		if toOutput && !*force && isTerminal(r.Stdout) {
			return fmt.Errorf("cannot write page bytes to a terminal; give -o OUT or --force")
		}
		s, err := r.open(arguments[0])
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		if toOutput {
			_, err = s.Extract(id, r.out)
			return err
		}
		if err := refuse(*out, s.Chain()); err != nil {
			return err
		}
		if _, err := s.Find(id); err != nil { // before a file is begun
			return err
		}
		return r.writeFile(*out, func(w *sinkWriter) error {
			_, err := s.Extract(id, w)
			return err
		})
	}
	return c
}

// refuse is an error where a file that is to be written is one of a chain, which could not be read any more.
func refuse(path string, chain []snapshot.Info) error {
	target, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	for _, f := range chain {
		if there, err := os.Lstat(f.Name); err == nil && os.SameFile(target, there) {
			return fmt.Errorf("cannot replace %s: it is the snapshot or one of its bases", path)
		}
	}
	return nil
}

// sinkWriter fills a sink's buffers.
type sinkWriter struct {
	file.Sink
	buffer []byte
	used   int
}

func (w *sinkWriter) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		if w.buffer == nil {
			var err error
			if w.buffer, err = w.Buffer(); err != nil {
				return written, err
			}
		}
		n := copy(w.buffer[w.used:], b[written:])
		written += n
		if w.used += n; w.used == len(w.buffer) {
			if err := w.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

func (w *sinkWriter) flush() error {
	if w.used == 0 {
		return nil
	}
	buffer, used := w.buffer, w.used
	w.buffer, w.used = nil, 0
	return w.Sink.Write(buffer, used)
}

// writeFile makes a file that is there whole or not at all.
func (r *run) writeFile(path string, fill func(w *sinkWriter) error) error {
	sink, err := file.Replace(r.FS, path, file.Options{Durable: true})
	if err != nil {
		return err
	}
	w := &sinkWriter{Sink: sink}
	if err = fill(w); err == nil {
		err = w.flush()
	}
	if err != nil {
		sink.Abort()
		return err
	}
	return sink.Finish()
}

// ----------------------------------------------------------------------------------------------------------- compact ----

func (r *run) snapshotCompact() *cobra.Command {
	c := &cobra.Command{Use: "compact FILE -o OUT", Short: "merge a snapshot and its bases into one file",
		Long: `compact writes the state that a snapshot and its bases give together into one file of version 4, with an id of
its own. The file appears whole or not at all; it may replace FILE or one of its bases. Compressed pages stay compressed.`,
		Example: "  mmsb snapshot compact monday.mmsb -o whole.mmsb\n  mmsb snapshot compact original.mmsbsnap -o new.mmsb",
		Args:    takes("a FILE", 1, 1)}
	out := output(c, "`FILE` to write")
	show := bytesFlag(c)
	_ = c.MarkFlagRequired("output")
	c.RunE = func(c *cobra.Command, arguments []string) error {
		if err := notOutput(c, *out); err != nil {
			return err
		}
		bar := r.bar(filepath.Base(arguments[0]))
		report, err := snapshot.Compact(arguments[0], *out, snapshot.CompactOptions{OpenOptions: snapshot.OpenOptions{FS: r.FS},
			Replace:  snapshot.ReplaceOptions{Options: file.Options{Durable: true, Done: r.ctx.Done()}},
			Progress: bar.bytes})
		bar.clear()
		if err != nil {
			return err
		}
		r.written(*out, &report, *show, "")
		return nil
	}
	return c
}

// written tells of a new snapshot.
func (r *run) written(path string, report *snapshot.Report, show sizes, more string) {
	_, _ = fmt.Fprintf(r.out, "%s: %s, %s, id %s%s\n", path, count(report.StatePages, "page"), show.within(report.StateBytes),
		report.ID, more)
}
