// The exports behind commands.c.

package main

// #include "mmsb.h"
import "C"

import "libmmsb/core/commands"

//export mmsbgo_commands_create
func mmsbgo_commands_create(o *C.mmsb_commands_options_t, to *C.mmsb_commands_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(put(to)(commands.Create(commands.Options{
		Workers: int32(o.workers), Capacity: uint64(o.capacity), Persistent: int32(o.persistent)})))
}

//export mmsbgo_commands_destroy
func mmsbgo_commands_destroy(h C.mmsb_commands_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(commands.Destroy(uint64(h)))
}
