/*
 * Random programs of commands beside a model that knows nothing of rings, locks and journals: bytes, masks, epochs and failures
 * must be the model's, whoever executes the commands, wherever the pages lie, and whatever watches.
 *
 * With a number as argument it runs so many programs of each kind; a second one is the first seed.
 */
#include "folder.h"

enum { PAGES = 10, LARGEST = 300, WAITING = 64, OTHERS = 9 };
static const uint64_t sizes[] = {40, 64, 64, 64, 100, LARGEST};

/* --------------------------------------------------------------------------------------------------------- model ---- */

typedef struct model_page {
    mmsb_page_t handle; /* of the page, or of the last one that was here */
    int lives;
    uint64_t size, epoch;
    uint8_t bytes[LARGEST], mask[LARGEST];
} model_page_t;

typedef struct model_command {
    mmsb_page_t page;
    int parents; /* the dependencies are the page's parents */
    size_t count;
    mmsb_page_t others[OTHERS];
} model_command_t;

typedef struct model {
    model_page_t pages[PAGES];
    int parents[PAGES][PAGES]; /* of a page, oldest first */
    int parents_count[PAGES];
    model_command_t waiting[WAITING];
    size_t waiting_count;
    mmsb_status_t failures[256];
    mmsb_page_t failed[256];
    size_t failures_count;
} model_t;

/* -1: it has ended. */
static int index_of(const model_t *model, mmsb_page_t handle) {
    for (int i = 0; i < PAGES; i++) {
        if (model->pages[i].lives && model->pages[i].handle == handle) {
            return i;
        }
    }
    return -1;
}

static int depends_on(const model_t *model, int page, int on) {
    for (int i = 0; i < model->parents_count[page]; i++) {
        if (model->parents[page][i] == on || depends_on(model, model->parents[page][i], on)) {
            return 1;
        }
    }
    return 0;
}

static void cut_edge(model_t *model, int child, int at) {
    model->parents_count[child]--;
    memmove(&model->parents[child][at], &model->parents[child][at + 1],
            (size_t)(model->parents_count[child] - at) * sizeof model->parents[child][0]);
}

static mmsb_status_t model_execute(model_t *model, const model_command_t *command) {
    const int page = index_of(model, command->page);
    int from[PAGES + OTHERS];
    size_t count = command->count;
    for (size_t i = 0; i < count; i++) {
        from[i] = index_of(model, command->others[i]);
        if (page >= 0 && from[i] >= 0 && depends_on(model, from[i], page)) {
            return MMSB_E_INVALID_ARGUMENT;
        }
    }
    if (page >= 0 && command->parents) {
        count = (size_t)model->parents_count[page];
        memcpy(from, model->parents[page], count * sizeof from[0]);
    }
    int ended = page < 0, differ = 0, changed = 0;
    for (size_t i = 0; i < count; i++) {
        ended |= from[i] < 0;
    }
    if (ended) {
        return MMSB_E_STALE_HANDLE;
    }
    model_page_t *to = &model->pages[page];
    for (size_t i = 0; i < count; i++) {
        differ |= model->pages[from[i]].size != to->size;
    }
    if (differ) {
        return MMSB_E_MISMATCH;
    }
    for (size_t i = 0; i < count; i++) {
        for (uint64_t b = 0; b < to->size; b++) {
            if (model->pages[from[i]].mask[b]) {
                to->bytes[b] = model->pages[from[i]].bytes[b];
                to->mask[b] = 1;
                changed = 1;
            }
        }
    }
    to->epoch += (uint64_t)changed;
    return MMSB_OK;
}

static void model_drain(model_t *model, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        mmsb_status_t status = model_execute(model, &model->waiting[i]);
        if (status != MMSB_OK) {
            model->failed[model->failures_count] = model->waiting[i].page;
            model->failures[model->failures_count++] = status;
        }
    }
    model->waiting_count -= count;
    memmove(model->waiting, model->waiting + count, model->waiting_count * sizeof model->waiting[0]);
}

/* ------------------------------------------------------------------------------------------------------- program ---- */

/* Where pages lie, who executes, and what watches. */
typedef struct kind {
    const char *name, *options;
    int32_t workers;
    int drains, groups, journal, persistent;
} kind_t;

static const kind_t kinds[] = {
    {"drained in parts", "", 0, 1, 0, 0, 0},
    {"drained by a wait", "", 0, 0, 0, 0, 0},
    {"a worker", "", 1, 0, 0, 0, 0},
    {"three workers", "", 3, 0, 0, 0, 0},
    {"in groups", "", 0, 1, 1, 0, 0},
    {"a journal", "", 1, 0, 0, 1, 0},
    {"a journal, in groups", "", 0, 1, 1, 1, 0},
    {"on disk", "default_location=disk", 1, 0, 0, 0, 0},
    {"on disk, with a journal", "default_location=disk", 0, 1, 0, 1, 0},
    {"on a device", "simulate=always default_location=gpu", 1, 0, 0, 0, 0},
    {"on a device, with a journal", "simulate=always default_location=gpu", 0, 1, 0, 1, 0},
    {"on a device, by a kernel that stays", "simulate=always default_location=gpu", 2, 0, 0, 0, 1},
    {"on a device, by a kernel that stays, with a journal", "simulate=always default_location=gpu", 0, 1, 0, 1, 1},
    {"guarded", "guard_every=1", 1, 0, 0, 0, 0},
};

