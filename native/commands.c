/* Command buffers: their lanes, what drains them, and the execution of a command. commands.h. */
#include "commands.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gate.h"
#include "propagate.h"

/* Buffers by index. Never freed, but opened again, so that a call may look at one that has ended. */
static mmsb__commands_t *buffers[MMSB__COMMANDS_MOST + 1];
/* Of which lanes exist, and whose they are; of which buffers live. */
static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t lane_bytes;

enum {
    BATCH = 64,    /* commands that are taken from a lane at once */
    AHEAD = 12,    /* how many before its turn the records of a command are fetched, */
    NEAR = 7,      /* the masks and first bytes that they name, */
    NEXT = 3,      /* and the bytes that masks name */
    KNOWN = 512,   /* handles of parents that a batch has space for */
    FAILURES = 256 /* that wait to be read */
};

/* ------------------------------------------------------------------------------------------- sleeping and waking ---- */

static void futex_wait(uint32_t *futex, uint32_t value, uint64_t nanoseconds) {
    struct timespec timeout = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
    const int saved = errno;
    syscall(SYS_futex, futex, FUTEX_WAIT_PRIVATE, value, nanoseconds >= INT64_MAX ? NULL : &timeout, NULL, 0);
    errno = saved;
}

static void move(uint32_t *futex) {
    const int saved = errno;
    __atomic_add_fetch(futex, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, futex, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* When a wait is over; UINT64_MAX: never. */
static uint64_t deadline_of(uint64_t timeout_ns) {
    uint64_t deadline;
    return timeout_ns == 0 || timeout_ns == MMSB_WAIT_FOREVER || __builtin_add_overflow(now_ns(), timeout_ns, &deadline)
               ? (timeout_ns == 0 ? 0 : UINT64_MAX)
               : deadline;
}

static uint64_t left_until(uint64_t deadline) {
    if (deadline == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t now = deadline == 0 ? 0 : now_ns();
    return deadline > now ? deadline - now : 0;
}

/* A wait has one order: it counts as a waiter, reads the futex, looks at its condition, and sleeps. */
static uint32_t wait_begin(mmsb__commands_t *commands) {
    __atomic_add_fetch(&commands->waiters, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&commands->progress, __ATOMIC_SEQ_CST);
}

static void wait_end(mmsb__commands_t *commands) {
    __atomic_sub_fetch(&commands->waiters, 1, __ATOMIC_SEQ_CST);
}

/* What somebody may wait for has changed. */
static void notify(mmsb__commands_t *commands) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&commands->waiters, __ATOMIC_SEQ_CST) != 0)
        move(&commands->progress);
}

void mmsb__commands_wake(mmsb__commands_t *commands) {
    if (__atomic_exchange_n(&commands->asleep, 0, __ATOMIC_SEQ_CST) != 0)
        move(&commands->bell);
}

/* ---------------------------------------------------------------------------------------------------- buffers ---- */

static mmsb_status_t handle_fail(uint64_t handle) {
    const unsigned long long shown = handle;
    const uint32_t index = MMSB__HANDLE_INDEX(handle);
    if (handle == 0)
        return mmsb__fail(MMSB_E_INVALID_HANDLE, "command buffer is 0");
    mmsb__commands_t *commands = index <= MMSB__COMMANDS_MOST ? __atomic_load_n(&buffers[index], __ATOMIC_ACQUIRE) : NULL;
    if (MMSB__HANDLE_KIND(handle) != MMSB_KIND_COMMANDS || !commands || MMSB__HANDLE_GENERATION(handle) == 0 ||
        MMSB__HANDLE_GENERATION(handle) > __atomic_load_n(&commands->generation, __ATOMIC_RELAXED))
        return mmsb__fail(MMSB_E_INVALID_HANDLE, "0x%016llx is not a command buffer", shown);
    return mmsb__fail(MMSB_E_STALE_HANDLE, "command buffer 0x%016llx was destroyed", shown);
}

static void leave(mmsb__commands_t *commands) {
    __atomic_sub_fetch(&commands->users, 1, __ATOMIC_SEQ_CST);
    notify(commands);
}

/* The buffer, which does not end until the caller leaves; NULL with the last error set. */
static mmsb__commands_t *enter(uint64_t handle) {
    const uint32_t index = MMSB__HANDLE_INDEX(handle);
    mmsb__commands_t *commands = index <= MMSB__COMMANDS_MOST ? __atomic_load_n(&buffers[index], __ATOMIC_ACQUIRE) : NULL;
    if (commands && handle != 0) {
        __atomic_add_fetch(&commands->users, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&commands->handle, __ATOMIC_SEQ_CST) == handle)
            return commands;
        leave(commands);
    }
    handle_fail(handle);
    return NULL;
}

