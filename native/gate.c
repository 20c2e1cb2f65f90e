/* Starts the library, and closes the gate at a fork or after an internal error: gate.h. */
#include "gate.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "system.h"

/* MMSB__NOT_STARTED: no call has come yet, and a child of fork can start the library itself. The first call reserves what every
 * call takes for granted and starts Go's runtime; it leaves that state before anything else, and for ever. */
#define STARTING (-2)
void (*mmsb__start_go)(void);
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;

static char poison_text[512];

static mmsb_status_t start(void) {
    pthread_mutex_lock(&gate_lock);
    mmsb_status_t code = mmsb__gate;
    int error = 0;
    if (code == MMSB__NOT_STARTED && mmsb__start_go) { /* the answer may be another one at the next call */
        mmsb_status_t status = mmsb__system_check();
        if (status != MMSB_OK) {
            pthread_mutex_unlock(&gate_lock);
            return status;
        }
    }
    if (code == MMSB__NOT_STARTED || code == STARTING) { /* the latter after a start that failed */
        __atomic_store_n(&mmsb__gate, STARTING, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST); /* a child that sees any of what follows sees this */
        if ((error = mmsb__table_reserve()) == 0 && (error = mmsb__thread_start()) == 0) {
            if (mmsb__start_go)
                mmsb__start_go();
            code = MMSB_OK;
            __atomic_store_n(&mmsb__gate, code, __ATOMIC_RELEASE);
            mmsb__detour_end();
        }
    }
    pthread_mutex_unlock(&gate_lock);
    if (error != 0)
        return mmsb__fail(MMSB_E_OUT_OF_MEMORY, "cannot reserve %llu bytes of addresses (ulimit -v): %s",
                          (unsigned long long)(mmsb__table_addresses() + mmsb__thread_addresses()), strerror(error));
    return code;
}

mmsb_status_t mmsb__gate_closed(void) {
    mmsb_status_t code = __atomic_load_n(&mmsb__gate, __ATOMIC_ACQUIRE);
    if (code == MMSB__NOT_STARTED || code == STARTING)
        code = start();
    if (code == MMSB_E_FORKED)
        return mmsb__fail(code, "the process was forked after it had used libmmsb: use it after the fork only, or spawn");
    if (code == MMSB_E_POISONED)
        return mmsb__fail(code, "library stopped after an internal error: %s", poison_text);
    return code;
}

void mmsb__gate_poison(const char *text, size_t length) {
    pthread_mutex_lock(&gate_lock);
    if (mmsb__gate == MMSB_OK) {
        length = mmsb__text_fits(text, length, sizeof poison_text - 1);
        memcpy(poison_text, text, length);
        poison_text[length] = 0;
        mmsb__detour_begin();
        __atomic_store_n(&mmsb__gate, MMSB_E_POISONED, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&gate_lock);
}

/* Descriptors that a child closes: a bit each. Those beyond stay open there. */
#define IN_CHILD (1 << 16)
static uint64_t in_child_closed[IN_CHILD / 64];

void mmsb__close_in_child(int descriptor, bool closes) {
    if (descriptor < 0 || descriptor >= IN_CHILD)
        return;
    uint64_t bit = 1ull << descriptor % 64;
    if (closes)
        __atomic_fetch_or(&in_child_closed[descriptor / 64], bit, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_and(&in_child_closed[descriptor / 64], ~bit, __ATOMIC_SEQ_CST);
}

static void close_in_child(void) {
    for (int i = 0; i < IN_CHILD / 64; i++)
        for (uint64_t left = in_child_closed[i]; left != 0; left &= left - 1)
            close(64 * i + __builtin_ctzll(left));
}

static void in_child(void) {
    if (mmsb__gate == MMSB__NOT_STARTED) {
        gate_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* a thread of the parent was perhaps about to start */
        return;
    }
    mmsb__detour_begin();
    mmsb__gate = MMSB_E_FORKED;
    close_in_child();
}

/* From the moment the library is loaded: the first call may come from one thread while another forks. */
__attribute__((constructor)) static void watch_fork(void) {
    pthread_atfork(NULL, NULL, in_child);
}
