/*
 * kernels.h — the kernels' parameters, the list of them, and their host build.
 *
 * A kernel is started with any number of threads and has one parameter, a struct that is given by value. Addresses are those of
 * the device, or of host memory that it reaches. What a kernel addresses must not overlap what it reads, and no byte may be
 * addressed twice by one launch: threads run in any order, so that "later wins" is settled before (gpu/kernels says by whom).
 *
 * "bits" is a bit mask: bit i%8 of byte i/8 stands for byte i. "changed" is the page's change mask in that form, or 0 for none;
 * it is aligned to 4 bytes and its memory is a whole number of 4 bytes. The bits of the bytes that are addressed are set in it.
 * No kernel reads or writes a byte outside what its parameter names, that rounding of the change mask aside.
 */
#ifndef MMSB_KERNELS_H
#define MMSB_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Sets bytes to a value. */
typedef struct mmsb__kernel_fill {
    uint64_t to, bytes, value;
} mmsb__kernel_fill_t;

typedef struct mmsb__kernel_copy {
    uint64_t to, from, bytes;
} mmsb__kernel_copy_t;

/* One copy of many, in an array aligned to 8. Work is shared out in pieces: piece is how many those before it have.
 * It has (to % 16 + bytes + MMSB__KERNEL_PIECE - 1) / MMSB__KERNEL_PIECE itself, or none where bytes is 0. */
#define MMSB__KERNEL_PIECE 2048
typedef struct mmsb__kernel_span {
    uint64_t to, from, bytes, piece;
} mmsb__kernel_span_t;

typedef struct mmsb__kernel_copy_many {
    uint64_t spans, count;
    uint64_t pieces; /* of all spans */
} mmsb__kernel_copy_many_t;

/* page[i] = payload[i] where mask[i] != 0, for i < length. This kernel and the next two may write the bytes in between back as
 * they read them: the page must have no other writer. */
typedef struct mmsb__kernel_merge_bytes {
    uint64_t page, mask, payload, length, changed;
} mmsb__kernel_merge_bytes_t;

/* page[i] = payload[i] where bit i of bits is set, for i < length. */
typedef struct mmsb__kernel_merge_bits {
    uint64_t page, bits, payload, length, changed;
} mmsb__kernel_merge_bits_t;

/* The same with a payload that holds only the bytes of the set bits, in order. bits is aligned to 8. ranks[i] is how many bits
 * are set below bit i * MMSB__KERNEL_RANK. */
#define MMSB__KERNEL_RANK 512
typedef struct mmsb__kernel_expand_bits {
    uint64_t page, bits, ranks, payload, length, changed;
} mmsb__kernel_expand_bits_t;

/* page[offsets[i] - origin] = payload[i], for i < count. The offsets are 4 or 8 bytes each, and aligned to that. One that is not
 * within the page's bytes is passed over. */
typedef struct mmsb__kernel_scatter {
    uint64_t page, bytes, offsets, offset_bytes, origin, payload, count, changed;
} mmsb__kernel_scatter_t;

/* Copies like copy_many whose targets lie in the page. */
typedef struct mmsb__kernel_scatter_runs {
    uint64_t page, spans, count, pieces, changed;
} mmsb__kernel_scatter_runs_t;

/* result[i] = 1 where a[i] equals b[i], else 0, for i < bytes. */
typedef struct mmsb__kernel_compare {
    uint64_t result, a, b, bytes;
} mmsb__kernel_compare_t;

/* Bit i of bits: whether a[i] differs from b[i]. The bits of the last byte behind them are 0. */
typedef struct mmsb__kernel_differences {
    uint64_t bits, a, b, bytes;
} mmsb__kernel_differences_t;

/* Counts the bytes that differ, and finds the first of them. found are two numbers of 8 bytes, aligned to that: to the first one
 * the count is added, and the second one becomes the index where that is smaller. They are 0 and UINT64_MAX before. */
typedef struct mmsb__kernel_difference {
    uint64_t found, a, b, bytes;
} mmsb__kernel_difference_t;

