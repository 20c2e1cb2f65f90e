//go:build invariants

package native

/*
#cgo CFLAGS: -DMMSB_INVARIANTS
#include "invariants.h"
*/
import "C"

// Invariants tells whether this build checks what must always hold: native's MMSB__ASSERT, and what other packages check where it
// is true.
const Invariants = true

// CheckTable walks over all of a context on which no call runs and says the first thing that is wrong with it, for tests; "" is
// nothing. Where Invariants is false it looks at nothing.
func CheckTable(context uint32) string {
	if wrong := C.mmsb__table_check(C.uint32_t(context)); wrong != nil {
		return C.GoString(wrong)
	}
	return ""
}