static int ended(const mmsb__commands_t *commands, uint64_t handle) {
    return __atomic_load_n(&commands->handle, __ATOMIC_SEQ_CST) != handle;
}

mmsb_status_t mmsb__commands_open(uint64_t handle, uint64_t capacity, uint32_t workers, int persistent) {
    const uint32_t index = MMSB__HANDLE_INDEX(handle);
    mmsb_command_failure_t *failures = malloc(FAILURES * sizeof *failures);
    mmsb__commands_t *commands = buffers[index] ? buffers[index] : mmsb__alone(sizeof *commands);
    if (!failures || !commands) {
        free(failures);
        if (commands != buffers[index])
            free(commands);
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a command buffer");
    }
    if (commands != buffers[index])
        pthread_mutex_init(&commands->lock, NULL);
    __atomic_store_n(&commands->closed, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&commands->cancels, 0, __ATOMIC_RELAXED);
    commands->capacity = capacity;
    commands->workers = workers;
    commands->how = persistent ? MMSB__PERSISTENT : 0;
    pthread_mutex_lock(&commands->lock);
    commands->failures = failures;
    commands->failures_first = commands->failures_count = commands->failures_lost = 0;
    pthread_mutex_unlock(&commands->lock);
    __atomic_store_n(&commands->generation, MMSB__HANDLE_GENERATION(handle), __ATOMIC_RELAXED);
    __atomic_store_n(&commands->handle, handle, __ATOMIC_SEQ_CST);
    __atomic_store_n(&buffers[index], commands, __ATOMIC_RELEASE);
    return MMSB_OK;
}

/* ------------------------------------------------------------------------------------------------------- lanes ---- */

static uint64_t slots_for(uint64_t capacity) {
    uint64_t slots = 1;
    while (slots < capacity)
        slots *= 2;
    return slots;
}

/* A lane for this thread, which has none in the buffer. Under lanes_lock. */
static mmsb__lane_t *lane_attach(mmsb__commands_t *commands, uint64_t handle, mmsb__thread_t *self) {
    /* One whose thread has ended, and of whose commands none is left: else the thread would begin with less than its capacity. */
    for (mmsb__lane_t *lane = commands->lanes; lane; lane = lane->next) {
        if (lane->producer == 0 && __atomic_load_n(&lane->head, __ATOMIC_ACQUIRE) == lane->tail) {
            lane->producer = self->owner;
            lane->next_of_thread = self->lanes;
            return self->lanes = lane;
        }
    }
    mmsb__lane_t *lane = self->lanes;
    while (lane && lane->slots)
        lane = lane->next_of_thread;
    const int is_new = !lane;
    const uint64_t slots = slots_for(commands->capacity), bytes = slots * sizeof(mmsb__command_t);
    mmsb__command_t *memory = aligned_alloc(128, bytes < 128 ? 128 : bytes);
    if (!memory || (is_new && !(lane = mmsb__alone(sizeof *lane)))) {
        free(memory);
        mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a ring of %llu bytes", (unsigned long long)bytes);
        return NULL;
    }
    if (is_new) {
        lane->next_of_thread = self->lanes;
        self->lanes = lane;
    }
    lane->commands = commands;
    lane->slots = memory;
    lane->mask = slots - 1;
    lane->capacity = commands->capacity;
    lane->tail = lane->head = lane->head_seen = lane->peak = 0;
    lane->refused = lane->waits = lane->waited_ns = lane->done = lane->failed = lane->cancelled = 0;
    lane->claimed = 0;
    lane->producer = self->owner;
    lane->next = commands->lanes;
    lane_bytes += bytes + sizeof *lane;
    __atomic_store_n(&lane->handle, handle, __ATOMIC_RELAXED);
    __atomic_store_n(&commands->lanes, lane, __ATOMIC_RELEASE);
    return lane;
}

/* The thread's lane in a buffer, first of its list; NULL with the last error set. */
static mmsb__lane_t *lane_for(uint64_t handle) {
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self) {
        mmsb__thread_fail();
        return NULL;
    }
    if (handle == 0) { /* as lanes without a buffer have */
        handle_fail(handle);
        return NULL;
    }
    mmsb__lane_t **link = &self->lanes, *lane;
    for (; (lane = *link); link = &lane->next_of_thread) {
        if (__atomic_load_n(&lane->handle, __ATOMIC_RELAXED) == handle)
            break;
    }
    if (lane) {
        *link = lane->next_of_thread;
        lane->next_of_thread = self->lanes;
        return self->lanes = lane;
    }
    mmsb__commands_t *commands = enter(handle);
    if (!commands)
        return NULL;
    pthread_mutex_lock(&lanes_lock);
    if (ended(commands, handle))
        handle_fail(handle);
    else
        lane = lane_attach(commands, handle, self);
    pthread_mutex_unlock(&lanes_lock);
    leave(commands);
    return lane;
}

