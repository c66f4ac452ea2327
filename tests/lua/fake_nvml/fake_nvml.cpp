// A driver's library without a driver, by the documented interface of NVML: two GPUs that an
// NVSwitch joins, or what FAKE_NVML asks for: "bridge" (two cards that a bridge joins), "broken"
// (the second GPU does not answer), "empty", "stopped" (the library does not start).

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kGpuIsLost = 15, kNotLoaded = 9;

struct Memory {
  unsigned long long total, free, used;
};
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

bool is_asked_for(const char* what) {
  const char* asked = std::getenv("FAKE_NVML");
  return asked != nullptr && std::strcmp(asked, what) == 0;
}

int index_of(void* device) { return static_cast<int>(reinterpret_cast<std::size_t>(device)) - 1; }

void write_bus_id(PciInfo* info, int index) {
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", index);
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return is_asked_for("stopped") ? kNotLoaded : kSuccess; }
int nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(int status) {
  return status == kGpuIsLost   ? "GPU is lost"
         : status == kNotLoaded ? "Driver Not Loaded"
                                : "Invalid Argument";
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = is_asked_for("empty") ? 0 : 2;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
  return kSuccess;
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  if (is_asked_for("broken") && index_of(device) == 1) return kGpuIsLost;
  std::snprintf(name, length, "%s",
                is_asked_for("bridge") ? "NVIDIA GeForce RTX 3090" : "NVIDIA H200");
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  memory->total = (is_asked_for("bridge") ? 24576ull : 143771ull) << 20;
  memory->free = memory->used = 0;
  return kSuccess;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) {
  *generation = is_asked_for("bridge") ? 4 : 5;
  return kSuccess;
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* width) {
  *width = is_asked_for("bridge") && index_of(device) == 1 ? 8 : 16;
  return kSuccess;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = is_asked_for("bridge") ? 8 : 9;
  *minor = is_asked_for("bridge") ? 6 : 0;
  return kSuccess;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  write_bus_id(info, index_of(device));
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(void*, unsigned link, int* is_active) {
  *is_active = 1;
  return link < (is_asked_for("bridge") ? 4u : 18u) ? kSuccess : kInvalidArgument;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, PciInfo* info) {
  write_bus_id(
      info, is_asked_for("bridge") ? 1 - index_of(device) : 0x50);  // the other card, or a switch
  return kSuccess;
}
}
