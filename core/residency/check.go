package residency

import (
	"cmp"
	"slices"

	"libmmsb/core/status"
	"libmmsb/native"
)

// A walk over where all pages of a context lie, for tests.

func broken(format string, arguments ...any) error {
	return status.Errorf(status.Internal, format, arguments...)
}

// Check walks over all pages and says what is wrong with where they lie: two with the same backing, one without, a host copy of a
// page that needs none, disk space that no page has. No call may run on the context. Errors: Internal.
func (r *Residency) Check() error {
	var backings []Backing
	for index, state := range r.memory.Pages() {
		b, err := r.checkPage(index, state)
		if err != nil {
			return err
		}
		if !b.empty() {
			backings = append(backings, b)
		}
	}
	if err := checkBackings(backings); err != nil {
		return err
	}
	if err := r.checkMaps(); err != nil {
		return err
	}
	if err := r.checkReplicas(); err != nil {
		return err
	}
	return r.disk.check(backings)
}

// checkPage checks a page, whose backing it returns.
func (r *Residency) checkPage(index uint32, state uint64) (b Backing, err error) {
	record := native.RecordAt(index)
	if record.Side != 0 {
		b = backingOf(native.SideAt(record.Side))
	}
	resident, waits := state&native.Nonresident == 0, r.waiting.get(index) != nil
	switch {
	case waits && (resident || !b.empty()):
		return b, broken("page on record %d waits in a snapshot, but its state is 0x%016x, and %d bytes of backing are its",
			index, state, b.length)
	case resident && !b.empty():
		return b, broken("page on record %d is resident, but has backing of %d bytes", index, b.length)
	case HasBlock(state):
		if r.shared.get(native.LocatorRegion(record.Locator)).block == 0 {
			return b, broken("page on record %d is in memory of a device with a block, which has none", index)
		}
	case !resident && !waits && b.length < record.Size:
		return b, broken("page on record %d has backing of %d bytes, its size is %d", index, b.length, record.Size)
	case native.OnDevice(state) && record.Locator != 0 && r.copies.get(index) == (hostCopy{}):
		return b, broken("page on record %d is on a device, but has locator 0x%x without a host copy", index, record.Locator)
	}
	return b, nil
}

// checkBackings finds two that overlap; those in the file come first.
func checkBackings(all []Backing) error {
	apart := func(a, b Backing) int {
		return cmp.Or(cmp.Compare(min(a.block, 1), min(b.block, 1)), cmp.Compare(a.device, b.device))
	}
	slices.SortFunc(all, func(a, b Backing) int { return cmp.Or(apart(a, b), cmp.Compare(a.at, b.at)) })
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; apart(a, b) == 0 && b.at-a.at < a.length {
			return broken("backing of %d bytes at %d overlaps that of %d bytes at %d; on a device: %t", a.length, a.at, b.length,
				b.at, a.onDevice())
		}
	}
	return nil
}

// checkMaps checks that what is known by record is known of pages that are not resident.
func (r *Residency) checkMaps() error {
	r.copies.Lock()
	defer r.copies.Unlock()
	for index := range r.copies.of {
		record := native.RecordAt(index)
		if state := record.LoadState(); native.Kind(state) != native.KindPage || !native.OnDevice(state) || record.Locator == 0 {
			return broken("record %d has a host copy, but its state is 0x%016x and its locator 0x%x", index, state,
				record.Locator)
		}
	}
	if err := r.checkPairs(); err != nil {
		return err
	}
	r.waiting.Lock()
	defer r.waiting.Unlock()
	users := make(map[*Source]int32)
	for index, source := range r.waiting.of {
		if state := native.RecordAt(index).LoadState(); native.Kind(state) != native.KindPage {
			return broken("record %d waits in a snapshot, but its state is 0x%016x", index, state)
		}
		if users[source]++; users[source] > source.users.Load() {
			return broken("%d pages wait in a snapshot that counts %d users", users[source], source.users.Load())
		}
	}
	return nil
}

