/*
 * bodies.h — what one thread of each kernel does, read by nvcc for the device and by any C compiler for the host.
 *
 * A warp's threads take neighbouring 16 bytes, so that a load of all of them is one access to memory; where addresses are not
 * aligned to 16 a load takes several.
 */
#ifndef MMSB_KERNELS_BODIES_H
#define MMSB_KERNELS_BODIES_H

#include "kernels.h"

typedef struct vector {
    uint64_t low, high;
} __attribute__((aligned(16))) vector_t;

/* ------------------------------------------------------------------------------------------- device and host ---- */

#if defined(__CUDACC__)

#define BODY static __device__ __forceinline__

/* That the address is in global memory spares the device to find out. */
BODY uint8_t *reach(uint64_t address) {
    return (uint8_t *)__cvta_global_to_generic(address);
}

BODY vector_t load_vector(const uint8_t *from) {
    return *(const vector_t *)from;
}

BODY void store_vector(uint8_t *to, vector_t value) {
    *(vector_t *)to = value;
}

BODY uint32_t load_word(const uint8_t *from) {
    return *(const uint32_t *)from;
}

BODY void store_word(uint8_t *to, uint32_t value) {
    *(uint32_t *)to = value;
}

BODY uint64_t load_long(const uint8_t *from) {
    return *(const uint64_t *)from;
}

BODY uint64_t count_ones(uint64_t bits) {
    return (uint64_t)__popcll(bits);
}

/* Sets bits in an aligned word that other threads set bits in. */
BODY void set_bits(uint8_t *word, uint32_t bits) {
    if (bits == ~(uint32_t)0)
        *(uint32_t *)word = bits;
    else
        atomicOr((unsigned int *)word, bits);
}

BODY unsigned lowest_one(uint64_t bits) {
    return (unsigned)__ffsll((long long)bits) - 1;
}

BODY void add_to(uint64_t *number, uint64_t more) {
    atomicAdd((unsigned long long *)number, (unsigned long long)more);
}

BODY void lower_to(uint64_t *number, uint64_t value) {
    atomicMin((unsigned long long *)number, (unsigned long long)value);
}

#define TABLE static __device__ const
#define WITH_ONE_LANE(lanes, loop)

/* A number in memory that the host and the device share. What was written before it was stored is seen by who has loaded it, and
 * by the threads of its block behind a barrier. */
BODY uint64_t load_shared(const uint64_t *number) {
    uint64_t value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(number) : "memory");
    return value;
}

BODY void store_shared(uint64_t *number, uint64_t value) {
    asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(number), "l"(value) : "memory");
}

BODY void pause_between_looks(void) {
    __nanosleep(500);
}

#define UNROLLED _Pragma("unroll")
/* Has the compiler keep a word in its register, where it would compute it again for each use. */
#define KEEP(word) asm volatile("" : "+r"(word))

/* Of a table of 32 words each lane of a warp has the one of its own number. All lanes look up at the same time, each by the
 * lowest five bits of what it asks for: an exchange of registers, which takes as long whatever these are. */
#define OWN_ENTRIES 1
#define OWN_ENTRY(lane, i) (lane)

BODY uint32_t look_up(const uint32_t *entry, uint32_t number) {
    return __shfl_sync(~0u, *entry, (int)number);
}

/* A value that all lanes of a warp have alike, so that the compiler knows that they stay together where it decides. */
BODY uint64_t alike(uint64_t value) {
    return (uint64_t)__reduce_or_sync(~0u, (unsigned)(value >> 32)) << 32 | __reduce_or_sync(~0u, (unsigned)value);
}

/* The sum of what all lanes of a warp have, without carries. */
BODY uint64_t sum_of_lanes(uint64_t value) {
    return (uint64_t)__reduce_xor_sync(~0u, (unsigned)(value >> 32)) << 32 | __reduce_xor_sync(~0u, (unsigned)value);
}

#else

#include <sched.h>
#include <string.h>

#include "../native/bytes.h"

#define BODY static inline
#define TABLE static const
#define UNROLLED
#define KEEP(word)
#define OWN_ENTRIES 32
#define OWN_ENTRY(lane, i) ((void)(lane), (i))

BODY uint32_t look_up(const uint32_t *table, uint32_t number) {
    return table[number % OWN_ENTRIES];
}

/* With a lane that is alone the host does a range by the loops of its own pages. */
#define WITH_ONE_LANE(lanes, loop) \
    if ((lanes) == 1) { \
        loop; \
        return; \
    }

/* The addresses that mmsb__kernel_reach told of. */
extern uint64_t mmsb__kernel_base, mmsb__kernel_end, mmsb__kernel_distance;

BODY uint8_t *reach(uint64_t address) {
    if (address >= mmsb__kernel_base && address < mmsb__kernel_end)
        address += mmsb__kernel_distance;
    return (uint8_t *)(uintptr_t)address;
}

/* A device faults where an access is not aligned to its size, and so does the host. */
BODY void fault_unless_aligned(const uint8_t *address, uintptr_t size) {
    if ((uintptr_t)address % size != 0)
        __builtin_trap();
}

