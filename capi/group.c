/* Atomic groups. */
#include "door.h"

#include "_cgo_export.h"

mmsb_status_t mmsb_group_begin(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_group_begin(context);
}

mmsb_status_t mmsb_group_commit(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_group_commit(context);
}

mmsb_status_t mmsb_group_rollback(mmsb_context_t context) {
    DOOR_ENTER();
    return mmsbgo_group_rollback(context);
}
