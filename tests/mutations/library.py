"""Bugs in C code that only the whole library shows: in what the first call asks of the system, in signals, in change masks, and
in deltas that lie in the page that they change. Programs that are linked with it must show each. And bugs in what is asked of the
system later."""

from mutation import Mutant
from subject import Go, Library

OWN_MEMORY = "own_memory_test"
FIRST_CALL = "first_call_test"
LOG = "log_test"
MASKS = "masks_test"
PAGES = "pages_test the_whole_limit_serves_each_size"
STORES = "store_test a_close_saves_bytes_that_have_moved"
SYSTEMS = "systems_test"

LIBRARY = Library(
    name="library",
    folders=(),
    package="",
    mode=OWN_MEMORY,
    sound=(OWN_MEMORY, FIRST_CALL, LOG, MASKS, PAGES, STORES, f"{SYSTEMS} RLIMIT_AS", f"{SYSTEMS} clone3", f"{SYSTEMS} eventfd2"),
    seconds=120,
    programs=(
        ("tests/c/own_memory_test.c",),
        ("tests/c/first_call_test.c",),
        ("tests/c/log_test.c",),
        ("tests/c/masks_test.c",),
        ("tests/c/pages_test.c",),
        ("tests/c/store_test.c",),
        ("tests/systems/systems_test.c", "tests/systems/work.c"),
    ),
    mutants=(
        Mutant(
            "empty-masks-count", "to clear a mask without a bit is a change",
            "is_marked", "0, words) < words", "0, words) <= words",
            mode=MASKS,
        ),
        Mutant(
            "moved-bytes-are-forgotten", "bytes that were written through a pointer have a record when they have moved",
            "mmsb__memory_swap", "x->exposed || y->exposed", "0",
            mode=STORES,
        ),
        Mutant(
            "magazines-stay-at-the-limit", "at the limit a thread keeps what its magazines have",
            "mmsb__magazines_leave", "&& !cache->busy", "&& cache->busy",
            mode=PAGES,
        ),
        # The check of the system at the first call.
        Mutant(
            "addresses-unasked", "nobody asks how many addresses are left before the library begins",
            "check_addresses", "left >= needed", "1",
            mode=f"{FIRST_CALL} it_fails_and_comes_again",
        ),
        Mutant(
            "addresses-of-go-forgotten", "the first call does not count the addresses that Go needs",
            "check_addresses", "+ GO_ADDRESSES", "",
            mode=f"{SYSTEMS} RLIMIT_AS",
        ),
        Mutant(
            "used-addresses-count-as-left", "addresses that the program has count as left",
            "addresses_left", "now.rlim_cur - used", "now.rlim_cur",
            mode=f"{SYSTEMS} RLIMIT_AS",
        ),
        Mutant(
            "threads-unasked", "nobody asks whether the system gives threads",
            "check_threads", "made == wanted", "1",
            mode=f"{SYSTEMS} clone3",
        ),
        Mutant(
            "denied-threads-are-a-limit", "a system that denies threads counts as one that has a limit of them",
            "check_threads", "error != EAGAIN && error != ENOMEM", "0",
            mode=f"{SYSTEMS} clone3",
        ),
        Mutant(
            "denied-call-unasked", "nobody asks whether Go can wake the thread that polls",
            "check_descriptors", "count == DESCRIPTORS", "count > 0",
            mode=f"{SYSTEMS} eventfd2",
        ),
        Mutant(
            "descriptors-of-go-forgotten", "the first call asks for a poller and a waker, and Go takes two descriptors before",
            "check_descriptors", "count == DESCRIPTORS", "count >= 2",
            mode=f"{FIRST_CALL} it_fails_with_few_descriptors",
        ),
        Mutant(
            "limit-of-descriptors-stays-raised", "the program's limit of descriptors stays as Go has raised it",
            "mmsb__restore_descriptors", "if (descriptors_known)", "if (0)",
            mode=f"{FIRST_CALL} it_leaves_the_limit_of_descriptors",
        ),
        # Signals.
        Mutant(
            "go-takes-signals", "Go's threads take signals that the program waits for",
            "start_go", "block_signals(&own_signals);", "pthread_sigmask(SIG_SETMASK, NULL, &own_signals);",
            mode=f"{FIRST_CALL} its_threads_take_no_signals",
        ),
        Mutant(
            "caller-keeps-gos-mask", "the first caller gets no signals any more",
            "start_go", "pthread_sigmask(SIG_SETMASK, &own_signals, NULL);", "",
            mode=f"{FIRST_CALL} its_threads_take_no_signals",
        ),
        Mutant(
            "unsafe-handlers-unnamed", "no handler without SA_ONSTACK is named",
            "mmsb__signals_unsafe", "(action.sa_flags & SA_ONSTACK)", "1",
            mode=LOG,
        ),
        Mutant(
            "safe-handlers-named", "handlers with SA_ONSTACK are named, too",
            "mmsb__signals_unsafe", "(action.sa_flags & SA_ONSTACK)", "0",
            mode=LOG,
        ),
        # Deltas that lie in the page that they change.
        Mutant(
            "own-tables-unseen", "a delta whose table lies in its page is read while it changes that",
            "mmsb__page_has_delta", "for (int i = 0;", "for (int i = 1;",
        ),
        Mutant(
            "own-delta-unseen", "a delta that lies in its page itself is read while it changes that",
            "mmsb__page_has_delta", "mmsb__meets(page, size, delta, sizeof *delta)", "0",
        ),
        Mutant(
            "copies-have-the-originals", "the copy of a delta has the tables of the original",
            "mmsb__deltas_copy", "memcpy((uint8_t *)&copies[i] + parts[part].field, &at, sizeof at);", "",
        ),
        Mutant(
            "copied-lengths-are-not-rounded", "what lies behind a mask in a copy is not aligned, and lies over it",
            "rounded", "(length + 7)", "length",
        ),
        Mutant(
            "own-batch-unseen", "a batch whose deltas lie in its pages is read while it changes them",
            "meets_itself", "array_meets(work, work->deltas, work->count * sizeof *work->deltas)", "0",
        ),
        Mutant(
            "own-handles-unseen", "a batch whose handles lie in its pages is read while it changes them",
            "meets_itself", "array_meets(work, work->pages, work->count * sizeof *work->pages)", "0",
        ),
        Mutant(
            "own-tables-of-a-batch-unseen", "the tables of a batch's deltas count as elsewhere",
            "mmsb__blocks_add_delta", "parts[i].length > 0", "0",
        ),
        Mutant(
            "copied-offsets-unused", "a batch of runs goes on with the offsets that lie in its pages",
            "copy_arrays", "work->offsets = work->copied + count;", "",
        ),
    ),
)  # fmt: skip

LIMITS = Go(
    name="limits",
    folders=("core/limits",),
    package="core/limits",
    mode="^Test",
    sound=("^Test",),
    mutants=(
        Mutant(
            "addresses-of-go-are-taken", "what others take leaves no addresses for Go",
            "Addresses", "limit.Cur-used-goKeeps < bytes", "limit.Cur-used < bytes",
        ),
        Mutant(
            "addresses-below-those-of-go", "with fewer addresses than Go keeps there is room for anything",
            "Addresses", "limit.Cur-used < goKeeps", "false",
        ),
        Mutant(
            "limit-of-files-from-here", "a file that is appended to counts as written where it stands",
            "FileSizeHere", "flags&unix.O_APPEND != 0", "flags&unix.O_APPEND < 0",
        ),
    ),
)  # fmt: skip
