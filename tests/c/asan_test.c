/*
 * AddressSanitizer sees our pages: a touch past the end of one, or of one that was destroyed, must end the process with its
 * report, although the bytes lie in mapped memory of ours that it knows nothing of by itself. Only test-asan has this program.
 */
#include "library.h"

#include <fcntl.h>
#include <sys/wait.h>

static char *program;

static volatile uint8_t sink;

static void read_past_the_end(uint8_t *bytes, uint64_t size, mmsb_page_t page) {
    (void)page;
    sink = bytes[size];
}

static void write_past_the_end(uint8_t *bytes, uint64_t size, mmsb_page_t page) {
    (void)page;
    bytes[size] = 1;
}

static void read_before_the_start(uint8_t *bytes, uint64_t size, mmsb_page_t page) {
    (void)size;
    (void)page;
    sink = bytes[-1];
}

static void read_of_a_destroyed_page(uint8_t *bytes, uint64_t size, mmsb_page_t page) {
    REQUIRE_OK(mmsb_page_destroy(page));
    sink = bytes[size / 2];
}

static void write_to_a_page_that_became_smaller(uint8_t *bytes, uint64_t size, mmsb_page_t page) {
    (void)bytes;
    REQUIRE_OK(mmsb_page_resize(page, size - 1));
    uint8_t *now = mmsb_page_address(page);
    now[size - 1] = 1;
}

static void nothing_wrong(uint8_t *bytes, uint64_t size, mmsb_page_t page) {
    bytes[0] = bytes[size - 1] = 1;
    REQUIRE_OK(mmsb_page_resize(page, size + 100));
    memset(mmsb_page_address(page), 1, size + 100);
    REQUIRE_OK(mmsb_page_destroy(page));
    page = new_page(page_info(new_page(new_context(), 1)).context, size);
    memset(mmsb_page_address(page), 1, size);
}

static const struct {
    const char *name;
    void (*touch)(uint8_t *bytes, uint64_t size, mmsb_page_t page);
    int reported;
} touches[] = {
    {"read past the end", read_past_the_end, 1},
    {"write past the end", write_past_the_end, 1},
    {"read before the start", read_before_the_start, 1},
    {"read of a destroyed page", read_of_a_destroyed_page, 1},
    {"write to a page that became smaller", write_to_a_page_that_became_smaller, 1},
    {"nothing wrong", nothing_wrong, 0},
};
static const uint64_t sizes[] = {1000, 100, 4000, 4096, 5000, 200001};

static int compare_addresses(const void *a, const void *b) {
    const uint8_t *left = mmsb_page_address(*(const mmsb_page_t *)a);
    const uint8_t *right = mmsb_page_address(*(const mmsb_page_t *)b);
    return left < right ? -1 : left > right;
}

/* Of eight pages in the order of their addresses, one with neighbours on both sides. A page that fills its memory has no byte of
 * its own behind it: there the neighbours are destroyed first. */
static void touch_a_page(const char *which, const char *size_text) {
    enum { COUNT = 8 };
    mmsb_context_t context = new_context();
    uint64_t size = strtoull(size_text, NULL, 10);
    mmsb_page_t pages[COUNT];
    for (int i = 0; i < COUNT; i++) {
        pages[i] = new_page(context, size);
        memset(mmsb_page_address(pages[i]), 1, size);
    }
    qsort(pages, COUNT, sizeof *pages, compare_addresses);
    int chosen = 1;
    while (chosen + 1 < COUNT) {
        uint8_t *before = mmsb_page_address(pages[chosen - 1]);
        uint8_t *here = mmsb_page_address(pages[chosen]);
        uint8_t *after = mmsb_page_address(pages[chosen + 1]);
        if ((uint64_t)(here - before) < size + 4096 && (uint64_t)(after - here) < size + 4096) {
            break;
        }
        chosen++;
    }
    REQUIRE(chosen + 1 < COUNT);
    mmsb_page_t page = pages[chosen];
    uint8_t *bytes = mmsb_page_address(page);
    for (int i = 0; size == 4096 && i < COUNT; i++) {
        if (pages[i] != page) {
            REQUIRE_OK(mmsb_page_destroy(pages[i]));
        }
    }
    touches[atoi(which)].touch(bytes, size, page);
}

static void bad_touches_are_reported(void) {
    for (size_t i = 0; i < sizeof touches / sizeof touches[0]; i++) {
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            char which[16];
            char size[32];
            snprintf(which, sizeof which, "%zu", i);
            snprintf(size, sizeof size, "%llu", (unsigned long long)sizes[k]);
            int ends[2];
            REQUIRE(pipe(ends) == 0);
            pid_t child = fork();
            if (child == 0) {
                dup2(ends[1], STDERR_FILENO);
                close(ends[0]);
                close(ends[1]);
                alarm(CHECK_PATIENCE);
                execl(program, program, which, size, (char *)NULL);
                _exit(127);
            }
            close(ends[1]);
            static char report[1 << 20];
            size_t length = 0;
            ssize_t count;
            while ((count = read(ends[0], report + length, sizeof report - 1 - length)) > 0) {
                length += (size_t)count;
            }
            report[length] = 0;
            close(ends[0]);
            int status = -1;
            CHECK(waitpid(child, &status, 0) == child);
            int ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            int reported = strstr(report, "ERROR: AddressSanitizer") != NULL;
            if (ended_well == touches[i].reported || reported != touches[i].reported) {
                check_fail(__FILE__, __LINE__, "%s, page of %s bytes: %s, %s", touches[i].name, size,
                           ended_well ? "it ended well" : "it died", reported ? "with a report" : "without a report");
            }
        }
    }
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 2) {
        touch_a_page(arguments[1], arguments[2]);
        return 0;
    }
    RUN(bad_touches_are_reported);
    return check_report();
}
