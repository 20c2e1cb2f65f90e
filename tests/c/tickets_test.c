/* Tickets: work that takes time, here the creation of many pages. */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/resource.h>

/* Pages: far more than are made between two calls, unless the caller is kept from running. */
#ifdef __SANITIZE_ADDRESS__ /* seven times as slow */
enum { LARGE = 500000 };
#else
enum { LARGE = 3000000 };
#endif

static mmsb_page_t *large;

static mmsb_ticket_t start_with(mmsb_context_t context, size_t count, mmsb_page_t *pages, const mmsb_ticket_t *after,
                                uint64_t after_count) {
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.after = after;
    work.after_count = after_count;
    mmsb_ticket_t ticket = 0;
    REQUIRE_OK(mmsb_page_create_many_start(context, 64, count, NULL, &work, pages, &ticket));
    return ticket;
}

static mmsb_ticket_t start(mmsb_context_t context, size_t count, mmsb_page_t *pages) {
    return start_with(context, count, pages, NULL, 0);
}

static void wait_to_be_let_go(void *user, void *memory, uint64_t size) {
    (void)memory;
    (void)size;
    while (sem_wait(user) != 0) {}
}

/* Work that does not end before the semaphore is posted: a load ends an adopted page, and what gives its memory back waits. */
static mmsb_ticket_t start_held(mmsb_context_t context, sem_t *let_go) {
    static uint8_t memory[64];
    REQUIRE(sem_init(let_go, 0, 0) == 0);
    mmsb_adopt_options_t adopt;
    mmsb_adopt_options_init(&adopt);
    adopt.release = wait_to_be_let_go;
    adopt.user = let_go;
    REQUIRE_OK(mmsb_snapshot_save(context, at("without"), NULL));
    mmsb_page_t page = 0;
    REQUIRE_OK(mmsb_page_adopt(context, memory, sizeof memory, &adopt, &page));
    mmsb_ticket_t ticket = 0;
    REQUIRE_OK(mmsb_snapshot_load_start(context, at("without"), NULL, NULL, &ticket));
    return ticket;
}

static uint64_t page_count(mmsb_context_t context) {
    uint64_t count = UINT64_MAX;
    CHECK_OK(mmsb_context_page_count(context, &count));
    return count;
}

static int done(mmsb_ticket_t ticket) {
    int32_t result = 7;
    CHECK_OK(mmsb_ticket_poll(ticket, &result));
    CHECK(result == 0 || result == 1);
    return result;
}

static mmsb_status_t work_status(mmsb_ticket_t ticket) {
    mmsb_status_t code = -1;
    CHECK_OK(mmsb_ticket_status(ticket, &code, NULL, 0));
    return code;
}

static void work_succeeds(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[1000] = {0};
    mmsb_ticket_t ticket = start(context, 1000, pages);
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK(done(ticket));
    CHECK_EQUAL(work_status(ticket), MMSB_OK);
    CHECK_OK(mmsb_ticket_wait(ticket, 0));
    CHECK_OK(mmsb_ticket_wait(ticket, 1000));
    char text[8] = "untouch";
    mmsb_status_t code = -1;
    CHECK_OK(mmsb_ticket_status(ticket, &code, text, sizeof text));
    CHECK_EQUAL(text[0], 0);
    uint64_t made = 0;
    uint64_t total = 0;
    CHECK_OK(mmsb_ticket_progress(ticket, &made, &total));
    CHECK(made == 1000 && total == 1000);
    for (int i = 0; i < 1000; i++) {
        CHECK_EQUAL(mmsb_page_size(pages[i]), 64);
    }
    CHECK_EQUAL(page_count(context), 1000);
    CHECK_OK(mmsb_ticket_cancel(ticket)); /* too late: it was done */
    CHECK_EQUAL(work_status(ticket), MMSB_OK);
    CHECK_EQUAL(page_count(context), 1000);
    CHECK_EQUAL(check_live(MMSB_KIND_TICKET), 1);
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_EQUAL(check_live(MMSB_KIND_TICKET), 0);
    CHECK_STATUS(mmsb_ticket_destroy(ticket), MMSB_E_STALE_HANDLE);
    ticket = start(context, 0, NULL);
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_context_destroy(context));
}

