#include "quantised.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
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

}  // namespace tessera::weights
