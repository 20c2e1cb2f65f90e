"""Bugs in what lets a context be saved while its pages change, and in the freeze. Captures beside one thread that changes pages,
beside several, at their limit, or a frozen context must show each. Threads may do nothing that shows a bug, the less the fewer
processors they have for themselves: it is looked for until it shows."""

from mutation import Mutant
from subject import C

CAPTURES = C(
    name="captures",
    program="capture_test.c",
    mode="calls",
    sound=("calls", "limit", "freezes"),
    mutants=(
        Mutant(
            "kept-but-captured", "a page is captured though a writer kept something of it meanwhile",
            "save_record", "mmsb__capture_state_of(index) == MMSB__CAPTURE_NONE",
            "mmsb__capture_state_of(index) >= MMSB__CAPTURE_NONE",
            mode="threads",
        ),
        Mutant(
            "batch-misses-a-moment", "a batch does not look again when a moment comes",
            "mmsb__batch_keep", "mmsb__moment_came(moments)", "0",
            mode="threads",
        ),
        Mutant(
            "freeze-misses-captured-pages", "a freeze is not looked for on a page that has been captured",
            "keep_for_capture", "__atomic_load_n(&mmsb__frozen, __ATOMIC_RELAXED) == 0", "1",
            mode="freezes",
        ),
        Mutant(
            "copy-forgotten", "a writer sets the capture state of a page and forgets the copy",
            "copy_of", "push_copy(capture, copy);", "",
        ),
        Mutant(
            "bytes-not-put-back", "what is kept of a page's bytes is not put back",
            "save_copy", "mmsb__preimage_put_back(&copy->bytes, segment->buffer + segment->extents[first].at);", "",
        ),
        Mutant(
            "mask-not-put-back", "what is kept of a page's change mask is not put back",
            "save_copy", "copy->mask.length > 0", "copy->mask.length > 9999999",
        ),
        Mutant(
            "large-page-not-put-back", "what is kept of a large page is not put back",
            "mmsb__capture_part", "mmsb__preimage_put_back(part, buffer);", "",
        ),
        Mutant(
            "mask-not-kept", "a page's change mask is not kept",
            "keep_of_small", "copy->mask.length > 0", "copy->mask.length > 9999999",
        ),
        Mutant(
            "last-line-not-kept", "the last line of a change is not kept",
            "keep_lines", "line <= last / MMSB__LINE_BYTES", "line < last / MMSB__LINE_BYTES",
        ),
        Mutant(
            "too-many-lines-count-as-kept", "lines count as kept that are not",
            "keep_lines", "at < end", "at <= end",
        ),
        Mutant(
            "only-first-run-kept", "only the first run of a delta is kept",
            "keep_run", "length == 0", "length == 0 || *line != UINT64_MAX",
        ),
        Mutant(
            "ending-page-not-copied", "a page that ends is not copied",
            "copy_whole", "copy->whole = whole;", "",
        ),
        Mutant(
            "last-part-not-kept", "the last of several parts is not kept",
            "keep_of_parts", "part <= last / MMSB__CHUNK_BYTES", "part < last / MMSB__CHUNK_BYTES",
        ),
        Mutant(
            "mask-part-not-kept", "a part of the change mask is not kept",
            "keep_of_large", "large->mask_parts > 0", "large->mask_parts > 9",
        ),
        Mutant(
            "later-page-captured", "a page that was created later is captured",
            "mmsb__capture_created_slow", "mmsb__capture_state_set(index, MMSB__CAPTURE_LATER);", "",
        ),
        Mutant(
            "ended-page-not-reported", "an ended page is not reported",
            "mmsb__note_removed", "capture->removed[capture->removed_count++] = (mmsb__removed_t){index, saved->id};", "",
        ),
        Mutant(
            "writes-through-addresses-missed", "writes through an address are not looked for",
            "mmsb__suspect", "mmsb__exposed(record) || __atomic_load_n(&record->write_pins, __ATOMIC_RELAXED) != 0", "0",
        ),
        Mutant(
            "one-difference-of-a-word", "a page is not looked at once an earlier one was taken",
            "differing_from", "words[at / 64] >> at % 64", "(at % 64 ? 0 : words[at / 64])",
        ),
        Mutant(
            "copies-without-limit", "copies have no limit",
            "mmsb__pool_take_copy", "*blocked = held + bytes > pool->limit && held != 0;", "*blocked = 0;",
            mode="limit",
        ),
        Mutant(
            "page-goes-while-saved", "a page goes while parts of it are to be saved",
            "keep_in", "length == UINT64_MAX || (length > 0", "(length > 0",
        ),
        Mutant(
            "empty-delta-missed", "a delta without bytes is not noticed",
            "mmsb__delta_keep", "line == UINT64_MAX", "0",
        ),
        Mutant(
            "short-way-beside-a-capture", "destroying takes the short way beside a capture",
            "turn_on", "mmsb__detour_begin();", "",
        ),
        Mutant(
            "old-states-left", "capture states of the capture before are left",
            "mmsb__capture_begin",
            "memset(mmsb__capture_states + ((size_t)leaves[i] << MMSB__LEAF_BITS), MMSB__CAPTURE_NONE, MMSB__LEAF_RECORDS);", "",
        ),
    ),
)  # fmt: skip
