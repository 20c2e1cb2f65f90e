// Which snapshots and records a store keeps.

package store

import (
	"slices"
	"time"

	"libmmsb/core/file"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// Retention says what is kept: the newest Last snapshots, the newest one of each of the last Hourly hours and Daily days (UTC)
// that have any, and those with a name. Records are kept behind the oldest of the Last newest: each state since then can be
// restored.
type Retention struct {
	Last          int // at least 1
	Hourly, Daily int
	Branches      bool // branches that were left, too; else they lose their snapshots, except those with a name
}

// Check checks what a program has asked for.
func (r *Retention) Check() error {
	const most = 1 << 20
	for _, rule := range []struct {
		name         string
		value, least int
	}{{"keep_last", r.Last, 1}, {"keep_hourly", r.Hourly, 0}, {"keep_daily", r.Daily, 0}} {
		if rule.value < rule.least || rule.value > most {
			return status.Errorf(status.InvalidArgument, "%s is %d, not %d to %d", rule.name, rule.value, rule.least, most)
		}
	}
	return nil
}

// keep says of each point whether it stays, and behind which position records do.
func (r *Retention) keep(points []Point) (stays []bool, from uint64) {
	stays = make([]bool, len(points))
	var hours, days periods
	last := 0
	for i := range points { // the newest first
		p := &points[i]
		stays[i] = len(p.Names) > 0
		if !p.OnLine {
			stays[i] = stays[i] || r.Branches
			continue
		}
		if last < r.Last {
			last++
			stays[i] = true
			if p.Leads {
				from = p.Position
			}
		}
		at := p.Taken.UTC()
		hourly := hours.isNext(at.Truncate(time.Hour), r.Hourly)
		daily := days.isNext(at.Truncate(24*time.Hour), r.Daily)
		stays[i] = stays[i] || hourly || daily
	}
	return stays, from
}

// periods are hours or days that have a snapshot.
type periods []time.Time

// isNext says whether a time is in one of the newest so many periods, and in none that was there before.
func (p *periods) isNext(begins time.Time, most int) bool {
	if len(*p) >= most || slices.ContainsFunc(*p, begins.Equal) {
		return false
	}
	*p = append(*p, begins)
	return true
}

// Pruned is what Prune has removed.
type Pruned struct {
	Snapshots int
	Bytes     int64 // of their files, each of which stays as long as others rest on it
}

// Prune removes what no rule keeps: records first, by drop, which removes those up to a position where whole segments have no
// others; then snapshots. Of what a crash interrupts nothing is missing that the rules keep. Only who has the journal's lock may
// call it. drop is nil where records are to stay.
func (s *Store) Prune(r Retention, drop func(upTo uint64) error) (pruned Pruned, err error) {
	if err := r.Check(); err != nil {
		return pruned, err
	}
	stays, from := r.keep(s.Points)
	if newest := s.Newest(); newest != nil {
		// Nothing goes before what stays was looked at.
		whole, err := snapshot.Open(newest.Path, snapshot.OpenOptions{FS: s.fs})
		if err != nil {
			return pruned, err
		}
		_ = whole.Close()
		if drop != nil {
			if err := drop(from); err != nil {
				return pruned, err
			}
		}
	} else if err := s.CheckLeads(); err != nil {
		return pruned, status.More(err, ": nothing is removed")
	}
	for i := range s.Points {
		p := &s.Points[i]
		if stays[i] {
			continue
		}
		if err := p.Remove(s.fs); err != nil && status.CodeOf(err) != status.NotFound {
			return pruned, err
		}
		pruned.Snapshots++
		pruned.Bytes += p.Bytes
	}
	if pruned.Snapshots == 0 {
		return pruned, nil
	}
	return pruned, file.SyncDirectory(s.fs, s.Directory)
}
