#include "tessera/core/stored_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

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
  return lower(found->get<std::string>());
}

std::optional<double> number(const Json& object, const char* name) {
  const Json* found = member(object, name);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return value >= 1 && value <= 32 ? std::optional(value) : std::nullopt;
}

// Of a list, its last: FP8 blocks are [outputs, inputs]. -1 says a whole row.
std::optional<std::int64_t> group_size(const Json& object,
                                       std::initializer_list<const char*> names) {
  constexpr std::int64_t kLargest = 1 << 24;
  for (const char* name : names) {
    const Json* found = member(object, name);
    if (found != nullptr && found->is_array() && !found->empty()) found = &found->back();
    if (found == nullptr || !found->is_number_integer()) continue;
    const auto value = found->get<std::int64_t>();
    if (value >= 1 && value <= kLargest) return value;
  }
  return std::nullopt;
}

bool flag(const Json& object, const char* name) {
  const Json* found = member(object, name);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

// Of all config groups; where layers differ, the most bits of any and the largest groups.
StoredFormat of_groups(const Json& quantised) {
  StoredFormat out{.format = "compressed-tensors"};
  const Json* groups = member(quantised, "config_groups");
  if (groups == nullptr || !groups->is_object()) return out;
  bool is_uniform = true, is_float = false;
  double most = 0, activations = 0;  // 0: of no group yet
  for (const auto& [name, group] : groups->items()) {
    const Json* weights = member(group, "weights");
    const Json* inputs = member(group, "input_activations");
    const double bits = weights ? number(*weights, "num_bits").value_or(0) : 0;
    const double own = inputs ? number(*inputs, "num_bits").value_or(0) : 16;
    if (bits == 0 || own == 0) return out;
    is_uniform = is_uniform && (most == 0 || (most == bits && activations == own));
    is_float = is_float || lower_text(*weights, "type") == "float";
    most = std::max(most, bits);
    activations = own;
    const auto size = group_size(*weights, {"group_size", "block_structure"});
    if (size) out.group_size = std::max(out.group_size.value_or(0), *size);
  }
  if (most == 0) return out;
  out.bits = most;
  if (!is_uniform) {
    *out.format += " mix";
  } else if (is_float) {
    out.format = most == 8 ? "fp8" : most == 4 ? "nvfp4" : "compressed-tensors";
  } else {
    *out.format += fmt::format(" w{:g}a{:g}", most, activations);
  }
  return out;
}

// ModelOpt's "NVFP4", "FP8", "W4A16_AWQ", "INT8_SQ"; layers of a mix have their own.
StoredFormat of_algorithm(const Json& quantised) {
  const std::string algorithm = lower_text(quantised, "quant_algo");
  const auto has = [&](const char* word) { return algorithm.find(word) != std::string::npos; };
  const auto size = group_size(quantised, {"group_size"});
  if (algorithm.empty()) return {};  // of the KV cache alone
  if (has("nvfp4")) return {.format = "nvfp4", .bits = 4, .group_size = size.value_or(16)};
  if (has("w4a") || has("int4")) return {.format = "modelopt", .bits = 4, .group_size = size};
  if (has("fp8")) return {.format = "fp8", .bits = 8, .group_size = has("pb") ? 128 : size};
  if (has("int8") || has("w8a")) return {.format = "modelopt", .bits = 8};
  StoredFormat out{.format = "modelopt mix"};
  const Json* layers = member(quantised, "quantized_layers");
  if (layers == nullptr || !layers->is_object()) return out;
  for (const auto& [name, layer] : layers->items()) {
    if (lower_text(layer, "quant_algo") == "mixed_precision") continue;
    const StoredFormat own = of_algorithm(layer);
    if (!own.bits) continue;
    out.bits = std::max(out.bits.value_or(0), *own.bits);
    if (own.group_size) out.group_size = std::max(out.group_size.value_or(0), *own.group_size);
  }
  return out;
}

// Of methods that say bits somewhere within: HQQ's nbits, and types of torchao and Quark.
std::optional<double> bits_within(const Json& quantised) {
  for (const Json* at = member(quantised, "quant_config"); at != nullptr;
       at = member(*at, "weight_quant_params")) {
    if (const auto bits = number(*at, "nbits")) return bits;
  }
  std::string words;
  for (const char* key : {"quant_type", "global_quant_config"}) {
    if (const Json* found = member(quantised, key)) words += found->dump(-1, ' ', true);
  }
  words = lower(words);
  for (const auto& [word, bits] :
       {std::pair{"int4", 4}, {"fp4", 4}, {"float8", 8}, {"fp8", 8}, {"int8", 8}}) {
    if (words.find(word) != std::string::npos) return bits;
  }
  return std::nullopt;
}

StoredFormat of_method(const Json& quantised) {
  const std::string method = lower_text(quantised, "quant_method");
  if (method == "compressed-tensors") return of_groups(quantised);
  if (method == "modelopt" || method == "modelopt_fp4") {
    return of_algorithm(quantised);
  }
  if (method == "fp8" || method == "fbgemm_fp8") {
    return {.format = "fp8", .bits = 8, .group_size = group_size(quantised, {"weight_block_size"})};
  }
  if (method == "mxfp4") return {.format = "mxfp4", .bits = 4};
  if (flag(quantised, "load_in_8bit")) return {.format = "bitsandbytes", .bits = 8};
  if (flag(quantised, "load_in_4bit")) return {.format = "bitsandbytes", .bits = 4};
  StoredFormat out{.format = method};
  if (method.empty()) out.format.reset();
  out.bits = number(quantised, "bits");
  if (!out.bits) out.bits = number(quantised, "w_bit");
  if (!out.bits) out.bits = number(quantised, "nbits");
  if (!out.bits && method == "awq") out.bits = 4;
  if (!out.bits) out.bits = bits_within(quantised);
  out.group_size = group_size(quantised, {"group_size", "q_group_size"});
  return out;
}

StoredFormat of_config(const Json& quantised, const std::string& key, const std::string& path) {
  if (!quantised.is_object() || quantised.empty()) {
    refuse(ErrorCode::invalid_argument, path,
           "{} is no object that says a quant_method; of a checkpoint of numbers leave it out",
           key);
  }
  StoredFormat out = of_method(quantised);
  if (!out.format) {
    refuse(ErrorCode::invalid_argument, path,
           "{}.quant_method is missing, so nobody knows how the weights are stored", key);
  }
  return out;
}

std::string words(const StoredFormat& one) {
  return one.bits ? fmt::format("{} of {:g} bits", *one.format, *one.bits) : *one.format;
}

}  // namespace