static void arguments_are_checked_at_once(void) {
    mmsb_context_t context = new_context();
    mmsb_page_t pages[2] = {42, 43};
    mmsb_ticket_t ticket = 42;
    CHECK_STATUS(mmsb_page_create_many_start(context, 0, 2, NULL, NULL, pages, &ticket), MMSB_E_INVALID_SIZE);
    CHECK_STATUS(mmsb_page_create_many_start(context, 64, 2, NULL, NULL, NULL, &ticket), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_create_many_start(context, 64, 2, NULL, NULL, pages, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_page_create_many_start(0, 64, 2, NULL, NULL, pages, &ticket), MMSB_E_INVALID_HANDLE);
    mmsb_page_options_t options;
    mmsb_page_options_init(&options);
    options.id = 9;
    CHECK_STATUS(mmsb_page_create_many_start(context, 64, 2, &options, NULL, pages, &ticket), MMSB_E_INVALID_ARGUMENT);
    mmsb_work_options_t work;
    memset(&work, 0xAA, sizeof work);
    mmsb_work_options_init(&work);
    CHECK_EQUAL(work.struct_size, sizeof work);
    CHECK_EQUAL(work.timeout_ns, MMSB_WAIT_FOREVER);
    CHECK(work.device == 0 && work.stream == 0 && work.after == NULL && work.after_count == 0);
    work.struct_size = 1;
    CHECK_STATUS(mmsb_page_create_many_start(context, 64, 2, NULL, &work, pages, &ticket), MMSB_E_STRUCT_VERSION);
    mmsb_work_options_init(&work);
    work.reserved[1] = 1;
    CHECK_STATUS(mmsb_page_create_many_start(context, 64, 2, NULL, &work, pages, &ticket), MMSB_E_STRUCT_VERSION);
    mmsb_work_options_init(&work);
    work.stream = 5;
    CHECK_STATUS(mmsb_page_create_many_start(context, 64, 2, NULL, &work, pages, &ticket), MMSB_E_INVALID_HANDLE);
    mmsb_work_options_init(&work);
    work.after_count = 1;
    CHECK_STATUS(mmsb_page_create_many_start(context, 64, 2, NULL, &work, pages, &ticket), MMSB_E_INVALID_ARGUMENT);
    const uint64_t no_ticket[1] = {context};
    work.after = no_ticket;
    CHECK_STATUS(mmsb_page_create_many_start(context, 64, 2, NULL, &work, pages, &ticket), MMSB_E_INVALID_HANDLE);
    mmsb_ticket_t ended = start(context, 0, NULL);
    CHECK_OK(mmsb_ticket_destroy(ended));
    work.after = &ended;
    CHECK_STATUS(mmsb_page_create_many_start(context, 64, 2, NULL, &work, pages, &ticket), MMSB_E_STALE_HANDLE);
    CHECK_EQUAL(ticket, 42);
    CHECK(pages[0] == 42 && pages[1] == 43);
    CHECK_EQUAL(page_count(context), 0);

    ticket = start(context, 2, pages);
    CHECK_STATUS(mmsb_ticket_poll(ticket, NULL), MMSB_E_INVALID_ARGUMENT);
    uint64_t number;
    CHECK_STATUS(mmsb_ticket_progress(ticket, NULL, &number), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_ticket_progress(ticket, &number, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_ticket_status(ticket, NULL, NULL, 0), MMSB_E_INVALID_ARGUMENT);
    mmsb_status_t code;
    CHECK_STATUS(mmsb_ticket_status(ticket, &code, NULL, 5), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_ticket_eventfd(ticket, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_context_destroy(context));
}

static void work_fails_through_the_ticket(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.memory_limit = 16 << 20;
    mmsb_context_t context;
    REQUIRE_OK(mmsb_context_create(&options, &context));
    large[0] = 42;
    mmsb_ticket_t ticket = start(context, LARGE, large);
    CHECK_STATUS(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER), MMSB_E_LIMIT);
    char text[600];
    snprintf(text, sizeof text, "%s", mmsb_last_error());
    CHECK(strpbrk(text, "0123456789") != NULL);
    mmsb_context_page_count(0, NULL); /* another error of this thread does not touch the ticket's */
    char own[600] = "";
    mmsb_status_t code = 0;
    CHECK_OK(mmsb_ticket_status(ticket, &code, own, sizeof own));
    CHECK_EQUAL(code, MMSB_E_LIMIT);
    CHECK(strcmp(own, text) == 0);
    char cut[10];
    memset(cut, 'x', sizeof cut);
    CHECK_OK(mmsb_ticket_status(ticket, &code, cut, 6));
    CHECK(memcmp(cut, text, 5) == 0 && cut[5] == 0 && cut[6] == 'x');
    CHECK(done(ticket));
    CHECK_EQUAL(large[0], 42);
    CHECK_EQUAL(page_count(context), 0);
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_context_destroy(context));
}

/* Cancelled work has changed nothing. Whether it is caught in time is not certain, so it is tried until one is. */
static void work_is_cancelled(void) {
    int cancelled = 0;
    for (const int64_t end = check_seconds() + CHECK_PATIENCE; !cancelled && check_seconds() < end;) {
        mmsb_context_t context = new_context();
        large[0] = 42;
        mmsb_ticket_t ticket = start(context, LARGE, large);
        CHECK_OK(mmsb_ticket_cancel(ticket));
        CHECK_OK(mmsb_ticket_cancel(ticket));
        mmsb_status_t status = mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER);
        CHECK(status == MMSB_OK || status == MMSB_E_CANCELLED);
        CHECK_EQUAL(work_status(ticket), status);
        CHECK_EQUAL(page_count(context), status == MMSB_OK ? LARGE : 0);
        CHECK(status == MMSB_OK || large[0] == 42);
        cancelled = status == MMSB_E_CANCELLED;
        CHECK_OK(mmsb_ticket_destroy(ticket));
        CHECK_OK(mmsb_context_destroy(context));
    }
    CHECK(cancelled);
}

