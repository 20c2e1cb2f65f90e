/* Atomic groups. */
#include "door.h"

#include "_cgo_export.h"

/* In a group nothing waits for space: so it does not begin where there is none. */
mmsb_status_t mmsb_group_begin(mmsb_context_t context) {
    DOOR_ENTER();
    mmsb__ring_await_space(MMSB__HANDLE_INDEX(context));
    return mmsbgo_group_begin(context, MMSB_WAIT_FOREVER);
}

mmsb_status_t mmsb_group_begin_within(mmsb_context_t context, uint64_t timeout_ns) {
    DOOR_ENTER();
    mmsb__ring_await_space(MMSB__HANDLE_INDEX(context));
    return mmsbgo_group_begin(context, timeout_ns);
}

mmsb_status_t mmsb_group_commit(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_group_commit(context);
}

mmsb_status_t mmsb_group_rollback(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_group_rollback(context);
}
