#include "table.h"

#include <dlfcn.h>

#define FUNCTION_NOT_FOUND 13

#define DEFINE(name, parameters, arguments) \
    static int missing_##name parameters { \
        return FUNCTION_NOT_FOUND; \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"
MMSB_NVML_FUNCTIONS(DEFINE)

#define ENTRY(name, parameters, arguments) .name = missing_##name,
mmsb_nvml_table_t mmsb_nvml = {MMSB_NVML_FUNCTIONS(ENTRY)};

const char *mmsb_nvml_load(const char *library) {
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (!handle)
        return dlerror();
#define FIND(name, parameters, arguments) \
    { \
        void *found = dlsym(handle, #name); \
        mmsb_nvml.name = found ? (__typeof__(mmsb_nvml.name))found : missing_##name; \
    }
    MMSB_NVML_FUNCTIONS(FIND)
    return 0;
}
