"""Bugs in command buffers: in the rings, of which the program of native code shows each, and in what commands do, which random
programs beside a model show."""

from mutation import Mutant
from subject import C, Library

COMMANDS = C(
    name="commands",
    program="commands_test.c",
    mode="steps",
    sound=("steps", "storms"),
    mutants=(
        Mutant(
            "early-done", "a command counts as done before it is executed",
            "drain_lane", "fetch_ahead(lane, head + i, count - i, i, &parents);",
            "__atomic_store_n(&lane->head, head + i + 1, __ATOMIC_RELEASE);",
        ),
        Mutant(
            "early-done-of-a-batch", "all that was taken counts as done when its first command is",
            "drain_lane", "__atomic_store_n(&lane->head, head + i + 1, __ATOMIC_RELEASE);",
            "__atomic_store_n(&lane->head, head + count, __ATOMIC_RELEASE);",
            mode="storms",
        ),
        Mutant(
            "sleeper-not-woken", "who enqueues does not wake a worker",
            "mmsb__lane_push", "if (MMSB__UNLIKELY(__atomic_load_n(&lane->commands->asleep, __ATOMIC_RELAXED) != 0))", "if (0)",
        ),
        Mutant(
            "barrier-before-the-word", "a worker says that it sleeps after the barrier",
            "worker_sleep", "__atomic_store_n(&commands->asleep, 1, __ATOMIC_SEQ_CST); mmsb__barrier();",
            "mmsb__barrier(); __atomic_store_n(&commands->asleep, 1, __ATOMIC_SEQ_CST);",
        ),
        Mutant(
            "no-barrier-before-sleep", "a worker goes to sleep without the barrier",
            "worker_sleep", "mmsb__barrier();", ";",
        ),
        Mutant(
            "one-too-many", "a ring takes one more than its capacity",
            "lane_has_space", "waiting >= lane->capacity", "waiting > lane->capacity",
        ),
        Mutant(
            "one-too-many-quickly", "the short way takes one more than the capacity",
            "mmsb__commands_enqueue_fast", "tail - lane->head_seen < lane->peak", "tail - lane->head_seen <= lane->peak",
        ),
        Mutant(
            "another-slot", "who enqueues and who drains divide the ring differently",
            "lane_put", "lane->tail & lane->mask", "lane->tail % lane->capacity",
        ),
        Mutant(
            "closed-takes-more", "the short way enqueues into a closed buffer",
            "mmsb__commands_enqueue_fast", "__atomic_load_n(&commands->closed, __ATOMIC_RELAXED) == 0 &&", "",
        ),
        Mutant(
            "cancelled-not-counted", "what a cancel drops is not counted",
            "cancel_lane", "lane->cancelled + (tail - head)", "lane->cancelled",
        ),
        Mutant(
            "cancel-executes", "after a cancel the rest of a batch is executed",
            "must_stop", "__atomic_load_n(&commands->cancels, __ATOMIC_RELAXED) ||", "",
        ),
        Mutant(
            "lane-of-an-ended-buffer", "a thread goes on in a ring whose buffer has ended",
            "mmsb__commands_end", "__atomic_store_n(&lane->handle, 0, __ATOMIC_SEQ_CST);", ";",
        ),
        Mutant(
            "lanes-without-a-buffer", "the handle 0 leads to a ring without a buffer",
            "mmsb__commands_enqueue_fast", "|| handle == 0", "",
        ),
        Mutant(
            "two-drain-a-ring", "a ring is drained by two threads",
            "lane_claim", "__atomic_load_n(&lane->claimed, __ATOMIC_RELAXED) == 0 && "
            "__atomic_compare_exchange_n(&lane->claimed, &free_lane, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)",
            "(__atomic_store_n(&lane->claimed, free_lane + 1, __ATOMIC_RELAXED), 1)",
        ),
        Mutant(
            "rings-of-ended-threads-are-lost", "what a thread left is in no ring",
            "mmsb__lanes_leave", "lane->producer = 0;", "lane->tail = lane->head;",
        ),
    ),
)  # fmt: skip

