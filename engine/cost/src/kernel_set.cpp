#include "tessera/cost/kernel_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/cost/op.h"

namespace tessera::cost {
namespace {

constexpr double kMinRatio = 1e-6;
constexpr std::size_t kMaxRules = 256;
constexpr std::size_t kMaxDeviceNames = 128;

[[noreturn]] void fail(const std::string& path, const std::string& problem,
                       ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, path + ": " + problem, path);
}

std::string read_dtype(JsonFields& fields, const std::string& path) {
  const std::vector<std::string> known = {"fp16", "fp32", "bf16", "int8", "fp8", "int4"};
  const std::string dtype = fields.text("compute_dtype", "fp16");
  if (std::find(known.begin(), known.end(), dtype) == known.end()) {
    fail(path, fmt::format("compute_dtype: unknown dtype {}{}", quote(dtype),
                           did_you_mean(dtype, known)));
  }
  return dtype;
}

std::vector<std::string> read_devices(JsonFields& fields, const std::string& path) {
  std::vector<std::string> names;
  if (!fields.has("devices")) return names;
  const Json& list = fields.at("devices");
  // An empty list would mean "any device" to the struct and "none" to most readers.
  if (!list.is_array() || list.empty() || list.size() > kMaxDeviceNames) {
    fail(path, "devices: a list of device names belongs here; leave it out for any device");
  }
  std::set<std::string> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string() || list[i].get_ref<const std::string&>().empty()) {
      fail(path, fmt::format("devices[{}]: a device name belongs here", i));
    }
    names.push_back(list[i].get<std::string>());
    if (!seen.insert(names.back()).second) {
      fail(path, fmt::format("devices[{}]: {} is named twice", i, quote(names.back())));
    }
  }
  return names;
}

KernelRule read_rule(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  KernelRule rule;
  rule.bitwidth = static_cast<std::int32_t>(fields.integer("bitwidth", 1, 16));
  rule.method = fields.text("method");
  if (rule.method.empty()) fail(path, "method: empty; name the kernel, as in \"cublas-fp16\"");
  rule.min_compute_capability = fields.number("min_compute_capability", 0, 100, 0);
  const bool bounded = fields.has("max_compute_capability");
  if (bounded) rule.max_compute_capability = fields.number("max_compute_capability", 0, 100);
  if (rule.max_compute_capability < rule.min_compute_capability) {
    fail(path,
         fmt::format("max_compute_capability: {} is below min_compute_capability {}",
                     rule.max_compute_capability, rule.min_compute_capability),
         ErrorCode::out_of_range);
  }
  rule.devices = read_devices(fields, path);
  rule.compute_dtype = read_dtype(fields, path);
  rule.dtype = fields.text("dtype", "");
  if (!rule.dtype.empty()) dtype_traits(rule.dtype);  // throws for an unknown word
  rule.flop_ratio = fields.number("flop_ratio", kMinRatio, 1);
  rule.memory_ratio = fields.number("memory_ratio", kMinRatio, 1);
  rule.token_s_per_parameter = fields.number("token_s_per_parameter", 0, 1, 0);
  rule.linear_overhead_s = fields.number("linear_overhead_s", 0, 10, 0);
  rule.group_size = static_cast<double>(fields.integer("group_size", 0, 1 << 20, 0));
  rule.source = fields.text("source", "");
  fields.finish();
  return rule;
}

bool names_device(const KernelRule& rule, const std::string& name) {
  return std::find(rule.devices.begin(), rule.devices.end(), name) != rule.devices.end();
}

// Two rules that would match some device equally well, so that the file's order would decide.
bool clash(const KernelRule& a, const KernelRule& b) {
  if (a.bitwidth != b.bitwidth || a.min_compute_capability != b.min_compute_capability) {
    return false;
  }
  if (a.devices.empty() || b.devices.empty()) return a.devices.empty() == b.devices.empty();
  return std::any_of(a.devices.begin(), a.devices.end(),
                     [&](const std::string& name) { return names_device(b, name); });
}

bool applies(const KernelRule& rule, const Device& device) {
  return device.compute_capability >= rule.min_compute_capability &&
         device.compute_capability <= rule.max_compute_capability &&
         (rule.devices.empty() || names_device(rule, device.name)) &&
         device.flop_per_s.count(rule.compute_dtype) > 0;
}