static void waits_end_with_the_time(void) {
    mmsb_context_t context = new_context();
    sem_t let_go;
    mmsb_ticket_t held = start_held(context, &let_go);
    CHECK_STATUS(mmsb_ticket_wait(held, 0), MMSB_E_WOULD_BLOCK);
    CHECK_STATUS(mmsb_ticket_wait(held, 1), MMSB_E_TIMEOUT);
    CHECK(!done(held));
    CHECK_EQUAL(work_status(held), MMSB_E_WOULD_BLOCK);
    CHECK(sem_post(&let_go) == 0);
    CHECK_OK(mmsb_ticket_wait(held, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(held));
    mmsb_ticket_t ticket = start(context, LARGE, large);
    uint64_t last = 0;
    while (!done(ticket)) {
        uint64_t made = 0;
        uint64_t total = 0;
        CHECK_OK(mmsb_ticket_progress(ticket, &made, &total));
        CHECK(made >= last && made <= LARGE);
        CHECK(total == LARGE || total == 0);
        last = made;
        check_sleep_ms(1);
    }
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(page_count(context), LARGE);
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_context_destroy(context));
}

static int readable(int descriptor, int milliseconds) {
    struct pollfd poller = {descriptor, POLLIN, 0};
    return poll(&poller, 1, milliseconds) == 1 && (poller.revents & POLLIN) != 0;
}

static void tickets_serve_event_loops(void) {
    mmsb_context_t context = new_context();
    sem_t let_go;
    mmsb_ticket_t first = start_held(context, &let_go);
    mmsb_page_t pages[10];
    mmsb_ticket_t second = start_with(context, 10, pages, &first, 1);
    int32_t descriptors[2] = {-1, -1};
    CHECK_OK(mmsb_ticket_eventfd(first, &descriptors[0]));
    CHECK_OK(mmsb_ticket_eventfd(second, &descriptors[1]));
    int32_t again = -1;
    CHECK_OK(mmsb_ticket_eventfd(first, &again));
    CHECK_EQUAL(again, descriptors[0]);
    CHECK(!readable(descriptors[0], 0) && !readable(descriptors[1], 0));
    int loop = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.u32 = i}};
        CHECK(epoll_ctl(loop, EPOLL_CTL_ADD, descriptors[i], &event) == 0);
    }
    struct epoll_event none;
    CHECK(epoll_wait(loop, &none, 1, 0) == 0);
    CHECK(sem_post(&let_go) == 0);
    int seen[2] = {0, 0};
    while (seen[0] + seen[1] < 2) {
        struct epoll_event event;
        int count = epoll_wait(loop, &event, 1, CHECK_PATIENCE * 1000);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count != 1) {
            check_fail(__FILE__, __LINE__, "no event within %d seconds", CHECK_PATIENCE);
            break;
        }
        seen[event.data.u32]++;
        CHECK(done(event.data.u32 == 0 ? first : second));
    }
    close(loop);
    CHECK(readable(descriptors[0], 0) && readable(descriptors[0], 0)); /* it stays readable */
    mmsb_ticket_t third = start(context, 0, NULL);
    CHECK_OK(mmsb_ticket_wait(third, MMSB_WAIT_FOREVER));
    int32_t late = -1;
    CHECK_OK(mmsb_ticket_eventfd(third, &late)); /* asked for after the end */
    CHECK(readable(late, 0));
    CHECK_OK(mmsb_ticket_destroy(third));
    CHECK_OK(mmsb_ticket_destroy(first));
    CHECK_OK(mmsb_ticket_destroy(second));
    CHECK(fcntl(descriptors[0], F_GETFD) < 0 && fcntl(descriptors[1], F_GETFD) < 0 && fcntl(late, F_GETFD) < 0);
    CHECK_OK(mmsb_context_destroy(context));
}

