/* Pictures and statistics of a runtime's memory. */
#include "door.h"

#include "_cgo_export.h"

mmsb_status_t mmsb_runtime_snapshot_write(mmsb_runtime_t runtime, int32_t descriptor, int32_t format) {
    DOOR_ENTER();
    if (format < MMSB_PICTURE_TORCH || format > MMSB_PICTURE_HTML)
        return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "format is %d, not 0 (PyTorch), 1 (JSON) or 2 (HTML)", format);
    return mmsbgo_runtime_snapshot_write(runtime, descriptor, format);
}

mmsb_status_t mmsb_runtime_memory_stats(mmsb_runtime_t runtime, mmsb_memory_stat_t *stats, size_t capacity, size_t *count) {
    DOOR_ENTER();
    DOOR_ARRAY(stats, capacity);
    DOOR_POINTER(count);
    return mmsbgo_runtime_memory_stats(runtime, stats, capacity, count);
}
