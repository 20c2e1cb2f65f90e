/* The log: a ring of lines that is polled, and written to a descriptor where one is named. */
#include "library.h"

#include <fcntl.h>
#include <signal.h>

/* Calls that are worth a line at the level DEBUG: a context begins and ends. */
static void something_happens(void) {
    mmsb_context_t context = new_context();
    CHECK_OK(mmsb_context_destroy(context));
}

static size_t read_log(char *buffer, size_t capacity, uint64_t *lost) {
    size_t length = SIZE_MAX;
    CHECK_OK(mmsb_log_read(buffer, capacity, &length, lost));
    REQUIRE(length <= capacity);
    return length;
}

static void empty_the_log(void) {
    char buffer[65536];
    while (read_log(buffer, sizeof buffer, NULL) > 0) {}
}

static void the_log_is_off_at_first(void) {
    char buffer[4096];
    something_happens();
    mmsb_page_info(0, NULL);
    CHECK_EQUAL(read_log(buffer, sizeof buffer, NULL), 0);
}

static void lines_are_read_whole_and_once(void) {
    char buffer[65536];
    uint64_t lost = 99;
    CHECK_OK(mmsb_log_configure(MMSB_LOG_DEBUG, -1));
    something_happens();
    something_happens();
    CHECK_OK(mmsb_log_configure(MMSB_LOG_OFF, -1));
    size_t whole = 0;
    size_t length = 99;
    CHECK_STATUS(mmsb_log_read(buffer, 1, &length, NULL), MMSB_E_OUT_OF_RANGE);
    size_t first = length; /* what the next line needs */
    CHECK(first > 1 && first < sizeof buffer);
    CHECK_STATUS(mmsb_log_read(buffer, first - 1, &length, NULL), MMSB_E_OUT_OF_RANGE);
    CHECK_EQUAL(length, first);
    CHECK_STATUS(mmsb_log_read(NULL, 0, &length, NULL), MMSB_E_OUT_OF_RANGE);
    buffer[first] = 'x';
    length = read_log(buffer, first, &lost);
    CHECK_EQUAL(length, first);
    CHECK_EQUAL(lost, 0);
    CHECK_EQUAL(buffer[first - 1], '\n');
    CHECK(memchr(buffer, '\n', first - 1) == NULL);
    CHECK_EQUAL(buffer[first], 'x');
    whole = read_log(buffer, sizeof buffer, NULL);
    CHECK(whole > 0 && buffer[whole - 1] == '\n');
    CHECK_EQUAL(read_log(buffer, sizeof buffer, NULL), 0);
}

static void the_level_chooses(void) {
    char buffer[65536];
    CHECK_OK(mmsb_log_configure(MMSB_LOG_ERROR, -1));
    something_happens();
    CHECK_EQUAL(read_log(buffer, sizeof buffer, NULL), 0);
    CHECK_OK(mmsb_log_configure(MMSB_LOG_DEBUG, -1));
    something_happens();
    CHECK(read_log(buffer, sizeof buffer, NULL) > 0);
    CHECK_OK(mmsb_log_configure(MMSB_LOG_OFF, -1));
    empty_the_log();
}

static void lines_are_written_to_a_descriptor(void) {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    CHECK_OK(mmsb_log_configure(MMSB_LOG_DEBUG, ends[1]));
    something_happens();
    CHECK_OK(mmsb_log_configure(MMSB_LOG_OFF, -1));
    something_happens();
    static char written[65536];
    static char logged[65536];
    size_t length = read_log(logged, sizeof logged, NULL);
    ssize_t count = read(ends[0], written, sizeof written);
    CHECK(length > 0);
    CHECK(count == (ssize_t)length && memcmp(written, logged, length) == 0);
    CHECK_STATUS(mmsb_log_configure(MMSB_LOG_DEBUG, ends[0]), MMSB_E_INVALID_ARGUMENT); /* not open for writing */
    close(ends[0]);
    close(ends[1]);
    CHECK_STATUS(mmsb_log_configure(MMSB_LOG_DEBUG, ends[1]), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_log_configure(MMSB_LOG_DEBUG, -2), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_log_configure(MMSB_LOG_OFF - 1, -1), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_log_configure(MMSB_LOG_DEBUG + 1, -1), MMSB_E_INVALID_ARGUMENT);
    something_happens();
    CHECK_EQUAL(read_log(logged, sizeof logged, NULL), 0); /* refused calls left it off */
}

