"""Bugs in the page table: handles, the depot of magazines, the threads' caches, and locks of batches. What is done step by step
must show each, at once."""

from mutation import Mutant
from subject import C

# Where another thread may come between: the test does there what it would do.
MEANWHILE = "extern void test_meanwhile(void); test_meanwhile();"

PAGES = C(
    name="pages",
    program="pages_test.c",
    mode="steps",
    sound=("steps",),
    mutants=(
        Mutant(
            "stack-tag-does-not-count", "the tag of a stack does not count",
            "head_after", "return ((seen >> 32) + 1)", MEANWHILE + "return (seen >> 32)",
        ),
        Mutant(
            "meanwhile-in-a-stack", "somebody comes between two steps of a stack",
            "head_after", "return", MEANWHILE + "return",
            harmless=True,
        ),
        Mutant(
            "taken-magazine-stays", "a magazine that is taken stays in the depot",
            "stack_pop", "__atomic_load_n(&magazine->next, __ATOMIC_RELAXED)", "(uint32_t)seen",
        ),
        Mutant(
            "full-magazine-dropped", "a full magazine is taken for an empty one",
            "mmsb__magazine_make_space",
            "stack_push(&cache->owner->depot[cache->shard].full[class_number], previous);",
            "magazine_drop(previous, cache->shard);",
        ),
        Mutant(
            "depth-always-one", "a magazine does not know how many lie below it",
            "stack_push", "__atomic_store_n(&magazine->depth, below + 1, __ATOMIC_RELAXED);",
            "__atomic_store_n(&magazine->depth, 1, __ATOMIC_RELAXED);",
        ),
        Mutant(
            "depth-stays", "a magazine has the depth that it had",
            "stack_push", "__atomic_store_n(&magazine->depth, below + 1, __ATOMIC_RELAXED);",
            "if (magazine->depth == 0) magazine->depth = below + 1;",
        ),
        Mutant(
            "shards-keep-nothing", "other shards keep nothing",
            "depot_pop", "% MMSB__SHARDS].full[class_number], others_keep)", "% MMSB__SHARDS].full[class_number], 0)",
        ),
        Mutant(
            "shards-keep-one-more", "other shards keep one more",
            "stack_pop", "<= keeps", "<= keeps + 1",
        ),
        Mutant(
            "own-shard-keeps", "a thread's own shard keeps some, too",
            "depot_pop", "depot[shard].full[class_number], 0)", "depot[shard].full[class_number], others_keep)",
        ),
        Mutant(
            "shards-keep-the-last-memory", "shards keep magazines though no memory is left",
            "mmsb__depot_take", "depot_pop(context, class_number, 0, 0)",
            "depot_pop(context, class_number, 0, MMSB__SHARD_KEEPS)",
        ),
        Mutant(
            "thread-takes-handles-along", "a thread that ends takes its handles along",
            "thread_exit", "cache_empty(cache, 1)", "cache_empty(cache, 0)",
        ),
        Mutant(
            "depot-outlives-its-context", "handles of a context that has ended stay in the depot",
            "mmsb__context_detach",
            "while ((magazine = depot_pop(context, class_number, 0, 0))) magazine_drop(magazine, 0);", "(void)magazine;",
        ),
        Mutant(
            "empty-magazines-stay-apart", "a shard's empty magazines serve no other shard",
            "magazine_new", "i < MMSB__SHARDS", "i < 1",
        ),
        Mutant(
            "pin-noted-for-ever", "a write pin of a context that has ended stays noted with its thread",
            "mmsb__record_pinned_in",
            "context != 0 ? context :", "1 ? context :",
        ),
        Mutant(
            "thread-waits-for-itself", "a signal handler's call waits for the call that it has interrupted",
            "mmsb__page_lock_slow", "(uint32_t)(seen & MMSB__OWNER_MASK) == owner && owner != MMSB__OWNER_LIBRARY", "0",
        ),
        Mutant(
            "popped-handle-stays", "a handle is taken and stays in the magazine",
            "mmsb__cache_pop", "magazine->handles[--magazine->count]", "magazine->handles[magazine->count - 1]",
        ),
        Mutant(
            "popped-handle-stays-short-way", "a handle is taken on the short way and stays in the magazine",
            "mmsb__page_create_fast", "magazine->count = left;", "",
        ),
        Mutant(
            "cache-not-closed", "a cache is not closed when its context ends",
            "mmsb__context_detach", "cache_close(cache); wait_for_caches(context);", "; wait_for_caches(context);" + MEANWHILE,
        ),
        Mutant(
            "closed-cache-ends-pages", "a cache that is closed still ends pages",
            "mmsb__context_detach", "cache_close(cache); wait_for_caches(context);",
            "cache->context = cache->plain_context = 0; wait_for_caches(context);" + MEANWHILE,
        ),
        Mutant(
            "meanwhile-in-an-end", "somebody comes after the barrier of a context's end",
            "mmsb__context_detach", "wait_for_caches(context);", "wait_for_caches(context);" + MEANWHILE,
            harmless=True,
        ),
        Mutant(
            "closed-after-the-barrier", "caches are closed after the barrier",
            "mmsb__context_detach", "cache_close(cache); wait_for_caches(context);",
            "; wait_for_caches(context);"
            "for (mmsb__cache_t *cache = context->caches; cache; cache = cache->next_of_context) cache_close(cache);",
        ),
        Mutant(
            "no-barrier", "the barrier is left out",
            "wait_for_caches", "mmsb__barrier();", ";",
        ),
        Mutant(
            "busy-not-awaited", "who is busy is not waited for",
            "wait_for_caches", "while (__atomic_load_n(&cache->busy, __ATOMIC_ACQUIRE))", "while (0)",
        ),
        Mutant(
            "busy-not-said", "who works in a cache does not say so",
            "mmsb__cache_set_busy", "__atomic_store_n(&cache->busy, 1, __ATOMIC_RELAXED);", "",
        ),
        Mutant(
            "busy-not-said-short-way", "who creates a page on the short way does not say so",
            "mmsb__page_create_fast", "mmsb__cache_set_busy(cache);", "",
        ),
        Mutant(
            "stays-busy", "who has created a page stays busy",
            "mmsb__page_create_fast", "mmsb__cache_end(cache); *page = handle;", "*page = handle;",
        ),
        Mutant(
            "state-without-generation", "the generation does not count in the state",
            "mmsb__state_after", "state + (UINT64_C(1) << MMSB__INDEX_BITS) -", "state -",
        ),
        Mutant(
            "handle-without-generation", "the generation does not count in the handle",
            "mmsb__page_next", "page + (UINT64_C(1) << MMSB__INDEX_BITS)", "page",
        ),
        Mutant(
            "state-without-class", "a state lacks its size class",
            "mmsb__page_begin", "| (uint64_t)class_number << MMSB__CLASS_SHIFT", "",
        ),
        Mutant(
            "pinned-page-destroyed-short-way", "a pinned page is destroyed on the short way",
            "mmsb__page_destroy_fast", "!mmsb__record_pinned(record) &&", "",
        ),
        Mutant(
            "pinned-page-destroyed-by-batch", "a pinned page is destroyed by a batch",
            "check_destroy", "mmsb__record_pinned(record) ?", "0 ?",
        ),
        Mutant(
            "mask-left", "a change mask is left where its page ends",
            "mmsb__record_bare", "(record->side | record->mask_frame) == 0", "record->side == 0",
        ),
        Mutant(
            "last-generation-goes-on", "a page of the last generation ends like the others",
            "mmsb__page_destroy_fast", "|| mmsb__page_is_last(page)", "",
        ),
        Mutant(
            "taken-id-in-a-batch", "an id that is in use is given to a page of a batch",
            "begin_run", "if (MMSB__UNLIKELY(__atomic_load_n(&record->id_taken, __ATOMIC_RELAXED))) break;", "",
        ),
        Mutant(
            "taken-id-in-a-zeroed-batch", "an id that is in use is given to a page of a zeroed batch",
            "mmsb__page_create_many", "MMSB__UNLIKELY(__atomic_load_n(&record->id_taken, __ATOMIC_RELAXED))", "0",
        ),
        Mutant(
            "taken-id-short-way", "an id that is in use is given to a page that is created on the short way",
            "mmsb__page_create_fast", "!__atomic_load_n(&record->id_taken, __ATOMIC_RELAXED) &&", "",
        ),
        Mutant(
            "taken-id-longer-way", "an id that is in use is given to a page that is created on the longer way",
            "mmsb__page_create_small", "__atomic_load_n(&record->id_taken, __ATOMIC_RELAXED)", "0",
        ),
        Mutant(
            "last-bytes-not-cleaned", "the last bytes are not cleaned",
            "mmsb__record_clean", "((uint64_t)record->dirty_last + 1) << 4", "(uint64_t)record->dirty_last << 4",
        ),
        Mutant(
            "batch-counts-as-one", "a batch of pages is counted as one",
            "end_run", "mmsb__counter_add(&cache->frees, i);", "mmsb__counter_add(&cache->frees, i != 0);",
        ),
        Mutant(
            "first-item-skipped", "the first item of a batch is not looked at",
            "mmsb__batch_lock", "i-- > 0;", "i-- > 1;",
        ),
        Mutant(
            "locked-from-the-first-on", "items are locked from the first on, and the last change of a page locks it",
            "mmsb__batch_lock", "for (size_t i = count; i-- > 0;)", "for (size_t i = 0; i < count; i++)",
        ),
        Mutant(
            "locked-after-a-bad-item", "pages stay locked where a later item is bad",
            "mmsb__batch_lock", "if (!batch->keeps) mmsb__batch_unlock(batch);", "",
        ),
        Mutant(
            "locked-after-a-bad-delta", "pages of a batch of deltas stay locked where one is bad",
            "mmsb__changes_begin", "batch.keeps) mmsb__batch_unlock(&changes->batch);", "batch.keeps) ;",
        ),
        Mutant(
            "unlocked-too-early", "a page that repeats is unlocked with its first change in a batch of deltas",
            "check_struct", "mmsb__target_of(record, state, offset)",
            "mmsb__target_of(record, state & ~MMSB__OWNER_MASK, offset)",
        ),
        Mutant(
            "unlocked-too-early-of-runs", "a page that repeats is unlocked with its first change in a batch of long deltas",
            "check_struct", "(mmsb__target_t){record, state, NULL, NULL}",
            "(mmsb__target_t){record, state & ~MMSB__OWNER_MASK, NULL, NULL}",
        ),
        Mutant(
            "a-handler-waits-for-its-own-thread", "a handler waits for the page that the interrupted call has locked",
            "mmsb__page_lock_slow", "(uint32_t)(seen & MMSB__OWNER_MASK) == owner && owner != MMSB__OWNER_LIBRARY", "0",
        ),
        Mutant(
            "others-unlocked", "a batch unlocks pages of others",
            "mmsb__batch_unlock", "(state & MMSB__OWNER_MASK) == batch->owner", "state & MMSB__OWNER_MASK",
        ),
        Mutant(
            "destroyed-twice", "a batch destroys a page twice",
            "mmsb__batch_meet", "return batch->distinct ?", "return 0 ?",
        ),
        Mutant(
            "locked-page-open", "a page that somebody has locked is open to all",
            "mmsb__state_is_open", "mmsb__state_beside(state, page) >> MMSB__OWNER_SHIFT == MMSB__LIVE >> MMSB__OWNER_SHIFT",
            "mmsb__state_beside(state, page) >> MMSB__NONRESIDENT_SHIFT == MMSB__LIVE >> MMSB__NONRESIDENT_SHIFT",
        ),
        Mutant(
            "earlier-page-taken-for-this", "a handle of an earlier page is taken for the record's page",
            "mmsb__state_beside", "state ^ (page & ~MMSB__INDEX_MASK)",
            "(state ^ (page & ~MMSB__INDEX_MASK)) & 0xf00000000fffffff",
        ),
    ),
)  # fmt: skip
