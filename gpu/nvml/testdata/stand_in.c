/*
 * stand_in.c — an NVML of two devices, compiled against the real header, so that gpu/nvml's own declarations cannot drift from
 * it. The header is go-nvml's copy, in which a device is a struct around NVIDIA's pointer.
 */
#include <nvml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct nvmlDevice_st {
    unsigned int index;
};
static struct nvmlDevice_st devices[2] = {{0}, {1}};

nvmlReturn_t nvmlInit_v2(void) {
    const char *result = getenv("STAND_IN_INIT");
    return result ? (nvmlReturn_t)atoi(result) : NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    snprintf(version, length, "580.65.06");
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount) {
    *deviceCount = 2;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    device->handle = &devices[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    snprintf(name, length, "stand-in %u of a device whose name is long: %080u", device.handle->index, 7u);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    memset(pci, 0xff, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "0000000%u:6%u:00.0", device.handle->index, device.handle->index);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = 1000 + device.handle->index;
    memory->reserved = 100;
    memory->free = 200;
    memory->used = 700 + device.handle->index;
    return NVML_SUCCESS;
}

/* More processes than a first question has room for. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos) {
    unsigned int room = *infoCount;
    *infoCount = 100;
    if (room < 100)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memset(infos, 0, 100 * sizeof *infos);
    infos[98].pid = (unsigned int)getpid();
    infos[98].usedGpuMemory = 30 + device.handle->index;
    infos[99].pid = (unsigned int)getpid();
    infos[99].usedGpuMemory = 3;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    utilization->gpu = 40 + device.handle->index;
    utilization->memory = 20;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned int *temp) {
    *temp = 60 + device.handle->index;
    return sensorType == NVML_TEMPERATURE_GPU ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *currLinkGen) {
    *currLinkGen = 5 - device.handle->index;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *currLinkWidth) {
    *currLinkWidth = 16 >> device.handle->index;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int nodeSetSize, unsigned long *nodeSet,
                                         nvmlAffinityScope_t scope) {
    if (scope != NVML_AFFINITY_SCOPE_NODE || nodeSetSize < 2)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(nodeSet, 0, nodeSetSize * sizeof *nodeSet);
    nodeSet[device.handle->index] = 1ul << 3;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2, nvmlGpuTopologyLevel_t *pathInfo) {
    *pathInfo = device1.handle == device2.handle ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_MULTIPLE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *isActive) {
    (void)device;
    *isActive = link % 2 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return link < 4 ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version) {
    *version = 4 + device.handle->index + link;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci) {
    (void)link;
    nvmlDevice_t other = {&devices[1 - device.handle->index]};
    return nvmlDeviceGetPciInfo_v3(other, pci);
}

/* nvmlDeviceGetUUID is missing: a library may be older. */
