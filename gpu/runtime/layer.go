// What a layer of memory is, and the lowest one: the device.

package runtime

import (
	"cmp"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Request asks a layer for memory.
type Request struct {
	Bytes       uint64 // not 0
	Stream      *Stream
	Tag         Tag
	Reservation *Reservation // whose bytes it takes; nil = none
	Thread      int32        // the system's thread that asks, for the log; 0 = this one
	Owned       bool         // the block has an owner, who frees it by FreeOwned; nobody else can
}

// Memory is what a layer gave.
type Memory struct {
	Address driver.Address
	Bytes   uint64 // those that were asked for
	Tag     Tag
	Own     Own
	Freer   int32 // the system's thread that freed it, for the log; 0 = this one
}

// Own are a layer's own words, which come back with the memory. A layer that needs some keeps those of the layer below.
type Own [2]uint64

// Layer is a source of stream-ordered memory. Adaptors are layers over another: budget, statistics, log, guard, failure hook.
// They stack in any order. All methods may be called from many goroutines; none may call the runtime back, but through Host.
type Layer interface {
	// Allocate takes memory in the order of the request's stream. When it fails nothing has changed.
	Allocate(request Request) (Memory, error)
	// Free queues the memory's end on a stream, which is ordered behind all its uses. When it fails the memory is as before.
	Free(memory Memory, stream *Stream) error
	// Released says that the stream has come past the free: the bytes are there again. It comes once for each Free. A device that
	// is lost has come past everything.
	Released(memory Memory)
	// Trim gives back what is kept for reuse, down to keep bytes.
	Trim(keep uint64) error
	// Close comes last, when everything is released.
	Close() error
}

// Host is what a layer may ask of the runtime that it is part of.
type Host interface {
	// Reap looks which queued frees the device has come past, and releases their memory. It does not wait for the device.
	Reap()
	// Device is the runtime's.
	Device() driver.Device
	// Lost says that the device is lost: what was queued may never have run.
	Lost() bool
	// Settle reaps and tries what has found too little memory, and again when more of what was freed is released: while requests
	// on the stream may wait for that. nil is no stream.
	Settle(stream *Stream, try func() error) error
}

// deviceLayer is the lowest layer: the device's own stream-ordered memory.
type deviceLayer struct {
	device driver.Device
}

func (l *deviceLayer) Allocate(request Request) (Memory, error) {
	address, err := l.device.AllocateOrdered(request.Stream.native, request.Bytes)
	return Memory{Address: address, Bytes: request.Bytes, Tag: request.Tag}, err
}

func (l *deviceLayer) Free(memory Memory, stream *Stream) error {
	return l.device.FreeOrdered(stream.native, memory.Address)
}

func (l *deviceLayer) Released(Memory) {}

func (l *deviceLayer) Trim(keep uint64) error { return l.device.TrimOrdered(keep) }

func (l *deviceLayer) Close() error { return nil }

// Allocate takes a block of device memory on a stream. Its bytes are not defined. Errors: InvalidSize (0), InvalidArgument (a
// stream of another runtime), StaleHandle, InvalidState and Busy (a tag that sleeps, or falls asleep), and those of the layers:
// Limit, OutOfMemory, Device, DeviceLost.
func (r *Runtime) Allocate(request Request) (handle uint64, address driver.Address, err error) {
	stream, bytes := request.Stream, request.Bytes
	switch {
	case bytes == 0:
		return 0, 0, status.Errorf(status.InvalidSize, "size of the block is 0, at least 1 is needed")
	case stream.runtime != r:
		return 0, 0, otherRuntime(stream)
	}
	if err := r.enter(); err != nil {
		return 0, 0, err
	}
	defer r.leave()
	if err := r.usable(request); err != nil {
		r.counts.failures.Add(1)
		return 0, 0, err
	}
	r.ledger.turn.pass(r.attempt(stream))
	b, handle, err := allBlocks.take(stream)
	if err != nil {
		return 0, 0, err
	}
	memory, err := r.layer.Allocate(request)
	if err != nil {
		stream.frees.giveSlot(b.index)
		r.counts.failures.Add(1)
		return 0, 0, r.noteLost(err)
	}
	r.bytes.allocated.Add(bytes)
	r.counts.allocations.Add(1)
	b.begin(memory, stream, request.Owned)
	return handle, memory.Address, nil
}

func otherRuntime(stream *Stream) error {
	return status.Errorf(status.InvalidArgument, "stream %d belongs to device %d of another runtime", stream.index,
		stream.runtime.device.Info().Ordinal)
}

// noteLost remembers that the device is lost.
func (r *Runtime) noteLost(err error) error {
	if status.CodeOf(err) == status.DeviceLost {
		r.lost.Store(true)
		if r.hits != nil {
			r.hits.pool.Shut()
		}
	}
	return err
}

// Trim gives back memory that the layers keep for reuse, down to keep bytes.
func (r *Runtime) Trim(keep uint64) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	r.reap()
	return r.noteLost(cmp.Or(r.layer.Trim(keep), r.host.trim(), r.pool.trimKept()))
}
