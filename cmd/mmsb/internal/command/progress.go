// The progress bar on a terminal.

package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"libmmsb/core/status"
)

// bar shows on a terminal how far a piece of work is; elsewhere nothing.
type bar struct {
	w           io.Writer // nil: nobody looks
	label       string
	begun, last time.Time // the first call, and the last that was drawn
	shown       bool
}

const betweenDrawings = 100 * time.Millisecond

func (r *run) bar(label string) *bar {
	if isTerminal(r.Stderr) && os.Getenv("TERM") != "dumb" {
		return &bar{w: r.Stderr, label: status.Plain(label)}
	}
	return &bar{}
}

// draw takes how much of the work is done.
func (b *bar) draw(done, total uint64, rate func(perSecond uint64) string) {
	if b.w == nil || total == 0 {
		return
	}
	now := time.Now()
	if b.begun.IsZero() {
		b.begun, b.last = now, now
	}
	if now.Sub(b.last) < betweenDrawings {
		return
	}
	b.last, b.shown = now, true
	const width = 30
	part := float64(min(done, total)) / float64(total)
	full := int(part * width)
	perSecond := uint64(float64(done) / now.Sub(b.begun).Seconds())
	_, _ = fmt.Fprintf(b.w, "\r%s [%s%s] %3.0f%% %s\x1b[K", b.label, strings.Repeat("#", full), strings.Repeat("-", width-full),
		100*part, rate(perSecond))
}

func (b *bar) bytes(done, total uint64) bool {
	b.draw(done, total, func(perSecond uint64) string { return sizes{}.of(perSecond) + "/s" })
	return true
}

func (b *bar) records(done, total uint64) {
	b.draw(done, total, func(perSecond uint64) string { return fmt.Sprintf("%d records/s", perSecond) })
}

func (b *bar) events(done, total uint64) {
	b.draw(done, total, func(perSecond uint64) string { return fmt.Sprintf("%d events/s", perSecond) })
}

// clear takes the bar off the terminal.
func (b *bar) clear() {
	if b.shown {
		_, _ = fmt.Fprint(b.w, "\r\x1b[K")
		b.shown = false
	}
}
