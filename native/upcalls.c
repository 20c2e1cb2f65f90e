/* Where C's questions go: the hidden exports of upcalls.go. Apart from the other files, so that those build without Go. */
#include "page.h"

#include "_cgo_export.h"

__attribute__((visibility("hidden"))) void mmsb_native_install(void) {
    mmsb_upcalls_t all = {mmsbgo_refill, mmsbgo_take_block, mmsbgo_give_block,   mmsbgo_bring,
                          mmsbgo_leave,  mmsbgo_end,        mmsbgo_release_ended};
    mmsb_upcalls = all;
}
