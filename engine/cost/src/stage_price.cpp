#include "tessera/cost/stage_price.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "counts.h"
#include "layer_operators.h"
#include "tessera/core/device_group.h"
#include "tessera/core/error.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::cost {

std::shared_ptr<const Profile> profile_of(const PricingContext& context, const Device& device) {
  for (const auto& profile : context.profiles) {
    if (profile->device.name == device.name) return profile;
  }
  return nullptr;
}

double measured_factor(const PricingContext& context, const std::vector<std::size_t>& members,
                       Phase phase) {
  double factor = 0;
  for (const std::size_t member : members) {
    factor = std::max(factor, context.kernel_set.measured_factor(phase, context.device(member)));
  }
  return factor;
}

namespace {

KernelSet rules_of(const PricingContext& context) {
  return has_mxfp4_experts(context.model) ? context.kernel_set.mxfp4_rules() : context.kernel_set;
}

// The matrices that a checkpoint keeps in 16 bits in this share of its layers, and nothing else.
LayerShape kept_alone(LayerShape layer, const std::vector<KeptLinear>& kept, double share) {
  std::erase_if(layer.linears, [&](const LinearShape& linear) {
    return std::ranges::none_of(
        kept, [&](const KeptLinear& one) { return one.share == share && one.name == linear.name; });
  });
  layer.num_heads = layer.num_kv_heads = layer.other_parameters = 0;
  layer.state.reset();
  return layer;
}

class GroupPrice final : public StagePrice {
 public:
  GroupPrice(const PricingContext& context, const std::vector<std::size_t>& members,
             std::int32_t kv_bitwidth)
      : context_(context),
        model_(latency_model_of(context, members)),
        profile_(profile_of(context, context.device(members.front()))),
        kv_bitwidth_(kv_bitwidth),
        num_members_(members.size()),
        prefill_factor_(measured_factor(context, members, Phase::prefill)),
        decode_factor_(measured_factor(context, members, Phase::decode)) {
    const std::vector<std::size_t> types = one_of_each_type(context.cluster, members);
    for (const std::size_t member : types) {
      const Device& device = context.device(member);
      if (device.sustained_flop_ratio < 1) slowed_.push_back(&device);
    }
    const bool sorts = has_experts(context.model);
    if (!slowed_.empty() || sorts) rules_ = rules_of(context);
    if (sorts) {
      for (const std::size_t member : types) add_sorting(context.device(member));
    }
    for (const KeptLinear& kept : context.model.checkpoint_kept) shares_.insert(kept.share);
  }

  double layer_s(const LayerShape& layer, std::int32_t bitwidth,
                 const LayerWork& work) const override {
    const double seconds = model_->layer_s(layer, bitwidth, kv_bitwidth_, work) +
                           kept_s(layer, bitwidth, [&](const LayerShape& kept, std::int32_t bits) {
                             return model_->layer_s(kept, bits, kv_bitwidth_, work);
                           });
    return factor(work) *
           std::max(seconds + slowed_s(layer, bitwidth, work) + sorting_s(layer, bitwidth, work),
                    launches_s(layer, work));
  }
  double attention_s(const LayerShape& layer, std::int32_t bitwidth,
                     const LayerWork& work) const override {
    return factor(work) * model_->attention_s(layer, bitwidth, kv_bitwidth_, work);
  }
  double experts_s(const LayerShape& layer, std::int32_t bitwidth,
                   const LayerWork& work) const override {
    if (!has_experts(layer)) return 0;
    const double seconds =
        model_->experts_s(layer, bitwidth, work) + slowed_s(experts_alone(layer), bitwidth, work) +
        sorting_s(layer, bitwidth, work) +
        kept_s(experts_alone(layer), bitwidth, [&](const LayerShape& kept, std::int32_t bits) {
          return model_->experts_s(kept, bits, work);
        });
    return factor(work) * seconds;
  }
  // The ends matter where steps are short: when decoding.
  double embedding_s(double rows) const override {
    return decode_factor_ * model_->embedding_s(context_.model, rows);
  }
  double head_s(double rows) const override {
    return decode_factor_ * model_->lm_head_s(context_.model, rows);
  }
  double host_s(double sequences, double rows) const override {
    return (rows > sequences ? prefill_factor_ : decode_factor_) *
           context_.kernel_set.host_s(sequences, rows);
  }
  double hop_s(double rows, const Link& link) const override {
    const double bytes = count(context_.model.hidden_size) * activation_bytes(context_.memory);
    return transfer_s(rows * bytes, link, profile_.get()) + context_.kernel_set.hop_s;
  }
  double return_s(double sequences, const Link& link) const override {
    return transfer_s(sequences * kTokenIdBytes, link, profile_.get());
  }
  bool is_monotone() const override { return model_->is_monotone(); }