RANDOM = "commands_random_test 10"

PROPAGATION = Library(
    name="propagation",
    folders=(),
    package="",
    mode=RANDOM,
    sound=(RANDOM,),
    programs=(("tests/c/commands_random_test.c",),),
    mutants=(
        Mutant(
            "not-marked", "the page's mask does not have what was copied to it",
            "copy_masked", "changed[i] = word;", "",
        ),
        Mutant(
            "runs-not-marked", "the page's mask does not have a run that was copied to it",
            "copy_masked", "changed[i] |= word;", "",
        ),
        Mutant(
            "run-too-long", "a run is copied to the end of its word",
            "copy_masked", "- (uint64_t)__builtin_clzll(word)", "",
        ),
        Mutant(
            "not-dirty", "memory that commands have written counts as clean",
            "copy_masked", "mmsb__dirty_range(to, 64 * first, (64 * last + 64 < size ? 64 * last + 64 : size) - 1);", ";",
        ),
        Mutant(
            "nobody-is-told", "the short way changes pages although somebody watches",
            "execute_fast", "!mmsb__watched() &&", "",
        ),
        Mutant(
            "no-pre-image", "a command keeps no pre-image",
            "mmsb__delta_apply", "return apply_locked(change, delta);",
            "mmsb_status_t status = mmsb__change_journal_delta(change, mmsb__epoch_after(change->record, 0), delta);"
            " mmsb__delta_change(change->record, delta); return status;",
        ),
        Mutant(
            "no-record", "a command has no record in the journal",
            "mmsb__delta_apply", "return apply_locked(change, delta);",
            "mmsb_status_t status = mmsb__delta_keep(change->record, change->state, delta);"
            " if (status == MMSB_OK) mmsb__delta_change(change->record, delta); return status;",
        ),
        Mutant(
            "epoch-of-nothing", "a command that finds nothing moves the epoch",
            "execute_fast", "if (changed)", "if (done)",
        ),
        Mutant(
            "an-epoch-for-each", "a command is a delta for each of its dependencies",
            "execute_fast", "changed |= copy_masked(record, mmsb__record_of(pages[i]));",
            "if (copy_masked(record, mmsb__record_of(pages[i])) && changed++ > 0) mmsb__epoch_move(record, 0);",
        ),
        Mutant(
            "first-wins", "dependencies have their turn from the last one on",
            "execute_fast", "changed |= copy_masked(record, mmsb__record_of(pages[i]));",
            "changed |= copy_masked(record, mmsb__record_of(pages[count + 1 - i]));",
        ),
        Mutant(
            "bytes-of-another", "the delta of a command has the last dependency's bytes",
            "delta_of", "copy_runs(from, first,", "copy_runs(mmsb__record_of(pages[count]), first,",
        ),
        Mutant(
            "everything-is-propagated", "bytes between two marks of a word are propagated, too",
            "copy_masked", "if ((run & (run + 1)) == 0)", "if (run != 0)",
        ),
        Mutant(
            "any-size", "pages of different sizes are copied",
            "execute_fast", "from->size == record->size &&", "",
        ),
        Mutant(
            "any-size-slowly", "pages of different sizes are copied where somebody watches",
            "check_locked", "size != record->size", "0",
        ),
        Mutant(
            "any-cycle", "a page gets bytes of one that follows it",
            "execute_slow", "!(how & MMSB__FROM_PARENTS) &&", "0 &&",
        ),
        Mutant(
            "any-cycle-quickly", "the short way does not ask for cycles",
            "execute_fast", "((how & MMSB__FROM_PARENTS) || !(from->side && record->side))", "1",
        ),
        Mutant(
            "bits-missed", "a run of bits begins one late",
            "next_bit", "~UINT64_C(0) << from % 64", "~UINT64_C(1) << from % 64",
        ),
        Mutant(
            "failures-untold", "what a command met is not told",
            "execute_at", "note_failure(commands, command->page, status);", "",
        ),
    ),
)  # fmt: skip
