/*
 * table.h — NVML's functions, found at run time. The few declarations that are needed are made here, so that nothing of
 * NVIDIA's has to be there to build; a test compiles a stand-in of the library against the real header.
 */
#ifndef MMSB_NVML_TABLE_H
#define MMSB_NVML_TABLE_H

#pragma GCC visibility push(hidden)

typedef struct mmsb__nvml_device *mmsb__nvml_device_t;

typedef struct mmsb__nvml_memory { /* nvmlMemory_v2_t */
    unsigned int version;
    unsigned long long total, reserved, available, used;
} mmsb__nvml_memory_t;

typedef struct mmsb__nvml_process { /* nvmlProcessInfo_t */
    unsigned int pid;
    unsigned long long bytes;
    unsigned int gpu_instance, compute_instance;
} mmsb__nvml_process_t;

typedef struct mmsb__nvml_utilization { /* nvmlUtilization_t */
    unsigned int gpu, memory;
} mmsb__nvml_utilization_t;

typedef struct mmsb__nvml_pci { /* nvmlPciInfo_t */
    char legacy[16];
    unsigned int domain, bus, device, device_id, subsystem;
    char text[32];
} mmsb__nvml_pci_t;

#define MMSB__NVML_MEMORY_VERSION (sizeof(mmsb__nvml_memory_t) | 2u << 24) /* nvmlMemory_v2 */

#define DEVICE mmsb__nvml_device_t device
#define MMSB__NVML_FUNCTIONS(X) \
    X(nvmlInit_v2, (void), ()) \
    X(nvmlSystemGetDriverVersion, (char *text, unsigned int bytes), (text, bytes)) \
    X(nvmlDeviceGetCount_v2, (unsigned int *count), (count)) \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, mmsb__nvml_device_t *device), (index, device)) \
    X(nvmlDeviceGetName, (DEVICE, char *text, unsigned int bytes), (device, text, bytes)) \
    X(nvmlDeviceGetUUID, (DEVICE, char *text, unsigned int bytes), (device, text, bytes)) \
    X(nvmlDeviceGetPciInfo_v3, (DEVICE, mmsb__nvml_pci_t * pci), (device, pci)) \
    X(nvmlDeviceGetMemoryInfo_v2, (DEVICE, mmsb__nvml_memory_t * memory), (device, memory)) \
    X(nvmlDeviceGetComputeRunningProcesses_v3, (DEVICE, unsigned int *count, mmsb__nvml_process_t *list), (device, count, list)) \
    X(nvmlDeviceGetUtilizationRates, (DEVICE, mmsb__nvml_utilization_t * rates), (device, rates)) \
    X(nvmlDeviceGetTemperature, (DEVICE, int sensor, unsigned int *degrees), (device, sensor, degrees)) \
    X(nvmlDeviceGetCurrPcieLinkGeneration, (DEVICE, unsigned int *generation), (device, generation)) \
    X(nvmlDeviceGetCurrPcieLinkWidth, (DEVICE, unsigned int *lanes), (device, lanes)) \
    X(nvmlDeviceGetMemoryAffinity, (DEVICE, unsigned int words, unsigned long *nodes, unsigned int scope), \
      (device, words, nodes, scope)) \
    X(nvmlDeviceGetTopologyCommonAncestor, (DEVICE, mmsb__nvml_device_t other, int *level), (device, other, level)) \
    X(nvmlDeviceGetNvLinkState, (DEVICE, unsigned int link, int *active), (device, link, active)) \
    X(nvmlDeviceGetNvLinkVersion, (DEVICE, unsigned int link, unsigned int *version), (device, link, version)) \
    X(nvmlDeviceGetNvLinkRemotePciInfo_v2, (DEVICE, unsigned int link, mmsb__nvml_pci_t *pci), (device, link, pci))

typedef struct mmsb__nvml_table {
#define FIELD(name, parameters, arguments) int(*name) parameters;
    MMSB__NVML_FUNCTIONS(FIELD)
#undef FIELD
} mmsb__nvml_table_t;

/* A process has one NVML. Before it is loaded, and for what it lacks, the functions answer NVML_ERROR_FUNCTION_NOT_FOUND. */
extern mmsb__nvml_table_t mmsb__nvml;

/* Loads the library and fills the table. NULL, or the dynamic linker's words. */
const char *mmsb__nvml_load(const char *library);

#pragma GCC visibility pop
#endif
