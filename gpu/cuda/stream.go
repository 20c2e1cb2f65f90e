// Streams and events.

package cuda

/*
#include "table.h"

#cgo noescape mmsb__cuda_create_stream
#cgo noescape mmsb__cuda_stream_context
#cgo noescape mmsb__cuda_stream_id
#cgo nocallback mmsb__cuda_stream_id
#cgo noescape mmsb__cuda_create_event
#cgo nocallback mmsb__cuda_query_stream
#cgo nocallback mmsb__cuda_query_event
#cgo nocallback mmsb__cuda_record_event
#cgo nocallback mmsb__cuda_wait
*/
import "C"

import (
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// legacyStream is the value that CUDA gives to the default stream beside 0.
const legacyStream = 1

// leastAddress is the first address that a system lets a process have.
const leastAddress = 1 << 16

// hold keeps an object of a registry for the length of a call.
func (d *device) hold(in *registry, handle uintptr, format string) (*object, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	if held := in.hold(handle); held != nil {
		return held, nil
	}
	return nil, d.refuse(status.InvalidHandle, format, handle)
}

// holdStream keeps a stream for the length of a call. A default stream, which is always there, is nil.
func (d *device) holdStream(stream driver.Stream) (*object, error) {
	if stream == 0 || stream == driver.PerThread {
		return nil, d.alive()
	}
	return d.hold(&d.streams, uintptr(stream), "%#x is not a stream of this device")
}

// holdEvent keeps an event of this device for the length of a call.
func (d *device) holdEvent(event driver.Event) (*object, error) {
	held, err := d.holdAnyEvent(event)
	if err == nil && held.device != d {
		held.release()
		return nil, d.refuse(status.InvalidHandle, "event %#x belongs to device %d", event, held.device.info.Ordinal)
	}
	return held, err
}

// holdAnyEvent keeps an event of any device.
func (d *device) holdAnyEvent(event driver.Event) (*object, error) {
	return d.hold(&d.driver.events, uintptr(event), "%#x is not an event")
}

// addStream lists a stream that has one user, and those that have not forgotten a stream of others which had the pointer before:
// each calls DestroyStream. The lock foreign is held.
func (d *device) addStream(handle uintptr, end func() error) {
	users := 1
	if gone := d.streams.hold(handle); gone != nil {
		users += gone.users
		gone.release()
	}
	d.streams.add(&object{device: d, handle: handle, end: end, users: users})
}

// CreateStream makes a stream that does not wait for the default one.
func (d *device) CreateStream(priority int) (driver.Stream, error) {
	if err := d.alive(); err != nil {
		return 0, err
	}
	var stream C.uintptr_t
	if outcome := C.mmsb__cuda_create_stream(d.c, C.int(priority), &stream); outcome.code != C.CUDA_SUCCESS {
		return 0, d.failed(outcome, "cannot create a stream of priority %d", priority)
	}
	d.foreign.Lock()
	defer d.foreign.Unlock()
	d.addStream(uintptr(stream), func() error {
		return d.check(C.mmsb__cuda_destroy_stream(d.c, stream), "cannot destroy stream %#x", uintptr(stream))
	})
	return driver.Stream(stream), nil
}

// ForeignStream lists a stream that others made in the device's primary context.
func (d *device) ForeignStream(handle uintptr) (driver.Stream, error) {
	if err := d.alive(); err != nil {
		return 0, err
	}
	switch handle {
	case 0, legacyStream:
		return 0, nil
	case uintptr(driver.PerThread):
		return 0, d.refuse(status.Unsupported, "per-thread default stream cannot be used: it is another stream in each thread")
	}
	// A driver reads what a handle points to: one that cannot be an address would be a fault of the program.
	if handle < leastAddress || handle%8 != 0 {
		return 0, d.refuse(status.InvalidHandle, "stream %#x is not the address of a stream", handle)
	}
	var context C.uintptr_t
	if outcome := C.mmsb__cuda_stream_context(d.c, C.uintptr_t(handle), &context); outcome.code != C.CUDA_SUCCESS {
		return 0, d.failed(outcome, "cannot query the context of stream %#x", handle)
	}
	if uintptr(context) != d.Handle() {
		return 0, d.refuse(status.InvalidHandle, "stream %#x does not belong to this device's primary context", handle)
	}
	d.foreign.Lock()
	defer d.foreign.Unlock()
	if held := d.streams.hold(handle); held != nil {
		defer held.release()
		held.users++
		return driver.Stream(handle), nil
	}
	d.addStream(handle, func() error { return nil })
	return driver.Stream(handle), nil
}

// StreamID asks the driver, which numbers all streams of the process.
func (d *device) StreamID(handle uintptr) (id uint64, err error) {
	if err = d.alive(); err == nil {
		err = d.check(C.mmsb__cuda_stream_id(d.c, C.uintptr_t(handle), (*C.uint64_t)(&id)), "cannot query the id of stream %#x",
			handle)
	}
	return id, err
}

// DestroyStream ends a stream of ours, or forgets one of others.
func (d *device) DestroyStream(stream driver.Stream) error {
	d.foreign.Lock()
	defer d.foreign.Unlock()
	held, err := d.holdStream(stream)
	if err != nil {
		return err
	}
	if held == nil {
		return d.refuse(status.InvalidHandle, "cannot destroy the default stream")
	}
	if held.users > 1 {
		held.users--
		held.release()
		return nil
	}
	_, err = d.streams.drop(held)
	return err
}

// QueryStream asks whether a stream has nothing left to do.
func (d *device) QueryStream(stream driver.Stream) (bool, error) {
	held, err := d.holdStream(stream)
	if err != nil {
		return false, err
	}
	defer held.release()
	outcome := C.mmsb__cuda_query_stream(d.c, C.uintptr_t(stream))
	return d.done(outcome, "cannot query stream %#x", uintptr(stream))
}

// done is the answer to a query.
func (d *device) done(outcome C.mmsb__cuda_outcome_t, format string, handle uintptr) (bool, error) {
	switch outcome.code {
	case C.CUDA_SUCCESS:
		return true, nil
	case C.CUDA_ERROR_NOT_READY:
		return false, nil
	}
	return false, d.failed(outcome, format, handle)
}

// SynchronizeStream waits for a stream.
func (d *device) SynchronizeStream(stream driver.Stream) error {
	held, err := d.holdStream(stream)
	if err != nil {
		return err
	}
	defer held.release()
	return d.check(C.mmsb__cuda_synchronize_stream(d.c, C.uintptr_t(stream)), "cannot wait for stream %#x", stream)
}

// Synchronize waits for the device.
func (d *device) Synchronize() error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.check(C.mmsb__cuda_synchronize(d.c), "cannot wait for all streams")
}

