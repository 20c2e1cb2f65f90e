#include "table.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static mmsb__cuda_outcome_t lacks(const char *function) {
    return (mmsb__cuda_outcome_t){MMSB__CUDA_NO_FUNCTION, function};
}

/* Fills the table of a library that is initialised. */
static mmsb__cuda_outcome_t find_functions(mmsb__cuda_table_t *table) {
    CUdriverProcAddressQueryResult found;
#define FIND(name, since, parameters) \
    (table->cuGetProcAddress(#name, (void **)&table->name, since, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) == CUDA_SUCCESS && \
     found == CU_GET_PROC_ADDRESS_SUCCESS && table->name != NULL)
#define FIND_REQUIRED(name, since, parameters) \
    if (!FIND(name, since, parameters)) \
        return lacks(#name);
#define FIND_OPTIONAL(name, since, parameters) \
    if (!FIND(name, since, parameters)) \
        table->name = NULL;
    CUDA_FUNCTIONS(FIND_REQUIRED)
    CUDA_OPTIONAL_FUNCTIONS(FIND_OPTIONAL)
    return (mmsb__cuda_outcome_t){CUDA_SUCCESS, NULL};
}

static mmsb__cuda_outcome_t initialise(mmsb__cuda_table_t *table, void *library) {
    mmsb__cuda_outcome_t outcome;
    *(void **)&table->cuInit = dlsym(library, "cuInit");
    if (table->cuInit == NULL)
        return lacks("cuInit");
    *(void **)&table->cuDriverGetVersion = dlsym(library, "cuDriverGetVersion");
    if (table->cuDriverGetVersion == NULL)
        return lacks("cuDriverGetVersion");

    outcome = (mmsb__cuda_outcome_t){table->cuInit(0), "cuInit"};
    if (outcome.code != CUDA_SUCCESS)
        return outcome;
    outcome = (mmsb__cuda_outcome_t){table->cuDriverGetVersion(&table->version), "cuDriverGetVersion"};
    if (outcome.code != CUDA_SUCCESS)
        return outcome;
    if (table->version < MMSB__CUDA_OLDEST_VERSION)
        return (mmsb__cuda_outcome_t){MMSB__CUDA_TOO_OLD, "cuDriverGetVersion"};

    *(void **)&table->cuGetProcAddress = dlsym(library, "cuGetProcAddress_v2");
    if (table->cuGetProcAddress == NULL)
        return lacks("cuGetProcAddress_v2");
    outcome = find_functions(table);
    if (outcome.code != CUDA_SUCCESS)
        return outcome;
    return (mmsb__cuda_outcome_t){table->cuDeviceGetCount(&table->devices), "cuDeviceGetCount"};
}

mmsb__cuda_outcome_t mmsb__cuda_load(const char *name, mmsb__cuda_table_t **table, char *reason, size_t reason_bytes) {
    *table = calloc(1, sizeof **table);
    if (*table == NULL)
        return (mmsb__cuda_outcome_t){MMSB__CUDA_NO_MEMORY, "calloc"};
    /* Never closed: a driver library does not survive that. */
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(reason, reason_bytes, "%s", dlerror());
        return (mmsb__cuda_outcome_t){MMSB__CUDA_NO_LIBRARY, "dlopen"};
    }
    return initialise(*table, library);
}

/* The driver knows every code's name, but there may be no driver to ask. */
const char *mmsb__cuda_code_name(const mmsb__cuda_table_t *table, CUresult code) {
    const char *name;
    if (table->cuGetErrorName != NULL && table->cuGetErrorName(code, &name) == CUDA_SUCCESS && name != NULL)
        return name;
    switch (code) {
#define CASE(result, value) \
    case value: \
        return #result;
        CUDA_RESULTS(CASE)
    }
    return "a CUDA error";
}

const char *mmsb__cuda_code_text(const mmsb__cuda_table_t *table, CUresult code) {
    const char *text;
    if (table->cuGetErrorString != NULL && table->cuGetErrorString(code, &text) == CUDA_SUCCESS && text != NULL)
        return text;
    return "";
}