StoredFormat stored_format(const Json& config, const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  const Json* text = member(config, "text_config");
  StoredFormat out;
  std::string said_by;
  // The second name is compressed-tensors' first one.
  for (const auto& [object, key] : {std::pair{&config, "quantization_config"},
                                    {&config, "compression_config"},
                                    {text, "quantization_config"}}) {
    const Json* found = object == nullptr ? nullptr : member(*object, key);
    if (found == nullptr) continue;
    const std::string name = std::string(object == text ? "text_config." : "") + key;
    const StoredFormat own = of_config(*found, name, path);
    if (out.format && (own.format != out.format || own.bits != out.bits)) {
      refuse(ErrorCode::invalid_argument, path,
             "{} says {}, and {} of the same file {}; take away the one that is wrong", name,
             words(own), said_by, words(out));
    }
    if (out.format) continue;
    out = own;
    said_by = name;
  }
  // DeepSeek-V4 calls itself FP8, and nearly all of it are experts that are MXFP4.
  for (const Json* at : {&config, member(config, "quantization_config")}) {
    if (at != nullptr && out.format == "fp8" && lower_text(*at, "expert_dtype") == "fp4")
      out = {.format = "fp8 with fp4 experts", .bits = 4};
  }
  const std::string beside = (std::filesystem::path(folder) / "hf_quant_config.json").string();
  if (file_kind(beside) != FileKind::file) return out;
  const Json modelopt = read_json_file(beside);
  const Json* found = member(modelopt, "quantization");
  const StoredFormat other = found == nullptr ? StoredFormat{} : of_algorithm(*found);
  if (!out.format || !other.format) return out.format ? out : other;
  if (out.bits == other.bits) return out;
  refuse(
      ErrorCode::invalid_argument, beside,
      "quantization.quant_algo says {}, and quantization_config of the config.json beside it {}; "
      "take away the one that is wrong",
      words(other), words(out));
}

}  // namespace tessera
