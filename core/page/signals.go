package page

import (
	"sync"

	"golang.org/x/sys/unix"

	"libmmsb/core/log"
	"libmmsb/native"
)

// named are the handlers that the log has named.
var named sync.Map

// nameHandlers logs the program's signal handlers that may not run in a call, each once: see Signals in mmsb.h.
func nameHandlers() {
	if !log.Enabled(log.Warning) {
		return
	}
	type handler struct {
		signal int
		where  string
	}
	for h := (handler{}); ; {
		h.signal, h.where = native.UnsafeHandler(h.signal)
		if h.signal == 0 {
			return
		}
		if _, known := named.LoadOrStore(h, true); !known {
			log.Logf(log.Warning,
				"handler of %s (%s) was installed without SA_ONSTACK: a signal during a call can destroy the stack",
				unix.SignalName(unix.Signal(h.signal)), h.where)
		}
	}
}
