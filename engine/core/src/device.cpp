#include "tessera/core/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <vector>

#include "rate_limits.h"
#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

constexpr double kMaxMemoryBytes = 1e15;
constexpr double kMaxFlopPerS = 1e18;
constexpr const char* kDtypes[] = {"fp16", "fp32", "bf16", "int8", "fp8", "int4"};

void check_name(const std::string& name, const std::string& path) {
  // The separators of cluster texts and of paths cannot be part of a name that is looked up.
  const bool odd = std::any_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x20 || c == 0x7F || c == '/' || c == '+' || c == '@';
  });
  if (name.empty() || name.size() > 128 || odd) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: name: {} is no device name; use 1 to 128 characters without "
                            "'/', '+', '@' and control characters",
                            path, quote(name)),
                path);
  }
}

// One of memory_bytes, memory_mib (as nvidia-smi prints it) and memory_gib.
double read_memory(JsonFields& fields, const std::string& path) {
  struct Unit {
    const char* key;
    double bytes;
  };
  constexpr Unit kUnits[] = {{"memory_bytes", 1}, {"memory_mib", kMiB}, {"memory_gib", kGiB}};
  std::optional<double> memory;
  for (const Unit& unit : kUnits) {
    const auto value =
        fields.optional_number(unit.key, kMiB / unit.bytes, kMaxMemoryBytes / unit.bytes);
    if (!value) continue;
    if (memory) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {}: the memory is given twice; keep one of memory_bytes, "
                              "memory_mib and memory_gib",
                              path, unit.key),
                  path);
    }
    memory = *value * unit.bytes;
  }
  // The accessor words the complaint about a missing field like any other.
  if (!memory) fields.at("memory_bytes");
  return *memory;
}

std::map<std::string, double> read_flop_per_s(JsonFields& fields, const std::string& path) {
  JsonFields rates(fields.at("flop_per_s"), path + ": flop_per_s");
  rates.at("fp16");
  std::map<std::string, double> flop_per_s;
  for (const char* dtype : kDtypes) {
    if (const auto rate = rates.optional_number(dtype, 1e6, kMaxFlopPerS)) {
      flop_per_s[dtype] = *rate;
    }
  }
  rates.finish();
  return flop_per_s;
}

}  // namespace

Json to_json(const Device& device) {
  Json json;
  json["name"] = device.name;
  if (!device.full_name.empty()) json["full_name"] = device.full_name;
  json["memory_bytes"] = device.memory_bytes;
  json["memory_bytes_per_s"] = device.memory_bytes_per_s;
  Json rates = Json::object();
  for (const auto& [dtype, rate] : device.flop_per_s) rates[dtype] = rate;
  json["flop_per_s"] = std::move(rates);
  json["compute_capability"] = device.compute_capability;
  json["pcie_bytes_per_s"] = device.pcie_bytes_per_s;
  if (device.nvlink_bytes_per_s) json["nvlink_bytes_per_s"] = *device.nvlink_bytes_per_s;
  if (device.price_usd_per_h) json["price_usd_per_h"] = *device.price_usd_per_h;
  if (!device.price_source.empty()) json["price_source"] = device.price_source;
  if (!device.source.empty()) json["source"] = device.source;
  return json;
}

Device device_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  Device device;
  device.name = fields.text("name");
  check_name(device.name, path);
  device.full_name = fields.text("full_name", "");
  device.memory_bytes = read_memory(fields, path);
  device.memory_bytes_per_s = fields.number("memory_bytes_per_s", 1e6, kMaxBytesPerS);
  device.flop_per_s = read_flop_per_s(fields, path);
  device.compute_capability =
      fields.number("compute_capability", 1, 100, kDefaultComputeCapability);
  device.pcie_bytes_per_s =
      fields.number("pcie_bytes_per_s", 1e6, kMaxBytesPerS, kDefaultPcieBytesPerS);
  device.nvlink_bytes_per_s = fields.optional_number("nvlink_bytes_per_s", 1e6, kMaxBytesPerS);
  device.price_usd_per_h = fields.optional_number("price_usd_per_h", 0, 1e6);
  device.price_source = fields.text("price_source", "");
  device.source = fields.text("source", "");
  fields.finish();
  return device;
}

Device find_device(const std::string& name, const DataFolders& folders, const std::string& where) {
  std::string path = folders.find("devices", name);
  if (path.empty()) path = folders.find("devices", "RTX-" + name);  // "3090"
  if (path.empty()) path = folders.require("devices", name, where);
  return device_from_json(read_json_file(path), path);
}

}  // namespace tessera
