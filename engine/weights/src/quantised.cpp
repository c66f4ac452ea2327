#include "quantised.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/stored_format.h"
#include "tessera/core/text.h"

namespace tessera::weights {

std::optional<QuantisedPart> quantised_part(const Weights& weights, const std::string& weight) {
  // After the module's name. Sources: the compressors of compressed-tensors, and the linears of
  // GPTQModel, AutoAWQ, transformers' FP8 and bitsandbytes, and HQQ.
  constexpr std::pair<const char*, const char*> kParts[] = {
      {".weight_packed", "compressed-tensors, packed"},
      {".qweight", "GPTQ or AWQ"},
      {".weight_scale_inv", "FP8 in blocks"},
      {".weight_scale", "compressed-tensors or FP8, a scale beside the weight"},
      {".weight.absmax", "bitsandbytes, 4 bits"},
      {".SCB", "bitsandbytes, 8 bits"},
      {".W_q", "HQQ"}};
  constexpr std::string_view kWeight = ".weight";
  const std::string module =
      weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
  for (const auto& [ending, format] : kParts) {
    if (const TensorInfo* found = weights.find(module + ending))
      return QuantisedPart{found, format};
  }
  return std::nullopt;
}

void refuse_quantised(const Weights& weights, const QuantisedPart& part) {
  std::string configured;
  if (const auto found = weights.config().find("quantization_config");
      found != weights.config().end() && found->is_object()) {
    const auto method = found->find("quant_method");
    if (method != found->end() && method->is_string())
      configured = ", and config.json as quant_method " + quote(method->get<std::string>());
  }
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: the weights are quantised already, as {} shows ({}){}; take the "
                          "checkpoint in 16 bits that they were made from",
                          quote(part.tensor->file, 300), quote(part.tensor->name, 100), part.format,
                          configured),
              part.tensor->name);
}

void check_named_quantisation(const Weights& weights, const std::vector<LinearWeight>& linears) {
  if (weights.is_gguf() || !weights.config().is_object() || linears.empty()) return;
  const std::string folder = std::filesystem::path(weights.config_path()).parent_path().string();
  const StoredFormat stored = stored_format(weights.config(), folder);
  if (!stored.format) return;
  const auto is_numbers = [](const LinearWeight& linear) {
    const DType dtype = linear.tensor->dtype;
    return !linear.codes && (dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 ||
                             dtype == DType::f64);
  };
  if (!std::ranges::all_of(linears, is_numbers)) return;
  const TensorInfo& first = *linears.front().tensor;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} names a quantisation ({}), and {} holds none: {} and all other "
                          "matrices are numbers of {}; take the quantisation out of the "
                          "configuration, or fetch the weights that it belongs to",
                          quote(weights.config_path(), 300), *stored.format, quote(first.file, 300),
                          quote(first.name, 100), to_string(first.dtype)),
              first.name);
}

}  // namespace tessera::weights
