/*
 * watch.h — whether somebody has to know what a page's bytes were before they change: a capture, a freeze, a journal,
 * a group; or whether the call has to hear of a report of the guard instead.
 */
#ifndef MMSB_NATIVE_WATCH_H
#define MMSB_NATIVE_WATCH_H

#include "journal.h"

#pragma GCC visibility push(hidden)

/* How many contexts are captured or frozen (capture_state.h), how many groups are open (group.h), and how many contexts have a
 * report that waits (guard.h): calls that change pages look closer. */
extern uint32_t mmsb__capturing;

/* 1 while some context is captured, frozen or journalled, a group is open, or a report waits. */
static inline int mmsb__watched(void) {
    return (__atomic_load_n(&mmsb__capturing, __ATOMIC_RELAXED) | __atomic_load_n(&mmsb__rings_open, __ATOMIC_RELAXED)) != 0;
}

#pragma GCC visibility pop
#endif
