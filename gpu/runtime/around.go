// From an address to its block.

package runtime

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
)

// At is the live block of the runtime that has an address. Errors: NotFound.
func (r *Runtime) At(address driver.Address) (BlockInfo, error) {
	info, found := at(address, func(info BlockInfo) bool { return info.Stream.runtime == r })
	if !found {
		return info, status.Errorf(status.NotFound, "address 0x%x is in no live block of this runtime of device %d",
			uint64(address), r.device.Info().Ordinal)
	}
	return info, nil
}

// Around is the live block of the runtime's device, of any of its runtimes, that has all of a range.
func (r *Runtime) Around(address driver.Address, bytes uint64) (info BlockInfo, found bool) {
	return at(address, func(info BlockInfo) bool {
		return info.Stream.runtime.device == r.device && bytes <= info.Bytes-uint64(address-info.Address)
	})
}

func at(address driver.Address, is func(info BlockInfo) bool) (info BlockInfo, found bool) {
	if index, listed := placed.near(uint64(address)); listed {
		if info, found = allBlocks.at(index).around(address, is); found {
			placed.found.Add(1)
			return info, true
		}
	}
	made := allBlocks.slots()
	for index := uint32(1); index <= made; index++ {
		if info, found = allBlocks.at(index).around(address, is); found {
			placed.missed()
			return info, true
		}
	}
	return BlockInfo{}, false
}

// around is the block, if it is live, has the address, and is one of those.
func (b *block) around(address driver.Address, is func(info BlockInfo) bool) (info BlockInfo, found bool) {
	generation, what := blocks.Parts(b.record.State.Load())
	if what != blocks.Live && what != blocks.Held || uint64(address)-b.record.Address >= b.record.Bytes {
		return BlockInfo{}, false
	}
	info, err := FindBlock(b.handle(generation)) // C may have changed it meanwhile
	return info, err == nil && uint64(address-info.Address) < info.Bytes && is(info)
}

// slots is how many slots were ever used.
func (t *blockTable) slots() uint32 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.made
}

// places is where blocks lay when they were listed last, by address. C gives blocks out and takes them back without a word, so it
// is a guess, which is looked at before all blocks are; blocks that are used again lie where they lay. It is made anew when as
// many looks at all blocks as patience says have found what it has not, and is given the more time the less it was worth.
type places struct {
	mutex    sync.Mutex
	list     []beginning
	found    atomic.Int64 // looks since it was made that it has answered,
	misses   int64        // and that it has not
	patience int64
}

type beginning struct {
	address uint64
	index   uint32
}

const leastPatience = 16

var placed = places{patience: leastPatience}

// near is the listed block that begins last at or before an address.
func (p *places) near(address uint64) (index uint32, listed bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	i, exact := slices.BinarySearchFunc(p.list, address, func(b beginning, address uint64) int {
		return cmp.Compare(b.address, address)
	})
	if !exact {
		i--
	}
	if i < 0 {
		return 0, false
	}
	return p.list[i].index, true
}

// missed notes that a block was not where it was listed.
func (p *places) missed() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.misses++; p.misses < p.patience {
		return
	}
	p.patience = leastPatience
	if p.found.Swap(0) < p.misses {
		p.patience = 2 * p.misses
	}
	p.list, p.misses = p.list[:0], 0
	for index, made := uint32(1), allBlocks.slots(); index <= made; index++ {
		record := allBlocks.at(index).record
		if _, what := blocks.Parts(record.State.Load()); what == blocks.Live || what == blocks.Held || what == blocks.Cached {
			p.list = append(p.list, beginning{record.Address, index})
		}
	}
	slices.SortFunc(p.list, func(a, b beginning) int { return cmp.Compare(a.address, b.address) })
}
