#include "tessera/cost/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "counts.h"
#include "layer_operators.h"
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
  for (const char* name : {"o_proj", "o_b_proj", "out_proj", "down_proj", "fc2", "mamba.x_proj"}) {
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
  for (const char* whole : {"q_a_proj", "kv_a_proj", ".f_a_proj", ".g_a_proj"}) {
    if (linear.name.ends_with(whole)) return 1;
  }
  for (const char* whole : {"indexer.", "compressor.", "latent.", "laurel.", "per_layer_input."}) {
    if (linear.name.starts_with(whole)) return 1;
  }
  const bool by_kv_heads = is_of_kv_heads(linear) && !is_of_state(linear);
  return by_kv_heads ? std::min(degree, layer.num_kv_heads) : degree;
}

/// Devices that a matrix is cut over.
std::int64_t degree_of(const LinearShape& linear, std::int64_t degree, const GroupSplit& split) {
  return degree / (is_expert(linear) ? split.expert_parallel : split.attention_data_parallel);
}

std::string why_uneven(const ModelShape& model, std::int64_t group, const GroupSplit& split) {
  const std::int64_t degree = group / split.attention_data_parallel;
  const auto uneven = [](const std::string& what, std::int64_t number, std::int64_t parts) {
    return fmt::format("{} {} do not divide by {}", number, what, parts);
  };
  for (const LayerShape& layer : model.layer_classes) {
    const std::int64_t kv_heads = layer.num_kv_heads;
    if (layer.num_heads % degree != 0) return uneven("heads", layer.num_heads, degree);
    if (layer.state && layer.state->num_heads % degree != 0) {
      return uneven("heads of the " + std::string(name_of(layer.state->kind)) + " state",
                    layer.state->num_heads, degree);
    }
    if (layer.attends() && kv_heads % degree != 0 && degree % kv_heads != 0) {
      return uneven("KV heads", kv_heads, degree) + fmt::format(", nor {} by {}", degree, kv_heads);
    }
    for (LinearShape linear : layer.linears) {
      const std::int64_t cut_over = degree_of(linear, group, split), side = cut_side(linear);
      if (is_expert(linear) && linear.num_copies % split.expert_parallel != 0) {
        return uneven("experts", linear.num_copies, split.expert_parallel);
      }
      if (side % num_pieces(layer, linear, cut_over) == 0) continue;
      return uneven((is_row_parallel(linear) ? "rows of " : "columns of ") + linear.name, side,
                    cut_over);
    }
  }
  return {};
}

double hidden_bytes(const LayerShape& layer, double rows) {
  const double hidden = layer.linears.empty() ? 0 : count(layer.linears.front().in_features);
  return rows * hidden * kFp16Bytes;
}

class TensorParallel final : public LatencyModel {
 public:
  TensorParallel(std::unique_ptr<LatencyModel> member, std::int64_t degree, Link link,
                 std::shared_ptr<const Profile> profile, const SumKernels& sums,
                 const GroupSplit& split)
      : member_(std::move(member)),
        degree_(degree),
        link_(std::move(link)),
        profile_(std::move(profile)),
        sums_(sums),
        split_(split) {}

  Prediction layer(const LayerShape& layer, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                   const LayerWork& work) const override {
    LayerShape held = shard(layer, degree_, split_);
    const LayerWork own = of_part(work);
    const double bytes = hidden_bytes(layer, own.batch_size * own.tokens);
    const bool apart = is_apart(layer);
    if (apart) held = without_experts(std::move(held));
    const Prediction time = member_->layer(held, bitwidth, kv_bitwidth, own);
    const double sums = count(num_halves(layer));
    if (!apart) return with_sums(time, bytes, sums);
    PredictionSum whole;
    whole.add(with_sums(time, bytes, sums));
    whole.add(experts(layer, bitwidth, work));
    return whole.result(time.method);
  }

  Prediction attention(const LayerShape& layer, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                       const LayerWork& work) const override {
    return member_->attention(shard(layer, degree_, split_), bitwidth, kv_bitwidth, of_part(work));
  }

  Prediction experts(const LayerShape& layer, std::int32_t bitwidth,
                     const LayerWork& work) const override {
    const Prediction time = member_->experts(shard(layer, degree_, split_), bitwidth, work);
    if (!is_apart(layer)) return time;
    PredictionSum whole;
    whole.add(time);
    OpQuery query;
    query.bytes = hidden_bytes(layer, work.batch_size * work.tokens);
    query.num_devices = static_cast<std::int32_t>(degree_);
    for (const Op op : {Op::all_gather, Op::reduce_scatter}) {
      query.op = op;
      whole.add(predict_collective(query, link_, profile_.get()));
    }
    return whole.result(time.method);
  }

  Prediction embedding(const ModelShape& model, double rows) const override {
    const double own = rows / count(split_.attention_data_parallel);
    return with_sums(member_->embedding(shard(model, degree_, split_), own),
                     own * count(model.hidden_size) * kFp16Bytes, 1);
  }

  Prediction lm_head(const ModelShape& model, double rows) const override {
    const double own = of_part(rows);
    return with_sums(member_->lm_head(shard(model, degree_, split_), own), own * kBestTokenBytes,
                     1);
  }

