#include "tessera/core/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/device_sheet.h"
#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

constexpr std::string_view kDtypes[] = {"fp16", "fp32", "bf16", "int8", "fp8", "int4", "fp4"};

// The memory may be given as memory_mib (as nvidia-smi prints it) or memory_gib instead.
void read_memory_units(JsonFields& fields, const std::string& path, Device& device) {
  struct Unit {
    const char* key;
    double bytes;
  };
  constexpr Unit kUnits[] = {{"memory_mib", kMiB}, {"memory_gib", kGiB}};
  bool given = fields.has("memory_bytes");
  for (const Unit& unit : kUnits) {
    const auto value = fields.optional_number(unit.key, kMiB / unit.bytes, 1e15 / unit.bytes);
    if (!value) continue;
    if (given) {
      refuse(path,
             "{}: the memory is given twice; keep one of memory_bytes, memory_mib and memory_gib",
             unit.key);
    }
    given = true;
    device.memory_bytes = *value * unit.bytes;
  }
  // The accessor words the complaint about a missing field like any other.
  if (!given) fields.at("memory_bytes");
}

// What one multiprocessor of an architecture does, from the white papers: products and sums per
// clock of its FP32 lanes and of its tensor cores (FP16), and a usual boost clock.
struct Architecture {
  double compute_capability;
  double fp32_flop, fp16_flop;
  double clock_hz;
};
constexpr Architecture kArchitectures[] = {
    {12, 256, 1024, 2.45e9},
    {10, 256, 8192, 1.9e9},
    {9, 256, 4096, 1.9e9},
    {8.9, 256, 1024, 2.5e9},
    {8.6, 256, 1024, 1.75e9},
    {8, 128, 2048, 1.41e9},
    {7.5, 128, 1024, 1.59e9},
    {7, 128, 1024, 1.53e9},
    {6.1, 256, 4, 1.53e9},
    {6, 128, 256, 1.3e9},
    {kDefaultComputeCapability, 256, 2048, 2.1e9},  // CDNA 3
};

}  // namespace

std::vector<std::string_view> flop_dtypes() { return {std::begin(kDtypes), std::end(kDtypes)}; }

Json FlopRates::write(const std::map<std::string, double>& flop_per_s) {
  Json rates = Json::object();
  for (const auto& [dtype, rate] : flop_per_s) rates[dtype] = rate;
  return rates;
}

std::map<std::string, double> FlopRates::read(const Json& json, const std::string& path,
                                              const FieldSpec& spec) {
  JsonFields rates(json, path);
  rates.at("fp16");
  std::map<std::string, double> flop_per_s;
  for (const std::string_view dtype : kDtypes) {
    if (const auto rate = rates.optional_number(dtype.data(), spec.min, spec.max))
      flop_per_s[std::string(dtype)] = *rate;
  }
  rates.finish();
  return flop_per_s;
}

void Fields<Device>::check(const Device& device, const FieldPath& path) {
  // The separators of cluster texts and of paths cannot be part of a name that is looked up.
  constexpr std::string_view kBackends[] = {"rocm", "metal", "sycl", "hpu", "cpu"};
  if (device.backend && std::find(std::begin(kBackends), std::end(kBackends), *device.backend) ==
                            std::end(kBackends)) {
    refuse(path("backend"), "{} is none of rocm, metal, sycl, hpu and cpu", quote(*device.backend));
  }
  const std::string& name = device.name;
  const bool odd = std::any_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x20 || c == 0x7F ||
           std::string_view("/+@()").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (!name.empty() && name.size() <= 128 && !odd) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} is no device name; use 1 to 128 characters without "
                          "'/', '+', '@', parentheses and control characters",
                          path("name"), quote(name)),
              path.record);
}

Json to_json(const Device& device) { return json_of(device); }

namespace {

DeviceSheet sheet_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  DeviceSheet sheet;
  read_fields(fields, sheet);
  read_memory_units(fields, path, sheet);
  fields.finish();
  check_record(sheet, FieldPath{path});
  return sheet;
}

}  // namespace

Device device_from_json(const Json& json, const std::string& path) {
  return sheet_from_json(json, path);
}

bool joins_by_mesh(const Device& device) { return device.backend == "rocm"; }

double multiprocessors_of(const Device& device) {
  if (device.num_multiprocessors) return *device.num_multiprocessors;
  const Architecture* known = std::find_if(
      std::begin(kArchitectures), std::prev(std::end(kArchitectures)),
      [&](const Architecture& a) { return device.compute_capability >= a.compute_capability; });
  const auto fp32 = device.flop_per_s.find("fp32");
  const double count = fp32 != device.flop_per_s.end()
                           ? fp32->second / (known->fp32_flop * known->clock_hz)
                           : device.flop_per_s.at("fp16") / (known->fp16_flop * known->clock_hz);
  return std::max(1.0, std::round(count));
}

DeviceSheet find_sheet(const std::string& name, const DataFolders& folders,
                       const std::string& where) {
  const std::string path = folders.require("devices", name, where);
  return sheet_from_json(read_json_file(path), path);
}

}  // namespace tessera
