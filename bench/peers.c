/* peers.c — opens the libraries that the benchmarks compare with; peers.sh has put them into the folder BENCH_PEERS. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

static void *open_peer(const char *name) {
    const char *folder = getenv("BENCH_PEERS");
    char path[4096];
    void *library;
    if (!folder)
        return NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "bench: peer missing: %s\n", dlerror());
    return library;
}

static void *symbol(void *library, const char *name) {
    void *address = dlsym(library, name);
    if (!address)
        bench_fail("peer without %s: %s", name, dlerror());
    return address;
}

bool bench_library(const char *name, const bench_symbol_t *symbols, size_t count) {
    void *library = open_peer(name);
    for (size_t i = 0; library && i < count; i++)
        *(void **)symbols[i].function = symbol(library, symbols[i].name);
    return library;
}

bool bench_mimalloc(bench_mimalloc_t *peer) {
    void *library = open_peer("libmimalloc.so.2");
    char version[16];
    int number;
    if (!library)
        return false;
    peer->malloc = (void *(*)(size_t))symbol(library, "mi_malloc");
    peer->calloc = (void *(*)(size_t, size_t))symbol(library, "mi_calloc");
    peer->free = (void (*)(void *))symbol(library, "mi_free");
    number = ((int (*)(void))symbol(library, "mi_version"))();
    snprintf(version, sizeof version, "%d.%d.%d", number / 100, number / 10 % 10, number % 10);
    bench_fact("mimalloc", version);
    return true;
}

static int no_error(int status) {
    if (status != 0)
        bench_fail("UMF answers %d", status);
    return status;
}

bool bench_umf(bench_umf_t *peer) {
    typedef int (*make_t)(void **made);
    typedef int (*make_provider_t)(const void *operations, const void *parameters, void **provider);
    typedef int (*make_pool_t)(const void *operations, void *provider, const void *parameters, unsigned flags, void **pool);
    typedef const void *(*operations_t)(void);
    typedef int (*set_size_t)(void *parameters, size_t size);
    const unsigned pool_owns_provider = 1;
    const size_t kept_slabs = 1 << 16; /* the pool gives no memory back, like the library; its default keeps 4 slabs */
    void *library, *parameters, *provider;

    if (!open_peer("libhwloc.so.15"))
        return false;
    library = open_peer("libumf.so.1");
    if (!library)
        return false;
    no_error(((make_t)symbol(library, "umfOsMemoryProviderParamsCreate"))(&parameters));
    no_error(((make_provider_t)symbol(library, "umfMemoryProviderCreate"))(
        ((operations_t)symbol(library, "umfOsMemoryProviderOps"))(), parameters, &provider));
    no_error(((make_t)symbol(library, "umfDisjointPoolParamsCreate"))(&parameters));
    no_error(((set_size_t)symbol(library, "umfDisjointPoolParamsSetCapacity"))(parameters, kept_slabs));
    no_error(((make_pool_t)symbol(library, "umfPoolCreate"))(((operations_t)symbol(library, "umfDisjointPoolOps"))(), provider,
                                                             parameters, pool_owns_provider, &peer->pool));
    peer->malloc = (void *(*)(void *, size_t))symbol(library, "umfPoolMalloc");
    peer->free = (int (*)(void *, void *))symbol(library, "umfPoolFree");
    return true;
}

uint64_t (*bench_go_empty(void))(uint64_t) {
    void *library = open_peer("libcgo_empty.so");
    return library ? (uint64_t (*)(uint64_t))symbol(library, "bench_go_empty_call") : NULL;
}
