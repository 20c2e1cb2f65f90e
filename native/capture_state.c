/* What writers and the saver of a capture share: the arrays, and waiting for each other. capture_state.h. */
#include "capture_state.h"

#include <stdlib.h>
#include <time.h>

#include "system.h"

uint32_t mmsb__capturing, mmsb__moments, mmsb__frozen;
uint8_t *mmsb__capture_states;
mmsb__copy_t **mmsb__capture_copies;
mmsb__capture_t *mmsb__captures[MMSB__CONTEXTS];

static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waiting_changed; /* initialised by the first capture */
static uint32_t waiting;               /* threads in mmsb__capture_pause */

void mmsb__capture_wake(void) {
    if (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) == 0)
        return;
    pthread_mutex_lock(&waiting_lock);
    pthread_cond_broadcast(&waiting_changed);
    pthread_mutex_unlock(&waiting_lock);
}

void mmsb__capture_pause(void) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&waiting_lock);
    pthread_cond_timedwait(&waiting_changed, &waiting_lock, &until);
    pthread_mutex_unlock(&waiting_lock);
    __atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
}

static void start_waiting(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* a wait does not depend on the time of day */
    pthread_cond_init(&waiting_changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static mmsb_status_t reserve_states(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    mmsb_status_t status = MMSB_OK;
    pthread_mutex_lock(&lock);
    if (!mmsb__capture_states) {
        start_waiting();
        const size_t records = (size_t)1 << MMSB__INDEX_BITS;
        void *made = NULL;
        status = mmsb__reserve_addresses(records * (sizeof *mmsb__capture_copies + sizeof *mmsb__capture_states),
                                         "the first save", &made);
        if (status == MMSB_OK) {
            mmsb__capture_copies = made;
            __atomic_store_n(&mmsb__capture_states, (uint8_t *)made + records * sizeof *mmsb__capture_copies, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

mmsb__capture_t *mmsb__capture_make(uint32_t context) {
    mmsb__capture_t *capture = mmsb__capture_of(context);
    if (capture)
        return capture;
    if (reserve_states() != MMSB_OK)
        return NULL;
    if (!(capture = calloc(1, sizeof *capture))) {
        mmsb__fail(MMSB_E_OUT_OF_MEMORY, "no memory to capture pages");
        return NULL;
    }
    capture->context = context;
    pthread_mutex_init(&capture->lock, NULL);
    mmsb__capture_t *other = NULL;
    if (__atomic_compare_exchange_n(&mmsb__captures[context], &other, capture, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return capture;
    free(capture);
    return other;
}
