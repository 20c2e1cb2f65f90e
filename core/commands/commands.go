// Package commands gives out command buffers and the workers that drain them. What commands do is native code's
// (native/commands.h).
package commands

import (
	"libmmsb/core/abi"
	"libmmsb/core/handle"
	"libmmsb/core/lasterror"
	"libmmsb/core/log"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Options of a command buffer.
type Options struct {
	Workers  int32
	Capacity uint64 // of a thread's ring, in commands
	// Persistent is 1 where a kernel that stays on a device executes the commands of pages there, where they are small.
	Persistent int32
}

const mostWorkers = 64

// buffers are the live ones: native code has all that is to be known of them.
var buffers = handle.NewLimited[struct{}](abi.KindCommands, native.CommandsMost)

func (o Options) check() error {
	if o.Workers < 0 || o.Workers > mostWorkers {
		return status.Errorf(status.InvalidArgument, "workers is %d, not 0 to %d", o.Workers, mostWorkers)
	}
	if o.Capacity < 1 || o.Capacity > native.CommandsCapacityMost {
		return status.Errorf(status.InvalidSize, "capacity is %d, not 1 to %d", o.Capacity, native.CommandsCapacityMost)
	}
	if o.Persistent != 0 && o.Persistent != 1 {
		return status.Errorf(status.InvalidArgument, "persistent is %d, not 0 or 1", o.Persistent)
	}
	return nil
}

// Create makes a command buffer, whose workers wait for commands. Errors: InvalidArgument, InvalidSize, OutOfMemory, Limit.
func Create(o Options) (uint64, error) {
	if err := o.check(); err != nil {
		return 0, err
	}
	h, err := buffers.Put(struct{}{})
	if err != nil {
		return 0, err
	}
	if code := native.OpenCommands(h, o.Capacity, uint32(o.Workers), o.Persistent); code != 0 {
		_, _ = buffers.Remove(h)
		return 0, lasterror.Load(code)
	}
	for range o.Workers {
		safego.Go(func() { native.WorkOnCommands(h) })
	}
	log.Logf(log.Info, "command buffer 0x%016x created, capacity %d, %d workers", h, o.Capacity, o.Workers)
	return h, nil
}

// Destroy ends a command buffer; what waits in it is cancelled. Errors: InvalidHandle, StaleHandle.
func Destroy(h uint64) error {
	if code := native.EndCommands(h); code != 0 { // of several calls one ends it
		return lasterror.Load(code)
	}
	_, err := buffers.Remove(h)
	return err
}

// DestroyAll ends every command buffer.
func DestroyAll() {
	for h := range buffers.All() {
		_ = Destroy(h)
	}
}

// Live is the number of command buffers.
func Live() uint64 { return buffers.Live() }