static void no_descriptor_left_is_an_error(void) {
    mmsb_context_t context = new_context();
    mmsb_ticket_t ticket = start(context, 0, NULL);
    struct rlimit before;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    int used = open("/dev/null", O_RDONLY); /* the lowest free descriptor */
    REQUIRE(used >= 0 && setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)used + 1, before.rlim_max}) == 0);
    int32_t descriptor = 42;
    CHECK_STATUS(mmsb_ticket_eventfd(ticket, &descriptor), MMSB_E_LIMIT);
    CHECK_EQUAL(descriptor, 42);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    close(used);
    CHECK_OK(mmsb_ticket_eventfd(ticket, &descriptor));
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_context_destroy(context));
}

static void work_comes_after_other_work(void) {
    mmsb_context_t context = new_context();
    mmsb_ticket_t first = start(context, LARGE, large);
    mmsb_page_t pages[3];
    mmsb_ticket_t beside = start(context, 1, &pages[0]);
    mmsb_ticket_t before[2] = {first, beside};
    mmsb_ticket_t second = start_with(context, 1, &pages[1], before, 2);
    mmsb_ticket_t third = start_with(context, 1, &pages[2], &second, 1);
    before[0] = before[1] = 0; /* the array was copied */
    if (done(third) || done(second)) {
        CHECK(done(first));
    }
    CHECK_OK(mmsb_ticket_wait(third, MMSB_WAIT_FOREVER));
    CHECK(done(first) && done(second));
    CHECK_EQUAL(page_count(context), LARGE + 3);
    CHECK_OK(mmsb_ticket_destroy(third));
    CHECK_OK(mmsb_ticket_destroy(beside));
    /* Done already, and the same one twice: both fine. */
    mmsb_ticket_t twice[2] = {first, first};
    mmsb_ticket_t fourth = start_with(context, 1, &pages[2], twice, 2);
    CHECK_OK(mmsb_ticket_wait(fourth, MMSB_WAIT_FOREVER));
    CHECK_OK(mmsb_ticket_destroy(fourth));
    CHECK_OK(mmsb_ticket_destroy(second));
    CHECK_OK(mmsb_ticket_destroy(first));
    CHECK_OK(mmsb_context_destroy(context));
}

