// The exports behind group.c.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"libmmsb/core/page"
)

//export mmsbgo_group_begin
func mmsbgo_group_begin(context C.mmsb_context_t, timeout C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.BeginGroupWithin(uint64(context), uint64(timeout)))
}

//export mmsbgo_group_commit
func mmsbgo_group_commit(context C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.CommitGroup(uint64(context)))
}

//export mmsbgo_group_rollback
func mmsbgo_group_rollback(context C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.RollbackGroup(uint64(context)))
}