typedef struct program {
    const kind_t *kind;
    uint64_t seed;
    mmsb_context_t context;
    mmsb_commands_t commands;
    model_t model;
} program_t;

static uint64_t below(program_t *p, uint64_t bound) {
    return random_below(&p->seed, bound);
}

static void create(program_t *p, int i) {
    model_page_t *page = &p->model.pages[i];
    const uint64_t size = sizes[below(p, sizeof sizes / sizeof sizes[0])];
    *page = (model_page_t){.handle = new_page(p->context, size), .lives = 1, .size = size};
}

static void check_page(program_t *p, int i) {
    const model_page_t *page = &p->model.pages[i];
    uint8_t bytes[LARGEST], bits[LARGEST / 8 + 1] = {0};
    if (!page->lives) {
        return;
    }
    CHECK_OK(mmsb_page_read(page->handle, 0, bytes, page->size));
    CHECK_OK(mmsb_page_mask_read(page->handle, 0, bits, page->size));
    CHECK(memcmp(bytes, page->bytes, page->size) == 0);
    for (uint64_t b = 0; b < page->size; b++) {
        CHECK((bits[b / 8] >> b % 8 & 1) == page->mask[b]);
    }
    CHECK_EQUAL(mmsb_page_epoch(page->handle), page->epoch);
}

static void check_told(program_t *p) {
    mmsb_command_failure_t failures[256];
    size_t count = 0;
    CHECK_OK(mmsb_commands_failures(p->commands, failures, 256, &count));
    CHECK_EQUAL(count, p->model.failures_count);
    for (size_t i = 0; i < count && i < p->model.failures_count; i++) {
        CHECK_EQUAL(failures[i].code, p->model.failures[i]);
        CHECK_EQUAL(failures[i].page, p->model.failed[i]);
    }
    p->model.failures_count = 0;
}

static void execute(program_t *p) {
    uint64_t count = p->model.waiting_count, executed = 0;
    if (p->kind->drains) {
        count = below(p, count + 1);
        if (count > 0) {
            CHECK_OK(mmsb_commands_drain(p->commands, count, &executed));
            CHECK_EQUAL(executed, count);
        }
    } else {
        CHECK_OK(mmsb_commands_wait(p->commands, MMSB_WAIT_FOREVER));
    }
    model_drain(&p->model, count);
    check_told(p);
}

/* Failures stay told when the changes go. */
static void execute_in_a_group(program_t *p) {
    static model_page_t before[PAGES];
    memcpy(before, p->model.pages, sizeof before);
    CHECK_OK(mmsb_group_begin(p->context));
    execute(p);
    if (below(p, 2)) {
        CHECK_OK(mmsb_group_commit(p->context));
        return;
    }
    CHECK_OK(mmsb_group_rollback(p->context));
    memcpy(p->model.pages, before, sizeof before);
}

static void enqueue(program_t *p) {
    model_t *model = &p->model;
    model_command_t *command = &model->waiting[model->waiting_count];
    const int page = (int)below(p, PAGES);
    *command = (model_command_t){.page = model->pages[page].handle, .parents = below(p, 3) == 0};
    mmsb_status_t expected = model->pages[page].lives ? MMSB_OK : MMSB_E_STALE_HANDLE;
    if (!command->parents) {
        command->count = below(p, 4) ? below(p, 3) : below(p, OTHERS + 1);
    }
    for (size_t i = 0; i < command->count; i++) {
        const int other = (int)below(p, PAGES);
        command->others[i] = model->pages[other].handle;
        if (expected == MMSB_OK && other == page) {
            expected = MMSB_E_INVALID_ARGUMENT;
        } else if (expected == MMSB_OK && !model->pages[other].lives) {
            expected = MMSB_E_STALE_HANDLE;
        }
    }
    CHECK_STATUS(mmsb_commands_enqueue(p->commands, command->page, command->parents ? NULL : command->others, command->count, 0),
                 expected);
    model->waiting_count += expected == MMSB_OK;
}

static void delta(program_t *p, int i) {
    model_page_t *page = &p->model.pages[i];
    const uint64_t offset = below(p, page->size), length = 1 + below(p, below(p, 4) ? 8 : page->size);
    const mmsb_run_t run = {offset, offset + length > page->size ? page->size - offset : length};
    for (uint64_t b = offset; b < offset + run.length; b++) {
        page->bytes[b] = (uint8_t)random_next(&p->seed);
        page->mask[b] = 1;
    }
    const mmsb_delta_t delta = one_run(&run, page->bytes + offset);
    CHECK_OK(mmsb_page_apply(page->handle, &delta));
    page->epoch++;
}

