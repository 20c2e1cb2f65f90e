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

// GoBound is Go for what asks native code for its last error, which belongs to a thread: the goroutine stays on one.
func GoBound(function func()) {
	Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		function()
	})
}

// Go runs a function in a goroutine. A panic in it ends only the goroutine.
func Go(function func()) {
	go func() {
		defer func() {
			if value := recover(); value != nil {
				Caught(value)
			}
		}()
		function()
	}()
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
