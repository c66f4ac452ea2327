#include "config.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/core/text.h"

namespace tessera::quant {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '.') out += '\\';
    out += c;
  }
  return out;
}

// "re:^model\.layers\.(0|2)\.mlp\.down_proj$": the layers that share a bitwidth, one pattern for
// each kind of module in them. Numbers of experts count as one kind.
std::vector<std::string> patterns_of(const std::vector<StoredModule>& modules, int bitwidth) {
  std::map<std::pair<std::string, std::string>, std::set<std::int64_t>> layers;
  for (const StoredModule& module : modules) {
    if (module.bitwidth != bitwidth) continue;
    const std::string layer = fmt::format(".{}.", module.layer_index);
    const std::size_t at = module.name.find(layer);
    std::string after = module.name.substr(at + layer.size());
    constexpr std::string_view kExperts = "experts.";
    if (const std::size_t expert = after.find(kExperts); expert != std::string::npos) {
      const std::size_t digits = expert + kExperts.size();
      after = escaped(after.substr(0, digits)) + "\\d+" +
              escaped(after.substr(after.find_first_not_of("0123456789", digits)));
    } else {
      after = escaped(after);
    }
    layers[{escaped(module.name.substr(0, at)), after}].insert(module.layer_index);
  }
  std::vector<std::string> patterns;
  for (const auto& [around, numbers] : layers) {
    patterns.push_back(
        fmt::format("re:^{}\\.({})\\.{}$", around.first, fmt::join(numbers, "|"), around.second));
  }
  return patterns;
}

Json weights_of(const Scheme& scheme, int bitwidth) {
  Json weights{{"num_bits", bitwidth},
               {"type", "int"},
               {"symmetric", scheme.symmetric},
               {"strategy", name_of(scheme.granularity)},
               {"dynamic", false}};
  if (scheme.granularity == Granularity::group) weights["group_size"] = scheme.group_size;
  if (scheme.act_order != ActOrder::none) weights["actorder"] = name_of(scheme.act_order);
  return weights;
}

}  // namespace

Json quantization_config(const std::vector<StoredModule>& quantised,
                         const std::vector<std::string>& ignore, const Scheme& scheme,
                         bool as_int8) {
  std::set<int> bitwidths;
  for (const StoredModule& module : quantised) bitwidths.insert(module.bitwidth);
  Json groups = Json::object();
  for (const int bitwidth : bitwidths) {
    // vLLM looks for "Linear" where a model has experts; patterns are for mixed bitwidths.
    Json group{{"targets", bitwidths.size() == 1 ? std::vector<std::string>{"Linear"}
                                                 : patterns_of(quantised, bitwidth)},
               {"weights", weights_of(scheme, bitwidth)},
               {"input_activations", nullptr},
               {"output_activations", nullptr}};
    if (as_int8) {
      group["input_activations"] = {{"num_bits", 8},
                                    {"type", "int"},
                                    {"symmetric", true},
                                    {"strategy", "token"},
                                    {"dynamic", true}};
    }
    groups[fmt::format("group_{}", groups.size())] = std::move(group);
  }
  return {{"quant_method", "compressed-tensors"},
          {"format", as_int8 ? "int-quantized" : "pack-quantized"},
          {"quantization_status", "compressed"},
          {"config_groups", std::move(groups)},
          {"ignore", ignore}};
}

}  // namespace tessera::quant
