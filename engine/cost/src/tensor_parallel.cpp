#include "tessera/cost/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "counts.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/prediction_sum.h"

namespace tessera::cost {
namespace {

constexpr double kBestTokenBytes = 8;     // its logit and its id
constexpr std::int64_t kMostDegree = 64;  // of those that a refusal proposes

// Row-parallel matrices take what the column-parallel ones before them put out.
bool is_row_parallel(const LinearShape& linear) {
  for (const char* name : {"o_proj", "out_proj", "down_proj", "fc2"}) {
    if (linear.name.ends_with(name)) return true;
  }
  return false;
}

std::int64_t& cut_side(LinearShape& linear) {
  return is_row_parallel(linear) ? linear.in_features : linear.out_features;
}

bool is_of_kv_heads(const LinearShape& linear) {
  return linear.name.ends_with("k_proj") || linear.name.ends_with("v_proj");
}

// Different pieces of a matrix: devices beyond the KV heads hold copies of those, and all hold what
// makes the latents.
std::int64_t num_pieces(const LayerShape& layer, const LinearShape& linear, std::int64_t degree) {
  if (linear.name.ends_with("q_a_proj") || linear.name.ends_with("kv_a_proj")) return 1;
  return is_of_kv_heads(linear) ? std::min(degree, layer.num_kv_heads) : degree;
}

std::string why_uneven(const ModelShape& model, std::int64_t degree) {
  const auto uneven = [&](const std::string& what, std::int64_t number) {
    return fmt::format("{} {} do not divide by {}", number, what, degree);
  };
  for (const LayerShape& layer : model.layer_classes) {
    const std::int64_t kv_heads = layer.num_kv_heads;
    if (layer.num_heads % degree != 0) return uneven("heads", layer.num_heads);
    if (kv_heads % degree != 0 && degree % kv_heads != 0) {
      return uneven("KV heads", kv_heads) + fmt::format(", nor {} by {}", degree, kv_heads);
    }
    for (LinearShape linear : layer.linears) {
      const std::int64_t side = cut_side(linear);
      if (side % num_pieces(layer, linear, degree) == 0) continue;
      return uneven((is_row_parallel(linear) ? "rows of " : "columns of ") + linear.name, side);
    }
  }
  return {};
}

class TensorParallel final : public LatencyModel {
 public:
  TensorParallel(std::unique_ptr<LatencyModel> member, std::int64_t degree, Link link,
                 std::shared_ptr<const Profile> profile, const SumKernels& sums)
      : member_(std::move(member)),
        degree_(degree),
        link_(std::move(link)),
        profile_(std::move(profile)),
        sums_(sums) {}

  Prediction layer(const LayerShape& layer, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                   const LayerWork& work) const override {
    const double hidden = layer.linears.empty() ? 0 : count(layer.linears.front().in_features);
    return with_sums(member_->layer(shard(layer, degree_), bitwidth, kv_bitwidth, work),
                     work.batch_size * work.tokens * hidden * kFp16Bytes, 2);
  }

  Prediction attention(const LayerShape& layer, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                       const LayerWork& work) const override {
    return member_->attention(shard(layer, degree_), bitwidth, kv_bitwidth, work);
  }

  Prediction embedding(const ModelShape& model, double rows) const override {
    return with_sums(member_->embedding(shard(model, degree_), rows),
                     rows * count(model.hidden_size) * kFp16Bytes, 1);
  }

  Prediction lm_head(const ModelShape& model, double rows) const override {
    return with_sums(member_->lm_head(shard(model, degree_), rows), rows * kBestTokenBytes, 1);
  }

  bool is_monotone() const override { return member_->is_monotone(); }

 private:
  /// What a member computes, and `times` sums of `bytes` over the group.
  Prediction with_sums(const Prediction& time, double bytes, double times) const {
    PredictionSum whole;
    whole.add(time);
    whole.add(sum_of(bytes), times);
    return whole.result(time.method);
  }

  Prediction sum_of(double bytes) const {
    OpQuery query;
    query.op = Op::all_reduce;
    query.dtype = "bfloat16";
    query.bytes = bytes;
    query.num_devices = static_cast<std::int32_t>(degree_);
    if (sums_.by_nccl) query.name = "nccl";
    Prediction sum = predict_sum(query, link_, profile_.get());
    sum.seconds.value += sums_.rank_skew_s * count(degree_ - 1);
    return sum;
  }

  std::unique_ptr<LatencyModel> member_;
  std::int64_t degree_;
  Link link_;
  std::shared_ptr<const Profile> profile_;
  SumKernels sums_;
};

}  // namespace

std::optional<std::string> why_not_sharded(const ModelShape& model, std::int64_t degree) {
  const std::string reason = why_uneven(model, degree);
  if (reason.empty()) return std::nullopt;
  std::vector<std::string> even;
  for (std::int64_t other = 1; other <= kMostDegree; ++other) {
    if (why_uneven(model, other).empty()) even.push_back(fmt::to_string(other));
  }
  return reason + "; degrees that do: " + join(even, ", ");
}

LayerShape shard(const LayerShape& layer, std::int64_t degree) {
  LayerShape part = layer;
  for (LinearShape& linear : part.linears) cut_side(linear) /= num_pieces(layer, linear, degree);
  part.num_heads /= degree;
  part.num_kv_heads = std::max<std::int64_t>(1, layer.num_kv_heads / degree);
  return part;
}

ModelShape shard(const ModelShape& model, std::int64_t degree) {
  if (degree == 1) return model;
  ModelShape part = model;
  for (LayerShape& layer : part.layer_classes) layer = shard(layer, degree);
  part.num_heads /= degree;
  part.num_kv_heads = std::max<std::int64_t>(1, model.num_kv_heads / degree);
  part.ffn_size /= degree;
  if (model.vocab_size > 0) {
    const std::int64_t width = model.token_embedding_parameters / model.vocab_size;
    part.vocab_size = ceil_div(model.vocab_size, degree);
    part.token_embedding_parameters = width * part.vocab_size;
    part.lm_head_parameters = ceil_div(model.lm_head_parameters, degree);
  }
  return part;
}

std::unique_ptr<LatencyModel> make_tensor_parallel(std::unique_ptr<LatencyModel> member,
                                                   std::int64_t degree, const Link& link,
                                                   std::shared_ptr<const Profile> profile,
                                                   const SumKernels& sums) {
  if (degree == 1) return member;
  return std::make_unique<TensorParallel>(std::move(member), degree, link, std::move(profile),
                                          sums);
}

}  // namespace tessera::cost
