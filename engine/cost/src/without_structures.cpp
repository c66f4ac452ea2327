#include <algorithm>
#include <cmath>

#include "counts.h"
#include "tessera/core/error.h"
#include "tessera/cost/lone_run.h"

namespace tessera::cost {
namespace {

constexpr std::int64_t kColumnsAtATime = 64;

std::int64_t kept(std::int64_t number, double ratio, std::int64_t at_a_time = 1) {
  const double steps = std::round(count(number) * (1 - ratio) / count(at_a_time));
  return std::min(number, std::max<std::int64_t>(1, static_cast<std::int64_t>(steps)) * at_a_time);
}

void prune(LayerShape& layer, double ratio) {
  const std::int64_t heads = layer.num_heads, kv_heads = layer.num_kv_heads;
  layer.num_kv_heads = kept(kv_heads, ratio);
  layer.num_heads = kv_heads == 1 ? kept(heads, ratio) : layer.num_kv_heads * (heads / kv_heads);
  for (LinearShape& linear : layer.linears) {
    const auto named = [&](const char* name) { return linear.name.ends_with(name); };
    if (named("q_proj")) {
      linear.out_features = linear.out_features / heads * layer.num_heads;
    } else if (named("k_proj") || named("v_proj")) {
      linear.out_features = linear.out_features / kv_heads * layer.num_kv_heads;
    } else if (named("o_proj") || named("out_proj")) {
      linear.in_features = linear.in_features / heads * layer.num_heads;
    } else if (named("down_proj") || named("fc2")) {
      linear.in_features = kept(linear.in_features, ratio, kColumnsAtATime);
    } else {
      linear.out_features = kept(linear.out_features, ratio, kColumnsAtATime);
    }
  }
}

}  // namespace

ModelShape without_structures(const ModelShape& model, double ratio) {
  ModelShape pruned = model;
  for (LayerShape& layer : pruned.layer_classes) {
    if (!layer.attends() || layer.state) {
      throw Error(ErrorCode::unsupported,
                  model.name + " has layers with a state, of which no structures are taken out",
                  "run");
    }
    if (layer.latent_width) {
      throw Error(ErrorCode::unsupported,
                  model.name + " has latent attention, of which no structures are taken out",
                  "run");
    }
    prune(layer, ratio);
  }
  pruned.num_heads = pruned.layer_classes.front().num_heads;
  pruned.num_kv_heads = pruned.layer_classes.front().num_kv_heads;
  pruned.ffn_size = kept(model.ffn_size, ratio, kColumnsAtATime);
  return pruned;
}

}  // namespace tessera::cost
