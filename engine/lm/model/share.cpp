#include "share.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "description.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::lm {
namespace {

// How many ranks can share these numbers evenly.
std::string divisors(std::int64_t common) {
  std::vector<std::string> found;
  for (std::int64_t ranks = 1; ranks <= common; ++ranks)
    if (common % ranks == 0) found.push_back(std::to_string(ranks));
  return join(found, ", ");
}

void check_layer(std::int64_t ranks, const ModelShape& shape, std::int64_t index) {
  const LayerShape& layer = shape.layer(index);
  std::int64_t common = std::gcd(layer.num_heads, layer.num_kv_heads);
  std::string numbers = fmt::format("{} heads, {} KV heads", layer.num_heads, layer.num_kv_heads);
  for (const LinearShape& linear : layer.linears) {
    if (!linear.name.ends_with("down_proj")) continue;
    common = std::gcd(common, linear.in_features);
    numbers += fmt::format(", {} columns of {}", linear.in_features, linear.name);
  }
  if (common % ranks == 0) return;
  refuse(ErrorCode::out_of_range, "ranks",
         "layer {} of {} has {}, which {} ranks do not share evenly; these do: {}", index,
         shape.name, numbers, ranks, divisors(common));
}

}  // namespace

void check_share(const LoadRequest& request, const ModelShape& shape) {
  if (request.ranks < 1 || request.rank < 0 || request.rank >= request.ranks) {
    refuse(ErrorCode::out_of_range, "rank", "{} of {} ranks; they count from 0", request.rank,
           request.ranks);
  }
  const Reducer* reducer = request.reducer.get();
  if (reducer != nullptr &&
      (reducer->rank() != request.rank || reducer->ranks() != request.ranks)) {
    refuse("reducer", "it is that of rank {} of {}, for rank {} of {}", reducer->rank(),
           reducer->ranks(), request.rank, request.ranks);
  }
  if (!(request.attention_elsewhere >= 0 && request.attention_elsewhere <= 1)) {
    refuse(ErrorCode::out_of_range, "attention_elsewhere", "{} is no ratio, from 0 to 1",
           request.attention_elsewhere);
  }
  if (request.attention_elsewhere > 0 && request.ranks > 1) {
    refuse(ErrorCode::unsupported, "attention_elsewhere",
           "{} tensor-parallel ranks share the heads already", request.ranks);
  }
  for (std::int64_t index = 0; index < shape.num_layers; ++index) {
    const LayerShape& layer = shape.layer(index);
    const bool alone = request.ranks == 1 && request.attention_elsewhere == 0;
    if (alone || (!layer.state && !layer.latent_width)) continue;
    refuse(ErrorCode::unsupported, request.ranks > 1 ? "ranks" : "attention_elsewhere",
           "layer {} of {} keeps {}, which is not shared; run the model in one process", index,
           shape.name, layer.state ? "a state" : "a latent of all heads");
  }
  for (std::int64_t index = request.first_layer; index < request.last_layer; ++index)
    check_layer(request.ranks, shape, index);
}

}  // namespace tessera::lm
