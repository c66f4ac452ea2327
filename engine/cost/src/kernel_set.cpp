#include "tessera/cost/kernel_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends.h"
#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/file_cache.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/cost/cuda_graphs.h"
#include "tessera/cost/op.h"

namespace tessera::cost {
namespace {

constexpr std::size_t kMaxRules = 256;
constexpr std::size_t kMaxDeviceNames = 128;

bool names_device(const KernelRule& rule, const std::string& name) {
  return std::find(rule.devices.begin(), rule.devices.end(), name) != rule.devices.end();
}

// Two rules that would match some device equally well, so that the file's order would decide.
bool clash(const KernelRule& a, const KernelRule& b) {
  if (a.bitwidth != b.bitwidth || a.scheme != b.scheme ||
      a.min_compute_capability != b.min_compute_capability) {
    return false;
  }
  if (a.devices.empty() || b.devices.empty()) return a.devices.empty() == b.devices.empty();
  return std::any_of(a.devices.begin(), a.devices.end(),
                     [&](const std::string& name) { return names_device(b, name); });
}

bool applies(const KernelRule& rule, const Device& device) {
  if (device.backend == "hpu") return false;  // Gaudi: no runtime that has a kernel set runs there
  if (!rule.scheme.empty()) return false;     // of_scheme clears it
  return is_of_kind(rule, device) && device.compute_capability >= rule.min_compute_capability &&
         device.compute_capability <= rule.max_compute_capability &&
         (rule.devices.empty() || names_device(rule, device.name)) &&
         device.flop_per_s.count(rule.compute_dtype) > 0;
}

bool more_specific(const KernelRule& a, const KernelRule& b) {
  if (a.devices.empty() != b.devices.empty()) return b.devices.empty();
  return a.min_compute_capability > b.min_compute_capability;
}

}  // namespace

WeightFormat KernelRule::format() const {
  // LLM.int8 keeps the activations that matter in 16 bits, and loses no more than weights alone.
  const bool keeps_outliers = method.find("llm.int8") != std::string::npos;
  // llama.cpp gives every 32 activations a scale of their own, and loses no more either.
  const bool in_blocks = method.starts_with("llama.cpp");
  if (compute_dtype == "int8" && !keeps_outliers && !in_blocks)
    return WeightFormat::int8_activations;
  if (compute_dtype == "fp8") return WeightFormat::fp8_activations;
  if (method.starts_with("fp8")) return WeightFormat::fp8_weights;
  if (method == "gptq-cuda-2023") return WeightFormat::per_channel;
  return WeightFormat::weights_only;
}

const KernelRule* KernelSet::find(const Device& device, std::int32_t bitwidth) const {
  const KernelRule* best = nullptr;
  for (const KernelRule& rule : rules) {
    if (rule.bitwidth != bitwidth || !applies(rule, device)) continue;
    if (best == nullptr || more_specific(rule, *best)) best = &rule;
  }
  return best;
}

double KernelSet::further_head_share(const LayerShape& layer, const Device& device) const {
  if (!kv_per_query_head || layer.num_kv_heads == layer.num_heads) return 0;
  const auto& [share, max_compute_capability, devices] = *kv_per_query_head;
  const bool reads = device.compute_capability <= max_compute_capability ||
                     std::find(devices.begin(), devices.end(), device.name) != devices.end();
  return reads ? share : 0;
}

KernelSet KernelSet::mxfp4_rules() const {
  constexpr std::int32_t kFloat4Bits = 4;
  KernelSet set = *this;
  for (KernelRule& rule : set.rules) {
    if (rule.bitwidth != kFloat4Bits) continue;
    rule.experts_only = true;
    rule.experts_token_bytes = rule.mxfp4_token_bytes;
    if (!rule.mxfp4_dtype.empty()) rule.dtype = rule.mxfp4_dtype;
  }
  return set;
}

KernelSet KernelSet::of_scheme(const std::string& scheme) const {
  std::set<std::int32_t> of_its_own;
  for (const KernelRule& rule : rules) {
    if (rule.scheme == scheme) of_its_own.insert(rule.bitwidth);
  }
  KernelSet set = *this;
  std::erase_if(set.rules, [&](const KernelRule& rule) {
    return rule.scheme != scheme && of_its_own.count(rule.bitwidth) > 0;
  });
  for (KernelRule& rule : set.rules) {
    if (rule.scheme == scheme) rule.scheme.clear();
  }
  return set;
}

double KernelSet::padded_rows(double sequences) const {
  return padded_to(graph_batch_sizes, sequences);
}

std::vector<std::int64_t> captured_rows(const KernelSet& kernels, std::int64_t token_budget,
                                        std::int64_t seats, std::int64_t verified) {
  const std::int64_t most = std::min(token_budget, 2 * seats * verified);
  std::vector<std::int64_t> captured;
  for (const std::int32_t size : kernels.graph_batch_sizes) {
    const std::int64_t rows = ceil_div(std::int64_t{size}, verified) * verified;
    if (rows > most) break;
    if (captured.empty() || rows > captured.back()) captured.push_back(rows);
  }
  return captured;
}

bool KernelSet::reads_kv(const Device& device, std::int32_t bitwidth) const {
  if (bitwidth == 16 || kv_rules.empty()) return true;
  return std::any_of(kv_rules.begin(), kv_rules.end(), [&](const KvRule& rule) {
    const auto& names = rule.devices;
    const bool is_named =
        names.empty() || std::find(names.begin(), names.end(), device.name) != names.end();
    return rule.bitwidth == bitwidth && is_named &&
           device.compute_capability >= rule.min_compute_capability;
  });
}

std::vector<std::int32_t> KernelSet::bitwidths_on(const Device& device) const {
  std::set<std::int32_t> bitwidths;
  for (const KernelRule& rule : rules) {
    if (applies(rule, device)) bitwidths.insert(rule.bitwidth);
  }
  return {bitwidths.begin(), bitwidths.end()};
}

Json DeviceNames::write(const std::vector<std::string>& names) { return names; }

std::vector<std::string> DeviceNames::read(const Json& json, const std::string& path,
                                           const FieldSpec&) {
  // An empty list would mean "any device" to the struct and "none" to most readers.
  if (!json.is_array() || json.empty() || json.size() > kMaxDeviceNames) {
    refuse(path, "a list of device names belongs here; leave it out for any device");
  }
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string item = fmt::format("{}[{}]", path, i);
    if (!json[i].is_string() || json[i].get_ref<const std::string&>().empty()) {
      refuse(item, "a device name belongs here");
    }
    names.push_back(json[i].get<std::string>());
    if (!seen.insert(names.back()).second) refuse(item, quote(names.back()) + " is named twice");
  }
  return names;
}