/* sums[i], 4 bytes and aligned to that, is the CRC-32C of the i-th part bytes; the last part may be shorter. part is not 0. The
 * threads that share a part are a warp on a device: a block there has a multiple of them. */
#define MMSB__KERNEL_LANES 32
typedef struct mmsb__kernel_checksum {
    uint64_t sums, from, bytes, part;
} mmsb__kernel_checksum_t;

/* One propagation of many: to[i] = from[i] where bit i of bits is set, for i < bytes, which is marked in changed. piece is as in
 * a span; it has (bytes + MMSB__KERNEL_PIECE - 1) / MMSB__KERNEL_PIECE itself. Bytes in between may be written back. */
typedef struct mmsb__kernel_pair {
    uint64_t to, from, bits, changed, bytes, piece;
} mmsb__kernel_pair_t;

typedef struct mmsb__kernel_propagate {
    uint64_t pairs, count;
    uint64_t pieces; /* of all pairs */
} mmsb__kernel_propagate_t;

/* What the host and a drain share, in memory of the host that the device reaches where it lies, aligned to 64 and 0 at first. The
 * host writes a command, whose list lies in such memory, too, and then counts it as posted; it writes the next one when it is
 * done. Each number has a line of its own. */
#define MMSB__KERNEL_COPY_MANY 0
#define MMSB__KERNEL_PROPAGATE 1
typedef struct mmsb__kernel_mailbox {
    uint64_t posted __attribute__((aligned(64))); /* commands that were written */
    uint64_t done __attribute__((aligned(64)));   /* of these are done: what they have written is seen by all */
    uint64_t kind __attribute__((aligned(64)));   /* one of the above */
    uint64_t list, count, pieces;                 /* its parameter */
} mmsb__kernel_mailbox_t;

/* Executes commands as they are posted, with the threads of one block. It ends when it has found none so many times in a row, or
 * has executed so many: then the host starts it again for the next one. No two have a mailbox at a time. */
typedef struct mmsb__kernel_drain {
    uint64_t mailbox, looks, commands;
} mmsb__kernel_drain_t;

/* A kernel NAME is the device's function mmsb__kernel_NAME with a parameter of type mmsb__kernel_NAME_t. */
#define MMSB_KERNELS(X) \
    X(fill) \
    X(copy) \
    X(copy_many) \
    X(merge_bytes) \
    X(merge_bits) \
    X(expand_bits) X(scatter) X(scatter_runs) X(compare) X(differences) X(difference) X(checksum) X(propagate) X(drain)

#if !defined(__CUDACC__)
#pragma GCC visibility push(hidden)

/* What a thread of a kernel does. All threads are run, in any order, also at the same time. */
typedef void (*mmsb__kernel_body_t)(const void *parameter, uint64_t thread, uint64_t threads);

typedef struct mmsb__kernel_host {
    const char *name; /* the device's function */
    size_t parameter_bytes;
    mmsb__kernel_body_t body;
} mmsb__kernel_host_t;

/* The kernel with that name, or NULL. */
const mmsb__kernel_host_t *mmsb__kernel_host(const char *name);

/* Each kernel with one thread: mmsb__kernel_NAME_alone. */
#define MMSB__KERNEL_ALONE(kernel) void mmsb__kernel_##kernel##_alone(const mmsb__kernel_##kernel##_t *parameter);
MMSB_KERNELS(MMSB__KERNEL_ALONE)

/* The checksums by what the lanes of a device do, one after the other, for tests: the host's bodies take its own loop. */
void mmsb__kernel_checksum_by_lanes(const mmsb__kernel_checksum_t *parameter);

/* Where a simulated device's memory is for the host: addresses from base to before end are reached distance bytes further on.
 * It is a multiple of 16. To be called before the first kernel runs; at first no address is translated. */
void mmsb__kernel_reach(uint64_t base, uint64_t end, uint64_t distance);

#pragma GCC visibility pop
#endif
#endif
