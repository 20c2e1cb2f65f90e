#include "table.h"

#include <dlfcn.h>

#define FUNCTION_NOT_FOUND 13

#define DEFINE(name, parameters, arguments) \
    static int missing_##name parameters { \
        return FUNCTION_NOT_FOUND; \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"
MMSB__NVML_FUNCTIONS(DEFINE)

#define ENTRY(name, parameters, arguments) .name = missing_##name,
mmsb__nvml_table_t mmsb__nvml = {MMSB__NVML_FUNCTIONS(ENTRY)};

const char *mmsb__nvml_load(const char *library) {
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (!handle)
        return dlerror();
#define FIND(name, parameters, arguments) \
    { \
        void *found = dlsym(handle, #name); \
        mmsb__nvml.name = found ? (__typeof__(mmsb__nvml.name))found : missing_##name; \
    }
    MMSB__NVML_FUNCTIONS(FIND)
    return 0;
}