 private:
  /// What matrices take longer that a checkpoint keeps in 16 bits, over the layers that do and
  /// those that do not: memory counts them so too.
  template <class Price>
  double kept_s(const LayerShape& layer, std::int32_t bitwidth, const Price& seconds) const {
    double more_s = 0;
    if (bitwidth >= 16) return more_s;
    for (const double share : shares_) {
      const LayerShape kept = kept_alone(layer, context_.model.checkpoint_kept, share);
      if (kept.linears.empty()) continue;
      more_s += share * std::max(0.0, seconds(kept, 16) - seconds(kept, bitwidth));
    }
    return more_s;
  }

  double factor(const LayerWork& work) const {
    return work.phase == Phase::prefill ? prefill_factor_ : decode_factor_;
  }

  /// What the products' arithmetic takes longer than in short bursts, once clocks have settled.
  double slowed_s(const LayerShape& layer, std::int32_t bitwidth, const LayerWork& work) const {
    double seconds = 0;
    for (const Device* device : slowed_) {
      const KernelRule* rule = rules_.find(*device, bitwidth);
      if (rule == nullptr) continue;
      const KernelRule* dense = rule->experts_only ? rules_.find(*device, 16) : rule;
      double flop_s = 0;
      for (const LinearShape& linear : layer.linears) {
        const KernelRule* own = is_expert(linear) ? rule : dense;
        if (own == nullptr) continue;
        flop_s += 2 * count(linear.in_features) * count(linear.out_features) *
                  linear.mean_active() /
                  (device->flop_per_s.at(own->compute_dtype) * own->flop_ratio);
      }
      seconds = std::max(
          seconds, work.batch_size * work.tokens * flop_s * (1 / device->sustained_flop_ratio - 1));
    }
    return seconds / static_cast<double>(num_members_);
  }

  void add_sorting(const Device& device) {
    for (const std::int32_t bitwidth : rules_.bitwidths_on(device)) {
      const KernelRule& rule = *rules_.find(device, bitwidth);
      double& token_s = sorting_token_s_[bitwidth];
      token_s = std::max(token_s,
                         rule.experts_token_bytes / rule.memory_ratio / device.memory_bytes_per_s);
    }
  }

  /// What no device of a group is spared of a prompt's tokens in a layer with experts: attention in
  /// parts leaves each with its own.
  double sorting_s(const LayerShape& layer, std::int32_t bitwidth, const LayerWork& work) const {
    if (work.phase != Phase::prefill || !has_experts(layer)) return 0;
    const auto token_s = sorting_token_s_.find(bitwidth);
    if (token_s == sorting_token_s_.end()) return 0;
    const double parts = count(context_.split.attention_data_parallel);
    return work.batch_size * work.tokens / parts * token_s->second;
  }

  /// Of the host, for a layer of a prompt that is in no CUDA graph.
  double launches_s(const LayerShape& layer, const LayerWork& work) const {
    const KernelSet& kernels = context_.kernel_set;
    const auto& graphs = kernels.graph_batch_sizes;
    const double captured = graphs.empty() ? 0 : static_cast<double>(graphs.back());
    if (work.phase != Phase::prefill || work.batch_size * work.tokens <= captured) return 0;
    return has_experts(layer) ? std::max(kernels.host_prompt_layer_s, kernels.host_prompt_experts_s)
                              : kernels.host_prompt_layer_s;
  }

  const PricingContext& context_;
  std::unique_ptr<LatencyModel> model_;
  std::shared_ptr<const Profile> profile_;
  std::int32_t kv_bitwidth_;
  std::size_t num_members_;
  double prefill_factor_, decode_factor_;           ///< of what runs took
  std::vector<const Device*> slowed_;               ///< one of each type
  KernelSet rules_;                                 ///< where any is
  std::map<std::int32_t, double> sorting_token_s_;  ///< by bitwidth
  std::set<double> shares_;                         ///< of layers that keep a matrix in 16 bits
};

/// Devices of several types with equal shards: what follows waits for the slowest.
class Slowest final : public LatencyModel {
 public:
  explicit Slowest(std::vector<std::unique_ptr<LatencyModel>> types) : types_(std::move(types)) {}

  Prediction layer(const LayerShape& layer, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                   const LayerWork& work) const override {
    return slowest(
        [&](const LatencyModel& of) { return of.layer(layer, bitwidth, kv_bitwidth, work); });
  }
  Prediction attention(const LayerShape& layer, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                       const LayerWork& work) const override {
    return slowest(
        [&](const LatencyModel& of) { return of.attention(layer, bitwidth, kv_bitwidth, work); });
  }
  Prediction experts(const LayerShape& layer, std::int32_t bitwidth,
                     const LayerWork& work) const override {
    return slowest([&](const LatencyModel& of) { return of.experts(layer, bitwidth, work); });
  }
  Prediction embedding(const ModelShape& model, double rows) const override {
    return slowest([&](const LatencyModel& of) { return of.embedding(model, rows); });
  }
  Prediction lm_head(const ModelShape& model, double rows) const override {
    return slowest([&](const LatencyModel& of) { return of.lm_head(model, rows); });
  }
  bool is_monotone() const override {
    return std::all_of(types_.begin(), types_.end(),
                       [](const auto& type) { return type->is_monotone(); });
  }