// CreateEvent makes an event that takes no times.
func (d *device) CreateEvent() (driver.Event, error) {
	if err := d.alive(); err != nil {
		return 0, err
	}
	var event C.uintptr_t
	if outcome := C.mmsb__cuda_create_event(d.c, &event); outcome.code != C.CUDA_SUCCESS {
		return 0, d.failed(outcome, "cannot create an event")
	}
	d.driver.events.add(&object{device: d, handle: uintptr(event), end: func() error {
		return d.check(C.mmsb__cuda_destroy_event(d.c, event), "cannot destroy event %#x", uintptr(event))
	}})
	return driver.Event(event), nil
}

// DestroyEvent ends an event; who waits for it still does.
func (d *device) DestroyEvent(event driver.Event) error {
	held, err := d.holdEvent(event)
	if err != nil {
		return err
	}
	dropped, err := d.driver.events.drop(held)
	if !dropped {
		return d.refuse(status.InvalidHandle, "%#x is not an event", event)
	}
	return err
}

// RecordEvent moves an event to the end of a stream.
func (d *device) RecordEvent(event driver.Event, stream driver.Stream) error {
	heldEvent, err := d.holdEvent(event)
	if err != nil {
		return err
	}
	defer heldEvent.release()
	heldStream, err := d.holdStream(stream)
	if err != nil {
		return err
	}
	defer heldStream.release()
	if outcome := C.mmsb__cuda_record_event(d.c, C.uintptr_t(event), C.uintptr_t(stream)); outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot record event %#x on stream %#x", event, stream)
	}
	return nil
}

// QueryEvent asks whether the work before an event is done.
func (d *device) QueryEvent(event driver.Event) (bool, error) {
	held, err := d.holdEvent(event)
	if err != nil {
		return false, err
	}
	defer held.release()
	outcome := C.mmsb__cuda_query_event(d.c, C.uintptr_t(event))
	return d.done(outcome, "cannot query event %#x", uintptr(event))
}

// SynchronizeEvent waits for the work before an event.
func (d *device) SynchronizeEvent(event driver.Event) error {
	held, err := d.holdEvent(event)
	if err != nil {
		return err
	}
	defer held.release()
	return d.check(C.mmsb__cuda_synchronize_event(d.c, C.uintptr_t(event)), "cannot wait for event %#x", event)
}

// AwaitEvent waits for the work before an event that others in the process have made, by the driver's pointer; nothing that is no
// event may be given. Errors: those of Load and Open, InvalidHandle for 0.
func AwaitEvent(ordinal int, event uintptr) error {
	loaded, err := Load()
	if err != nil {
		return err
	}
	return loaded.awaitEvent(ordinal, event)
}

func (d *Driver) awaitEvent(ordinal int, event uintptr) error {
	opened, err := d.Open(ordinal)
	if err != nil {
		return err
	}
	on := opened.(*device)
	if err := on.alive(); err != nil {
		return err
	}
	if event == 0 {
		return on.refuse(status.InvalidHandle, "event 0 is none")
	}
	return on.check(C.mmsb__cuda_synchronize_event(on.c, C.uintptr_t(event)), "cannot wait for event %#x", event)
}

// Wait makes a stream wait for an event, of whichever device.
func (d *device) Wait(stream driver.Stream, event driver.Event) error {
	heldEvent, err := d.holdAnyEvent(event)
	if err != nil {
		return err
	}
	defer heldEvent.release()
	heldStream, err := d.holdStream(stream)
	if err != nil {
		return err
	}
	defer heldStream.release()
	if outcome := C.mmsb__cuda_wait(d.c, C.uintptr_t(stream), C.uintptr_t(event)); outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot make stream %#x wait for event %#x", stream, event)
	}
	return nil
}
