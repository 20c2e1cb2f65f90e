package keeper

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
	"libmmsb/native/nativetest"
)

// busy is a store that threads write while it is saved, read and followed. Each thread has pages of its own, among them some that
// one call or one group always gives the same number: who sees two numbers sees half of it.
type busy struct {
	*testing.T
	directory string
	writer    uint64
	same      [][]uint64 // ids of the pages that have one number, by thread
	ends      atomic.Bool
	written   chan struct{} // closed when the threads have ended
	wrong     chan error
}

const samePages = 4

var busyFor = flag.Duration("busy", time.Second, "how long a store is busy")

func (b *busy) options(mode int32) Options {
	o := quiet()
	o.Mode, o.IntervalMs, o.SegmentBytes = mode, 1, 16<<10
	o.SaveBytes = 128 << 10
	return o
}

// thread changes its pages until the end.
func (b *busy) thread(number int) error {
	random := rand.New(rand.NewPCG(uint64(number), 16))
	var same, others []uint64
	for _, id := range b.same[number] {
		same = append(same, handleOf(b.T, b.writer, id))
	}
	for count := uint64(1); !b.ends.Load(); count++ {
		value := binary.LittleEndian.AppendUint64(nil, count)
		var err error
		switch random.IntN(6) {
		case 0:
			var handle uint64
			err = page.Use(b.writer, func(c *page.Context) (err error) {
				handle, err = c.Create(8+random.Uint64N(5000), page.CreateOptions{Location: abi.LocationDefault, NUMANode: -1})
				return err
			})
			others = append(others, handle)
		case 1:
			err = b.grouped(random, same, value)
		case 2:
			if len(others) > 10 {
				if code := nativetest.Destroy(others[0]); code != 0 {
					err = fmt.Errorf("destroy: %d", code)
				}
				others = others[1:]
			}
		case 3:
			if len(others) > 0 {
				err = page.Resize(others[random.IntN(len(others))], 8+random.Uint64N(5000))
			}
		case 4:
			if len(others) > 0 {
				handle := others[random.IntN(len(others))]
				if code := nativetest.WritePage(handle, sizeOf(handle)-8, value); code != 0 {
					err = fmt.Errorf("write: %d", code)
				}
			}
		default:
			if code := nativetest.ApplyRuns(same, make([]uint64, len(same)), 8, repeated(value, len(same))); code != 0 {
				err = fmt.Errorf("apply: %d", code)
			}
		}
		if err != nil {
			return fmt.Errorf("thread %d: %w", number, err)
		}
	}
	return nil
}

func repeated(value []byte, times int) (all []byte) {
	for range times {
		all = append(all, value...)
	}
	return all
}

// grouped gives the pages a number, each with another call; one has another size before.
func (b *busy) grouped(random *rand.Rand, same []uint64, value []byte) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := page.BeginGroup(b.writer); err != nil {
		return err
	}
	for i, handle := range same {
		if i == 1 {
			if err := page.Resize(handle, 8+random.Uint64N(5000)); err != nil {
				return err
			}
		}
		if code := nativetest.WritePage(handle, 0, value); code != 0 {
			return fmt.Errorf("write in a group: %d", code)
		}
	}
	return page.CommitGroup(b.writer)
}

// check looks for halves in a context that does not change.
func (b *busy) check(context uint64, what string) error {
	for number, ids := range b.same {
		numbers := make([]uint64, len(ids))
		for i, id := range ids {
			read := make([]byte, 8)
			if code := nativetest.ReadPage(handleOf(b.T, context, id), 0, read); code != 0 {
				return fmt.Errorf("%s: read of page %d: %d", what, id, code)
			}
			numbers[i] = binary.LittleEndian.Uint64(read)
			if numbers[i] != numbers[0] {
				return fmt.Errorf("%s: pages of thread %d have the numbers %d", what, number, numbers[:i+1])
			}
		}
	}
	return nil
}