/* Work after failed or cancelled work is cancelled itself, however long the chain; its array is not written. */
static void failure_cancels_what_comes_after(void) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    options.memory_limit = 16 << 20;
    mmsb_context_t limited;
    REQUIRE_OK(mmsb_context_create(&options, &limited));
    mmsb_context_t context = new_context();
    mmsb_ticket_t chain[20];
    mmsb_page_t pages[20];
    memset(pages, 0, sizeof pages);
    chain[0] = start(limited, LARGE, large);
    for (int i = 1; i < 20; i++) {
        chain[i] = start_with(context, 1, &pages[i], &chain[i - 1], 1);
    }
    CHECK_STATUS(mmsb_ticket_wait(chain[19], MMSB_WAIT_FOREVER), MMSB_E_CANCELLED);
    CHECK_STATUS(mmsb_ticket_wait(chain[0], MMSB_WAIT_FOREVER), MMSB_E_LIMIT);
    for (int i = 1; i < 20; i++) {
        CHECK_EQUAL(work_status(chain[i]), MMSB_E_CANCELLED);
        CHECK_EQUAL(pages[i], 0);
    }
    CHECK_EQUAL(page_count(context), 0);
    /* One that waits for others can be cancelled; then these go on. */
    mmsb_ticket_t first = start(context, LARGE, large);
    mmsb_ticket_t waiting = start_with(context, 1, &pages[0], &first, 1);
    CHECK_OK(mmsb_ticket_cancel(waiting));
    mmsb_status_t status = mmsb_ticket_wait(waiting, MMSB_WAIT_FOREVER);
    CHECK(status == MMSB_E_CANCELLED || (status == MMSB_OK && done(first)));
    CHECK_OK(mmsb_ticket_wait(first, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(page_count(context), LARGE + (status == MMSB_OK));
    CHECK_OK(mmsb_ticket_destroy(waiting));
    CHECK_OK(mmsb_ticket_destroy(first));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(mmsb_ticket_destroy(chain[i]));
    }
    CHECK_OK(mmsb_context_destroy(limited));
    CHECK_OK(mmsb_context_destroy(context));
}

/* Giving back an unfinished ticket does not stop its work. */
static void unfinished_work_goes_on_detached(void) {
    mmsb_context_t context = new_context();
    mmsb_ticket_t first = start(context, LARGE, large);
    mmsb_page_t page = 0;
    mmsb_ticket_t second = start_with(context, 1, &page, &first, 1);
    CHECK_OK(mmsb_ticket_destroy(first));
    CHECK_STATUS(mmsb_ticket_wait(first, 0), MMSB_E_STALE_HANDLE);
    CHECK_OK(mmsb_ticket_wait(second, MMSB_WAIT_FOREVER));
    CHECK_EQUAL(page_count(context), LARGE + 1);
    CHECK_EQUAL(mmsb_page_size(large[LARGE - 1]), 64);
    CHECK_EQUAL(mmsb_page_size(page), 64);
    CHECK_OK(mmsb_ticket_destroy(second));
    CHECK_OK(mmsb_context_destroy(context));
}

/* A context may end under running work: the work then ends too, one way or the other. */
static void a_context_ends_under_work(void) {
    for (int round = 0; round < 3; round++) {
        mmsb_context_t context = new_context();
        mmsb_ticket_t ticket = start(context, LARGE, large);
        check_sleep_ms(round * 10);
        CHECK_OK(mmsb_context_destroy(context));
        mmsb_status_t status = mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER);
        CHECK(status == MMSB_OK || status == MMSB_E_STALE_HANDLE || status == MMSB_E_CANCELLED);
        CHECK_OK(mmsb_ticket_destroy(ticket));
        CHECK_EQUAL(check_live(MMSB_KIND_PAGE), 0);
    }
}

static void *wait_for_it(void *argument) {
    team_member_t *member = argument;
    mmsb_ticket_t ticket = *(mmsb_ticket_t *)member->shared;
    CHECK_OK(mmsb_ticket_wait(ticket, MMSB_WAIT_FOREVER));
    CHECK(done(ticket));
    return NULL;
}

static void many_threads_wait_for_one_ticket(void) {
    mmsb_context_t context = new_context();
    mmsb_ticket_t ticket = start(context, LARGE, large);
    run_team(16, wait_for_it, &ticket);
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_OK(mmsb_context_destroy(context));
}

int main(void) {
    large = calloc(LARGE, sizeof *large);
    REQUIRE(large != NULL);
    RUN(work_succeeds);
    RUN(arguments_are_checked_at_once);
    RUN(work_fails_through_the_ticket);
    RUN(work_is_cancelled);
    folder_make();
    RUN_IN_FOLDER(waits_end_with_the_time);
    RUN_IN_FOLDER(tickets_serve_event_loops);
    folder_end();
    RUN(no_descriptor_left_is_an_error);
    RUN(work_comes_after_other_work);
    RUN(failure_cancels_what_comes_after);
    RUN(unfinished_work_goes_on_detached);
    RUN(a_context_ends_under_work);
    RUN(many_threads_wait_for_one_ticket);
    free(large);
    return check_report();
}