void mmsb__lanes_leave(mmsb__thread_t *self) {
    pthread_mutex_lock(&lanes_lock);
    while (self->lanes) {
        mmsb__lane_t *lane = self->lanes;
        self->lanes = lane->next_of_thread;
        if (lane->slots) /* the buffer's, also where it is about to end */
            lane->producer = 0;
        else
            free(lane);
    }
    pthread_mutex_unlock(&lanes_lock);
}

uint64_t mmsb__commands_bytes(void) {
    pthread_mutex_lock(&lanes_lock);
    const uint64_t bytes = lane_bytes;
    pthread_mutex_unlock(&lanes_lock);
    return bytes;
}

/* Waits until no producer is in a lane of the buffer with what it read before the call. Under lanes_lock. */
static void await_producers(mmsb__commands_t *commands) {
    mmsb__barrier();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (mmsb__lane_t *lane = commands->lanes; lane; lane = lane->next) {
        while (__atomic_load_n(&lane->busy, __ATOMIC_ACQUIRE)) /* sections are short, and nobody waits in one */
            sched_yield();
    }
}

/* ----------------------------------------------------------------------------------------------------- enqueue ---- */

static mmsb_status_t check_pages(uint64_t page, const mmsb_page_t *dependencies, size_t count) {
    if (!mmsb__state_is(mmsb__state_load(mmsb__record_of(page)), page))
        return mmsb__page_fail(page);
    for (size_t i = 0; i < count; i++) {
        if (dependencies[i] == page)
            return mmsb__fail(MMSB_E_INVALID_ARGUMENT, "page 0x%016llx cannot depend on itself: dependency %zu of %zu",
                              (unsigned long long)page, i, count);
        if (!mmsb__state_is(mmsb__state_load(mmsb__record_of(dependencies[i])), dependencies[i]))
            return mmsb__page_fail(dependencies[i]);
    }
    return MMSB_OK;
}

static mmsb_status_t full_fail(const mmsb__lane_t *lane, uint64_t timeout_ns) {
    const unsigned long long waiting = lane->capacity;
    return timeout_ns == 0
               ? mmsb__fail(MMSB_E_WOULD_BLOCK, "%llu commands of this thread wait, the capacity is %llu", waiting, waiting)
               : mmsb__fail(MMSB_E_TIMEOUT, "%llu commands of this thread still wait after %llu ns, the capacity is %llu",
                            waiting, (unsigned long long)timeout_ns, waiting);
}

/* Whether the producer's lane has space; it counts what waits then. */
static int lane_has_space(mmsb__lane_t *lane) {
    lane->head_seen = __atomic_load_n(&lane->head, __ATOMIC_SEQ_CST);
    const uint64_t waiting = lane->tail - lane->head_seen;
    if (waiting >= lane->capacity)
        return 0;
    if (waiting + 1 > lane->peak)
        __atomic_store_n(&lane->peak, waiting + 1, __ATOMIC_RELAXED);
    return 1;
}

/* Puts the command into the thread's lane: MMSB_OK; MMSB_E_WOULD_BLOCK, with no error stored, where it is full. */
static mmsb_status_t lane_put(mmsb__lane_t *lane, uint64_t handle, uint64_t page, const mmsb_page_t *dependencies, size_t count,
                              uint64_t *all) {
    mmsb_status_t status = MMSB_OK;
    mmsb__lane_enter(lane);
    if (__atomic_load_n(&lane->handle, __ATOMIC_RELAXED) != handle) {
        status = handle_fail(handle);
    } else if (__atomic_load_n(&lane->commands->closed, __ATOMIC_RELAXED)) {
        status = mmsb__fail(MMSB_E_INVALID_STATE, "command buffer 0x%016llx is closed", (unsigned long long)handle);
    } else if (!lane_has_space(lane)) {
        status = MMSB_E_WOULD_BLOCK;
    } else {
        mmsb__command_t *slot = &lane->slots[lane->tail & lane->mask];
        slot->page = page;
        if (all)
            slot->all = all;
        else if (count > 0)
            memcpy(&slot->pages[1], dependencies, count * sizeof *dependencies);
        slot->count = dependencies ? count : MMSB__COMMAND_PARENTS;
        mmsb__lane_push(lane, lane->tail);
    }
    mmsb__lane_leave(lane);
    return status;
}

