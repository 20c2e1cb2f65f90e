package native

/*
#include "group.h"
*/
import "C"

import "unsafe"

// Group is a group that a thread has open: group.h. The zero Group is none. Its methods are for that thread, but where they say
// otherwise.
type Group struct{ group unsafe.Pointer }

func (g Group) native() *C.mmsb__open_group_t { return (*C.mmsb__open_group_t)(g.group) }

func groupsOpen() bool { return loadUint32((*uint32)(unsafe.Pointer(&C.mmsb__groups_open))) != 0 }

// OpenGroup opens a group of the calling thread in a context. version is the first of an era. A failure is the thread's last
// error.
func OpenGroup(context uint32, version uint64) (Group, int32) {
	var group *C.mmsb__open_group_t
	code := int32(C.mmsb__group_open(C.uint32_t(context), C.uint64_t(version), &group))
	return Group{unsafe.Pointer(group)}, code
}

// GroupOf is the group that the calling thread has open in a context; ok says whether there is one.
func GroupOf(context uint32) (g Group, ok bool) {
	if !groupsOpen() {
		return Group{}, false
	}
	g = Group{unsafe.Pointer(C.mmsb__group_find(C.uint32_t(context)))}
	return g, g.group != nil
}

// InGroup tells whether the calling thread has a group open in any context.
func InGroup() bool { return groupsOpen() && C.mmsb__group_any() != 0 }

// CheckGroup is Busy where a locked page belongs to the group of another thread. A failure is the thread's last error.
func CheckGroup(index uint32, state uint64) int32 {
	if !groupsOpen() {
		return 0
	}
	return int32(C.mmsb__group_check(C.mmsb__record_at(C.uint32_t(index)), C.uint64_t(state)))
}

// ClaimForGroup makes a locked page the thread's group's, where there is one. A failure, Busy among others, is the thread's last
// error.
func ClaimForGroup(index uint32, state uint64) int32 {
	if !groupsOpen() {
		return 0
	}
	return int32(C.mmsb__group_keep(C.mmsb__record_at(C.uint32_t(index)), C.uint64_t(state), 0, 0))
}

// GroupVersion is the version that a locked page changes from: its own, or in its first change by a group one that is the
// group's.
func GroupVersion(index uint32) uint64 {
	return uint64(C.mmsb__group_version(C.mmsb__record_at(C.uint32_t(index))))
}

// GroupChangeFrom stores it, when nothing else of the change can fail.
func GroupChangeFrom(index uint32, version uint64) {
	C.mmsb__group_change_from(C.mmsb__record_at(C.uint32_t(index)), C.uint64_t(version))
}

// reserveRecords makes space for journal records that go to the thread's group, if they do: putting them does not enter Go.
func reserveRecords(r Ring, bytes, records int) int32 {
	if !groupsOpen() {
		return 0
	}
	if group := C.mmsb__group_of_ring(r.ring); group != nil {
		return int32(C.mmsb__group_reserve_records(group, C.uint64_t(bytes), C.uint64_t(records)))
	}
	return 0
}

// PushStep notes a change of a page that Undo and Finish leave to Go. A failure is the thread's last error.
func (g Group) PushStep(page uint64) int32 {
	return int32(C.mmsb__group_push_step(g.native(), C.uint64_t(page)))
}

// PushCreate notes that a page is about to begin. A failure is the thread's last error.
func (g Group) PushCreate(page uint64) int32 {
	return int32(C.mmsb__group_push_create(g.native(), C.uint64_t(page)))
}

// Top is where the group's list is. Drop takes back what was pushed since: none of it was done.
func (g Group) Top() unsafe.Pointer { return C.mmsb__group_top(g.native()) }

// Drop takes back what was pushed since Top.
func (g Group) Drop(top unsafe.Pointer) { C.mmsb__group_drop(g.native(), top) }

// Commit puts the group's journal records as one group; sequence is what to wait for, 0 for nothing. A failure is the thread's
// last error, and then the group is as before.
func (g Group) Commit() (sequence uint64, code int32) {
	var last C.uint64_t
	code = int32(C.mmsb__group_commit(g.native(), &last))
	return uint64(last), code
}

// Stop lets the group take no more changes. From any thread, whose the group then is.
func (g Group) Stop() { C.mmsb__group_stop(g.native()) }

// Finish goes on with what a commit has left to the group: 0 when all is done, EnterGo where the newest step of Go's is next.
func (g Group) Finish() int32 { return int32(C.mmsb__group_finish(g.native())) }

// Undo goes on with a rollback, likewise. Another code is a failure, and the thread's last error; the next call tries again.
// forced is for a context that ends: what cannot be undone stays.
func (g Group) Undo(forced bool) int32 {
	return int32(C.mmsb__group_undo(g.native(), C.int(flag(forced))))
}

// Detach lets the calling thread go of its group, which is the context's then.
func (g Group) Detach() { C.mmsb__group_detach(g.native()) }

// Close ends a group that is finished or undone. own says that the calling thread has opened it.
func (g Group) Close(own bool) { C.mmsb__group_close(g.native(), C.int(flag(own))) }
