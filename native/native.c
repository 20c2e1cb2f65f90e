/* Tells C where Go is: the hidden exports of upcalls.go. Apart from the other files, so that those build without Go. */
#include "upcalls.h"

#include "_cgo_export.h"

__attribute__((visibility("hidden"))) void mmsb__native_install(void) {
    mmsb__upcalls_t all = {
        .refill = mmsbgo_refill,
        .take_frame = mmsbgo_take_frame,
        .give_frame = mmsbgo_give_frame,
        .make_resident = mmsbgo_make_resident,
        .evict = mmsbgo_evict,
        .device_address = mmsbgo_device_address,
        .device_read = mmsbgo_device_read,
        .device_write = (mmsb_status_t (*)(uint32_t, uint64_t, const void *, uint64_t))mmsbgo_device_write,
        .device_apply = (mmsb_status_t (*)(uint32_t, const mmsb_delta_t *))mmsbgo_device_apply,
        .device_prepare = (mmsb_status_t (*)(uint32_t, const mmsb_delta_t *))mmsbgo_device_prepare,
        .device_read_runs = (mmsb_status_t (*)(uint32_t, const mmsb_run_t *, uint64_t, void *))mmsbgo_device_read_runs,
        .copy_pins = mmsbgo_copy_pins,
        .device_compare = mmsbgo_device_compare,
        .device_checksums = mmsbgo_device_checksums,
        .device_propagate = (mmsb_status_t (*)(const mmsb_page_t *, size_t, int))mmsbgo_device_propagate,
        .device_apply_many =
            (mmsb_status_t (*)(const mmsb_page_t *, const mmsb_delta_t *, size_t, size_t *))mmsbgo_device_apply_many,
        .end = mmsbgo_end,
        .release_ended = mmsbgo_release_ended,
        .new_version = mmsbgo_new_version,
        .leave = mmsbgo_leave,
        .group_left = mmsbgo_group_left,
        .write_journal = mmsbgo_write_journal,
        .parents = (size_t (*)(const mmsb_page_t *, size_t, mmsb_page_t *, size_t, uint64_t *))mmsbgo_parents,
        .check_cycle = (mmsb_status_t (*)(const mmsb_page_t *, size_t))mmsbgo_check_cycle,
        .tell_report = mmsbgo_tell_report,
    };
    mmsb__upcalls = all;
}
