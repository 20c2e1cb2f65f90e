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

#else

#include <string.h>

#define BODY static inline

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

/* ----------------------------------------------------------------------------------------------- whole ranges ---- */

/* One of several lanes sets a range of bytes together. */
BODY void fill_range(uint8_t *to, uint8_t value, uint64_t bytes, uint64_t lane, uint64_t lanes) {
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

/* The last span with no more pieces before it. Those without pieces come before their like and are passed over. */
BODY const mmsb__kernel_span_t *span_of(const mmsb__kernel_span_t *spans, uint64_t count, uint64_t piece) {
    uint64_t low = 0, high = count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (spans[middle].piece <= piece)
            low = middle;
        else
            high = middle;
    }
    return spans + low;
}

/* Eight threads take a piece together, so that short spans do not leave most of a warp idle and their loads are still whole
 * lines. */
BODY void copy_spans(const mmsb__kernel_copy_many_t *p, uint64_t page, uint64_t changed, uint64_t thread, uint64_t threads) {
    unsigned shift = threads % 8 == 0 ? 3 : 0;
    uint64_t lanes = (uint64_t)1 << shift, lane = thread & (lanes - 1);
    const mmsb__kernel_span_t *spans = (const mmsb__kernel_span_t *)(const void *)reach(p->spans);
    for (uint64_t piece = thread >> shift; piece < p->pieces; piece += threads >> shift) {
        mmsb__kernel_span_t span = *span_of(spans, p->count, piece);
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

/* A merge's thread takes 16 bytes of the page at a time, with their two bytes of a bit mask, which are its own. chosen has a
 * bit for each that changes. */
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

/* The bits of up to 16 bytes from byte first on. */
BODY uint32_t load_chosen(const uint8_t *bits, uint64_t first, uint64_t length) {
    uint64_t count = length - first;
    uint32_t chosen = bits[first / 8];
    if (count > 8)
        chosen |= (uint32_t)bits[first / 8 + 1] << 8;
    return count < 16 ? chosen & ~(~(uint32_t)0 << count) : chosen;
}

BODY void mmsb__kernel_merge_bytes_body(const mmsb__kernel_merge_bytes_t *p, uint64_t thread, uint64_t threads) {
    uint8_t *page = reach(p->page);
    const uint8_t *mask = reach(p->mask), *payload = reach(p->payload);
    int aligned = is_aligned(page) && is_aligned(mask) && is_aligned(payload);
    for (uint64_t i = 16 * thread; i < p->length; i += 16 * threads) {
        uint64_t count = lesser(16, p->length - i);
        uint32_t chosen = 0;
        if (aligned && count == 16) {
            vector_t set = load_vector(mask + i);
            chosen = bits_of_bytes(set.low) | bits_of_bytes(set.high) << 8;
            if (chosen != 0)
                blend(page + i, load_vector(payload + i), chosen);
        } else {
            for (unsigned k = 0; k < count; k++)
                chosen |= (uint32_t)(mask[i + k] != 0) << k;
            blend_bytes(page + i, payload + i, chosen);
        }
        mark_group(p->changed, i, chosen);
    }
}

BODY void mmsb__kernel_merge_bits_body(const mmsb__kernel_merge_bits_t *p, uint64_t thread, uint64_t threads) {
    uint8_t *page = reach(p->page);
    const uint8_t *bits = reach(p->bits), *payload = reach(p->payload);
    int aligned = is_aligned(page) && is_aligned(payload);
    for (uint64_t i = 16 * thread; i < p->length; i += 16 * threads) {
        uint32_t chosen = load_chosen(bits, i, p->length);
        if (chosen == 0)
            continue;
        if (aligned && p->length - i >= 16)
            blend(page + i, load_vector(payload + i), chosen);
        else
            blend_bytes(page + i, payload + i, chosen);
        mark_group(p->changed, i, chosen);
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

/* ---------------------------------------------------------------------------------------------------- scatter ---- */

BODY void mmsb__kernel_scatter_body(const mmsb__kernel_scatter_t *p, uint64_t thread, uint64_t threads) {
    uint8_t *page = reach(p->page);
    const uint8_t *offsets = reach(p->offsets), *payload = reach(p->payload);
    for (uint64_t i = thread; i < p->count; i += threads) {
        uint64_t offset = p->offset_bytes == 8 ? load_long(offsets + 8 * i) : load_word(offsets + 4 * i);
        page[offset] = payload[i];
        if (p->changed != 0)
            set_bits(reach(p->changed) + offset / 32 * 4, (uint32_t)1 << offset % 32);
    }
}

#endif
