/* Followers: another process, or the same, sees the pages of a store's writer live; a writer that is killed, and the next one. */
#include "folder.h"

#include <signal.h>
#include <sys/wait.h>

static char *program;

#ifdef __SANITIZE_ADDRESS__ /* twenty seconds of two processors for four */
enum { STOPS = 1 };
#else
enum { STOPS = 4 };
#endif

enum { PAGES = 50, SIZE = 1000, PROBE = 7 };

static mmsb_context_t open_store(int32_t mode) {
    mmsb_store_options_t options;
    mmsb_store_options_init(&options);
    options.mode = mode;
    options.keep_last = 3;
    mmsb_context_t context = 0;
    REQUIRE_OK(mmsb_store_open(at("store"), NULL, &options, &context));
    return context;
}

static uint64_t last_record(mmsb_context_t context) {
    mmsb_store_info_t info;
    mmsb_store_info_init(&info);
    REQUIRE_OK(mmsb_store_info(context, &info));
    return info.last_record;
}

static void wait_until(mmsb_context_t follower, uint64_t record) {
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.timeout_ns = UINT64_C(1000000000) * CHECK_PATIENCE;
    REQUIRE_OK(mmsb_store_wait(follower, record, &work));
}

static void write_counter(mmsb_page_t page, uint64_t counter) {
    REQUIRE_OK(mmsb_page_write(page, 0, &counter, sizeof counter));
}

static uint64_t read_counter(mmsb_page_t page) {
    uint64_t counter = 0;
    REQUIRE_OK(mmsb_page_read(page, 0, &counter, sizeof counter));
    return counter;
}

/* The writer's process: counts in the probe and another page, as one group, says how far it is, until it is killed. */
static int write_until_killed(void) {
    mmsb_context_t context = open_store(MMSB_STORE_WRITE);
    mmsb_page_t probe, pages[PAGES];
    if (mmsb_page_lookup(context, PROBE, &probe) != MMSB_OK) {
        mmsb_page_options_t options;
        mmsb_page_options_init(&options);
        options.id = PROBE;
        REQUIRE_OK(mmsb_page_create(context, SIZE, &options, &probe));
    }
    for (size_t i = 0; i < PAGES; i++) {
        pages[i] = new_page(context, SIZE);
    }
    printf("%llu\n", (unsigned long long)read_counter(probe)); /* where it goes on */
    fflush(stdout);
    for (uint64_t counter = read_counter(probe) + 1;; counter++) {
        mmsb_page_range_t ranges[2];
        for (int i = 0; i < 2; i++) {
            ranges[i] =
                (mmsb_page_range_t){.page = i ? pages[counter % PAGES] : probe, .buffer = &counter, .length = sizeof counter};
        }
        REQUIRE_OK(mmsb_page_write_many(ranges, 2, NULL));
        if (counter % 1000 == 0) {
            REQUIRE_OK(mmsb_page_destroy(pages[0]));
            pages[0] = new_page(context, SIZE);
            printf("%llu\n", (unsigned long long)counter);
            fflush(stdout);
        }
    }
    return 0;
}

/* A follower's process: says what it sees, which never goes back. Where its records are gone the state is loaded anew. */
static int follow_until_killed(void) {
    mmsb_context_t follower = open_store(MMSB_STORE_FOLLOW);
    for (uint64_t before = 0, counter = 0;; check_sleep_ms(10)) {
        mmsb_page_t probe;
        if (mmsb_page_lookup(follower, PROBE, &probe) != MMSB_OK ||
            mmsb_page_read(probe, 0, &counter, sizeof counter) != MMSB_OK) {
            continue;
        }
        REQUIRE(counter >= before);
        before = counter;
        printf("%llu\n", (unsigned long long)counter);
        fflush(stdout);
    }
    return 0;
}

static pid_t start(const char *what, FILE **says) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        execl(program, program, what, folder, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *says = fdopen(ends[0], "r");
    REQUIRE(*says != NULL);
    return child;
}