bool more_specific(const KernelRule& a, const KernelRule& b) {
  if (a.devices.empty() != b.devices.empty()) return b.devices.empty();
  return a.min_compute_capability > b.min_compute_capability;
}

Json rule_to_json(const KernelRule& rule) {
  Json json;
  json["bitwidth"] = rule.bitwidth;
  json["method"] = rule.method;
  json["min_compute_capability"] = rule.min_compute_capability;
  if (rule.max_compute_capability != KernelRule().max_compute_capability) {
    json["max_compute_capability"] = rule.max_compute_capability;
  }
  if (!rule.devices.empty()) json["devices"] = rule.devices;
  json["compute_dtype"] = rule.compute_dtype;
  if (!rule.dtype.empty()) json["dtype"] = rule.dtype;
  json["flop_ratio"] = rule.flop_ratio;
  json["memory_ratio"] = rule.memory_ratio;
  json["token_s_per_parameter"] = rule.token_s_per_parameter;
  json["linear_overhead_s"] = rule.linear_overhead_s;
  json["group_size"] = rule.group_size;
  if (!rule.source.empty()) json["source"] = rule.source;
  return json;
}

void read_rules(const Json& rules, const std::string& path, KernelSet& set) {
  if (!rules.is_array() || rules.empty() || rules.size() > kMaxRules) {
    fail(path, fmt::format("rules: a list of 1 to {} rules belongs here", kMaxRules));
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string rule_path = fmt::format("{}: rules[{}]", path, i);
    set.rules.push_back(read_rule(rules[i], rule_path));
    for (std::size_t k = 0; k < i; ++k) {
      if (clash(set.rules[k], set.rules[i])) {
        fail(rule_path, fmt::format("the same bitwidth ({}), min_compute_capability and devices "
                                    "as rules[{}]; keep one, or tell them apart",
                                    set.rules[i].bitwidth, k));
      }
    }
  }
}

}  // namespace

const KernelRule* KernelSet::find(const Device& device, std::int32_t bitwidth) const {
  const KernelRule* best = nullptr;
  for (const KernelRule& rule : rules) {
    if (rule.bitwidth != bitwidth || !applies(rule, device)) continue;
    if (best == nullptr || more_specific(rule, *best)) best = &rule;
  }
  return best;
}

std::vector<std::int32_t> KernelSet::bitwidths_on(const Device& device) const {
  std::set<std::int32_t> bitwidths;
  for (const KernelRule& rule : rules) {
    if (applies(rule, device)) bitwidths.insert(rule.bitwidth);
  }
  return {bitwidths.begin(), bitwidths.end()};
}

KernelSet kernel_set_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  KernelSet set;
  set.name = fields.text("name");
  if (set.name.empty()) fail(path, "name: empty; a kernel set needs a name");
  set.doc = fields.text("doc", "");
  set.source = fields.text("source", "");
  const std::string provenance = fields.text("provenance", "modelled");
  const auto known = provenance_from_string(provenance);
  if (!known) {
    fail(path,
         fmt::format("provenance: unknown word {}{}", quote(provenance),
                     did_you_mean(provenance, {"measured", "fitted", "published", "modelled"})));
  }
  set.provenance = *known;
  set.layer_overhead_s = fields.number("layer_overhead_s", 0, 10, 0);
  set.attention_flop_ratio =
      fields.number("attention_flop_ratio", kMinRatio, 1, set.attention_flop_ratio);
  set.attention_memory_ratio =
      fields.number("attention_memory_ratio", kMinRatio, 1, set.attention_memory_ratio);
  read_rules(fields.at("rules"), path, set);
  fields.finish();
  return set;
}

Json to_json(const KernelSet& set) {
  Json json;
  json["name"] = set.name;
  if (!set.doc.empty()) json["doc"] = set.doc;
  json["provenance"] = std::string(to_string(set.provenance));
  json["layer_overhead_s"] = set.layer_overhead_s;
  json["attention_flop_ratio"] = set.attention_flop_ratio;
  json["attention_memory_ratio"] = set.attention_memory_ratio;
  json["rules"] = Json::array();
  for (const KernelRule& rule : set.rules) json["rules"].push_back(rule_to_json(rule));
  if (!set.source.empty()) json["source"] = set.source;
  return json;
}

KernelSet find_kernel_set(const std::string& name, const DataFolders& folders) {
  const std::string path = folders.require("kernel_sets", name);
  return kernel_set_from_json(read_json_file(path), path);
}

}  // namespace tessera::cost
