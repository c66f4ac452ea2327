#include <array>
#include <utility>

#include "tessera/cost/read_samples.h"

namespace tessera::cost {
namespace {

// As nvidia-smi prints them, without "NVIDIA ", "Tesla " and "GeForce ". A card whose other form
// factor is slower (H100 PCIe) is not the device of that name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 25> kDevices = {{
    {"A100-SXM4-80GB", "A100-80G"},
    {"A100-SXM-80GB", "A100-80G"},
    {"A100 80GB PCIe", "A100-80G"},
    {"A100-SXM4-40GB", "A100-40G"},
    {"A100-PCIE-40GB", "A100-40G"},
    {"A800-SXM4-80GB", "A800-80G"},
    {"A800 80GB PCIe", "A800-80G"},
    {"H100 80GB HBM3", "H100-80G"},
    {"H100-SXM5-80GB", "H100-80G"},
    {"H200", "H200-141G"},
    {"H200 SXM", "H200-141G"},
    {"L4", "L4"},
    {"L40S", "L40S"},
    {"T4", "T4-16G"},
    {"T4-16G", "T4-16G"},
    {"V100-SXM2-32GB", "V100-32G"},
    {"V100-SXM3-32GB", "V100-32G"},
    {"V100-SXM2-16GB", "V100-16G"},
    {"P100-PCIE-12GB", "P100-12G"},
    {"A10", "A10"},
    {"A40", "A40"},
    {"RTX A6000", "A6000"},
    {"RTX 3090", "RTX-3090"},
    {"RTX 4090", "RTX-4090"},
    {"RTX 2080 SUPER", "RTX-2080-SUPER"},
}};

}  // namespace

std::string device_of_driver_name(std::string_view name) {
  for (const std::string_view maker : {"NVIDIA ", "Tesla ", "GeForce "}) {
    if (name.substr(0, maker.size()) == maker) name.remove_prefix(maker.size());
  }
  for (const auto& [driver, device] : kDevices) {
    if (driver == name) return std::string(device);
  }
  return {};
}

}  // namespace tessera::cost