/* Waits until the lane has space, or until the time is over or the buffer ends or closes, which the next try finds. */
static int await_space(mmsb__lane_t *lane, uint64_t handle, uint64_t deadline) {
    mmsb__commands_t *commands = enter(handle);
    if (!commands)
        return 1;
    const uint32_t seen = wait_begin(commands);
    const uint64_t left = left_until(deadline);
    const int waits = !ended(commands, handle) && !__atomic_load_n(&commands->closed, __ATOMIC_SEQ_CST) && left > 0 &&
                      mmsb__gate == MMSB_OK && lane->tail - __atomic_load_n(&lane->head, __ATOMIC_SEQ_CST) >= lane->capacity;
    if (waits) {
        const uint64_t begin = now_ns();
        futex_wait(&commands->progress, seen, left);
        __atomic_store_n(&lane->waits, lane->waits + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&lane->waited_ns, lane->waited_ns + (now_ns() - begin), __ATOMIC_RELAXED);
    }
    wait_end(commands);
    leave(commands);
    return left > 0;
}

mmsb_status_t mmsb__commands_enqueue_slow(uint64_t handle, uint64_t page, const mmsb_page_t *dependencies, size_t count,
                                          uint64_t timeout_ns) {
    mmsb__commands_t *commands = enter(handle);
    if (!commands)
        return mmsb__error()->error_code;
    leave(commands);
    mmsb_status_t status = check_pages(page, dependencies, count);
    if (status != MMSB_OK)
        return status;
    mmsb__lane_t *lane = lane_for(handle);
    if (!lane)
        return mmsb__error()->error_code;
    uint64_t *all = NULL;
    if (count >= MMSB__COMMAND_PAGES) {
        if (!(all = malloc((count + 1) * sizeof *all)))
            return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory for a command of %zu dependencies", count);
        all[0] = page;
        memcpy(all + 1, dependencies, count * sizeof *all);
    }
    const uint64_t deadline = deadline_of(timeout_ns);
    while ((status = lane_put(lane, handle, page, dependencies, count, all)) == MMSB_E_WOULD_BLOCK) {
        if (await_space(lane, handle, deadline))
            continue;
        __atomic_store_n(&lane->refused, lane->refused + 1, __ATOMIC_RELAXED);
        status = full_fail(lane, timeout_ns);
        break;
    }
    if (status != MMSB_OK)
        free(all);
    return status;
}

static void note_failure(mmsb__commands_t *commands, uint64_t page, mmsb_status_t code) {
    pthread_mutex_lock(&commands->lock);
    if (commands->failures_count == FAILURES) {
        commands->failures_first++;
        commands->failures_count--;
        commands->failures_lost++;
    }
    mmsb_command_failure_t *failure = &commands->failures[(commands->failures_first + commands->failures_count++) % FAILURES];
    memset(failure, 0, sizeof *failure);
    failure->struct_size = sizeof *failure;
    failure->code = code;
    failure->page = page;
    const char *text = mmsb__error()->error_text;
    memcpy(failure->text, text, mmsb__text_fits(text, strlen(text), sizeof failure->text - 1));
    pthread_mutex_unlock(&commands->lock);
}

/* -------------------------------------------------------------------------------------------------------- drain ---- */

/* The parents of those commands of a batch that have them as dependencies. */
typedef struct parents {
    uint32_t at[BATCH];     /* of a command: where its handles begin in all; UINT32_MAX = it is asked for alone */
    uint64_t counts[BATCH]; /* of its parents */
    uint64_t all[KNOWN];
} parents_t;

static void look_up_parents(const mmsb__lane_t *lane, uint64_t head, uint32_t count, parents_t *parents) {
    mmsb_page_t pages[BATCH];
    uint64_t counts[BATCH];
    uint32_t of[BATCH], asked = 0;
    for (uint32_t i = 0; i < count; i++) {
        const mmsb__command_t *command = &lane->slots[(head + i) & lane->mask];
        if (command->count == MMSB__COMMAND_PARENTS) {
            pages[asked] = command->page;
            of[asked++] = i;
        }
    }
    if (asked == 0)
        return;
    const size_t needed = mmsb__upcalls.parents(pages, asked, parents->all, KNOWN, counts);
    uint32_t at = 0;
    for (uint32_t i = 0; i < asked; i++) {
        parents->at[of[i]] = needed <= KNOWN ? at : UINT32_MAX;
        parents->counts[of[i]] = counts[i];
        at += (uint32_t)counts[i] + 1;
    }
}

