package runtime

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/picture"
	"libmmsb/core/pool"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/sim"
)

// requireTiled sees that the blocks of each segment fill it, and that segments do not overlap.
func requireTiled(t testing.TB, p *picture.Picture) {
	end := uint64(0)
	for _, s := range p.Segments {
		require.GreaterOrEqual(t, s.Address, end)
		end = s.Address + s.Bytes
		var bytes uint64
		for _, b := range s.Blocks {
			require.NotZero(t, b.Bytes)
			require.LessOrEqual(t, b.Before+b.Asked, b.Bytes)
			bytes += b.Bytes
		}
		require.Equal(t, s.Bytes, bytes)
	}
}

// sums are the bytes of a picture's blocks by state.
func sums(p *picture.Picture) (bytes, asked, blocks map[picture.State]uint64) {
	bytes, asked, blocks = map[picture.State]uint64{}, map[picture.State]uint64{}, map[picture.State]uint64{}
	for _, s := range p.Segments {
		for _, b := range s.Blocks {
			bytes[b.State] += b.Bytes
			asked[b.State] += b.Asked
			blocks[b.State]++
		}
	}
	return bytes, asked, blocks
}

// Random operations in every kind of runtime: the picture has just what the counters count.
func TestAPictureAgreesWithTheCounters(t *testing.T) {
	for name, of := range map[string]func() Options{
		"pool":  func() Options { return Options{Pool: &pool.Options{}} },
		"a log": func() Options { return Options{Pool: &pool.Options{}, Adaptors: []Adaptor{NewLog(1 << 12)}} },
		"plain": func() Options {
			return Options{Pool: &pool.Options{Origin: pool.Plain}, Adaptors: []Adaptor{NewLog(1 << 12)}}
		},
		"no pool": func() Options { return Options{Adaptors: []Adaptor{NewLog(64)}} },
		"the guard": func() Options {
			return Options{Pool: &pool.Options{}, Adaptors: []Adaptor{NewGuard(GuardOptions{Every: 1})}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			options := of()
			var log *Log
			for _, adaptor := range options.Adaptors {
				log, _ = adaptor.(*Log)
			}
			w := newWorldWith(t, sim.Options{Memory: 256 * mib, Seed: 5}, 3, options)
			random := rand.New(rand.NewPCG(1, 2))
			live := map[uint64]BlockInfo{}
			var uses []uint64
			tags := []Tag{}
			for _, name := range []string{"weights", "cache", "activations"} {
				tag, err := TagOf(name)
				require.NoError(t, err)
				tags = append(tags, tag)
			}
			for step := range 400 {
				switch {
				case random.IntN(100) < 55:
					tag := tags[random.IntN(len(tags))]
					handle, _, err := w.runtime.Allocate(Request{Stream: w.streams[random.IntN(3)], Tag: tag, Thread: 7,
						Bytes: 1 + random.Uint64N([]uint64{4096, mib, 8 * mib}[random.IntN(3)])})
					if err == nil {
						live[handle], err = FindBlock(handle)
						require.NoError(t, err)
					}
				default:
					for handle, info := range live {
						if random.IntN(4) == 0 { // the free waits for it
							use, _, err := BeginUse(info.Stream, Use{Block: handle, Access: Read})
							require.NoError(t, err)
							uses = append(uses, use)
						}
						_, err := Free(handle, nil)
						require.NoError(t, err)
						delete(live, handle)
						break
					}
				}
				if len(uses) > 5 {
					require.NoError(t, EndUse(uses[0]))
					uses = uses[1:]
				}
				if step%20 != 0 {
					continue
				}
				p := w.runtime.Snapshot(log)
				requireTiled(t, p)
				bytes, asked, blocks := sums(p)
				usage := w.runtime.Usage()
				require.Equal(t, usage.Live, asked[picture.Live])
				require.Equal(t, usage.Blocks, blocks[picture.Live])
				require.Len(t, uses, int(blocks[picture.Awaiting]), "each is of a block that was freed")
				if of := w.runtime.Pool(); of != nil {
					s := of.Statistics()
					require.Equal(t, s.Reserved, bytes[0]+bytes[1]+bytes[2]+bytes[3]+bytes[4])
					require.Equal(t, s.Held, bytes[picture.Live]+bytes[picture.Awaiting]+bytes[picture.Nameless])
					if name != "the guard" {
						require.Zero(t, bytes[picture.Nameless])
					}
				}
				found := 0
				for _, s := range p.Segments {
					at := s.Address
					for _, b := range s.Blocks {
						for _, info := range live {
							if uint64(info.Address) == at+b.Before && b.State == picture.Live {
								require.Equal(t, info.Bytes, b.Asked)
								require.Equal(t, info.Tag.String(), p.Tags[b.Tag])
								require.EqualValues(t, info.Stream.index, b.Stream)
								if log != nil && name == "a log" {
									require.EqualValues(t, 7, b.Thread)
									require.InDelta(t, time.Now().UnixMicro(), b.Time, 60e6)
								}
								found++
							}
						}
						at += b.Bytes
					}
				}
				require.Len(t, live, found)
			}
			for _, use := range uses {
				require.NoError(t, EndUse(use))
			}
			for handle := range live {
				_, err := Free(handle, nil)
				require.NoError(t, err)
			}
		})
	}
}