 private:
  template <class Predict>
  Prediction slowest(const Predict& predict) const {
    Prediction most = predict(*types_.front());
    for (std::size_t k = 1; k < types_.size(); ++k) {
      Prediction other = predict(*types_[k]);
      if (other.seconds.value > most.seconds.value) most = std::move(other);
    }
    return most;
  }

  std::vector<std::unique_ptr<LatencyModel>> types_;
};

std::unique_ptr<LatencyModel> device_model(const PricingContext& context, const Device& device) {
  const KernelSet kernels = rules_of(context);
  if (auto profile = profile_of(context, device)) {
    return make_profiled(std::move(profile), kernels);
  }
  return make_roofline(device, kernels);
}

/// Some heads of each layer are attended to elsewhere while the others are here.
class Divided final : public StagePrice {
 public:
  Divided(std::unique_ptr<StagePrice> price, std::unique_ptr<Attender> attender, double ratio)
      : price_(std::move(price)), attender_(std::move(attender)), ratio_(ratio) {}

  double layer_s(const LayerShape& layer, std::int32_t bitwidth,
                 const LayerWork& work) const override {
    return price_->layer_s(layer, bitwidth, work) - price_->attention_s(layer, bitwidth, work) +
           attention_s(layer, bitwidth, work);
  }
  double attention_s(const LayerShape& layer, std::int32_t bitwidth,
                     const LayerWork& work) const override {
    const LayerShape kept = kept_of(layer, ratio_), moved = moved_of(layer, ratio_);
    double seconds = 0;
    if (kept.num_kv_heads > 0) seconds = price_->attention_s(kept, bitwidth, work);
    if (moved.num_kv_heads > 0) seconds = std::max(seconds, attender_->attention_s(moved, work));
    return seconds;
  }
  double experts_s(const LayerShape& layer, std::int32_t bitwidth,
                   const LayerWork& work) const override {
    return price_->experts_s(layer, bitwidth, work);
  }
  double embedding_s(double rows) const override { return price_->embedding_s(rows); }
  double head_s(double rows) const override { return price_->head_s(rows); }
  double host_s(double sequences, double rows) const override {
    return price_->host_s(sequences, rows);
  }
  double hop_s(double rows, const Link& link) const override { return price_->hop_s(rows, link); }
  double return_s(double sequences, const Link& link) const override {
    return price_->return_s(sequences, link);
  }
  // A difference of two that rise may fall.
  bool is_monotone() const override { return false; }

 private:
  std::unique_ptr<StagePrice> price_;
  std::unique_ptr<Attender> attender_;
  double ratio_;
};

class Corrected final : public StagePrice {
 public:
  Corrected(std::unique_ptr<StagePrice> price, const Correction& correction)
      : price_(std::move(price)), scale_(correction.scale), offset_s_(correction.offset_s) {}

  double layer_s(const LayerShape& layer, std::int32_t bitwidth,
                 const LayerWork& work) const override {
    return scale_ * price_->layer_s(layer, bitwidth, work);
  }
  double attention_s(const LayerShape& layer, std::int32_t bitwidth,
                     const LayerWork& work) const override {
    return scale_ * price_->attention_s(layer, bitwidth, work);
  }
  double experts_s(const LayerShape& layer, std::int32_t bitwidth,
                   const LayerWork& work) const override {
    return scale_ * price_->experts_s(layer, bitwidth, work);
  }
  double embedding_s(double rows) const override {
    return scale_ * price_->embedding_s(rows) + offset_s_;
  }
  double head_s(double rows) const override { return scale_ * price_->head_s(rows); }
  double host_s(double sequences, double rows) const override {
    return scale_ * price_->host_s(sequences, rows);
  }
  double hop_s(double rows, const Link& link) const override {
    return scale_ * price_->hop_s(rows, link);
  }
  double return_s(double sequences, const Link& link) const override {
    return scale_ * price_->return_s(sequences, link);
  }
  bool is_monotone() const override { return price_->is_monotone(); }

 private:
  std::unique_ptr<StagePrice> price_;
  double scale_, offset_s_;
};

}  // namespace

