// Package safego keeps panics inside the library. Every goroutine of the library is started by Go: a panic in a goroutine
// cannot be caught by the call that started it and would end the host program.
package safego

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"libmmsb/core/invariant"
	"libmmsb/core/log"
	"libmmsb/core/status"
)

var poison atomic.Pointer[func(reason string)]

// OnPanic sets the function that is told of every caught panic: the door's, which answers MMSB_E_POISONED from then on. nil
// = none.
func OnPanic(function func(reason string)) { poison.Store(&function) }

// Bound is a function whose goroutine stays on one thread, for what asks native code for its last error: that is a thread's.
func Bound(function func()) func() {
	return func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		function()
	}
}

// Go runs a function in a goroutine. A panic in it ends only the goroutine.
func Go(function func()) { Beside(function) }

// Helper is a function that runs beside the goroutine that needs what it does.
type Helper struct {
	ended  chan struct{}
	caught any
}

// Beside is Go for a function that somebody waits for.
func Beside(function func()) *Helper {
	h := &Helper{ended: make(chan struct{})}
	go func() {
		defer close(h.ended)
		defer func() {
			if h.caught = recover(); h.caught != nil {
				Caught(h.caught)
			}
		}()
		function()
	}()
	return h
}

// Wait returns when the function has ended. After a panic in it, which is reported by then, it panics with the same value: who
// waits would take for done what is not.
func (h *Helper) Wait() {
	<-h.ended
	if h.caught != nil {
		panic(h.caught)
	}
}

// Caught reports a value that recover returned: the stack goes to the log, the reason to the function of OnPanic. Call it
// from the deferred function, while the stack is still that of the panic. A broken invariant is not kept inside: it panics again,
// and ends the process.
func Caught(value any) {
	invariant.Rethrow(value)
	log.Logf(log.Error, "panic: %v\n%s", value, debug.Stack())
	if function := poison.Load(); function != nil && *function != nil {
		(*function)(reason(value))
	}
}

func reason(value any) string {
	switch value := value.(type) {
	case error:
		return status.Plain(value.Error())
	case string:
		return status.Plain(value)
	default:
		return "a panic with a value that is neither error nor text"
	}
}
