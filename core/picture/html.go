// Pictures as one file of HTML that needs no other: the page draws what it has as data.

package picture

import (
	"bufio"
	_ "embed"
	"io"
	"strings"
)

//go:embed page.html
var page string

// dataMark is where the page has its data.
const dataMark = "{{DATA}}"

// WriteHTML writes the page.
func (p *Picture) WriteHTML(to io.Writer) error {
	out := bufio.NewWriter(to) // which keeps its first error
	before, behind, _ := strings.Cut(page, dataMark)
	_, _ = out.WriteString(before)
	p.data(out)
	_, _ = out.WriteString(behind)
	return out.Flush()
}