  bool is_monotone() const override { return member_->is_monotone(); }

 private:
  double of_part(double sequences) const {
    const double parts = count(split_.attention_data_parallel);
    return parts == 1 ? sequences : std::max(1.0, std::ceil(sequences / parts));
  }
  LayerWork of_part(LayerWork work) const {
    work.batch_size = of_part(work.batch_size);
    return work;
  }
  /// Whether experts have other rows than the rest of the layer.
  bool is_apart(const LayerShape& layer) const {
    return split_.attention_data_parallel > 1 && has_experts(layer);
  }

  /// What a member computes, and `times` sums of `bytes` over those that share its requests.
  Prediction with_sums(const Prediction& time, double bytes, double times) const {
    if (degree_ == split_.attention_data_parallel) return time;
    PredictionSum whole;
    whole.add(time);
    whole.add(sum_of(bytes), times);
    return whole.result(time.method);
  }

  Prediction sum_of(double bytes) const {
    const std::int64_t degree = degree_ / split_.attention_data_parallel;
    OpQuery query;
    query.op = Op::all_reduce;
    query.dtype = "bfloat16";
    query.bytes = bytes;
    query.num_devices = static_cast<std::int32_t>(degree);
    if (sums_.by_nccl) query.name = "nccl";
    Prediction sum = predict_sum(query, link_, profile_.get());
    sum.seconds.value += sums_.rank_skew_s * count(degree - 1);
    return sum;
  }

  std::unique_ptr<LatencyModel> member_;
  std::int64_t degree_;
  Link link_;
  std::shared_ptr<const Profile> profile_;
  SumKernels sums_;
  GroupSplit split_;
};

}  // namespace

std::optional<std::string> why_not_sharded(const ModelShape& model, std::int64_t degree) {
  const std::string reason = why_uneven(model, degree, {});
  if (reason.empty()) return std::nullopt;
  std::vector<std::string> even;
  for (std::int64_t other = 1; other <= kMostDegree; ++other) {
    if (why_uneven(model, other, {}).empty()) even.push_back(fmt::to_string(other));
  }
  return reason + "; degrees that do: " + join(even, ", ");
}

std::optional<std::string> why_not_sharded(const ModelShape& model, std::int64_t degree,
                                           const GroupSplit& split) {
  if (split.is_plain()) return why_not_sharded(model, degree);
  if (!has_experts(model)) return model.name + " has no experts";
  for (const std::int64_t parts : {split.attention_data_parallel, split.expert_parallel}) {
    if (degree % parts == 0) continue;
    return fmt::format("{} devices make no {} parts of one size", degree, parts);
  }
  const std::string reason = why_uneven(model, degree, split);
  return reason.empty() ? std::nullopt : std::optional(reason);
}

std::optional<std::string> why_groups_break(const ModelShape& model, double group_size,
                                            std::int64_t degree, const GroupSplit& split) {
  if (group_size <= 0) return std::nullopt;
  for (const LayerShape& layer : model.layer_classes) {
    for (const LinearShape& linear : shard(layer, degree, split).linears) {
      if (std::fmod(static_cast<double>(linear.in_features), group_size) == 0) continue;
      return fmt::format("groups of {:g} weights do not divide the {} inputs of {} at TP {}",
                         group_size, linear.in_features, linear.name, degree);
    }
  }
  return std::nullopt;
}

bool has_experts(const ModelShape& model) {
  const auto& classes = model.layer_classes;
  return std::any_of(classes.begin(), classes.end(),
                     [](const LayerShape& layer) { return has_experts(layer); });
}

LayerShape shard(const LayerShape& layer, std::int64_t degree, const GroupSplit& split) {
  LayerShape part = layer;
  for (LinearShape& linear : part.linears) {
    cut_side(linear) /= num_pieces(layer, linear, degree_of(linear, degree, split));
    if (!is_expert(linear)) continue;
    linear.num_copies /= split.expert_parallel;
    linear.num_holders = split.expert_parallel;
  }
  degree /= split.attention_data_parallel;
  if (part.state) {
    part.state->num_heads /= degree;
    part.state->recurrent_values /= degree;
    part.state->convolution_values = ceil_div(part.state->convolution_values, degree);
  }
  if (!layer.attends()) return part;
  part.num_heads /= degree;
  part.num_kv_heads = std::max<std::int64_t>(1, layer.num_kv_heads / degree);
  return part;
}

ModelShape shard(const ModelShape& model, std::int64_t degree, const GroupSplit& split) {
  if (degree == 1) return model;
  ModelShape part = model;
  for (LayerShape& layer : part.layer_classes) layer = shard(layer, degree, split);
  part.ffn_size /= degree / split.expert_parallel;
  degree /= split.attention_data_parallel;
  part.num_heads /= degree;
  if (model.num_kv_heads > 0)
    part.num_kv_heads = std::max<std::int64_t>(1, model.num_kv_heads / degree);
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
                                                   const SumKernels& sums,
                                                   const GroupSplit& split) {
  if (degree == 1) return member;
  return std::make_unique<TensorParallel>(std::move(member), degree, link, std::move(profile), sums,
                                          split);
}

}  // namespace tessera::cost