static uint64_t heard(FILE *says) {
    unsigned long long counter = 0;
    REQUIRE(fscanf(says, "%llu", &counter) == 1);
    return counter;
}

static void kill_process(pid_t process, FILE *says) {
    kill(process, SIGKILL);
    int status;
    REQUIRE(waitpid(process, &status, 0) == process);
    fclose(says);
}

/* What a killed writer has left, also in its ring. */
static uint64_t counter_that_is_left(void) {
    mmsb_context_t reader = open_store(MMSB_STORE_READ);
    mmsb_page_t probe;
    REQUIRE_OK(mmsb_page_lookup(reader, PROBE, &probe));
    const uint64_t counter = read_counter(probe);
    REQUIRE_OK(mmsb_context_destroy(reader));
    return counter;
}

/* What the writer's process does is seen here, with the handle of the beginning, also when it is killed and another goes on. */
static void another_process_is_followed(void) {
    FILE *says;
    pid_t writer = start("write", &says);
    (void)heard(says);
    mmsb_context_t follower = open_store(MMSB_STORE_FOLLOW);
    mmsb_page_t probe = 0;
    for (int64_t end = check_seconds() + CHECK_PATIENCE; probe == 0 && check_seconds() < end;) {
        if (mmsb_page_lookup(follower, PROBE, &probe) != MMSB_OK) { /* it is on its way to the disk */
            check_sleep_ms(1);
        }
    }
    for (int round = 0; round < 3; round++) {
        uint64_t counter = heard(says);
        const int64_t end = check_seconds() + CHECK_PATIENCE;
        while (read_counter(probe) < counter && check_seconds() < end) {
            check_sleep_ms(1);
        }
        CHECK(read_counter(probe) >= counter);
        kill_process(writer, says);
        counter = counter_that_is_left();
        while (read_counter(probe) != counter && check_seconds() < end) { /* with no writer */
            check_sleep_ms(1);
        }
        CHECK_EQUAL(read_counter(probe), counter);
        writer = start("write", &says);
        CHECK_EQUAL(heard(says), counter);
        CHECK(heard(says) > counter);
    }
    CHECK_STATUS(mmsb_page_write(probe, 0, "x", 1), MMSB_E_INVALID_STATE);
    kill_process(writer, says);
    mmsb_store_info_t info;
    mmsb_store_info_init(&info);
    CHECK_OK(mmsb_store_info(follower, &info));
    CHECK_EQUAL(info.follow_failures, 0);
    CHECK(info.followed_ns > 0);
    CHECK_OK(mmsb_context_destroy(follower));
}

/* A follower that stands still while the ring is used again and again goes on with the segments, and then with the ring. */
static void a_follower_that_was_stopped(void) {
    FILE *says, *sees;
    pid_t writer = start("write", &says);
    for (int i = 0; i < 3; i++) {
        (void)heard(says);
    }
    check_sleep_ms(100); /* the page is in the files */
    pid_t follower = start("follow", &sees);
    for (int round = 0; round < STOPS; round++) {
        uint64_t counter = heard(sees);
        kill(follower, SIGSTOP);
        uint64_t written = counter;
        for (const int64_t end = check_seconds() + 1; check_seconds() < end || written < counter + 5000;) {
            written = heard(says);
        }
        kill(follower, SIGCONT);
        while (counter < written) { /* or the test's own limit of time */
            counter = heard(sees);
        }
    }
    kill_process(writer, says);
    kill_process(follower, sees);
}