static void overwritten_lines_are_counted(void) {
    static char buffer[1 << 20];
    empty_the_log();
    CHECK_OK(mmsb_log_configure(MMSB_LOG_DEBUG, -1));
    uint64_t lost = 0;
    uint64_t rounds = 0;
    while (lost == 0 && rounds < 30) { /* until the ring is full */
        for (int i = 0; i < 1000; i++) {
            something_happens();
        }
        rounds++;
        if (rounds % 10 == 0) {
            read_log(buffer, sizeof buffer, &lost);
        }
    }
    CHECK_OK(mmsb_log_configure(MMSB_LOG_OFF, -1));
    CHECK(lost > 0);
    empty_the_log();
    lost = 99;
    read_log(buffer, sizeof buffer, &lost);
    CHECK_EQUAL(lost, 0); /* since the last read */
    size_t length;
    CHECK_STATUS(mmsb_log_read(NULL, 10, &length, NULL), MMSB_E_INVALID_ARGUMENT);
    CHECK_STATUS(mmsb_log_read(buffer, sizeof buffer, NULL, NULL), MMSB_E_INVALID_ARGUMENT);
}

static void *log_and_read(void *argument) {
    team_member_t *member = argument;
    char buffer[4096];
    for (int i = 0; i < 200; i++) {
        if (member->index % 2 == 0) {
            something_happens();
        } else {
            size_t length = 0;
            mmsb_status_t status = mmsb_log_read(buffer, sizeof buffer, &length, NULL);
            CHECK_OK(status);
            CHECK(status != MMSB_OK || length == 0 || buffer[length - 1] == '\n');
        }
    }
    return NULL;
}

static void threads_share_the_log(void) {
    CHECK_OK(mmsb_log_configure(MMSB_LOG_DEBUG, -1));
    run_team(8, log_and_read, NULL);
    CHECK_OK(mmsb_log_configure(MMSB_LOG_OFF, -1));
    empty_the_log();
}

static void on_signal(int number) {
    (void)number;
}

/* What the log has, which is empty then. */
static const char *logged(void) {
    static char buffer[65536];
    buffer[read_log(buffer, sizeof buffer - 1, NULL)] = 0;
    return buffer;
}

/* A handler that may run on the stack of a goroutine is named, once. */
static void unsafe_handlers_are_named(void) {
    struct sigaction safe = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, unsafe = {.sa_handler = on_signal}, before[2];
    REQUIRE(sigaction(SIGUSR1, &safe, &before[0]) == 0 && sigaction(SIGUSR2, &unsafe, &before[1]) == 0);
    CHECK_OK(mmsb_log_configure(MMSB_LOG_WARNING, -1));
    something_happens();
    const char *lines = logged();
    CHECK(strstr(lines, "handler of SIGUSR2 (") != NULL);
    CHECK(strstr(lines, "handler of SIGUSR1 (") == NULL);
    something_happens();
    REQUIRE(sigaction(SIGUSR2, &safe, NULL) == 0);
    something_happens();
    CHECK(strstr(logged(), "handler of SIGUSR") == NULL);
    REQUIRE(sigaction(SIGUSR1, &before[0], NULL) == 0 && sigaction(SIGUSR2, &before[1], NULL) == 0);
    CHECK_OK(mmsb_log_configure(MMSB_LOG_OFF, -1));
}

int main(void) {
    RUN(the_log_is_off_at_first);
    RUN(lines_are_read_whole_and_once);
    RUN(the_level_chooses);
    RUN(lines_are_written_to_a_descriptor);
    RUN(overwritten_lines_are_counted);
    RUN(threads_share_the_log);
    RUN(unsafe_handlers_are_named);
    return check_report();
}