KernelSet kernel_set_from_json(const Json& json, const std::string& path) {
  return from_json<KernelSet>(json, path);
}

Json to_json(const KernelSet& set) { return json_of(set); }

KernelSet find_kernel_set(const std::string& name, const DataFolders& folders) {
  static FileCache<KernelSet> known;
  const bool is_file = name.ends_with(".json");
  const std::string path = is_file ? name : folders.require("kernel_sets", name);
  return *known.get(path, [&](const std::string& content) {
    KernelSet set = kernel_set_from_json(parse_json(content, path), path);
    if (is_file) set.name = name;
    return set;
  });
}

}  // namespace tessera::cost

namespace tessera {

using cost::KernelRule;
using cost::KernelSet;

void Fields<KernelRule>::check(const KernelRule& rule, const FieldPath& path) {
  if (rule.method.empty()) refuse(path("method"), "empty; name the kernel, as in \"cublas-fp16\"");
  if (rule.max_compute_capability < rule.min_compute_capability) {
    refuse(ErrorCode::out_of_range, path("max_compute_capability"),
           "{} is below min_compute_capability {}", rule.max_compute_capability,
           rule.min_compute_capability);
  }
  for (const std::string& dtype : {rule.dtype, rule.mxfp4_dtype}) {
    if (!dtype.empty()) cost::dtype_traits(dtype);  // throws for an unknown word
  }
}

void Fields<KernelSet>::check(const KernelSet& set, const FieldPath& path) {
  if (set.name.empty()) refuse(path("name"), "empty; a kernel set needs a name");
  if (set.rules.empty() || set.rules.size() > cost::kMaxRules) {
    refuse(path("rules"), "a list of 1 to {} rules belongs here", cost::kMaxRules);
  }
  for (std::size_t i = 1; i < set.graph_batch_sizes.size(); ++i) {
    if (set.graph_batch_sizes[i] > set.graph_batch_sizes[i - 1]) continue;
    refuse(ErrorCode::out_of_range, fmt::format("{}[{}]", path("graph_batch_sizes"), i),
           "{} is not above {} before it; each size once, ascending", set.graph_batch_sizes[i],
           set.graph_batch_sizes[i - 1]);
  }
  for (std::size_t i = 0; i < set.rules.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (!cost::clash(set.rules[k], set.rules[i])) continue;
      refuse(fmt::format("{}[{}]", path("rules"), i),
             "the same bitwidth ({}), scheme, min_compute_capability and devices as "
             "rules[{}]; keep one, or tell them apart",
             set.rules[i].bitwidth, k);
    }
  }
}

}  // namespace tessera
