#include "nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::app {
namespace {

// Types of nvml.h (NVIDIA's "NVML API Reference Guide"), which is not there to be included where
// this is built.
using Device = void*;
struct Memory {
  unsigned long long total, free, used;
};
struct PciInfo {
  std::array<char, 16> bus_id_legacy;
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  std::array<char, 32> bus_id;
};
constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 18, kLongestName = 96;

/// The library, open while this lives.
class Library {
 public:
  Library() {
    const char* named = std::getenv("TESSERA_NVML");
    handle_ = ::dlopen(named != nullptr && *named != '\0' ? named : "libnvidia-ml.so.1",
                       RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      why_none = std::string("NVIDIA's driver is not there: ") + ::dlerror();
      return;
    }
    const int status = call<int()>("nvmlInit_v2");
    if (status != kSuccess) why_none = "NVML does not start: " + text_of(status);
    is_started_ = status == kSuccess;
  }
  ~Library() {
    if (is_started_) call<int()>("nvmlShutdown");
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool is_started() const { return is_started_; }

  /// What the function returns; kMissing where this driver does not have it.
  template <class Function, class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    return function == nullptr ? kMissing : function(arguments...);
  }

  std::string text_of(int status) const {
    auto* text = reinterpret_cast<const char* (*)(int)>(::dlsym(handle_, "nvmlErrorString"));
    const char* said = text != nullptr && status != kMissing ? text(status) : nullptr;
    return said != nullptr ? std::string(said) : fmt::format("status {}", status);
  }

  std::string why_none;

 private:
  static constexpr int kMissing = 13;  // NVML_ERROR_FUNCTION_NOT_FOUND
  void* handle_ = nullptr;
  bool is_started_ = false;
};

void require(const Library& nvml, int status, const std::string& what) {
  if (status == kSuccess) return;
  throw Error(ErrorCode::io, "NVML does not tell " + what + ": " + nvml.text_of(status));
}

template <std::size_t Size>
std::string text_in(const std::array<char, Size>& characters) {
  return {characters.data(), ::strnlen(characters.data(), Size)};
}

void add_links(const Library& nvml, Device device, Json& gpu) {
  Json peers = Json::array();
  for (unsigned link = 0; link < kMostLinks; ++link) {
    int is_active = 0;
    PciInfo remote{};
    if (nvml.call<int(Device, unsigned, int*)>("nvmlDeviceGetNvLinkState", device, link,
                                               &is_active) != kSuccess) {
      break;  // no such link, or none at all
    }
    if (is_active == 0) continue;
    const int status = nvml.call<int(Device, unsigned, PciInfo*)>(
        "nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, &remote);
    peers.push_back(status == kSuccess ? text_in(remote.bus_id) : std::string());
  }
  gpu["nvlink_peers"] = std::move(peers);
}

Json gpu_at(const Library& nvml, unsigned index) {
  const std::string who = fmt::format("of GPU {}", index);
  Device device = nullptr;
  require(nvml, nvml.call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &device),
          "anything " + who);
  std::array<char, kLongestName> name{};
  require(nvml,
          nvml.call<int(Device, char*, unsigned)>("nvmlDeviceGetName", device, name.data(),
                                                  kLongestName),
          "the name " + who);
  Memory memory{};
  require(nvml, nvml.call<int(Device, Memory*)>("nvmlDeviceGetMemoryInfo", device, &memory),
          "the memory " + who);
  Json gpu{{"name", text_in(name)}, {"memory_bytes", static_cast<double>(memory.total)}};
  unsigned number = 0;
  if (nvml.call<int(Device, unsigned*)>("nvmlDeviceGetMaxPcieLinkGeneration", device, &number) ==
      kSuccess) {
    gpu["pcie_generation"] = number;
  }
  if (nvml.call<int(Device, unsigned*)>("nvmlDeviceGetMaxPcieLinkWidth", device, &number) ==
      kSuccess) {
    gpu["pcie_width"] = number;
  }
  int major = 0, minor = 0;
  if (nvml.call<int(Device, int*, int*)>("nvmlDeviceGetCudaComputeCapability", device, &major,
                                         &minor) == kSuccess) {
    gpu["compute_capability"] = major + minor / 10.0;
  }
  PciInfo pci{};
  if (nvml.call<int(Device, PciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &pci) == kSuccess) {
    gpu["bus_id"] = text_in(pci.bus_id);
  }
  add_links(nvml, device, gpu);
  return gpu;
}

}  // namespace

NvmlAnswer ask_nvml() {
  const Library nvml;
  if (!nvml.is_started()) return {std::nullopt, nvml.why_none};
  unsigned count = 0;
  require(nvml, nvml.call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count),
          "how many GPUs there are");
  Json gpus = Json::array();
  for (unsigned i = 0; i < count; ++i) gpus.push_back(gpu_at(nvml, i));
  return {std::move(gpus), {}};
}

}  // namespace tessera::app