/* The handles of a command, where they are known; the page and its dependencies. */
static inline const uint64_t *pages_of(const mmsb__command_t *command, const parents_t *parents, uint32_t i, size_t *count) {
    if (command->count == MMSB__COMMAND_PARENTS) {
        *count = parents->counts[i];
        return parents->at[i] == UINT32_MAX ? NULL : &parents->all[parents->at[i]];
    }
    *count = command->count;
    return command->count < MMSB__COMMAND_PAGES ? command->pages : command->all;
}

static int must_stop(const mmsb__commands_t *commands, uint64_t handle) {
    return __atomic_load_n(&commands->cancels, __ATOMIC_RELAXED) ||
           __atomic_load_n(&commands->handle, __ATOMIC_RELAXED) != handle || mmsb__gate != MMSB_OK;
}

static void execute_at(mmsb__commands_t *commands, mmsb__lane_t *lane, const mmsb__command_t *command, const parents_t *parents,
                       uint32_t i, uint32_t owner) {
    size_t count, bad = SIZE_MAX;
    const uint64_t *pages = pages_of(command, parents, i, &count);
    const int are_parents = command->count == MMSB__COMMAND_PARENTS;
    const unsigned how = commands->how | (are_parents ? MMSB__FROM_PARENTS : 0);
    mmsb_status_t status = pages ? mmsb__propagate(pages, count, how, owner, &bad) : MMSB_OK;
    if (MMSB__UNLIKELY(!pages || (are_parents && status == MMSB_E_STALE_HANDLE && bad - 1 < count)))
        status = mmsb__propagate_parents(command->page, how, owner);
    if (MMSB__LIKELY(status == MMSB_OK)) {
        __atomic_store_n(&lane->done, lane->done + 1, __ATOMIC_RELAXED);
        return;
    }
    note_failure(commands, command->page, status);
    __atomic_store_n(&lane->failed, lane->failed + 1, __ATOMIC_RELAXED);
}