// The history of segments and blocks leads from nothing to what there is.
func TestTheHistoryLeadsToThePicture(t *testing.T) {
	log := NewLog(1 << 16)
	w := newWorldWith(t, sim.Options{Memory: 64 * mib}, 1,
		Options{Pool: &pool.Options{LargeStep: 2 * mib, Limit: 60 * mib}, Adaptors: []Adaptor{log}})
	random := rand.New(rand.NewPCG(3, 4))
	var live []uint64
	refused := 0
	for range 500 {
		handle, _, err := w.allocate(0, 1+random.Uint64N(9*mib))
		if err == nil {
			live = append(live, handle)
		} else {
			refused++
		}
		for len(live) > 9 || err != nil && len(live) > 0 {
			at := random.IntN(len(live))
			_, freeErr := Free(live[at], nil)
			require.NoError(t, freeErr)
			live = append(live[:at], live[at+1:]...)
			err = nil
		}
	}
	p := w.runtime.Snapshot(log)
	require.Zero(t, p.Lost)
	points, peak := p.Timeline(1 << 20)
	require.Zero(t, points[0].Live, "it begins with nothing")
	require.Zero(t, points[0].Reserved)
	last, before := points[len(points)-1], points[len(points)-2]
	require.Equal(t, w.runtime.Usage().Live, last.Live)
	require.Equal(t, w.runtime.Pool().Statistics().Reserved, last.Reserved)
	require.Equal(t, last.Live, before.Live)
	require.Equal(t, last.Reserved, before.Reserved)
	require.Greater(t, peak.Live, last.Live)
	unmapped, out := 0, 0
	for _, e := range p.Events {
		switch e.Action {
		case picture.Unmapped:
			unmapped++
		case picture.Refused:
			out++
		}
	}
	require.NotZero(t, unmapped)
	require.NotZero(t, refused)
	require.Equal(t, refused, out)
	for _, handle := range live {
		_, err := Free(handle, nil)
		require.NoError(t, err)
	}
}

// What was freed is not live, whether a magazine keeps it or its free waits for a use: neither now nor in the history.
func TestWhatIsKeptIsNotLive(t *testing.T) {
	log := NewLog(1 << 10)
	w := pooledWith(t, 1, log)
	var handles []uint64
	for range 5 {
		handles = append(handles, w.mustAllocate(t, 0, 5*mib))
	}
	for _, handle := range handles[1:4] {
		require.True(t, blocks.Cache(handle, 0))
	}
	use, _, err := BeginUse(w.streams[0], Use{Block: handles[4], Access: Read})
	require.NoError(t, err)
	mustFree(t, handles[4])
	p := w.runtime.Snapshot(log)
	requireTiled(t, p)
	_, asked, _ := sums(p)
	delete(asked, picture.Free)
	want := map[picture.State]uint64{picture.Live: 5 * mib, picture.Awaiting: 5 * mib, picture.Nameless: 15 * mib}
	require.Equal(t, want, asked)
	points, peak := p.Timeline(100)
	require.Equal(t, w.runtime.Usage().Live, points[len(points)-1].Live)
	require.Zero(t, points[0].Live)
	require.EqualValues(t, 25*mib, peak.Live)
	require.NoError(t, EndUse(use))
	w.freeAll(t)
}

// Pictures beside threads are of one moment, and always whole.
func TestPicturesBesideThreads(t *testing.T) {
	for _, options := range []Options{{Pool: &pool.Options{}}, {}} {
		log := NewLog(1 << 10)
		options.Adaptors = []Adaptor{log}
		w := newWorldWith(t, sim.Options{Memory: 256 * mib}, 3, options)
		var threads sync.WaitGroup
		for thread := range 3 {
			threads.Go(func() {
				random := rand.New(rand.NewPCG(uint64(thread), 8))
				var live []uint64
				for range 1500 {
					if handle, _, err := w.allocate(thread, 1+random.Uint64N(2*mib)); assert.NoError(t, err) {
						live = append(live, handle)
					}
					for len(live) > 8 {
						_, err := Free(live[0], nil)
						assert.NoError(t, err)
						live = live[1:]
					}
				}
				for _, handle := range live {
					_, err := Free(handle, nil)
					assert.NoError(t, err)
				}
			})
		}
		for range 60 {
			requireTiled(t, w.runtime.Snapshot(log))
		}
		threads.Wait()
		p := w.runtime.Snapshot(log)
		_, _, blocks := sums(p)
		require.Zero(t, blocks[picture.Live]+blocks[picture.Nameless])
	}
}
