package journal

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/attribute"
	"libmmsb/core/file/filetest"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

func TestNumbersNearTheirEndAreDamage(t *testing.T) {
	line := lineage.New(lineage.Point{})
	far := lineage.Lineage{ID: line.ID, Parent: lineage.Point{Lineage: lineage.ID{7}, Position: 1 << 63}}
	for what, s := range map[string]segment{
		"first record":      {lineage: line, first: 1 << 63, before: 1<<63 - 1},
		"last first record": {lineage: line, first: 1<<64 - 1, before: 1<<64 - 2},
		"branch":            {lineage: line, first: 1, branch: 1 << 32},
		"parent's position": {lineage: far, first: 1},
	} {
		header := make([]byte, unitBytes)
		s.encode(header)
		_, err := decodeSegment(header, "segment")
		assert.Equal(t, status.Corrupt, status.CodeOf(err), "%s: %v", what, err)
	}
	fs := filetest.NewDisk()
	w := open(t, fs, Options{})
	record := run(1)
	record.Version = attribute.MaximumVersion + 1
	require.NoError(t, write(w, record))
	require.NoError(t, w.Close())
	_, _, err := walkAll(fs, 1)
	assert.Equal(t, status.Corrupt, status.CodeOf(err), "records: %v", err)
	_, _, err = replayAll(fs, 0, Until{})
	assert.Equal(t, status.Corrupt, status.CodeOf(err), "replay: %v", err)
}

// Records may have all numbers there are. What has one more is refused by all who read, in the same words: a frame, or what a
// killed process left in its ring, that also by who ends before it.
func TestNoRecordIsBeyondTheLastNumber(t *testing.T) {
	const end = lineage.MaximumPosition
	for name, c := range map[string]struct {
		after       uint64
		frame, ring int // records
		fault       string
	}{
		"to the end in a frame":  {end - 2, 2, 0, ""},
		"to the end in the ring": {end - 2, 1, 1, ""},
		"beyond it in a frame": {end - 1, 2, 0, "in the frame at offset 4096: it has 2 records from 9223372036854775807 on: " +
			"the last one is beyond 9223372036854775807"},
		"beyond it in the ring": {end - 2, 1, 2, "a ring's buffer has 2 records from 9223372036854775807 on: " +
			"the last one is beyond 9223372036854775807"},
		"the ring behind it": {end - 1, 1, 1, "a ring's buffer has 1 records from 9223372036854775808 on: " +
			"the last one is beyond 9223372036854775807"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			line := lineage.New(lineage.Point{})
			w := open(t, disk, Options{From: named(line, line.At(c.after))})
			require.NoError(t, w.HasBase())
			require.NoError(t, write(w, slices.Repeat([]Record{run(1)}, c.frame)...))
			_, err := w.Sync()
			require.NoError(t, err)
			setRing(t, w, ringOf(w.Next(), slices.Repeat([]put{group(run(2))}, c.ring)...))
			killed := disk.Kill()
			readers := map[string]func() (last uint64, err error){
				"a replay": func() (uint64, error) {
					_, last, err := replayAll(killed, c.after, Until{})
					return last, err
				},
				"a replay until a record": func() (uint64, error) {
					_, _, err := replayAll(killed, c.after, Until{Sequence: c.after})
					return end, err
				},
				"the tool's replay until a record": func() (uint64, error) {
					r, err := OpenReplay(killed, directory)
					require.NoError(t, err)
					_, err = r.Find(c.after, Until{Sequence: c.after})
					return end, err
				},
				"a walk": func() (uint64, error) {
					_, info, err := walkAll(killed, c.after+1)
					return info.Last, err
				},
			}
			follows := func() (uint64, error) {
				tail, records := follow(t, killed, line.At(c.after))
				_, err := tail.Poll(records.take)
				return tail.Last(), err
			}
			next := func() (uint64, error) {
				w, err := NewWriter(killed, directory, Options{})
				if err != nil {
					return 0, err
				}
				return w.Next() - 1, w.Close()
			}
			look := func(what string, read func() (uint64, error)) {
				last, err := read()
				if c.fault == "" {
					require.NoError(t, err, what)
					assert.Equal(t, end, last, what)
					return
				}
				assert.Equal(t, status.Corrupt, status.CodeOf(err), "%s: %v", what, err)
				assert.ErrorContains(t, err, c.fault, what)
			}
			for what, read := range readers {
				look(what, read)
			}
			look("the next writer", next)
			if c.fault == "" || c.ring == 0 { // a follower sees the ring of a killed process when the next writer has been there
				look("a follower", follows)
			}
			for what, read := range readers {
				look(what+", behind the next writer", read)
			}
		})
	}
}

// A follower takes no record beyond the last number out of a ring, either: the segments say that it is damage.
func TestATailEndsWithTheLastNumber(t *testing.T) {
	const end = lineage.MaximumPosition
	for name, first := range map[string][]put{
		"both at once":      {group(run(1)), group(run(2))},
		"one after another": {group(run(1))},
	} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			line := lineage.New(lineage.Point{})
			w := open(t, disk, Options{From: named(line, line.At(end-1))})
			require.NoError(t, w.HasBase())
			showRing(t, w, ringOf(end, first...))
			tail, records := follow(t, disk, line.At(end-1))
			pollAll(t, tail, records)
			putRing(t, w, 0, ringOf(end, group(run(1)), group(run(2))))
			pollAll(t, tail, records)
			require.Len(t, records.all, 2-len(first))
			require.NoError(t, write(w, run(1), run(2)))
			_, err := tail.Poll(records.take)
			assert.Equal(t, status.Corrupt, status.CodeOf(err), "%v", err)
			assert.ErrorContains(t, err, "it has 2 records from 9223372036854775807 on")
			require.Len(t, records.all, 2-len(first))
		})
	}
}