static int lane_claim(mmsb__lane_t *lane) {
    uint32_t free_lane = 0;
    return __atomic_load_n(&lane->claimed, __ATOMIC_RELAXED) == 0 &&
           __atomic_compare_exchange_n(&lane->claimed, &free_lane, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void lane_unclaim(mmsb__lane_t *lane) {
    __atomic_store_n(&lane->claimed, 0, __ATOMIC_RELEASE);
}

static inline void forget(const mmsb__command_t *command) {
    if (MMSB__UNLIKELY(command->count >= MMSB__COMMAND_PAGES && command->count != MMSB__COMMAND_PARENTS))
        free(command->all);
}

/* Fetches what commands behind one need: first their records, then what records name, then the bytes that masks name. */
static inline void fetch_ahead(const mmsb__lane_t *lane, uint64_t position, uint32_t left, uint32_t i, const parents_t *parents) {
    size_t more;
    const uint64_t *pages;
    if (AHEAD < left && (pages = pages_of(&lane->slots[(position + AHEAD) & lane->mask], parents, i + AHEAD, &more)))
        mmsb__propagate_fetch_records(pages, more);
    if (NEAR < left && (pages = pages_of(&lane->slots[(position + NEAR) & lane->mask], parents, i + NEAR, &more)))
        mmsb__propagate_fetch_masks(pages, more);
    if (NEXT < left && (pages = pages_of(&lane->slots[(position + NEXT) & lane->mask], parents, i + NEXT, &more)))
        mmsb__propagate_fetch_bytes(pages, more);
}

/* Executes the oldest commands of a lane that nobody else drains, at most limit: how many. */
static uint64_t drain_lane(mmsb__commands_t *commands, uint64_t handle, mmsb__lane_t *lane, uint64_t limit, uint32_t owner) {
    parents_t parents;
    if (__atomic_load_n(&lane->head, __ATOMIC_RELAXED) == __atomic_load_n(&lane->tail, __ATOMIC_RELAXED) || !lane_claim(lane))
        return 0;
    const uint64_t head = lane->head, waiting = __atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE) - head;
    const uint32_t count = (uint32_t)(waiting < BATCH ? (waiting < limit ? waiting : limit) : (BATCH < limit ? BATCH : limit));
    look_up_parents(lane, head, count, &parents);
    uint32_t i = 0;
    for (; i < count && !must_stop(commands, handle); i++) {
        const mmsb__command_t *command = &lane->slots[(head + i) & lane->mask];
        fetch_ahead(lane, head + i, count - i, i, &parents);
        execute_at(commands, lane, command, &parents, i, owner);
        forget(command);
        __atomic_store_n(&lane->head, head + i + 1, __ATOMIC_RELEASE);
    }
    lane_unclaim(lane);
    notify(commands);
    return i;
}

/* Drains each lane once. */
static uint64_t drain_round(mmsb__commands_t *commands, uint64_t handle, uint64_t limit, uint32_t owner) {
    uint64_t executed = 0;
    mmsb__lane_t *lane = __atomic_load_n(&commands->lanes, __ATOMIC_ACQUIRE);
    for (; lane && executed < limit; lane = lane->next)
        executed += drain_lane(commands, handle, lane, limit - executed, owner);
    return executed;
}

static int has_work(mmsb__commands_t *commands) {
    for (mmsb__lane_t *lane = __atomic_load_n(&commands->lanes, __ATOMIC_ACQUIRE); lane; lane = lane->next) {
        if (__atomic_load_n(&lane->head, __ATOMIC_SEQ_CST) != __atomic_load_n(&lane->tail, __ATOMIC_SEQ_CST) &&
            __atomic_load_n(&lane->claimed, __ATOMIC_SEQ_CST) == 0)
            return 1;
    }
    return 0;
}

/* A worker sleeps until there is work. */
static void worker_sleep(mmsb__commands_t *commands, uint64_t handle) {
    const uint32_t seen = __atomic_load_n(&commands->bell, __ATOMIC_SEQ_CST);
    __atomic_store_n(&commands->asleep, 1, __ATOMIC_SEQ_CST);
    mmsb__barrier();
    if (!has_work(commands) && !ended(commands, handle) && !__atomic_load_n(&commands->closed, __ATOMIC_SEQ_CST) &&
        mmsb__gate == MMSB_OK)
        futex_wait(&commands->bell, seen, UINT64_MAX);
}

void mmsb__commands_work(uint64_t handle) {
    mmsb__thread_t *self = mmsb__thread_enter();
    mmsb__commands_t *commands = self ? enter(handle) : NULL;
    if (!commands)
        return;
    for (uint32_t idle = 0; !ended(commands, handle) && mmsb__gate == MMSB_OK;) {
        if (drain_round(commands, handle, UINT64_MAX, self->owner) > 0) {
            idle = 0;
        } else if (__atomic_load_n(&commands->closed, __ATOMIC_SEQ_CST) && !has_work(commands)) {
            break;
        } else if (idle++ < 16) {
            sched_yield(); /* more often comes at once */
        } else {
            worker_sleep(commands, handle);
        }
    }
    leave(commands);
}

/* ------------------------------------------------------------------------------------------------ waits and ends ---- */

/* The result of a wait that a buffer's end, or an internal error, has ended. */
static mmsb_status_t over(uint64_t handle) {
    return mmsb__gate != MMSB_OK ? mmsb__gate_closed() : handle_fail(handle);
}

/* Waits until the head of a lane is at a position, and executes what waits where there are no workers. */
static mmsb_status_t await_head(mmsb__commands_t *commands, uint64_t handle, mmsb__lane_t *lane, uint64_t position,
                                uint64_t deadline, uint32_t owner) {
    mmsb_status_t status = MMSB_OK;
    while (status == MMSB_OK && __atomic_load_n(&lane->head, __ATOMIC_ACQUIRE) < position) {
        const uint64_t left = left_until(deadline);
        if (left == 0)
            return MMSB_E_TIMEOUT;
        if (commands->workers == 0 && drain_lane(commands, handle, lane, UINT64_MAX, owner) > 0)
            continue;
        const uint32_t seen = wait_begin(commands);
        if (ended(commands, handle) || mmsb__gate != MMSB_OK)
            status = over(handle);
        else if (__atomic_load_n(&lane->head, __ATOMIC_SEQ_CST) < position &&
                 (commands->workers != 0 || __atomic_load_n(&lane->claimed, __ATOMIC_SEQ_CST) != 0))
            futex_wait(&commands->progress, seen, left);
        wait_end(commands);
    }
    return status;
}

/* How many commands wait. */
static uint64_t depth_of(mmsb__commands_t *commands) {
    uint64_t depth = 0;
    for (mmsb__lane_t *lane = __atomic_load_n(&commands->lanes, __ATOMIC_ACQUIRE); lane; lane = lane->next) {
        const uint64_t head = __atomic_load_n(&lane->head, __ATOMIC_ACQUIRE);
        depth += __atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE) - head;
    }
    return depth;
}

