package memory

import (
	"fmt"
	"sync"
	"sync/atomic"

	"libmmsb/core/log"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Report is a write that the guard has found where nobody may write.
type Report struct {
	Page            uint64 // id
	Side            int32  // native.Guard…
	Size            uint64 // of the page
	Offset          int64  // of the first byte that was written, from the page's first byte on
	Bytes           uint64 // from that byte to the last one that was written
	Expected, Found byte   // the value at Offset, before and after
}

func (r Report) String() string {
	where := map[int32]string{
		native.GuardBefore: "before its beginning", native.GuardBehind: "behind its end", native.GuardEnded: "after it had ended",
		native.GuardLeft: "where it lay before it was resized or migrated",
	}[r.Side]
	at := fmt.Sprintf("at offset %d", r.Offset)
	if r.Bytes > 1 {
		at = fmt.Sprintf("at offsets %d to %d", r.Offset, r.Offset+int64(r.Bytes)-1)
	}
	return fmt.Sprintf("page %d of %d bytes was written %s: %s, 0x%02x became 0x%02x", r.Page, r.Size, where, at, r.Expected,
		r.Found)
}

// mostReports wait for a call; those behind them are only logged and counted.
const mostReports = 1000

// reports are what the guard of a context has found. Those that wait are told by the context's next calls.
type reports struct {
	sync.Mutex
	context uint32
	waiting []Report
	found   atomic.Uint64
	ended   bool // nobody can be told
}

// add adds a report.
func (r *reports) add(report Report) {
	log.Logf(log.Error, "%v", report)
	r.Lock()
	defer r.Unlock()
	r.found.Add(1)
	if len(r.waiting) == mostReports || r.ended {
		return
	}
	if r.waiting = append(r.waiting, report); len(r.waiting) == 1 {
		native.GuardReport(r.context, true)
	}
}

// take takes the oldest report that waits, and says how many waited; 0 = none.
func (r *reports) take() (oldest Report, count int) {
	r.Lock()
	defer r.Unlock()
	if count = len(r.waiting); count == 0 {
		return Report{}, 0
	}
	oldest, r.waiting = r.waiting[0], r.waiting[1:]
	if count == 1 {
		r.waiting = nil
		native.GuardReport(r.context, false)
	}
	return oldest, count
}

// end forgets what waits.
func (r *reports) end() {
	r.Lock()
	defer r.Unlock()
	if len(r.waiting) > 0 {
		native.GuardReport(r.context, false)
	}
	r.waiting, r.ended = nil, true
}

// TellReport is the oldest report that waits, as an error, which then no longer waits; nil without one.
func (m *Memory) TellReport() error {
	oldest, count := m.guard.reports.take()
	switch count {
	case 0:
		return nil
	case 1:
		return status.Errorf(status.Guard, "%v", oldest)
	}
	return status.Errorf(status.Guard, "%v; reports that wait: %d more", oldest, count-1)
}

// TakeReport is the oldest report that waits, which then no longer waits; count is how many waited, 0 = none.
func (m *Memory) TakeReport() (oldest Report, count int) { return m.guard.reports.take() }

// ReportWaits says whether a report waits for a call.
func (m *Memory) ReportWaits() bool {
	m.guard.reports.Lock()
	defer m.guard.reports.Unlock()
	return len(m.guard.reports.waiting) > 0
}

// Reports is how many writes the guard has found.
func (m *Memory) Reports() uint64 { return m.guard.reports.found.Load() }