static void resize(program_t *p, int i) {
    model_page_t *page = &p->model.pages[i];
    page->size = sizes[below(p, sizeof sizes / sizeof sizes[0])];
    memset(page->bytes + page->size, 0, LARGEST - page->size);
    memset(page->mask + page->size, 0, LARGEST - page->size);
    CHECK_OK(mmsb_page_resize(page->handle, page->size));
}

static void destroy(program_t *p, int i) {
    model_t *model = &p->model;
    CHECK_OK(mmsb_page_destroy(model->pages[i].handle));
    model->pages[i].lives = 0;
    model->parents_count[i] = 0;
    for (int child = 0; child < PAGES; child++) {
        for (int at = model->parents_count[child]; at-- > 0;) {
            if (model->parents[child][at] == i) {
                cut_edge(model, child, at);
            }
        }
    }
}

static void edge(program_t *p, int child) {
    model_t *model = &p->model;
    const int parent = (int)below(p, PAGES);
    if (!model->pages[parent].lives) {
        return;
    }
    for (int at = 0; at < model->parents_count[child]; at++) {
        if (model->parents[child][at] == parent) {
            CHECK_OK(mmsb_page_dependency_remove(model->pages[parent].handle, model->pages[child].handle));
            cut_edge(model, child, at);
            return;
        }
    }
    if (mmsb_page_dependency_add(model->pages[parent].handle, model->pages[child].handle) == MMSB_OK) {
        model->parents[child][model->parents_count[child]++] = parent;
    }
}

static void step(program_t *p) {
    const int i = (int)below(p, PAGES);
    model_page_t *page = &p->model.pages[i];
    const uint64_t what = below(p, 40);
    /* What workers do beside other calls has no order with these. */
    if (what < 20 && p->model.waiting_count < WAITING) {
        enqueue(p);
        return;
    }
    if (p->kind->workers > 0 || what < 24) {
        p->kind->groups ? execute_in_a_group(p) : execute(p);
    }
    if (!page->lives) {
        create(p, i);
    } else if (what < 32) {
        delta(p, i);
    } else if (what < 34) {
        CHECK_OK(mmsb_page_mask_clear(page->handle));
        memset(page->mask, 0, sizeof page->mask);
    } else if (what < 35) {
        CHECK_OK(mmsb_page_write(page->handle, 0, &p->seed, 8));
        memcpy(page->bytes, &p->seed, 8);
    } else if (what < 36) {
        resize(p, i);
    } else if (what < 37) {
        destroy(p, i);
    } else {
        edge(p, i);
    }
}

static void begin_context(program_t *p) {
    mmsb_context_options_t options;
    mmsb_context_options_init(&options);
    CHECK_OK(mmsb_context_options_parse(&options, p->kind->options));
    REQUIRE_OK(mmsb_context_create(&options, &p->context));
}

/* What a replay of the journal gives is what there is. */
static void check_replay(program_t *p) {
    mmsb_load_options_t load;
    mmsb_load_options_init(&load);
    load.journal = at("journal");
    uint64_t ids[PAGES];
    for (int i = 0; i < PAGES; i++) {
        ids[i] = p->model.pages[i].lives ? mmsb_page_id(p->model.pages[i].handle) : 0;
    }
    CHECK_OK(mmsb_journal_close(p->context));
    CHECK_OK(mmsb_context_destroy(p->context));
    begin_context(p);
    CHECK_OK(mmsb_snapshot_load(p->context, "", &load));
    for (int i = 0; i < PAGES; i++) {
        if (ids[i] != 0) {
            CHECK_OK(mmsb_page_lookup(p->context, ids[i], &p->model.pages[i].handle));
            check_page(p, i);
        }
    }
    clear_folder();
}

static void run_program(const kind_t *kind, uint64_t seed) {
    static program_t program;
    program_t *p = &program;
    memset(p, 0, sizeof *p);
    p->kind = kind;
    p->seed = seed;
    begin_context(p);
    p->commands = new_commands_with(kind->workers, WAITING, kind->persistent);
    if (kind->journal) {
        CHECK_OK(mmsb_journal_open(p->context, at("journal"), NULL));
    }
    for (int i = 0; i < PAGES; i++) {
        create(p, i);
    }
    for (int i = 0; i < 400 && check_failures == 0; i++) {
        step(p);
    }
    execute(p);
    for (int i = 0; i < PAGES; i++) {
        check_page(p, i);
    }
    CHECK_OK(mmsb_commands_destroy(p->commands));
    if (kind->journal) {
        check_replay(p);
    }
    CHECK_OK(mmsb_context_destroy(p->context));
}

int main(int argument_count, char **arguments) {
    const uint64_t programs = argument_count > 1 ? strtoull(arguments[1], NULL, 10) : 20;
    const uint64_t first = argument_count > 2 ? strtoull(arguments[2], NULL, 10) : 1;
    folder_make();
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        check_begin(kinds[i].name);
        for (uint64_t seed = first; seed < first + programs && check_failures == 0; seed++) {
            run_program(&kinds[i], seed);
            if (check_failures > 0) {
                fprintf(stderr, "program %llu\n", (unsigned long long)seed);
            }
        }
        check_end();
    }
    folder_end();
    return check_report();
}
