/*
 * door.h — what every public function does first: is the library usable, are the arguments pointers that can be used, are the
 * structs ours. What calls mean is decided in native and core.
 */
#ifndef MMSB_CAPI_DOOR_H
#define MMSB_CAPI_DOOR_H

#include "access.h"
#include "compare.h"
#include "delta_batch.h"
#include "gate.h"
#include "id.h"
#include "journal.h"
#include "life.h"
#include "look.h"
#include "mask.h"
#include "pin.h"
#include "propagate.h"
#include "writing.h"

#pragma GCC visibility push(hidden)

/* For functions that take some nanoseconds: they begin a line of the cache, because where they happen to lie is worth half of
 * one. */
#define DOOR_QUICK __attribute__((aligned(64)))

/* For what the fast paths leave; apart, so that these need no stack frame and save no registers. */
#define DOOR_SLOW static __attribute__((noinline))

/* The first line of every function that returns a status. */
#define DOOR_ENTER() \
    do { \
        if (MMSB__UNLIKELY(mmsb__gate != MMSB_OK)) { \
            mmsb_status_t door_status = mmsb__gate_closed(); \
            if (door_status != MMSB_OK) \
                return door_status; \
        } \
    } while (0)

/* The same for functions that give something back: they also work after an internal error. */
#define DOOR_ENTER_TO_END() \
    do { \
        if (MMSB__UNLIKELY(mmsb__gate != MMSB_OK)) { \
            mmsb_status_t door_status = mmsb__gate_closed(); \
            if (door_status != MMSB_OK && door_status != MMSB_E_POISONED) \
                return door_status; \
        } \
    } while (0)

#define DOOR_CHECK(check) \
    do { \
        mmsb_status_t door_status = (check); \
        if (MMSB__UNLIKELY(door_status != MMSB_OK)) \
            return door_status; \
    } while (0)

mmsb_status_t door_bad_pointer(const char *name, const void *pointer, size_t alignment);
mmsb_status_t door_bad_struct(const char *name, uint32_t struct_size, size_t expected);

/* A pointer that must be there, aligned for what it points to. */
static inline mmsb_status_t door_pointer(const char *name, const void *pointer, size_t alignment) {
    if (MMSB__LIKELY(pointer && ((uintptr_t)pointer & (alignment - 1)) == 0))
        return MMSB_OK;
    return door_bad_pointer(name, pointer, alignment);
}

/* A pointer that may be NULL. */
static inline mmsb_status_t door_optional(const char *name, const void *pointer, size_t alignment) {
    if (MMSB__LIKELY(((uintptr_t)pointer & (alignment - 1)) == 0))
        return MMSB_OK;
    return door_bad_pointer(name, pointer, alignment);
}

mmsb_status_t door_bad_count(const char *name, uint64_t count, size_t size);

/* An array that must be there unless it is empty, of no more items than there are addresses. */
static inline mmsb_status_t door_array(const char *name, const void *pointer, uint64_t count, size_t size, size_t alignment) {
    if (MMSB__UNLIKELY(count > PTRDIFF_MAX / size))
        return door_bad_count(name, count, size);
    return count == 0 ? MMSB_OK : door_pointer(name, pointer, alignment);
}

#define DOOR_POINTER(pointer) DOOR_CHECK(door_pointer(#pointer, pointer, __alignof__(*(pointer))))
#define DOOR_BYTES(pointer) DOOR_CHECK(door_pointer(#pointer, pointer, 1))
#define DOOR_OPTIONAL(pointer) DOOR_CHECK(door_optional(#pointer, pointer, __alignof__(*(pointer))))
#define DOOR_ARRAY(pointer, count) DOOR_CHECK(door_array(#pointer, pointer, count, sizeof *(pointer), __alignof__(*(pointer))))
/* Bytes whose number is checked against a page's size later. */
#define DOOR_BUFFER(pointer, length) DOOR_CHECK((length) == 0 ? MMSB_OK : door_pointer(#pointer, pointer, 1))
#define DOOR_BYTE_ARRAY(pointer, count) DOOR_CHECK(door_array(#pointer, pointer, count, 1, 1))

/* Addresses of so many bytes. */
mmsb_status_t door_range(const char *name, const void *address, uint64_t bytes);

/* mmsb_stream_copy and mmsb_stream_fill for MMSB_STREAM_HOST. */
mmsb_status_t door_host_copy(void *to, const void *from, uint64_t bytes);
mmsb_status_t door_host_fill(void *to, uint8_t value, uint64_t bytes);

/* A file name: bytes as the system takes them, but not empty. */
mmsb_status_t door_path(const char *name, const char *path);

/* NULL, or options of work that this release can do. */
mmsb_status_t door_work(const mmsb_work_options_t *work);

/* Options of a context that can be used: the given ones, or for NULL the defaults, which are filled in. */
mmsb_status_t door_context_options(const mmsb_context_options_t **given, mmsb_context_options_t *defaults);

/* Returns what a change in a context gives, unless native code asks mmsb__change_again itself. Where the disk is full, and the
 * context's store lets changes wait, it is tried again: a failed call has changed nothing. */
#define DOOR_CHANGE(context_index, change) \
    for (;;) { \
        mmsb_status_t door_status = (change); \
        if (MMSB__LIKELY(door_status != MMSB_E_NO_SPACE) || !mmsb__ring_await_space(context_index)) \
            return door_status; \
    }
#define DOOR_CHANGE_IN(context, change) DOOR_CHANGE(MMSB__HANDLE_INDEX(context), change)
#define DOOR_CHANGE_OF(page, change) DOOR_CHANGE(mmsb__record_context(MMSB__HANDLE_INDEX(page)), change)

static inline uint64_t door_or(const uint64_t *words, size_t count) {
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all |= words[i];
    return all;
}

/* A struct of this library: struct_size is right, and the words named reserved are 0. */
#define DOOR_STRUCT(name, value, more_reserved) \
    do { \
        DOOR_POINTER(value); \
        if (MMSB__UNLIKELY((value)->struct_size != sizeof *(value) || (more_reserved) != 0 || \
                           door_or((value)->reserved, sizeof(value)->reserved / sizeof(value)->reserved[0]) != 0)) \
            return door_bad_struct(name, (value)->struct_size, sizeof *(value)); \
    } while (0)

/* Fills a struct's size and zeroes the rest. */
#define DOOR_INIT(value) \
    do { \
        memset(value, 0, sizeof *(value)); \
        (value)->struct_size = sizeof *(value); \
    } while (0)

#pragma GCC visibility pop
#endif