static mmsb_status_t wait_all(mmsb__commands_t *commands, uint64_t handle, uint64_t timeout_ns, uint32_t owner) {
    const uint64_t deadline = deadline_of(timeout_ns);
    mmsb__lane_t *lane = __atomic_load_n(&commands->lanes, __ATOMIC_ACQUIRE);
    for (; lane; lane = lane->next) {
        const uint64_t position = __atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE);
        mmsb_status_t status = await_head(commands, handle, lane, position, deadline, owner);
        if (status == MMSB_E_TIMEOUT && timeout_ns == 0)
            return mmsb__fail(MMSB_E_WOULD_BLOCK, "%llu commands wait", (unsigned long long)depth_of(commands));
        if (status == MMSB_E_TIMEOUT)
            return mmsb__fail(MMSB_E_TIMEOUT, "%llu commands still wait after %llu ns", (unsigned long long)depth_of(commands),
                              (unsigned long long)timeout_ns);
        if (status != MMSB_OK)
            return status;
    }
    return MMSB_OK;
}

mmsb_status_t mmsb__commands_wait(uint64_t handle, uint64_t timeout_ns) {
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self)
        return mmsb__thread_fail();
    mmsb__commands_t *commands = enter(handle);
    if (!commands)
        return mmsb__error()->error_code;
    mmsb_status_t status = wait_all(commands, handle, timeout_ns, self->owner);
    leave(commands);
    return status;
}

mmsb_status_t mmsb__commands_drain(uint64_t handle, uint64_t limit, uint64_t *executed) {
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self)
        return mmsb__thread_fail();
    mmsb__commands_t *commands = enter(handle);
    if (!commands)
        return mmsb__error()->error_code;
    uint64_t done = 0, more;
    if (limit == 0)
        limit = depth_of(commands);
    while (done < limit && (more = drain_round(commands, handle, limit - done, self->owner)) > 0)
        done += more;
    *executed = done;
    leave(commands);
    return MMSB_OK;
}

/* Takes what waits out of a lane, which nobody drains. */
static void cancel_lane(mmsb__lane_t *lane) {
    const uint64_t tail = __atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE);
    uint64_t head = lane->head;
    __atomic_store_n(&lane->cancelled, lane->cancelled + (tail - head), __ATOMIC_RELAXED);
    for (; head != tail; head++)
        forget(&lane->slots[head & lane->mask]);
    __atomic_store_n(&lane->head, head, __ATOMIC_RELEASE);
}

static mmsb_status_t cancel_all(mmsb__commands_t *commands, uint64_t handle, uint64_t timeout_ns) {
    const uint64_t deadline = deadline_of(timeout_ns);
    __atomic_store_n(&commands->cancels, 1, __ATOMIC_SEQ_CST);
    for (mmsb__lane_t *lane = __atomic_load_n(&commands->lanes, __ATOMIC_ACQUIRE); lane; lane = lane->next) {
        while (!lane_claim(lane)) { /* until the command that is being executed is done */
            const uint32_t seen = wait_begin(commands);
            const uint64_t left = left_until(deadline);
            if (left > 0 && __atomic_load_n(&lane->claimed, __ATOMIC_SEQ_CST) != 0 && !ended(commands, handle))
                futex_wait(&commands->progress, seen, left);
            wait_end(commands);
            if (ended(commands, handle))
                return handle_fail(handle);
            if (left == 0)
                return timeout_ns == 0 ? mmsb__fail(MMSB_E_WOULD_BLOCK, "command is being executed")
                                       : mmsb__fail(MMSB_E_TIMEOUT, "command is still being executed after %llu ns",
                                                    (unsigned long long)timeout_ns);
        }
        cancel_lane(lane);
        lane_unclaim(lane);
        notify(commands);
    }
    return MMSB_OK;
}

mmsb_status_t mmsb__commands_close(uint64_t handle, int cancels, uint64_t timeout_ns) {
    mmsb__thread_t *self = mmsb__thread_enter();
    if (!self)
        return mmsb__thread_fail();
    mmsb__commands_t *commands = enter(handle);
    if (!commands)
        return mmsb__error()->error_code;
    pthread_mutex_lock(&lanes_lock);
    __atomic_store_n(&commands->closed, 1, __ATOMIC_SEQ_CST);
    await_producers(commands); /* from here on nothing is enqueued */
    pthread_mutex_unlock(&lanes_lock);
    move(&commands->bell);
    move(&commands->progress);
    mmsb_status_t status =
        cancels ? cancel_all(commands, handle, timeout_ns) : wait_all(commands, handle, timeout_ns, self->owner);
    leave(commands);
    return status;
}