std::unique_ptr<LatencyModel> latency_model_of(const PricingContext& context,
                                               const std::vector<std::size_t>& members) {
  std::vector<std::unique_ptr<LatencyModel>> types;
  for (const std::size_t i : one_of_each_type(context.cluster, members)) {
    types.push_back(device_model(context, context.device(i)));
  }
  const auto degree = static_cast<std::int64_t>(members.size());
  const Link link = slowest_link(context.cluster, members, members);
  const SumKernels sums{context.kernel_set.sums_by_nccl, context.kernel_set.rank_skew_s};
  if (types.size() > 1) {  // whose sums nobody has measured
    return make_tensor_parallel(std::make_unique<Slowest>(std::move(types)), degree, link, {}, sums,
                                context.split);
  }
  return make_tensor_parallel(std::move(types.front()), degree, link,
                              profile_of(context, context.device(members.front())), sums,
                              context.split);
}

std::vector<LayerWork> units_of(const Workload& workload, double size, Phase phase) {
  if (phase == Phase::decode) {
    return {{phase, size, 1, workload.mean_context_tokens()}};
  }
  std::vector<LayerWork> work;
  double before = 0;
  for (std::int64_t chunk = 0; chunk < workload.num_chunks(); ++chunk) {
    const double tokens = count(workload.tokens_in_chunk(chunk));
    work.push_back({phase, size, tokens, before});
    before += tokens;
  }
  return work;
}

LayerCounts count_layers(const ModelShape& model, std::int64_t first_layer,
                         const std::vector<std::int32_t>& bitwidths) {
  LayerCounts layers;
  for (std::size_t i = 0; i < bitwidths.size(); ++i) {
    const auto layer = static_cast<std::size_t>(first_layer) + i;
    ++layers[{model.layer_class[layer], bitwidths[i]}];
  }
  return layers;
}

std::unique_ptr<StagePrice> corrected(std::unique_ptr<StagePrice> price,
                                      const Correction& correction) {
  if (!std::isfinite(correction.scale) || correction.scale <= 0) {
    refuse(ErrorCode::out_of_range, "correction.scale", "{}; a positive number is needed",
           correction.scale);
  }
  if (!std::isfinite(correction.offset_s) || correction.offset_s < 0) {
    refuse(ErrorCode::out_of_range, "correction.offset_s", "{} s; at least 0 is needed",
           correction.offset_s);
  }
  return std::make_unique<Corrected>(std::move(price), correction);
}

std::unique_ptr<StagePrice> make_stage_price(const PricingContext& context,
                                             const std::vector<std::size_t>& members,
                                             std::int32_t kv_bitwidth, const Correction& correction,
                                             const std::optional<AttentionElsewhere>& attention) {
  std::unique_ptr<StagePrice> price = std::make_unique<GroupPrice>(context, members, kv_bitwidth);
  if (attention) {
    price = std::make_unique<Divided>(
        std::move(price),
        make_device_attender(context, members.front(), attention->device, kv_bitwidth),
        attention->ratio);
  }
  if (correction == Correction{}) return price;
  return corrected(std::move(price), correction);
}

PipelinePrice::PipelinePrice(const PricingContext& context, std::vector<Stage> stages,
                             std::int32_t kv_bitwidth, const Correction& correction)
    : context_(context), stages_(std::move(stages)) {
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    const Stage& next = stages_[(k + 1) % stages_.size()];
    prices_.push_back(make_stage_price(context, stages_[k].members, kv_bitwidth, correction,
                                       stages_[k].attention));
    links_.push_back(slowest_link(context.cluster, stages_[k].members, next.members));
  }
}

PassSeconds PipelinePrice::pass(std::size_t stage, const Pass& pass) const {
  const StagePrice& price = *prices_[stage];
  const StagePlace place = stages_[stage].place;
  PassSeconds seconds;
  for (const auto& [kind, number] : stages_[stage].layers) {
    const auto& layer = context_.model.layer_classes[static_cast<std::size_t>(kind.layer_class)];
    seconds.layers_s += count(number) * price.layer_s(layer, kind.bitwidth, pass.work);
  }
  if (is_first(place)) {
    seconds.host_s = host_s(pass);
    seconds.embedding_s = price.embedding_s(pass.rows());
  }
  if (pass.num_sampled > 0 && holds_lm_head(place, context_.memory)) {
    seconds.head_s = price.head_s(pass.num_sampled);
  }
  return seconds;
}

double PipelinePrice::host_s(const Pass& pass) const {
  return prices_.front()->host_s(pass.work.batch_size, pass.rows());
}

double PipelinePrice::hop_s(std::size_t stage, double rows) const {
  return prices_[stage]->hop_s(rows, links_[stage]);
}

double PipelinePrice::return_s(double sequences) const {
  return stages_.size() < 2 ? 0 : prices_.back()->return_s(sequences, links_.back());
}

}  // namespace tessera::cost