// reader opens the state again and again.
func (b *busy) reader() error {
	for !b.ends.Load() {
		context, err := Open(b.directory, hostPages, b.options(abi.StoreRead), nil)
		if err != nil {
			return err
		}
		err = b.check(context, "a reader")
		if destroyed := page.Destroy(context); err == nil {
			err = destroyed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follower opens a follower, holds it back now and then, and looks at what it saves.
func (b *busy) follower(number int) error {
	random := rand.New(rand.NewPCG(uint64(number), 17))
	context, err := Open(b.directory, hostPages, b.options(abi.StoreFollow), nil)
	if err != nil {
		return err
	}
	defer func() { _ = page.Destroy(context) }()
	for path := filepath.Join(b.TempDir(), "saved"); !b.ends.Load(); {
		if random.IntN(3) == 0 { // the page that changes its size
			handle := uint64(0)
			_ = page.Use(context, func(c *page.Context) (err error) {
				handle, err = c.Lookup(b.same[0][1])
				return err
			})
			if _, code := nativetest.PinPage(handle, false); code == 0 {
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
				_ = nativetest.UnpinPage(handle, false)
			}
		}
		o := persist.SaveOptions{Queue: true, NotDurable: true}
		if err := persist.Save(context, persist.ToPath(path), o, nil); err != nil {
			return err
		}
		saved, err := page.NewContext(hostPages)
		if err != nil {
			return err
		}
		if err = persist.Load(saved, persist.FromPath(path), persist.LoadOptions{}, nil); err == nil {
			err = b.check(saved, fmt.Sprintf("follower %d", number))
		}
		if destroyed := page.Destroy(saved); err == nil {
			err = destroyed
		}
		if err != nil {
			return err
		}
	}
	<-b.written
	if err := b.caughtUp(context); err != nil {
		return fmt.Errorf("follower %d: %w", number, err)
	}
	return nil
}

func (b *busy) caughtUp(context uint64) error {
	if err := persist.SyncJournal(b.writer, nil); err != nil {
		return err
	}
	info, err := persist.GetJournalInfo(b.writer)
	if err != nil {
		return err
	}
	work := waitWork(context, info.Last)
	defer work.Close()
	if err := work.Wait(uint64(patience)); err != nil {
		return err
	}
	follows := infoOf(b.T, context).Following
	if follows.Failures != 0 {
		return status.Errorf(status.Internal, "%d failures, %d loads", follows.Failures, follows.Reloads)
	}
	if mine, theirs := detailsOf(b.T, context, false), detailsOf(b.T, b.writer, false); digest(mine) != digest(theirs) {
		for id, text := range theirs {
			if mine[id] != text {
				return fmt.Errorf("page %d is %s, of the writer %s; %d loads", id, mine[id], text, follows.Reloads)
			}
		}
		return fmt.Errorf("%d pages, the writer %d", len(mine), len(theirs))
	}
	return nil
}

func TestFollowersOfABusyStore(t *testing.T) {
	const threads, followers = 3, 2
	for durability := range int32(3) {
		t.Run(fmt.Sprint(durability), func(t *testing.T) {
			b := &busy{T: t, directory: filepath.Join(t.TempDir(), "store"),
				written: make(chan struct{}), wrong: make(chan error, 8)}
			o := b.options(abi.StoreWrite)
			o.Durability = durability
			b.writer = openStore(t, b.directory, o)
			for range threads {
				var ids []uint64
				for range samePages {
					ids = append(ids, idOf(create(t, b.writer, 100)))
				}
				b.same = append(b.same, ids)
			}
			require.NoError(t, persist.SyncJournal(b.writer, nil))
			var writing, all sync.WaitGroup
			start := func(group *sync.WaitGroup, work func() error) {
				group.Add(1)
				go func() {
					defer group.Done()
					if err := work(); err != nil {
						b.ends.Store(true)
						b.wrong <- err
					}
				}()
			}
			for number := range threads {
				start(&writing, func() error { return b.thread(number) })
			}
			for number := range followers {
				start(&all, func() error { return b.follower(number) })
			}
			start(&all, b.reader)
			for end := time.Now().Add(*busyFor); time.Now().Before(end) && !b.ends.Load(); {
				time.Sleep(time.Millisecond)
			}
			b.ends.Store(true)
			writing.Wait()
			close(b.written)
			all.Wait()
			close(b.wrong)
			for err := range b.wrong {
				t.Error(err)
			}
		})
	}
}
