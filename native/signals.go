package native

// #include "signals.h"
import "C"

// UnsafeHandler is the first signal after this one whose handler was installed without SA_ONSTACK, and where that is; 0 = none.
func UnsafeHandler(after int) (signal int, where string) {
	var text [256]C.char
	signal = int(C.mmsb__signals_unsafe(C.int(after), &text[0], C.size_t(len(text))))
	return signal, C.GoString(&text[0])
}
