#include "tessera/solver/serving/server_request.h"

#include <algorithm>
#include <cmath>

namespace tessera::solver {

double request_share(const ModelShape& model) {
  constexpr double kDense = 0.9, kWithWindows = 0.7;
  const auto has_window = [](const LayerShape& layer) {
    return layer.attention_window.has_value();
  };
  const std::vector<LayerShape>& kinds = model.layer_classes;
  const bool mixed = std::any_of(kinds.begin(), kinds.end(), has_window) &&
                     !std::all_of(kinds.begin(), kinds.end(), has_window);
  return mixed ? kWithWindows : kDense;
}

std::int64_t least_cache_tokens(const ModelShape& model, std::int64_t request_tokens) {
  const double tokens = static_cast<double>(request_tokens) / request_share(model);
  const auto least = static_cast<std::int64_t>(std::ceil(tokens));
  return model.max_context_tokens > 0 ? std::min(least, model.max_context_tokens) : least;
}

}  // namespace tessera::solver
