package native

/*
#include "guard.h"

#cgo nocallback mmsb__guard_set
#cgo nocallback mmsb__guard_next
#cgo nocallback mmsb__guard_report
*/
import "C"

// Where the guard of host pages has found a write.
const (
	GuardBefore = C.MMSB_GUARD_BEFORE
	GuardBehind = C.MMSB_GUARD_BEHIND
	GuardEnded  = C.MMSB_GUARD_ENDED
	GuardLeft   = C.MMSB_GUARD_LEFT
)

// SetGuard says that every so many pages of a context one is guarded from now on; 0 = none.
func SetGuard(context uint32, every uint64) {
	C.mmsb__guard_set(C.uint32_t(context), C.uint64_t(every))
}

// GuardNext counts a page that Go makes, and says whether it is guarded.
func GuardNext(context uint32) bool { return C.mmsb__guard_next(C.uint32_t(context)) != 0 }

// GuardReport says whether a report of a context's guard waits for its next call.
func GuardReport(context uint32, waits bool) {
	C.mmsb__guard_report(C.uint32_t(context), C.int(flag(waits)))
}