// checkReplicas checks that each replica is of a page that has not ended, on a device of its own, and where the page does not lie
// if it is the page's still.
func (r *Residency) checkReplicas() error {
	for _, one := range r.replicas.all(every) {
		index := native.Index(one.page)
		record := native.RecordAt(index)
		state := record.LoadState()
		alive := native.Kind(state) == native.KindPage || native.Kind(state) == native.StateLeaving
		p := &Page{Residency: r, Index: index, Record: record, State: state &^ native.OwnerMask}
		switch {
		case !alive || native.Generation(state) != native.Generation(one.page):
			return broken("record %d has a replica of page 0x%016x, but its state is 0x%016x", index, one.page, state)
		case one.version == record.Version && native.OnDevice(state) && p.Placement().Device == one.memory.Device:
			return broken("page 0x%016x lies on device %d and has a replica there", one.page, one.memory.Device)
		}
		for _, other := range r.replicas.of[index] {
			if other != one && other.memory.Device == one.memory.Device {
				return broken("page 0x%016x has two replicas on device %d", one.page, one.memory.Device)
			}
		}
	}
	return nil
}

// checkPairs checks pages in two places: the host's copy is a frame that is large enough, and no granule is newer on both sides
// or behind the page's end.
func (r *Residency) checkPairs() error {
	frames := make(map[uint32]uint32)
	for index, both := range r.pairs.all() {
		record, frame := native.RecordAt(index), native.RecordAt(both.frame)
		state := record.LoadState()
		_, end := both.granules(0, record.Size)
		switch other, twice := frames[both.frame]; {
		case native.Kind(state) != native.KindPage && native.Kind(state) != native.StateLeaving || !native.OnDevice(state):
			return broken("record %d is in two places, but its state is 0x%016x", index, state)
		case native.Kind(frame.LoadState()) != native.StateFrame || frame.Size < record.Size || twice:
			return broken("the host's copy of record %d is record %d, of %d bytes with state 0x%016x; record %d has it: %t",
				index, both.frame, frame.Size, frame.LoadState(), other, twice)
		case both.locator != frame.Locator:
			return broken("the host's copy of record %d is at place 0x%x, that of its frame, record %d, at 0x%x", index,
				both.locator, both.frame, frame.Locator)
		case both.before != 0:
			return broken("record %d is in two places, and a call still has its address", index)
		case both.rawOnDevice(record) && both.reference == 0 && both.host.Overlaps(0, end):
			return broken("record %d is newer on the host, and the program may write anything on the device", index)
		case both.host.Overlaps(end, mostGranules*2) || both.device.Overlaps(end, mostGranules*2):
			return broken("record %d has %d granules, and what is newer lies behind them", index, end)
		}
		frames[both.frame] = index
		wrong := false
		both.host.Runs(0, end, func(first, end uint64) { wrong = wrong || both.device.Overlaps(first, end) })
		if wrong {
			return broken("record %d has granules that are newer on both sides", index)
		}
	}
	return nil
}

// check checks the file's space against the backings of all pages.
func (d *disk) check(backings []Backing) error {
	d.Lock()
	defer d.Unlock()
	if d.file == nil {
		return nil
	}
	if err := d.extents.Check(); err != nil {
		return err
	}
	sum, held := uint64(0), uint64(0)
	for _, b := range backings {
		if b.onDevice() {
			continue
		}
		sum += b.length
		first, end, missing := b.at/diskUnit, (b.at+b.length)/diskUnit, uint64(0)
		d.space.Gaps(first, end, func(first, end uint64) { missing += end - first })
		if missing > 0 {
			return broken("backing of %d bytes at %d lacks space for %d system pages in the file", b.length, b.at, missing)
		}
	}
	d.space.Runs(0, d.extents.Limit(), func(first, end uint64) { held += end - first })
	if held != d.held || d.held-d.used > max(d.used, spareMin)+growthMax {
		return broken("%d system pages of the file have space, %d are counted, pages have %d", held, d.held, d.used)
	}
	written := uint64(0)
	d.written.Runs(0, d.extents.Limit(), func(first, end uint64) {
		d.space.Gaps(first, end, func(first, end uint64) { written += end - first })
	})
	if written > 0 {
		return broken("%d system pages of the file were written, but have no space", written)
	}
	if sum != d.used*diskUnit || d.used != d.extents.Used() {
		return broken("%d bytes of the file are in use, %d are allocated, pages have %d", d.used*diskUnit,
			d.extents.Used()*diskUnit, sum)
	}
	return nil
}