/* Gives back what an ended buffer has, that nobody is in. Under lanes_lock. */
static void lanes_free(mmsb__commands_t *commands) {
    while (commands->lanes) {
        mmsb__lane_t *lane = commands->lanes;
        commands->lanes = lane->next;
        cancel_lane(lane);
        lane_bytes -= (lane->mask + 1) * sizeof(mmsb__command_t) + sizeof *lane;
        free(lane->slots);
        lane->slots = NULL;
        if (lane->producer == 0)
            free(lane);
    }
}

mmsb_status_t mmsb__commands_end(uint64_t handle) {
    mmsb__commands_t *commands = enter(handle);
    if (!commands)
        return mmsb__error()->error_code;
    pthread_mutex_lock(&lanes_lock);
    uint64_t expected = handle;
    if (!__atomic_compare_exchange_n(&commands->handle, &expected, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        pthread_mutex_unlock(&lanes_lock);
        leave(commands);
        return handle_fail(handle);
    }
    for (mmsb__lane_t *lane = commands->lanes; lane; lane = lane->next)
        __atomic_store_n(&lane->handle, 0, __ATOMIC_SEQ_CST);
    await_producers(commands);
    pthread_mutex_unlock(&lanes_lock);
    move(&commands->bell);
    move(&commands->progress);
    for (;;) {
        const uint32_t seen = wait_begin(commands);
        const int alone = __atomic_load_n(&commands->users, __ATOMIC_SEQ_CST) == 1;
        if (!alone)
            futex_wait(&commands->progress, seen, UINT64_MAX);
        wait_end(commands);
        if (alone)
            break;
    }
    pthread_mutex_lock(&lanes_lock);
    lanes_free(commands);
    pthread_mutex_unlock(&lanes_lock);
    free(commands->failures);
    commands->failures = NULL;
    leave(commands);
    return MMSB_OK;
}

/* ---------------------------------------------------------------------------------------------------- what it says ---- */

mmsb_status_t mmsb__commands_stats(uint64_t handle, mmsb_commands_stats_t *stats) {
    mmsb__commands_t *commands = enter(handle);
    if (!commands)
        return mmsb__error()->error_code;
    mmsb_commands_stats_t sum = {
        .struct_size = sizeof sum, .workers = (int32_t)commands->workers, .capacity = commands->capacity};
    for (mmsb__lane_t *lane = __atomic_load_n(&commands->lanes, __ATOMIC_ACQUIRE); lane; lane = lane->next) {
        const uint64_t head = __atomic_load_n(&lane->head, __ATOMIC_ACQUIRE),
                       tail = __atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE),
                       peak = __atomic_load_n(&lane->peak, __ATOMIC_RELAXED);
        sum.producers++;
        sum.enqueued += tail;
        sum.depth += tail - head;
        sum.done += __atomic_load_n(&lane->done, __ATOMIC_RELAXED);
        sum.failed += __atomic_load_n(&lane->failed, __ATOMIC_RELAXED);
        sum.cancelled += __atomic_load_n(&lane->cancelled, __ATOMIC_RELAXED);
        sum.refused += __atomic_load_n(&lane->refused, __ATOMIC_RELAXED);
        sum.waits += __atomic_load_n(&lane->waits, __ATOMIC_RELAXED);
        sum.waited_ns += __atomic_load_n(&lane->waited_ns, __ATOMIC_RELAXED);
        sum.peak = peak > sum.peak ? peak : sum.peak;
    }
    pthread_mutex_lock(&commands->lock);
    sum.failures_lost = commands->failures_lost;
    pthread_mutex_unlock(&commands->lock);
    *stats = sum;
    leave(commands);
    return MMSB_OK;
}

mmsb_status_t mmsb__commands_failures(uint64_t handle, mmsb_command_failure_t *failures, size_t capacity, size_t *count) {
    mmsb__commands_t *commands = enter(handle);
    if (!commands)
        return mmsb__error()->error_code;
    pthread_mutex_lock(&commands->lock);
    size_t taken = 0;
    for (; taken < capacity && commands->failures_count > 0; taken++, commands->failures_count--)
        failures[taken] = commands->failures[commands->failures_first++ % FAILURES];
    pthread_mutex_unlock(&commands->lock);
    *count = taken;
    leave(commands);
    return MMSB_OK;
}
