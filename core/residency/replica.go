package residency

import (
	"cmp"
	"slices"
	"sync"

	"libmmsb/core/abi"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A replica is a copy of a page in memory of a device on which the page does not lie, for work there that reads it. It is what
// the page was at a version, and never changes: so it is the page's as long as the page has this version and nobody can write it
// through an address. No write has to know of replicas. Whoever looks at those of a page drops what is not the page's any more,
// and a device that lacks memory gets that of the replicas that were not used for the longest time. Work that reads a replica has
// a share of its memory, which stays until that work ends.

type replica struct {
	memory  DeviceMemory
	page    uint64 // its handle: a record is used again
	bytes   uint64
	version uint64
	used    uint64 // when it was made or used last
}

// replicas are those of a context's pages. Who has a page locked may take the lock, and who has it waits for nothing.
type replicas struct {
	sync.Mutex
	of    map[uint32][]*replica // by record
	uses  uint64
	asked []int32 // devices that ask for memory
}

// Replicas is how many replicas pages have, also such that the next look drops, and how many bytes these take.
func (r *Residency) Replicas() (count, bytes uint64) {
	r.replicas.Lock()
	defer r.replicas.Unlock()
	for _, list := range r.replicas.of {
		for _, one := range list {
			count, bytes = count+1, bytes+one.bytes
		}
	}
	return count, bytes
}

// dropReplicas drops those of a record that are like this.
func (r *Residency) dropReplicas(index uint32, like func(one *replica) bool) {
	r.replicas.Lock()
	list := r.replicas.of[index]
	var dropped []*replica
	for _, one := range list {
		if like(one) {
			dropped = append(dropped, one)
		}
	}
	if len(dropped) == len(list) {
		delete(r.replicas.of, index)
	} else if len(dropped) > 0 {
		r.replicas.of[index] = slices.DeleteFunc(slices.Clone(list), like)
	}
	r.replicas.Unlock()
	for _, one := range dropped {
		r.devices.Free(one.memory)
	}
}

func every(*replica) bool { return true }

// all are the replicas of all pages that are like this, in the order in which they were used.
func (r *replicas) all(like func(one *replica) bool) (list []*replica) {
	r.Lock()
	defer r.Unlock()
	for _, of := range r.of {
		for _, one := range of {
			if like(one) {
				list = append(list, one)
			}
		}
	}
	slices.SortFunc(list, func(a, b *replica) int { return cmp.Compare(a.used, b.used) })
	return list
}

// drop drops replicas of any pages, where nobody has dropped them meanwhile.
func (r *Residency) drop(list []*replica) {
	for _, one := range list {
		r.dropReplicas(native.Index(one.page), func(other *replica) bool { return other == one })
	}
}

// DropReplicasOfEnded drops the replicas of pages that have ended without a call of Forget.
func (r *Residency) DropReplicasOfEnded() {
	r.drop(r.replicas.all(func(one *replica) bool {
		return (native.RecordAt(native.Index(one.page)).LoadState()^one.page)>>native.IndexBits != 0
	}))
}

// giveBack drops replicas on a device that were not used for the longest time, of so many bytes, and says how many these were.
func (r *Residency) giveBack(device int32, bytes uint64) (returned uint64) {
	list := r.replicas.all(func(one *replica) bool { return one.memory.Device == device })
	count := 0
	for ; count < len(list) && returned < bytes; count++ {
		returned += list[count].bytes
	}
	r.drop(list[:count])
	return returned
}

// changing says whether a locked page's bytes can change through an address.
func (p *Page) changing() bool {
	return p.State&native.ReadOnly == 0 && (p.Record.WritePins > 0 || p.Record.Exposed == exposedForGood)
}

// current are the replicas of a locked page. What is not the page's any more, and what a lost device had, is dropped.
func (p *Page) current() (list []*replica) {
	p.replicas.Lock()
	all := p.replicas.of[p.Index]
	p.replicas.Unlock()
	for _, one := range all {
		if one.page == p.handle() && one.version == p.Record.Version && !p.changing() &&
			p.devices.Check(abi.LocationGPU, one.memory.Device) == nil {
			list = append(list, one)
		}
	}
	if len(list) < len(all) {
		p.dropReplicas(p.Index, func(one *replica) bool { return !slices.Contains(list, one) })
	}
	return list
}

// replicaOn is the replica of a locked page on a device, which is used now; nil where there is none.
func (p *Page) replicaOn(device int32) *replica {
	for _, one := range p.current() {
		if one.memory.Device == device {
			p.replicas.Lock()
			p.replicas.uses++
			one.used = p.replicas.uses
			p.replicas.Unlock()
			return one
		}
	}
	return nil
}

// Replicate gives a locked page a replica on a device, unless it lies there or has one. Errors: InvalidArgument, Unsupported (a
// page on disk), Busy (pinned to write), InvalidState (its address was given out for good), Mismatch, those of memory and of the
// devices.
func (p *Page) Replicate(device int32) error {
	if p.Location() == abi.LocationDisk {
		return status.Errorf(status.Unsupported, "page 0x%016x is on disk, from where no device reads it", p.handle())
	}
	to, err := p.Resolve(abi.LocationGPU, device)
	if err == nil {
		err = p.Present()
	}
	if err != nil || to == p.Placement() || to.Location != abi.LocationGPU {
		return err
	}
	switch {
	case p.changing() && p.Record.WritePins > 0:
		return status.Errorf(status.Busy, "page 0x%016x is pinned to write, %d times: its bytes may change beside a replica",
			p.handle(), p.Record.WritePins)
	case p.changing():
		return status.Errorf(status.InvalidState,
			"page 0x%016x has an address without a pin: its bytes may change beside a replica", p.handle())
	case p.replicaOn(to.Device) != nil:
		return nil
	}
	if _, err := p.Side(); err != nil { // a page that has one comes to Go when it ends
		return err
	}
	p.letGiveBack(to.Device)
	memory, err := p.devices.Allocate(to.Device, p.Record.Size, false)
	if err != nil {
		return err
	}
	one := &replica{memory: memory, page: p.handle(), bytes: p.Record.Size, version: p.Record.Version}
	if err := p.CopyBytes(Frame{Backing: one.backing()}, one.bytes); err != nil {
		p.devices.Free(memory)
		return err
	}
	p.replicas.Lock()
	defer p.replicas.Unlock()
	p.replicas.uses++
	one.used = p.replicas.uses
	if p.replicas.of == nil {
		p.replicas.of = make(map[uint32][]*replica)
	}
	p.replicas.of[p.Index] = append(slices.Clone(p.replicas.of[p.Index]), one)
	return nil
}

func (r *replica) backing() Backing {
	return Backing{at: uint64(r.memory.Address), length: r.bytes, block: r.memory.Block, device: r.memory.Device}
}

// letGiveBack lets a device that lacks memory ask for that of replicas.
func (r *Residency) letGiveBack(device int32) {
	r.replicas.Lock()
	asks := slices.Contains(r.replicas.asked, device)
	if !asks {
		r.replicas.asked = append(r.replicas.asked, device)
	}
	r.replicas.Unlock()
	if !asks {
		r.devices.OnLack(device, func(bytes uint64) uint64 { return r.giveBack(device, bytes) })
	}
}

// DropReplica drops the replica of a locked page on a device, where it has one.
func (p *Page) DropReplica(device int32) error {
	to, err := p.Resolve(abi.LocationGPU, device)
	if err != nil {
		return err
	}
	p.dropReplicas(p.Index, func(one *replica) bool { return one.memory.Device == to.Device })
	return nil
}

// HasReplica says whether a locked page has a replica on a device.
func (p *Page) HasReplica(device int32) bool {
	return slices.ContainsFunc(p.current(), func(one *replica) bool { return one.memory.Device == device })
}

// ShareReplica is the memory of the replica of a locked page on a device, which stays until it is freed once more; ok is false
// where there is none.
func (p *Page) ShareReplica(device int32) (memory DeviceMemory, ok bool) {
	one := p.replicaOn(device)
	if one == nil || p.devices.Share(one.memory) != nil { // dropped meanwhile, for somebody who lacks memory
		return DeviceMemory{}, false
	}
	return one.memory, true
}

// instead is where the bytes of a locked page lie whose device is lost: in a replica; ok is false where there is none, or the
// device is not lost.
func (p *Page) instead() (b Backing, ok bool) {
	list := p.current()
	if len(list) == 0 || !native.OnDevice(p.State) || p.Record.Locator != 0 {
		return b, false
	}
	at := p.Placement()
	return list[0].backing(), status.CodeOf(p.devices.Check(at.Location, at.Device)) == status.DeviceLost
}