static void a_record_is_waited_for(void) {
    mmsb_context_t writer = open_store(MMSB_STORE_WRITE);
    mmsb_page_t page = new_page(writer, SIZE), seen;
    write_counter(page, 1);
    CHECK_OK(mmsb_journal_sync(writer, NULL));
    mmsb_context_t follower = open_store(MMSB_STORE_FOLLOW);
    CHECK_OK(mmsb_page_lookup(follower, mmsb_page_id(page), &seen));
    for (uint64_t counter = 2; counter < 50; counter++) {
        write_counter(page, counter);
        wait_until(follower, last_record(writer));
        CHECK_EQUAL(read_counter(seen), counter);
    }
    mmsb_work_options_t work;
    mmsb_work_options_init(&work);
    work.timeout_ns = 20000000;
    CHECK_STATUS(mmsb_store_wait(follower, last_record(writer) + 1, &work), MMSB_E_TIMEOUT);
    mmsb_ticket_t ticket;
    CHECK_OK(mmsb_store_wait_start(follower, last_record(writer) + 1, NULL, &ticket));
    write_counter(page, 99);
    CHECK_OK(mmsb_ticket_wait(ticket, UINT64_C(1000000000) * CHECK_PATIENCE));
    CHECK_EQUAL(read_counter(seen), 99);
    CHECK_OK(mmsb_ticket_destroy(ticket));
    CHECK_STATUS(mmsb_store_wait(writer, 1, NULL), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_store_wait_start(writer, 1, NULL, &ticket), MMSB_E_INVALID_STATE);
    CHECK_STATUS(mmsb_store_wait_start(follower, 1, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
    mmsb_context_t other;
    mmsb_store_options_t options;
    mmsb_store_options_init(&options);
    options.mode = MMSB_STORE_FOLLOW;
    CHECK_STATUS(mmsb_store_open(at("nothing"), NULL, &options, &other), MMSB_E_NOT_FOUND);
    options.at_record = 1;
    CHECK_STATUS(mmsb_store_open(at("store"), NULL, &options, &other), MMSB_E_INVALID_ARGUMENT);
    CHECK_OK(mmsb_context_destroy(writer));
    CHECK_OK(mmsb_context_destroy(follower));
}

/* Two pages that the writer changes together are read together: in a group of the follower nothing comes between. */
static void a_group_reads_one_moment(void) {
    mmsb_context_t writer = open_store(MMSB_STORE_WRITE);
    mmsb_page_t pages[2] = {new_page(writer, SIZE), new_page(writer, SIZE)}, seen[2];
    CHECK_OK(mmsb_journal_sync(writer, NULL));
    mmsb_context_t follower = open_store(MMSB_STORE_FOLLOW);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(mmsb_page_lookup(follower, mmsb_page_id(pages[i]), &seen[i]));
    }
    for (uint64_t counter = 1; counter < 200; counter++) {
        CHECK_OK(mmsb_group_begin(writer));
        for (int i = 0; i < 2; i++) {
            write_counter(pages[i], counter);
        }
        CHECK_OK(mmsb_group_commit(writer));
        CHECK_OK(mmsb_group_begin(follower));
        const uint64_t first = read_counter(seen[0]);
        CHECK_EQUAL(mmsb_page_write(seen[0], 0, &counter, sizeof counter), MMSB_E_INVALID_STATE);
        CHECK_EQUAL(read_counter(seen[1]), first);
        CHECK_EQUAL(mmsb_store_wait(follower, 1, NULL), MMSB_E_BUSY);
        CHECK_OK(mmsb_group_commit(follower));
    }
    wait_until(follower, last_record(writer));
    CHECK_EQUAL(read_counter(seen[1]), 199);
    CHECK_OK(mmsb_context_destroy(writer));
    CHECK_OK(mmsb_context_destroy(follower));
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 2 && strcmp(arguments[1], "write") == 0) {
        folder_use(arguments[2]);
        return write_until_killed();
    }
    if (count > 2 && strcmp(arguments[1], "follow") == 0) {
        folder_use(arguments[2]);
        return follow_until_killed();
    }
    folder_make();
    RUN_IN_FOLDER(another_process_is_followed);
    RUN_IN_FOLDER(a_follower_that_was_stopped);
    RUN_IN_FOLDER(a_record_is_waited_for);
    RUN_IN_FOLDER(a_group_reads_one_moment);
    folder_end();
    return check_report();
}
