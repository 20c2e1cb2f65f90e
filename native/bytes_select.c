/* bytes_select.c — the choice of the table. */
#include "bytes.h"

mmsb__bytes_table_t mmsb__bytes;

/* Replaces what the table's instruction set does better: 1, or 0 where this build or processor has none of that name. */
static int use(mmsb__bytes_table_t *table, const char *name) {
#if defined(__x86_64__)
    if (strcmp(name, "sse2") == 0) {
        mmsb__bytes_use_sse2(table);
        return 1;
    }
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                     __builtin_cpu_supports("popcnt");
    if (strcmp(name, "avx2") == 0 && avx2) {
        mmsb__bytes_use_avx2(table);
        mmsb__checksum_use_products(table, 0);
        return 1;
    }
    /* The loops of avx2, and checksums by registers of 64 bytes. */
    if (strcmp(name, "avx512") == 0 && avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq")) {
        mmsb__bytes_use_avx2(table);
        mmsb__checksum_use_products(table, 1);
        table->name = "avx512";
        return 1;
    }
#elif defined(__aarch64__)
    if (strcmp(name, "neon") == 0) {
        mmsb__bytes_use_neon(table);
        return 1;
    }
#endif
    (void)table, (void)name;
    return 0;
}

int mmsb__bytes_select(const char *name) {
    mmsb__bytes_table_t table;
#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    mmsb__bytes_use_portable(&table);
    mmsb__checksum_use_portable(&table);
    if (strcmp(name, "portable") != 0) {
        mmsb__checksum_use_instruction(&table);
        if (!use(&table, name))
            return -1;
    }
    mmsb__bytes = table;
    return 0;
}

/* Runs before constructors without a priority, among them the start of the Go runtime, so that nobody sees an empty table. */
__attribute__((constructor(101))) static void choose_table(void) {
    static const char *const best_first[] = {"avx512", "avx2", "sse2", "neon", "portable"};
    for (size_t i = 0; i < sizeof best_first / sizeof *best_first; i++)
        if (mmsb__bytes_select(best_first[i]) == 0)
            return;
}
