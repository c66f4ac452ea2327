#include "tessera/core/stored_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "tessera/core/files.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string lower_text(const Json& object, const char* name) {
  const Json* found = member(object, name);
  if (found == nullptr || !found->is_string()) return "";
  std::string text = found->get<std::string>();
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<double> number(const Json& object, const char* name) {
  const Json* found = member(object, name);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return value >= 1 && value <= 32 ? std::optional(value) : std::nullopt;
}

bool flag(const Json& object, const char* name) {
  const Json* found = member(object, name);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

// Of all config groups; groups that differ are layers that differ.
StoredFormat of_groups(const Json& quantised) {
  StoredFormat out{.format = "compressed-tensors"};
  std::optional<double> activations;
  const Json* groups = member(quantised, "config_groups");
  if (groups == nullptr || !groups->is_object()) return out;
  bool is_uniform = true, is_float = false;
  for (const auto& [name, group] : groups->items()) {
    const Json* weights = member(group, "weights");
    const auto bits = weights ? number(*weights, "num_bits") : std::nullopt;
    const Json* inputs = member(group, "input_activations");
    const auto own = inputs ? number(*inputs, "num_bits") : std::optional<double>(16);
    is_uniform = is_uniform && bits && (!out.bits || (out.bits == bits && activations == own));
    is_float = is_float || (weights && lower_text(*weights, "type") == "float");
    out.bits = bits;
    activations = own;
  }
  if (!is_uniform || !out.bits || !activations) {
    out.bits.reset();
    return out;
  }
  if (is_float) {
    out.format = *out.bits == 8 ? "fp8" : *out.bits == 4 ? "nvfp4" : "compressed-tensors";
  } else {
    *out.format += fmt::format(" w{:g}a{:g}", *out.bits, *activations);
  }
  return out;
}

// ModelOpt's "NVFP4", "FP8", "W4A16_AWQ", "INT8_SQ".
StoredFormat of_algorithm(const std::string& algorithm) {
  StoredFormat out{.format = "modelopt"};
  const auto has = [&](const char* word) { return algorithm.find(word) != std::string::npos; };
  if (has("nvfp4")) return {.format = "nvfp4", .bits = 4};
  if (has("w4a") || has("int4")) return {.format = "modelopt", .bits = 4};
  if (has("fp8")) return {.format = "fp8", .bits = 8};
  if (has("int8") || has("w8a")) return {.format = "modelopt", .bits = 8};
  return out;
}

StoredFormat of_method(const Json& quantised) {
  const std::string method = lower_text(quantised, "quant_method");
  if (method == "compressed-tensors") return of_groups(quantised);
  if (method == "modelopt" || method == "modelopt_fp4") {
    return of_algorithm(lower_text(quantised, "quant_algo"));
  }
  if (method == "fp8" || method == "fbgemm_fp8") return {.format = "fp8", .bits = 8};
  if (method == "mxfp4") return {.format = "mxfp4", .bits = 4};
  if (flag(quantised, "load_in_8bit")) return {.format = "bitsandbytes", .bits = 8};
  if (flag(quantised, "load_in_4bit")) return {.format = "bitsandbytes", .bits = 4};
  StoredFormat out{.format = method};
  if (method.empty()) out.format.reset();
  out.bits = number(quantised, "bits");
  if (!out.bits) out.bits = number(quantised, "w_bit");
  if (!out.bits) out.bits = number(quantised, "nbits");
  if (!out.bits && method == "awq") out.bits = 4;
  return out;
}

}  // namespace

StoredFormat stored_format(const Json& config, const std::string& folder) {
  for (const Json* at : {&config, member(config, "text_config")}) {
    const Json* found = at == nullptr ? nullptr : member(*at, "quantization_config");
    if (found != nullptr && found->is_object()) return of_method(*found);
  }
  const std::string beside = (std::filesystem::path(folder) / "hf_quant_config.json").string();
  if (file_kind(beside) != FileKind::file) return {};
  const Json modelopt = read_json_file(beside);
  const Json* found = member(modelopt, "quantization");
  return found == nullptr ? StoredFormat{} : of_algorithm(lower_text(*found, "quant_algo"));
}

}  // namespace tessera