BODY vector_t load_vector(const uint8_t *from) {
    fault_unless_aligned(from, 16);
    vector_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

BODY void store_vector(uint8_t *to, vector_t value) {
    fault_unless_aligned(to, 16);
    memcpy(to, &value, sizeof value);
}

BODY uint32_t load_word(const uint8_t *from) {
    fault_unless_aligned(from, 4);
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

BODY void store_word(uint8_t *to, uint32_t value) {
    fault_unless_aligned(to, 4);
    memcpy(to, &value, sizeof value);
}

BODY uint64_t load_long(const uint8_t *from) {
    fault_unless_aligned(from, 8);
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

BODY uint64_t count_ones(uint64_t bits) {
    return (uint64_t)__builtin_popcountll(bits);
}

BODY void set_bits(uint8_t *word, uint32_t bits) {
    fault_unless_aligned(word, 4);
    __atomic_fetch_or((uint32_t *)(void *)word, bits, __ATOMIC_RELAXED);
}

BODY unsigned lowest_one(uint64_t bits) {
    return (unsigned)__builtin_ctzll(bits);
}

BODY void add_to(uint64_t *number, uint64_t more) {
    fault_unless_aligned((const uint8_t *)number, 8);
    __atomic_fetch_add(number, more, __ATOMIC_RELAXED);
}

BODY void lower_to(uint64_t *number, uint64_t value) {
    fault_unless_aligned((const uint8_t *)number, 8);
    uint64_t old = __atomic_load_n(number, __ATOMIC_RELAXED);
    while (value < old && !__atomic_compare_exchange_n(number, &old, value, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

BODY uint64_t load_shared(const uint64_t *number) {
    return __atomic_load_n(number, __ATOMIC_ACQUIRE);
}

BODY void store_shared(uint64_t *number, uint64_t value) {
    __atomic_store_n(number, value, __ATOMIC_RELEASE);
}

BODY void pause_between_looks(void) {
    sched_yield();
}

#endif

/* ------------------------------------------------------------------------------------------------------ words ---- */

#define EACH_BYTE 0x0101010101010101ULL
#define HIGH_BITS 0x8080808080808080ULL
#define LOW_SEVEN 0x7f7f7f7f7f7f7f7fULL

BODY uint64_t lesser(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

BODY int is_aligned(const uint8_t *address) {
    return ((uintptr_t)address & 15) == 0;
}

/* 0x80 in each byte that is not 0, 0 in the others. */
BODY uint64_t nonzero_bytes(uint64_t word) {
    return (((word & LOW_SEVEN) + LOW_SEVEN) | word) & HIGH_BITS;
}

/* Bit i where byte i is not 0. */
BODY uint32_t bits_of_bytes(uint64_t word) {
    return (uint32_t)((nonzero_bytes(word) >> 7) * 0x0102040810204080ULL >> 56);
}

/* 0xff in byte i where bit i of the lowest byte is set, 0 in the others. */
BODY uint64_t bytes_of_bits(uint64_t bits) {
    return (nonzero_bytes((bits & 0xff) * EACH_BYTE & 0x8040201008040201ULL) >> 7) * 0xff;
}

/* 32 bits from bit shift on of two words. */
BODY uint64_t joined(uint32_t low, uint32_t high, unsigned shift) {
    return (uint32_t)(((uint64_t)high << 32 | low) >> shift);
}

BODY void copy_bytes(uint8_t *to, const uint8_t *from) {
    for (unsigned i = 0; i < 16; i++)
        to[i] = from[i];
}

/* Reads the aligned words that the 16 bytes lie in: the up to three bytes beside them must be there, too. */
BODY vector_t load_shifted(const uint8_t *from) {
    unsigned beside = (unsigned)((uintptr_t)from & 3), shift = 8 * beside;
    const uint8_t *words = from - beside;
    uint32_t second = load_word(words + 4), third = load_word(words + 8), fourth = load_word(words + 12);
    uint32_t fifth = beside != 0 ? load_word(words + 16) : 0;
    vector_t value;
    value.low = joined(load_word(words), second, shift) | joined(second, third, shift) << 32;
    value.high = joined(third, fourth, shift) | joined(fourth, fifth, shift) << 32;
    return value;
}

BODY uint32_t word_of_bytes(const uint8_t *from) {
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* The 16 bytes from byte i on of a range, as two numbers: a choice between structs keeps nvcc 13.0 busy for ever. */
BODY void load_any(const uint8_t *range, uint64_t i, uint64_t bytes, uint64_t *low, uint64_t *high) {
    const uint8_t *from = range + i;
    if (is_aligned(from)) {
        vector_t value = load_vector(from);
        *low = value.low;
        *high = value.high;
    } else if (i >= 4 && bytes - i >= 20) {
        vector_t value = load_shifted(from);
        *low = value.low;
        *high = value.high;
    } else {
        *low = word_of_bytes(from) | (uint64_t)word_of_bytes(from + 4) << 32;
        *high = word_of_bytes(from + 8) | (uint64_t)word_of_bytes(from + 12) << 32;
    }
}

BODY void store_any(uint8_t *to, uint64_t low, uint64_t high) {
    if (is_aligned(to)) {
        vector_t value = {low, high};
        store_vector(to, value);
        return;
    }
    for (unsigned k = 0; k < 8; k++) {
        to[k] = (uint8_t)(low >> 8 * k);
        to[8 + k] = (uint8_t)(high >> 8 * k);
    }
}

/* ----------------------------------------------------------------------------------------------- whole ranges ---- */

/* One of several lanes sets a range of bytes together. */
BODY void fill_range(uint8_t *to, uint8_t value, uint64_t bytes, uint64_t lane, uint64_t lanes) {
    WITH_ONE_LANE(lanes, memset(to, value, bytes))
    uint64_t head = lesser(-(uint64_t)(uintptr_t)to & 15, bytes);
    uint64_t tail = bytes - (bytes - head) % 16;
    vector_t every = {value * EACH_BYTE, value * EACH_BYTE};
    for (uint64_t i = lane; i < head; i += lanes)
        to[i] = value;
    for (uint64_t i = head + 16 * lane; i < tail; i += 16 * lanes)
        store_vector(to + i, every);
    for (uint64_t i = tail + lane; i < bytes; i += lanes)
        to[i] = value;
}

/* Four loads are under way at a time: their latency is what limits a copy. */
BODY void copy_vectors(uint8_t *to, const uint8_t *from, uint64_t bytes, uint64_t lane, uint64_t lanes) {
    uint64_t step = 16 * lanes, i = 16 * lane;
    for (; i + 3 * step < bytes; i += 4 * step) {
        vector_t first = load_vector(from + i), second = load_vector(from + i + step);
        vector_t third = load_vector(from + i + 2 * step), fourth = load_vector(from + i + 3 * step);
        store_vector(to + i, first);
        store_vector(to + i + step, second);
        store_vector(to + i + 2 * step, third);
        store_vector(to + i + 3 * step, fourth);
    }
    for (; i < bytes; i += step)
        store_vector(to + i, load_vector(from + i));
}

/* One of several lanes copies a range together. Stores are aligned whatever the addresses are. */
BODY void copy_range(uint8_t *to, const uint8_t *from, uint64_t bytes, uint64_t lane, uint64_t lanes) {
    WITH_ONE_LANE(lanes, memcpy(to, from, bytes))
    uint64_t head = lesser(-(uint64_t)(uintptr_t)to & 15, bytes);
    uint64_t tail = bytes - (bytes - head) % 16;
    for (uint64_t i = lane; i < head; i += lanes)
        to[i] = from[i];
    for (uint64_t i = tail + lane; i < bytes; i += lanes)
        to[i] = from[i];
    if (is_aligned(from + head)) {
        copy_vectors(to + head, from + head, tail - head, lane, lanes);
        return;
    }
    for (uint64_t i = head + 16 * lane; i < tail; i += 16 * lanes) {
        if (i >= 4 && bytes - i >= 20)
            store_vector(to + i, load_shifted(from + i));
        else
            copy_bytes(to + i, from + i);
    }
}

/* One of several lanes sets the bits from first on together. */
BODY void mark_range(uint8_t *changed, uint64_t first, uint64_t count, uint64_t lane, uint64_t lanes) {
    for (uint64_t word = first / 32 + lane; word * 32 < first + count; word += lanes) {
        uint32_t bits = ~(uint32_t)0;
        if (word * 32 < first)
            bits &= bits << first % 32;
        if (first + count - word * 32 < 32)
            bits &= ~(~(uint32_t)0 << (first + count) % 32);
        set_bits(changed + 4 * word, bits);
    }
}

BODY void mmsb__kernel_fill_body(const mmsb__kernel_fill_t *p, uint64_t thread, uint64_t threads) {
    fill_range(reach(p->to), (uint8_t)p->value, p->bytes, thread, threads);
}

BODY void mmsb__kernel_copy_body(const mmsb__kernel_copy_t *p, uint64_t thread, uint64_t threads) {
    copy_range(reach(p->to), reach(p->from), p->bytes, thread, threads);
}

/* ------------------------------------------------------------------------------------------------ many ranges ---- */

/* The last item with no more pieces before it. Those without pieces come before their like and are passed over. pieces is the
 * first item's number, and items have so many words. Where many are alike the item is found at once: the search begins where it
 * would be if all were, and goes on in steps that double. Each look may go over a link. */
BODY uint64_t item_of(const uint64_t *pieces, uint64_t words, uint64_t count, uint64_t piece, uint64_t all) {
    uint64_t low = lesser(piece * count / all, count - 1), high, step;
    for (step = 1; pieces[low * words] > piece; step *= 2)
        low -= lesser(low, step);
    for (step = 1, high = low + 1; high < count && pieces[high * words] <= piece; step *= 2) {
        low = high;
        high += step;
    }
    high = lesser(high, count);
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (pieces[middle * words] <= piece)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#if !defined(__CUDACC__)
BODY void copy_spans_alone(const mmsb__kernel_span_t *spans, uint64_t count, uint64_t page, uint64_t changed) {
    for (const mmsb__kernel_span_t *span = spans; span < spans + count; span++) {
        memcpy(reach(span->to), reach(span->from), span->bytes);
        if (changed != 0)
            mmsb__bits_set_range(reach(changed), span->to - page, span->bytes);
    }
}
#endif

/* Eight threads take a piece together, so that short spans do not leave most of a warp idle and their loads are still whole
 * lines. */
BODY void copy_spans(const mmsb__kernel_copy_many_t *p, uint64_t page, uint64_t changed, uint64_t thread, uint64_t threads) {
    unsigned shift = threads % 8 == 0 ? 3 : 0;
    uint64_t lanes = (uint64_t)1 << shift, lane = thread & (lanes - 1);
    const mmsb__kernel_span_t *spans = (const mmsb__kernel_span_t *)(const void *)reach(p->spans);
    WITH_ONE_LANE(threads, copy_spans_alone(spans, p->count, page, changed))
    for (uint64_t piece = thread >> shift; piece < p->pieces; piece += threads >> shift) {
        mmsb__kernel_span_t span = spans[item_of(&spans->piece, sizeof *spans / 8, p->count, piece, p->pieces)];
        /* Pieces end at aligned targets, so that only a span's first one has a head. */
        uint64_t skew = span.to % 16, number = piece - span.piece;
        uint64_t begin = number == 0 ? 0 : number * MMSB__KERNEL_PIECE - skew;
        uint64_t end = lesser((number + 1) * MMSB__KERNEL_PIECE - skew, span.bytes);
        copy_range(reach(span.to + begin), reach(span.from + begin), end - begin, lane, lanes);
        if (changed != 0)
            mark_range(reach(changed), span.to - page + begin, end - begin, lane, lanes);
    }
}

BODY void mmsb__kernel_copy_many_body(const mmsb__kernel_copy_many_t *p, uint64_t thread, uint64_t threads) {
    copy_spans(p, 0, 0, thread, threads);
}

BODY void mmsb__kernel_scatter_runs_body(const mmsb__kernel_scatter_runs_t *p, uint64_t thread, uint64_t threads) {
    mmsb__kernel_copy_many_t copies = {p->spans, p->count, p->pieces};
    copy_spans(&copies, p->page, p->changed, thread, threads);
}

/* ----------------------------------------------------------------------------------------------------- merges ---- */

/* A thread takes 16 bytes of the page at a time, with their two bytes of a bit mask, which are its own; a merge's takes 32, with
 * their word. chosen has a bit for each that changes. */
BODY void blend(uint8_t *page, vector_t payload, uint32_t chosen) {
    if (chosen != 0xffff) {
        vector_t old = load_vector(page);
        payload.low = old.low ^ ((old.low ^ payload.low) & bytes_of_bits(chosen));
        payload.high = old.high ^ ((old.high ^ payload.high) & bytes_of_bits(chosen >> 8));
    }
    store_vector(page, payload);
}

BODY void blend_bytes(uint8_t *page, const uint8_t *payload, uint32_t chosen) {
    for (unsigned i = 0; i < 16; i++)
        if (chosen >> i & 1)
            page[i] = payload[i];
}

BODY void mark_group(uint64_t changed, uint64_t first, uint32_t chosen) {
    if (changed == 0)
        return;
    uint8_t *bits = reach(changed) + first / 8;
    if (chosen & 0xff)
        bits[0] = (uint8_t)(bits[0] | chosen);
    if (chosen >> 8)
        bits[1] = (uint8_t)(bits[1] | chosen >> 8);
}

#if !defined(__CUDACC__)
/* How many bytes of a page are merged at a time where nobody wants to know what changed. */
#define UNMARKED 4096

BODY void blend_bytes_alone(uint8_t *page, const uint8_t *mask, const uint8_t *payload, uint64_t length, uint64_t changed) {
    uint8_t nobodys[UNMARKED / 8];
    if (changed != 0) {
        mmsb__bytes.blend_bytes(page, mask, payload, length, reach(changed));
        return;
    }
    for (uint64_t i = 0; i < length; i += UNMARKED)
        mmsb__bytes.blend_bytes(page + i, mask + i, payload + i, lesser(UNMARKED, length - i), nobodys);
}

BODY void blend_bits_alone(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t length, uint64_t changed) {
    uint8_t nobodys[UNMARKED / 8];
    if (changed != 0) {
        mmsb__bytes.blend_bits(page, bits, payload, length, reach(changed));
        return;
    }
    for (uint64_t i = 0; i < length; i += UNMARKED)
        mmsb__bytes.blend_bits(page + i, bits + i / 8, payload + i, lesser(UNMARKED, length - i), nobodys);
}
#endif

/* The bits of up to 16 bytes from byte first on. */
BODY uint32_t load_chosen(const uint8_t *bits, uint64_t first, uint64_t length) {
    uint64_t count = length - first;
    uint32_t chosen = bits[first / 8];
    if (count > 8)
        chosen |= (uint32_t)bits[first / 8 + 1] << 8;
    return count < 16 ? chosen & ~(~(uint32_t)0 << count) : chosen;
}

/* Merges 32 bytes, of which some change. */
BODY void merge_vectors(uint8_t *page, const uint8_t *payload, uint32_t chosen) {
    vector_t first = load_vector(payload), second = load_vector(payload + 16);
    if (chosen != ~(uint32_t)0) {
        vector_t old = load_vector(page), next = load_vector(page + 16);
        first.low = old.low ^ ((old.low ^ first.low) & bytes_of_bits(chosen));
        first.high = old.high ^ ((old.high ^ first.high) & bytes_of_bits(chosen >> 8));
        second.low = next.low ^ ((next.low ^ second.low) & bytes_of_bits(chosen >> 16));
        second.high = next.high ^ ((next.high ^ second.high) & bytes_of_bits(chosen >> 24));
    }
    store_vector(page, first);
    store_vector(page + 16, second);
}

/* Merges 32 bytes from byte i on, and marks them in their word of the change mask. */
BODY void merge_word(uint8_t *page, const uint8_t *payload, uint64_t i, uint32_t chosen, uint64_t changed) {
    if (chosen == 0)
        return;
    merge_vectors(page + i, payload + i, chosen);
    if (changed != 0) {
        uint8_t *word = reach(changed) + i / 8;
        store_word(word, load_word(word) | chosen);
    }
}

/* Merges the 16 bytes, or those that are left, from byte i on. */
BODY void merge_group(uint8_t *page, const uint8_t *bits, const uint8_t *payload, uint64_t i, uint64_t length, int aligned,
                      uint64_t changed) {
    uint32_t chosen = load_chosen(bits, i, length);
    if (chosen == 0)
        return;
    if (aligned && length - i >= 16)
        blend(page + i, load_vector(payload + i), chosen);
    else
        blend_bytes(page + i, payload + i, chosen);
    mark_group(changed, i, chosen);
}

BODY uint32_t chosen_bytes(const uint8_t *mask) {
    vector_t set = load_vector(mask);
    return bits_of_bytes(set.low) | bits_of_bytes(set.high) << 8;
}

BODY void mmsb__kernel_merge_bytes_body(const mmsb__kernel_merge_bytes_t *p, uint64_t thread, uint64_t threads) {
    uint8_t *page = reach(p->page);
    const uint8_t *mask = reach(p->mask), *payload = reach(p->payload);
    WITH_ONE_LANE(threads, blend_bytes_alone(page, mask, payload, p->length, p->changed))
    int aligned = is_aligned(page) && is_aligned(mask) && is_aligned(payload);
    for (uint64_t i = 32 * thread; i < p->length; i += 32 * threads) {
        uint64_t count = lesser(32, p->length - i);
        if (aligned && count == 32) {
            merge_word(page, payload, i, chosen_bytes(mask + i) | chosen_bytes(mask + i + 16) << 16, p->changed);
            continue;
        }
        for (uint64_t from = i; from < i + count; from += 16) {
            uint32_t chosen = 0;
            for (unsigned k = 0; k < 16 && from + k < p->length; k++)
                chosen |= (uint32_t)(mask[from + k] != 0) << k;
            blend_bytes(page + from, payload + from, chosen);
            mark_group(p->changed, from, chosen);
        }
    }
}

BODY void mmsb__kernel_merge_bits_body(const mmsb__kernel_merge_bits_t *p, uint64_t thread, uint64_t threads) {
    uint8_t *page = reach(p->page);
    const uint8_t *bits = reach(p->bits), *payload = reach(p->payload);
    WITH_ONE_LANE(threads, blend_bits_alone(page, bits, payload, p->length, p->changed))
    int aligned = is_aligned(page) && is_aligned(payload), words = ((uintptr_t)bits & 3) == 0;
    for (uint64_t i = 32 * thread; i < p->length; i += 32 * threads) {
        uint64_t count = lesser(32, p->length - i);
        if (aligned && words && count == 32) {
            merge_word(page, payload, i, load_word(bits + i / 8), p->changed);
            continue;
        }
        for (uint64_t from = i; from < i + count; from += 16)
            merge_group(page, bits, payload, from, p->length, aligned, p->changed);
    }
}

/* How many bits are set below bit first, a multiple of 16. */
BODY uint64_t rank_of(const uint8_t *bits, const uint8_t *ranks, uint64_t first) {
    uint64_t block = first / MMSB__KERNEL_RANK, i = block * MMSB__KERNEL_RANK;
    uint64_t rank = load_long(ranks + 8 * block);
    for (; first - i >= 64; i += 64)
        rank += count_ones(load_long(bits + i / 8));
    for (; i < first; i += 8)
        rank += count_ones(bits[i / 8]);
    return rank;
}

/* Which of the payload's bytes belongs to a set bit. A counter that moves with the bits would be simpler, but it keeps nvcc
 * 13.0 busy for ever. */
BODY unsigned number_of(uint32_t bit, uint32_t chosen) {
    return (unsigned)count_ones(chosen & (((uint32_t)1 << bit) - 1));
}

/* The next bytes of payload, each at the place of a set bit of chosen, which has eight. */
BODY uint64_t expand(uint32_t chosen, const uint8_t *payload) {
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++)
        if (chosen >> i & 1)
            word |= (uint64_t)payload[number_of(i, chosen)] << 8 * i;
    return word;
}

BODY void mmsb__kernel_expand_bits_body(const mmsb__kernel_expand_bits_t *p, uint64_t thread, uint64_t threads) {
    uint8_t *page = reach(p->page);
    const uint8_t *bits = reach(p->bits), *ranks = reach(p->ranks);
    if (p->changed != 0) {
        WITH_ONE_LANE(threads, mmsb__bytes.expand_bits(page, bits, reach(p->payload), p->length, reach(p->changed)))
    }
    int aligned = is_aligned(page);
    for (uint64_t i = 16 * thread; i < p->length; i += 16 * threads) {
        uint32_t chosen = load_chosen(bits, i, p->length);
        if (chosen == 0)
            continue;
        const uint8_t *payload = reach(p->payload) + rank_of(bits, ranks, i);
        if (aligned && p->length - i >= 16) {
            vector_t value;
            value.low = expand(chosen & 0xff, payload);
            value.high = expand(chosen >> 8, payload + count_ones(chosen & 0xff));
            blend(page + i, value, chosen);
        } else {
            for (unsigned k = 0; k < 16; k++)
                if (chosen >> k & 1)
                    page[i + k] = payload[number_of(k, chosen)];
        }
        mark_group(p->changed, i, chosen);
    }
}

/* ------------------------------------------------------------------------------------------------ propagation ---- */

#if !defined(__CUDACC__)
BODY void propagate_alone(const mmsb__kernel_pair_t *pairs, uint64_t count) {
    for (const mmsb__kernel_pair_t *pair = pairs; pair < pairs + count; pair++)
        blend_bits_alone(reach(pair->to), reach(pair->bits), reach(pair->from), pair->bytes, pair->changed);
}
#endif

/* Eight threads take a piece together, as in copy_spans. */
BODY void mmsb__kernel_propagate_body(const mmsb__kernel_propagate_t *p, uint64_t thread, uint64_t threads) {
    unsigned shift = threads % 8 == 0 ? 3 : 0;
    uint64_t lanes = (uint64_t)1 << shift, lane = thread & (lanes - 1);
    const mmsb__kernel_pair_t *pairs = (const mmsb__kernel_pair_t *)(const void *)reach(p->pairs);
    WITH_ONE_LANE(threads, propagate_alone(pairs, p->count))
    for (uint64_t piece = thread >> shift; piece < p->pieces; piece += threads >> shift) {
        mmsb__kernel_pair_t pair = pairs[item_of(&pairs->piece, sizeof *pairs / 8, p->count, piece, p->pieces)];
        uint8_t *to = reach(pair.to);
        const uint8_t *from = reach(pair.from), *bits = reach(pair.bits);
        int aligned = is_aligned(to) && is_aligned(from);
        uint64_t begin = (piece - pair.piece) * MMSB__KERNEL_PIECE, end = lesser(begin + MMSB__KERNEL_PIECE, pair.bytes);
        for (uint64_t i = begin + 16 * lane; i < end; i += 16 * lanes)
            merge_group(to, bits, from, i, pair.bytes, aligned, pair.changed);
    }
}

/* ---------------------------------------------------------------------------------------------------- scatter ---- */

#if !defined(__CUDACC__)
/* Whether the host's own loop can do it, which takes every offset as it is. */
BODY int scattered_alone(const mmsb__kernel_scatter_t *p) {
    const void *offsets = reach(p->offsets);
    if (p->changed == 0 || p->origin != 0 || p->count == 0)
        return 0;
    if (p->offset_bytes == 8) {
        if (mmsb__bytes.maximum64((const uint64_t *)offsets, p->count) >= p->bytes)
            return 0;
        mmsb__bytes.scatter64(reach(p->page), (const uint64_t *)offsets, reach(p->payload), p->count, reach(p->changed));
    } else {
        if (mmsb__bytes.maximum32((const uint32_t *)offsets, p->count) >= p->bytes)
            return 0;
        mmsb__bytes.scatter32(reach(p->page), (const uint32_t *)offsets, reach(p->payload), p->count, reach(p->changed));
    }
    return 1;
}
#endif

BODY void mmsb__kernel_scatter_body(const mmsb__kernel_scatter_t *p, uint64_t thread, uint64_t threads) {
    uint8_t *page = reach(p->page);
    const uint8_t *offsets = reach(p->offsets), *payload = reach(p->payload);
#if !defined(__CUDACC__)
    if (threads == 1 && scattered_alone(p))
        return;
#endif
    for (uint64_t i = thread; i < p->count; i += threads) {
        uint64_t offset = (p->offset_bytes == 8 ? load_long(offsets + 8 * i) : load_word(offsets + 4 * i)) - p->origin;
        if (offset >= p->bytes)
            continue;
        page[offset] = payload[i];
        if (p->changed != 0)
            set_bits(reach(p->changed) + offset / 32 * 4, (uint32_t)1 << offset % 32);
    }
}

/* ------------------------------------------------------------------------------------------------ comparisons ---- */

/* The 16 bytes from byte i on of both, which differ where these are not 0. */
BODY void load_differing(const uint8_t *a, const uint8_t *b, uint64_t i, uint64_t bytes, uint64_t *low, uint64_t *high) {
    uint64_t other_low, other_high;
    load_any(a, i, bytes, low, high);
    load_any(b, i, bytes, &other_low, &other_high);
    *low ^= other_low;
    *high ^= other_high;
}

BODY void mmsb__kernel_compare_body(const mmsb__kernel_compare_t *p, uint64_t thread, uint64_t threads) {
    uint8_t *result = reach(p->result);
    const uint8_t *a = reach(p->a), *b = reach(p->b);
    WITH_ONE_LANE(threads, mmsb__bytes.equalities(result, a, b, p->bytes))
    for (uint64_t i = 16 * thread; i < p->bytes; i += 16 * threads) {
        if (p->bytes - i >= 16) {
            uint64_t low, high;
            load_differing(a, b, i, p->bytes, &low, &high);
            store_any(result + i, (nonzero_bytes(low) ^ HIGH_BITS) >> 7, (nonzero_bytes(high) ^ HIGH_BITS) >> 7);
        } else {
            for (uint64_t k = i; k < p->bytes; k++)
                result[k] = a[k] == b[k];
        }
    }
}

/* Bit k where the byte k behind i differs, of up to 16. */
BODY uint32_t difference_bits(const uint8_t *a, const uint8_t *b, uint64_t i, uint64_t bytes) {
    if (bytes - i >= 16) {
        uint64_t low, high;
        load_differing(a, b, i, bytes, &low, &high);
        return bits_of_bytes(low) | bits_of_bytes(high) << 8;
    }
    uint32_t bits = 0;
    for (unsigned k = 0; k < bytes - i; k++)
        bits |= (uint32_t)(a[i + k] != b[i + k]) << k;
    return bits;
}

BODY void mmsb__kernel_differences_body(const mmsb__kernel_differences_t *p, uint64_t thread, uint64_t threads) {
    uint8_t *bits = reach(p->bits);
    const uint8_t *a = reach(p->a), *b = reach(p->b);
    WITH_ONE_LANE(threads, mmsb__bytes.differences(bits, a, b, p->bytes))
    for (uint64_t i = 16 * thread; i < p->bytes; i += 16 * threads) {
        uint32_t found = difference_bits(a, b, i, p->bytes);
        bits[i / 8] = (uint8_t)found;
        if (p->bytes - i > 8)
            bits[i / 8 + 1] = (uint8_t)(found >> 8);
    }
}

#if !defined(__CUDACC__)
BODY void difference_alone(uint64_t *found, const uint8_t *a, const uint8_t *b, uint64_t bytes) {
    uint64_t first = mmsb__bytes.next_difference(a, b, 0, bytes);
    if (first < bytes) {
        add_to(found, mmsb__bytes.count_differences(a + first, b + first, bytes - first));
        lower_to(found + 1, first);
    }
}
#endif

BODY void mmsb__kernel_difference_body(const mmsb__kernel_difference_t *p, uint64_t thread, uint64_t threads) {
    uint64_t *found = (uint64_t *)(void *)reach(p->found);
    const uint8_t *a = reach(p->a), *b = reach(p->b);
    WITH_ONE_LANE(threads, difference_alone(found, a, b, p->bytes))
    uint64_t count = 0, first = ~(uint64_t)0;
    for (uint64_t i = 16 * thread; i < p->bytes; i += 16 * threads) {
        uint32_t bits = difference_bits(a, b, i, p->bytes);
        if (bits != 0 && count == 0)
            first = i + lowest_one(bits);
        count += count_ones(bits);
    }
    if (count != 0) { /* most threads find nothing, and all of them would meet at one address */
        add_to(found, count);
        lower_to(found + 1, first);
    }
}

/* -------------------------------------------------------------------------------------------------- checksums ---- */

/*
 * CRC-32C is the remainder of a polynomial: bit i of a word stands for x^(31-i), the word before it for 32 powers more, and all
 * is multiplied by x^32 first. So it is linear: a part's checksum is the sum, without carries, of what each lane of a
 * warp has of it, times a power of x for the distance from the end. Lane l has the 16 bytes at 16 l of each row of 512. The last
 * row ends where the part does; in front of the part are zeros, which change nothing. That a checksum begins with ones inverts
 * the first four bytes.
 */
enum { LANES = MMSB__KERNEL_LANES, ROW_BYTES = 16 * LANES, ROWS = 4 /* loaded at a time */ };

/* Powers of x, reduced: over a word, which is the divisor without its highest power, and over a row. */
#define X_32 0x82f63b78u
#define X_4096 0x74c360a4u

/* [l]: x^(128 (31-l) + 32), from lane l of the last row over the end. */
TABLE uint32_t x_to_end[LANES] = {
    0x271b7858, 0x44792d1d, 0x94899a1f, 0xcf8e34ee, 0xf282c2d0, 0x4b31c59a, 0x74d6fbcb, 0x82a02f9f,
    0xc440ad59, 0xd2f41083, 0x478ac00a, 0x10f9ecce, 0x8eae5107, 0x3028ead1, 0x79be2d77, 0x6e58bd52,
    0x7fec2963, 0x38e888d4, 0x42316c00, 0x543d5c54, 0x78e87aaf, 0x8f68fcec, 0x3f484024, 0x34c96751,
    0x156c8e18, 0xe0b99ccb, 0x041d3776, 0x3a077781, 0x0e148e82, 0x9c25531d, 0x790606ff, X_32,
};

/* What a power of x makes of a word, five bits at a time: [n][b] is its product with b << 5 n. */
typedef struct factor {
    uint32_t products[7][OWN_ENTRIES];
} factor_t;

BODY factor_t factor_of(uint32_t power, unsigned lane) {
    factor_t factor = {{{0}}};
    UNROLLED
    for (unsigned bit = 32; bit-- > 0; power = power >> 1 ^ (power & 1 ? X_32 : 0))
        for (unsigned i = 0; i < OWN_ENTRIES; i++)
            factor.products[bit / 5][i] ^= OWN_ENTRY(lane, i) >> bit % 5 & 1 ? power : 0;
    for (unsigned n = 0; n < 7; n++)
        KEEP(factor.products[n][0]);
    return factor;
}

BODY uint32_t multiplied(uint32_t word, const factor_t *by) {
    uint32_t product = 0;
    for (unsigned n = 0; n < 7; n++)
        product ^= look_up(by->products[n], word >> 5 * n);
    return product;
}

/* The product, not reduced. Of factors with only every fourth bit no more than eight bits meet, which carry over three places:
 * into none of every fourth. */
BODY uint64_t whole_product(uint32_t a, uint32_t b) {
    uint64_t product = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t sum = 0;
        for (unsigned k = 0; k < 4; k++)
            sum ^= (uint64_t)(a & 0x11111111u << k) * (b & 0x11111111u << ((i - k) & 3));
        product |= sum & 0x1111111111111111u << i;
    }
    return product;
}

typedef struct lane {
    unsigned number;
    uint32_t to_end;
    factor_t over_row, over_word;
} lane_t;

BODY lane_t lane_of(unsigned number) {
    lane_t lane = {number, x_to_end[number], factor_of(X_4096, number), factor_of(X_32, number)};
    return lane;
}

/* 16 bytes from a place on, which may be negative, in the part that begins at byte begin of a range. */
BODY void load_of_part(const uint8_t *range, uint64_t begin, int64_t place, uint64_t bytes, uint64_t *low, uint64_t *high) {
    if (place >= 4) {
        load_any(range, begin + (uint64_t)place, bytes, low, high);
        return;
    }
    *low = *high = 0;
    for (int64_t i = place > 0 ? place : 0; i < place + 16; i++) {
        uint64_t byte = range[begin + (uint64_t)i] ^ (i < 4 ? 0xff : 0);
        *low = *low >> 8 | *high << 56;
        *high = *high >> 8 | byte << 56;
    }
}

/* Takes the sums of the rows before over a row, and adds its words to them. */
BODY void add_row(uint32_t sums[4], const lane_t *lane, int is_first, uint64_t low, uint64_t high) {
    for (unsigned i = 0; i < 4 && !is_first; i++)
        sums[i] = multiplied(sums[i], &lane->over_row);
    sums[0] ^= (uint32_t)low;
    sums[1] ^= (uint32_t)(low >> 32);
    sums[2] ^= (uint32_t)high;
    sums[3] ^= (uint32_t)(high >> 32);
}

/* What a lane has of a part of a range, times a power of x for its distance from the end; not reduced. */
BODY uint64_t sum_of_lane(const lane_t *lane, const uint8_t *range, uint64_t begin, uint64_t part, uint64_t bytes) {
    uint32_t sums[4] = {0, 0, 0, 0};
    uint64_t low[ROWS], high[ROWS];
    int64_t place = -(int64_t)(-part % ROW_BYTES);
    while (place != (int64_t)part) {
        if ((place == 0 || place >= 4) && part - (uint64_t)place >= ROWS * ROW_BYTES &&
            is_aligned(range + begin + (uint64_t)place)) {
            const uint8_t *from = range + begin + (uint64_t)place + 16 * lane->number;
            for (unsigned row = 0; row < ROWS; row++) {
                vector_t value = load_vector(from + row * ROW_BYTES);
                low[row] = value.low;
                high[row] = value.high;
            }
            if (place == 0 && lane->number == 0)
                low[0] ^= ~(uint32_t)0;
            for (unsigned row = 0; row < ROWS; row++)
                add_row(sums, lane, place == 0 && row == 0, low[row], high[row]);
            place += ROWS * ROW_BYTES;
        } else {
            load_of_part(range, begin, place + 16 * lane->number, bytes, low, high);
            add_row(sums, lane, place <= 0, low[0], high[0]);
            place += ROW_BYTES;
        }
    }
    for (unsigned i = 0; i < 3; i++)
        sums[i + 1] ^= multiplied(sums[i], &lane->over_word);
    return whole_product(sums[3], lane->to_end);
}

/* The checksum of a part of which the lanes have this sum. Of the ones some have met no byte where there are fewer than four. */
BODY uint32_t checksum_of(uint64_t sum, uint64_t part, const lane_t *lane) {
    uint32_t checksum = (uint32_t)(sum >> 31) ^ multiplied((uint32_t)(sum << 1), &lane->over_word);
    return ~(part < 4 ? checksum ^ ~(uint32_t)0 >> 8 * part : checksum);
}

/* A warp takes a part; on the host its first thread does, by the host's own loop. */
BODY void mmsb__kernel_checksum_body(const mmsb__kernel_checksum_t *p, uint64_t thread, uint64_t threads) {
    uint32_t *sums = (uint32_t *)(void *)reach(p->sums);
    const uint8_t *from = reach(p->from);
    uint64_t parts = p->bytes / p->part + (p->bytes % p->part != 0);
#if defined(__CUDACC__)
    lane_t lane = lane_of((unsigned)(thread % LANES));
    for (uint64_t i = alike(thread / LANES); i < parts; i += threads / LANES) {
        uint64_t begin = i * p->part, part = lesser(p->part, p->bytes - begin);
        uint32_t checksum = checksum_of(sum_of_lanes(sum_of_lane(&lane, from, begin, part, p->bytes)), part, &lane);
        if (lane.number == 0)
            sums[i] = checksum;
    }
#else
    uint64_t lanes = threads % LANES == 0 ? LANES : 1;
    for (uint64_t i = thread / lanes; thread % lanes == 0 && i < parts; i += threads / lanes) {
        uint64_t begin = i * p->part;
        sums[i] = mmsb__bytes.crc32c(0, from + begin, lesser(p->part, p->bytes - begin));
    }
#endif
}

/* ------------------------------------------------------------------------------------------------------ drain ---- */

BODY int is_posted(const mmsb__kernel_mailbox_t *box, uint64_t done, uint64_t looks) {
    for (uint64_t look = 0; load_shared(&box->posted) == done; pause_between_looks())
        if (++look >= looks)
            return 0;
    return 1;
}

BODY void execute(const mmsb__kernel_mailbox_t *box, uint64_t thread, uint64_t threads) {
    if (box->kind == MMSB__KERNEL_PROPAGATE) {
        mmsb__kernel_propagate_t command = {box->list, box->count, box->pieces};
        mmsb__kernel_propagate_body(&command, thread, threads);
    } else {
        mmsb__kernel_copy_many_t command = {box->list, box->count, box->pieces};
        mmsb__kernel_copy_many_body(&command, thread, threads);
    }
}

/* The only kernel that does not end by itself, and whose threads wait for each other: the host does it with one of them. */
BODY void mmsb__kernel_drain_body(const mmsb__kernel_drain_t *p, uint64_t thread, uint64_t threads) {
    mmsb__kernel_mailbox_t *box = (mmsb__kernel_mailbox_t *)(void *)reach(p->mailbox);
    uint64_t done = load_shared(&box->done), end = done + p->commands;
#if defined(__CUDACC__)
    /* One thread looks, and the barrier tells all. A shared variable would do, but the compiler names it after the folder. */
    for (; done != end && __syncthreads_or(thread == 0 && is_posted(box, done, p->looks)); done++) {
        execute(box, thread, threads);
        __threadfence_system();
        __syncthreads();
        if (thread == 0)
            store_shared(&box->done, done + 1);
    }
#else
    (void)threads;
    for (; thread == 0 && done != end && is_posted(box, done, p->looks); done++) {
        execute(box, 0, 1);
        store_shared(&box->done, done + 1);
    }
#endif
}

#endif
