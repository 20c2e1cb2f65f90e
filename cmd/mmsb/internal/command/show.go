// How values are shown: sizes, times, names, tables and JSON.

package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// sizes shows numbers of bytes: exactly, or for people.
type sizes struct{ exact bool }

func (s sizes) of(bytes uint64) string {
	if s.exact {
		return decimal(bytes)
	}
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes), 0
	for value >= 1023.95 { // what would be shown as 1024.0
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, " KMGTPE"[unit])
}

// within shows a size in a sentence.
func (s sizes) within(bytes uint64) string {
	if s.exact {
		return count(bytes, "byte")
	}
	return s.of(bytes)
}

// decimal shows a number.
func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// count shows a number of things.
func count(n uint64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return decimal(n) + " " + thing
}

// moment shows a time; "-" where it is not known.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// nanoseconds is a time as files have it; 0: not known.
func nanoseconds(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// momentOrNothing is for JSON: null where it is not known.
func momentOrNothing(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := moment(t)
	return &text
}

// shown is a text out of a file, without what could move a terminal's cursor.
func shown(text string) string {
	plain := utf8.ValidString(text) && text != "" &&
		strings.IndexFunc(text, func(c rune) bool { return !unicode.IsGraphic(c) || c == '"' }) < 0
	if plain {
		return text
	}
	return strconv.Quote(text)
}

// What is printed goes to a bufio.Writer, which keeps its first error and takes nothing more; Run reports it.

// table prints rows in columns. The widths are those of the rows that it has seen before the first is printed.
type table struct {
	w       *bufio.Writer
	columns []column
	waiting [][]string
	printed bool
}

type column struct {
	right bool
	width int
}

// newTable takes the names of the columns; those that begin with ">" are for numbers.
func newTable(w *bufio.Writer, names ...string) *table {
	t := &table{w: w}
	header := make([]string, len(names))
	for number, name := range names {
		bare, right := strings.CutPrefix(name, ">")
		t.columns = append(t.columns, column{right: right})
		header[number] = bare
	}
	t.add(header...)
	return t
}

func (t *table) fit(row []string) {
	for number, cell := range row {
		t.columns[number].width = max(t.columns[number].width, utf8.RuneCountInString(cell))
	}
}

// rowsToFit is how many rows the widths are taken from, where all were too many.
const rowsToFit = 4096

// add takes a row. Of many, the first are kept until the widths are known.
func (t *table) add(row ...string) {
	if t.printed {
		t.print(row)
		return
	}
	t.fit(row)
	if t.waiting = append(t.waiting, row); len(t.waiting) > rowsToFit { // and the names
		t.finish()
	}
}

// finish prints what was kept.
func (t *table) finish() {
	for _, row := range t.waiting {
		t.print(row)
	}
	t.waiting, t.printed = nil, true
}

func (t *table) print(row []string) {
	var line strings.Builder
	for number, cell := range row {
		space := strings.Repeat(" ", max(0, t.columns[number].width-utf8.RuneCountInString(cell)))
		if number > 0 {
			line.WriteString("  ")
		}
		if t.columns[number].right {
			line.WriteString(space + cell)
		} else {
			line.WriteString(cell + space)
		}
	}
	_, _ = t.w.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// list prints names and values below each other.
func list(w io.Writer, namesAndValues ...string) {
	width := 0
	for pair := range slices.Chunk(namesAndValues, 2) {
		width = max(width, len(pair[0]))
	}
	for pair := range slices.Chunk(namesAndValues, 2) {
		_, _ = fmt.Fprintf(w, "%-*s  %s\n", width, pair[0], pair[1])
	}
}

// encoded prints one JSON document.
func encoded(w *bufio.Writer, document any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(document)
}

// marshalled is JSON of a struct of this package, which can always be encoded.
func marshalled(document any) []byte {
	b, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	return b
}

// stream prints one JSON document: an object with a list at its end that need not be in memory.
type stream struct {
	w     *bufio.Writer
	count int
}

// newStream begins with the fields of head, a struct with some, and the list's name.
func newStream(w *bufio.Writer, head any, name string) *stream {
	fields := marshalled(head)
	_, _ = fmt.Fprintf(w, "%s,%q:[", fields[:len(fields)-1], name)
	return &stream{w: w}
}

func (s *stream) add(element any) {
	separator := ",\n"
	if s.count++; s.count == 1 {
		separator = "\n"
	}
	_, _ = s.w.WriteString(separator + string(marshalled(element)))
}

// end closes the list and the object.
func (s *stream) end() { _, _ = s.w.WriteString("]}\n") }
