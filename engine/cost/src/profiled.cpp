// A LatencyModel on a profile: which part prices what, and what stands in where there is none.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "counts.h"
#include "layer_operators.h"
#include "profiled_queries.h"
#include "stand_ins.h"
#include "tessera/core/error.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/prediction_sum.h"
#include "tessera/cost/profile.h"
#include "work.h"

namespace tessera::cost {
namespace {

// Chosen on the fused experts of TensorRT-LLM and vLLM, BF16, on A100 and H200
// (ai-dynamo/aiconfigurator, 10,600 points on one device): the median of predicted over measured is
// 0.91 to 1.18 up to 512 tokens, and 0.67 to 0.95 beyond.
constexpr double kExpertsStart_s = 10e-6;  // of one grouped product, of which a layer has two
constexpr double kExpertsFlopRatio = 0.42;

// Where attention reads keys and values again is said of the prices that this model makes of it.
KernelSet reading_once(KernelSet kernels) {
  kernels.kv_per_query_head.reset();
  return kernels;
}

class Profiled final : public ProfiledModel {
 public:
  Profiled(std::shared_ptr<const Profile> profile, KernelSet kernels)
      : profile_(std::move(profile)),
        kernels_(std::move(kernels)),
        roofline_(make_roofline(profile_->device, reading_once(kernels_))) {}

  // Ratios to what was measured change with the work.
  bool is_monotone() const override { return false; }

  Prediction layer(const LayerShape& shape, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                   const LayerWork& work) const override {
    return with_further_heads(kernels_, profile_->device, shape, work, [&](const auto& seen) {
      return layer_as_is(seen, bitwidth, kv_bitwidth, work);
    });
  }

  Prediction attention(const LayerShape& shape, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                       const LayerWork& work) const override {
    return with_further_heads(kernels_, profile_->device, shape, work, [&](const auto& seen) {
      return attention_as_is(seen, bitwidth, kv_bitwidth, work);
    });
  }

  Prediction experts(const LayerShape& shape, std::int32_t bitwidth,
                     const LayerWork& work) const override {
    if (!has_products(bitwidth)) return roofline_->experts(experts_alone(shape), bitwidth, work);
    PredictionSum sum;
    add_experts(shape, bitwidth, rows_of(work), sum);
    return sum.result("operator");
  }

  Prediction embedding(const ModelShape& model, double rows) const override {
    const auto measured = beside_layers("embedding", rows * count(model.hidden_size) * kFp16Bytes);
    return measured ? *measured : roofline_->embedding(model, rows);
  }

  Prediction lm_head(const ModelShape& model, double rows) const override {
    OpQuery query;
    query.dtype = dtype_of(16);
    query.m = rows;
    query.n = std::max(1.0, count(model.vocab_size));
    query.k = std::max(1.0, count(model.hidden_size));
    const ProfilePart* part = query.dtype.empty() ? nullptr : profile_->find(query);
    Prediction price =
        part != nullptr ? possible(predict(*part, query), query) : roofline_->lm_head(model, rows);
    if (const auto sampling = beside_layers("sampling", rows * query.n * kFp32Bytes)) {
      price.seconds.value += sampling->seconds.value;
    }
    return price;
  }

  Prediction op(const OpQuery& query) const override {
    check_query(query);
    const Link link = node_link(profile_->device);
    if (query.op == Op::all_reduce && query.name.empty()) {
      return predict_sum(query, link, profile_.get());
    }
    if (const ProfilePart* part = tuned_part(query)) return predict(*part, query);
    if (const ProfilePart* part = profile_->find(query)) {
      return no_slower_than_more_bits(possible(predict(*part, query), query), query);
    }
    if (is_collective(query.op)) return modelled_collective(query, link);
    if (query.op == Op::send_recv) {
      return {{transfer_s(query.bytes, link, nullptr), Provenance::modelled, {}}, "link", {}};
    }
    if (query.op == Op::experts) {
      if (const ProfilePart* part = experts_part(query)) return at_dtype(predict(*part, query));
    }
    if (const auto full = in_16_bits(query)) {
      const double start_s = start_of(query, full->price.seconds.value);
      const double rest_s = full->price.seconds.value - start_s;
      return possible(carried_to(full->price, start_s + rest_s * ratio_to(full->query, query)),
                      query);
    }
    const double floor_s = work_of(profile_->device, query).floor_s();
    return {{floor_s / floor_ratio(query), Provenance::modelled, std::nullopt}, "roofline", {}};
  }

 private:
  /// A group of query heads reads its keys and values once.
  Prediction layer_as_is(const LayerShape& shape, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                         const LayerWork& work) const {
    const Prediction roofline = roofline_->layer(shape, bitwidth, kv_bitwidth, work);
    if (auto direct = measured_layer(shape, bitwidth, kv_bitwidth, work, roofline.seconds.value))
      return *direct;
    if (bitwidth != 16) {
      if (auto other = from_16_bits(shape, bitwidth, work)) {
        return at_kv_bitwidth(*other, shape, bitwidth, kv_bitwidth, work, roofline.seconds.value);
      }
    }
    return roofline;
  }

  Prediction attention_as_is(const LayerShape& shape, std::int32_t bitwidth,
                             std::int32_t kv_bitwidth, const LayerWork& work) const {
    if (!shape.attends()) return roofline_->attention(shape, bitwidth, kv_bitwidth, work);
    const bool of_operators = has_products(bitwidth) && !layer_part(shape, bitwidth, work);
    if (kv_bitwidth == 8 && of_operators) return attention_op(shape, "fp8", work);
    auto price = measured_attention(shape, bitwidth, work);
    if (!price) return roofline_->attention(shape, bitwidth, kv_bitwidth, work);
    if (kv_bitwidth == 16) return *price;
    return carried(*price, roofline_->attention_s(shape, bitwidth, kv_bitwidth, work) /
                               roofline_->attention_s(shape, bitwidth, 16, work));
  }

  /// What was measured of the ends of a model: hidden states that the embedding writes, logits that
  /// a token is chosen from.
  std::optional<Prediction> beside_layers(const char* name, double bytes) const {
    OpQuery query;
    query.op = Op::elementwise;
    query.name = name;
    query.bytes = bytes;
    const ProfilePart* part = profile_->find(query);
    return part != nullptr ? std::optional(predict(*part, query)) : std::nullopt;
  }

  /// No product takes less than the sheet's arithmetic (boards that run above their rated clock
  /// were measured 6 % beyond, and forms run on from there), nor than reading its weights: what
  /// benchmarks that repeat it find in the cache, servers have not kept since the step before.
  Prediction possible(Prediction price, const OpQuery& query) const {
    if (query.op != Op::gemm) return price;
    const double compute_s = work_of(profile_->device, query).compute_s();
    const double memory_s = weight_bytes(query) / profile_->device.memory_bytes_per_s;
    price.seconds.value = std::max({price.seconds.value, compute_s, memory_s});
    return price;
  }

  static double weight_bytes(const OpQuery& query) {
    return query.n * query.k * dtype_traits(query.dtype).weight_bits / 8;
  }

  /// The kernel that expands weights of fewer bits for this product, of which nobody has published
  /// times; nullptr where it is of another kind.
  const KernelRule* expanding(const OpQuery& query) const {
    if (query.op != Op::gemm) return nullptr;
    const double bits = dtype_traits(query.dtype).weight_bits;
    const KernelRule* rule = kernels_.find(profile_->device, static_cast<std::int32_t>(bits));
    const bool expands = rule != nullptr && rule->full_rate_rows > 0;
    return expands && rule->dtype == query.dtype ? rule : nullptr;
  }

  struct In16Bits {
    OpQuery query;
    Prediction price;
  };
  /// The same operation in 16 bits; nothing where that was not measured.
  std::optional<In16Bits> in_16_bits(OpQuery query) const {
    query.kv_dtype.clear();
    for (const char* dtype : {"bfloat16", "float16"}) {
      query.dtype = dtype;
      const ProfilePart* part = profile_->find(query);
      if (part != nullptr) return In16Bits{query, possible(predict(*part, query), query)};
    }
    return std::nullopt;
  }

  /// Of a product's time, what a kernel that expands weights takes before it reads any, as does one
  /// of 16 bits; of other operations all of it goes by the data sheet.
  double start_of(const OpQuery& query, double full_s) const {
    const KernelRule* rule = expanding(query);
    return rule == nullptr ? 0 : std::min(rule->linear_overhead_s, full_s);
  }

  /// What an operation takes over what it takes in 16 bits, by the data sheet. Where weights are
  /// expanded, the arithmetic is that of 16 bits up to a tile's rows, and slower by the rules
  /// beyond.
  double ratio_to(const OpQuery& full, const OpQuery& query) const {
    const OpWork work = work_of(profile_->device, query);
    const double full_s = work_of(profile_->device, full).floor_s();
    const KernelRule* rule = expanding(query);
    const KernelRule* plain = kernels_.find(profile_->device, 16);
    if (rule == nullptr || plain == nullptr) return work.floor_s() / full_s;
    const double in_tile = std::min(1.0, rule->full_rate_rows / query.m);
    const double beyond = std::max(1.0, plain->flop_ratio / rule->flop_ratio);
    const double compute_s = work.compute_s() * (in_tile + (1 - in_tile) * beyond);
    const double memory_s = work.memory_s() * plain->memory_ratio / rule->memory_ratio;
    return std::max(compute_s, memory_s) / full_s;
  }

  /// Other kernels stand in for those that expand weights, and lose more on few rows: with fewer
  /// bits than the same kernel's 8, and than 16, they are no slower.
  Prediction no_slower_than_more_bits(Prediction price, const OpQuery& query) const {
    if (price.seconds.provenance != Provenance::modelled) return price;
    const KernelRule* rule = expanding(query);
    if (rule == nullptr || query.m > rule->full_rate_rows) return price;
    // The usual case, without pricing another product: less than the memory takes for more bits.
    const KernelRule* wider = rule->bitwidth < 8 ? kernels_.find(profile_->device, 8) : nullptr;
    const double next_bits = wider != nullptr ? 8 : 16;
    const double bytes = query.n * query.k * next_bits / 8;
    if (price.seconds.value <= bytes / profile_->device.memory_bytes_per_s) return price;
    if (wider != nullptr && wider->method == rule->method) {
      OpQuery next = query;
      next.dtype = wider->dtype;
      price.seconds.value = std::min(price.seconds.value, op(next).seconds.value);
    }
    const auto full = in_16_bits(query);
    if (full) price.seconds.value = std::min(price.seconds.value, full->price.seconds.value);
    return price;
  }

  /// The part of kernels that are tuned for these experts; nullptr where they have none.
  const ProfilePart* tuned_part(OpQuery query) const {
    if (query.op != Op::experts || !query.name.empty()) return nullptr;
    query.name = kTunedExperts;
    const ProfilePart* part = profile_->find(query);
    return part != nullptr && kernels_.tuned_experts.value_or(lists(*part, profile_->device, query))
               ? part
               : nullptr;
  }

  /// The part of the dtype, or of 16 bits; nullptr where no experts were measured.
  const ProfilePart* experts_part(OpQuery query) const {
    for (const std::string& dtype :
         {query.dtype, std::string("bfloat16"), std::string("float16")}) {
      query.dtype = dtype;
      if (const ProfilePart* part = profile_->find(query)) return part;
    }
    return nullptr;
  }

  std::optional<Prediction> measured_layer(const LayerShape& shape, std::int32_t bitwidth,
                                           std::int32_t kv_bitwidth, const LayerWork& work) const {
    return measured_layer(shape, bitwidth, kv_bitwidth, work,
                          roofline_->layer_s(shape, bitwidth, kv_bitwidth, work));
  }

  /// What a bitwidth saves or costs lies in the products with weights, which do not see the
  /// context: it is taken over by roofline ratio at no context, and is the same at any.
  std::optional<Prediction> from_16_bits(const LayerShape& shape, std::int32_t bitwidth,
                                         const LayerWork& work) const {
    const auto full = measured_layer(shape, 16, 16, work);
    if (!full) return full;
    LayerWork first = work;
    first.context_tokens = 0;
    const double ratio =
        roofline_->layer_s(shape, bitwidth, 16, first) / roofline_->layer_s(shape, 16, 16, first);
    if (work.context_tokens == 0) return carried(*full, ratio);
    const double alone_s = measured_layer(shape, 16, 16, first)->seconds.value;
    return carried_to(*full, full->seconds.value + (ratio - 1) * alone_s);
  }

  /// Layers are measured with 16-bit keys and values.
  Prediction at_kv_bitwidth(const Prediction& direct, const LayerShape& shape,
                            std::int32_t bitwidth, std::int32_t kv_bitwidth, const LayerWork& work,
                            double roofline_s) const {
    if (kv_bitwidth == 16) return direct;
    return carried(direct, roofline_s / roofline_->layer_s(shape, bitwidth, 16, work));
  }

  const ProfilePart* layer_part(const LayerShape& shape, std::int32_t bitwidth,
                                const LayerWork& work) const {
    return is_plain(shape) ? profile_->find(layer_query(shape, bitwidth, work)) : nullptr;
  }

  /// Attention's share of what measured_layer says with 16-bit keys and values, or of what
  /// from_16_bits makes of it.
  std::optional<Prediction> measured_attention(const LayerShape& shape, std::int32_t bitwidth,
                                               const LayerWork& work) const {
    if (const ProfilePart* part = layer_part(shape, bitwidth, work)) {
      return share_of_layer(*part, shape, bitwidth, work);
    }
    if (has_products(bitwidth)) return attention_op(shape, "", work);
    if (bitwidth == 16) return std::nullopt;
    auto full = measured_attention(shape, 16, work);
    if (!full) return full;
    LayerWork first = work;
    first.context_tokens = 0;
    const double ratio =
        roofline_->layer_s(shape, bitwidth, 16, first) / roofline_->layer_s(shape, 16, 16, first);
    const double alone_s = measured_attention(shape, 16, first)->seconds.value;
    return carried_to(*full, full->seconds.value + (ratio - 1) * alone_s);
  }

  /// Of layers that were measured whole: the roofline's share of one without a context, and all
  /// that the context adds.
  Prediction share_of_layer(const ProfilePart& part, const LayerShape& shape, std::int32_t bitwidth,
                            const LayerWork& work) const {
    LayerWork first = work;
    first.context_tokens = 0;
    const double alone_s = predict(part, layer_query(shape, bitwidth, first)).seconds.value;
    const double share = roofline_->attention_s(shape, bitwidth, 16, first) /
                         roofline_->layer_s(shape, bitwidth, 16, first);
    Prediction whole = predict(part, layer_query(shape, bitwidth, work));
    whole.seconds.value -= (1 - share) * alone_s;
    return modelled(std::move(whole));
  }

  double floor_ratio(const OpQuery& query) const {
    if (query.op == Op::attention) {
      return std::min(kernels_.attention_flop_ratio, kernels_.attention_memory_ratio);
    }
    const KernelRule* rule = kernels_.find(profile_->device, 16);
    return rule == nullptr ? 1 : std::min(rule->flop_ratio, rule->memory_ratio);
  }

  /// Of products; experts may be all that has the bitwidth.
  std::string dtype_of(std::int32_t bitwidth) const {
    const KernelRule* rule = kernels_.find(profile_->device, bitwidth);
    if (rule != nullptr && rule->experts_only) return dtype_of(16);
    return rule == nullptr ? "" : rule->dtype;
  }

  /// Of experts. Nobody has measured those whose activations have known scales.
  std::string experts_dtype_of(std::int32_t bitwidth) const {
    const KernelRule* rule = kernels_.find(profile_->device, bitwidth);
    if (rule == nullptr) return "";
    return rule->dtype == "fp8_static" ? "fp8" : rule->dtype;
  }

  std::optional<Prediction> measured_layer(const LayerShape& shape, std::int32_t bitwidth,
                                           std::int32_t kv_bitwidth, const LayerWork& work,
                                           double roofline_s) const {
    std::optional<Prediction> direct;
    if (const ProfilePart* part = layer_part(shape, bitwidth, work)) {
      direct = predict(*part, layer_query(shape, bitwidth, work));
      if (has_experts(shape)) direct = modelled(*std::move(direct));  // dense layers were measured
    } else {
      const std::string kv_dtype = kv_bitwidth == 8 ? "fp8" : "";
      direct = sum_of_operators(shape, bitwidth, kv_dtype, work);
      if (!kv_dtype.empty()) return direct;
    }
    if (!direct) return direct;
    return at_kv_bitwidth(*direct, shape, bitwidth, kv_bitwidth, work, roofline_s);
  }

  double rows_of(const LayerWork& work) const {
    if (work.phase == Phase::decode && work.tokens == 1)
      return kernels_.padded_rows(work.batch_size);
    return work.batch_size * work.tokens;
  }

  std::optional<Prediction> sum_of_operators(const LayerShape& shape, std::int32_t bitwidth,
                                             const std::string& kv_dtype,
                                             const LayerWork& work) const {
    if (!has_products(bitwidth)) return std::nullopt;
    PredictionSum sum;
    const double rows = rows_of(work);
    const bool experts_added = add_products(shape, bitwidth, rows, sum);
    if (shape.attends()) sum.add(attention_op(shape, kv_dtype, work));
    if (shape.state) sum.add(unmeasured(state_work(shape, work.batch_size, work.tokens)));
    add_elementwise(experts_added ? without_experts(shape) : shape, rows, sum);
    return sum.result("operator");
  }

  /// Says whether experts are among them that were measured, with the activation between.
  bool add_products(const LayerShape& shape, std::int32_t bitwidth, double rows,
                    PredictionSum& sum) const {
    for (const LinearShape& linear : fused(without_experts(shape))) {
      sum.add(op(product(linear, dtype_of(bitwidth), rows)));
    }
    return add_experts(shape, bitwidth, rows, sum);
  }

  /// Rows that pass through a matrix; of experts, through those of them that rows reach.
  static OpQuery product(const LinearShape& linear, std::string dtype, double rows) {
    const double touched = copies_touched(linear, rows);
    OpQuery gemm;
    gemm.dtype = std::move(dtype);
    gemm.m = rows * linear.mean_active() / touched;
    gemm.n = touched * count(linear.out_features);
    gemm.k = count(linear.in_features);
    return gemm;
  }

  /// Whether products of the bitwidth were measured, or those that it expands its weights for.
  bool has_products(std::int32_t bitwidth) const {
    OpQuery gemm;
    gemm.dtype = dtype_of(bitwidth);
    if (gemm.dtype.empty()) return false;
    if (profile_->find(gemm) != nullptr) return true;
    return bitwidth != 16 && expanding(gemm) != nullptr && has_products(16);
  }

  Prediction attention_op(const LayerShape& shape, const std::string& kv_dtype,
                          const LayerWork& work) const {
    if (shape.latent_width) return latent_attention(shape, kv_dtype, work);
    OpQuery query = attention_query(shape, work, dtype_of(16));
    query.kv_dtype = kv_dtype;  // without a part of it: the 16-bit one by the bytes' ratio
    Prediction price = op(query);
    const double visible =
        query.window > 0 ? std::min(query.window, work.context_tokens) : work.context_tokens;
    const double least_s =
        work.phase == Phase::decode
            ? kernels_.least_attention_s(visible, query.head_dim, kv_dtype.empty() ? 16 : 8)
            : 0;
    if (price.seconds.value >= least_s) return price;
    price.seconds.value = least_s;
    return modelled(std::move(price));
  }

  /// Adds the experts and what picks them, which no table of experts has in it; says the same.
  bool add_experts(const LayerShape& shape, std::int32_t bitwidth, double rows,
                   PredictionSum& sum) const {
    const auto router = router_of(shape);
    if (!router) return false;
    sum.add(op(product(*router, dtype_of(16), rows)));
    auto query = experts_query(shape, rows, experts_dtype_of(bitwidth));
    if (query && experts_part(*query) != nullptr) {
      if (const KernelRule* rule = kernels_.find(profile_->device, bitwidth)) pad(*query, *rule);
      sum.add(op(*query));
      return true;
    }
    for (const LinearShape& linear : fused(experts_alone(shape))) {
      sum.add(of_experts(product(linear, experts_dtype_of(bitwidth), rows)));
    }
    return false;
  }

  /// Where no experts were measured. Runtimes multiply those that rows touch in one grouped kernel:
  /// a product of all their columns reads as many weights and does as much arithmetic. Sorting and
  /// gathering rows cost a start, it reaches less of the peak, and has no dense product's error.
  Prediction of_experts(const OpQuery& gemm) const {
    Prediction price = op(gemm);
    const double compute_s = work_of(profile_->device, gemm).compute_s();
    price.seconds.value =
        kExpertsStart_s + std::max(price.seconds.value, compute_s / kExpertsFlopRatio);
    return modelled(std::move(price));
  }

  /// Attention to latents is a part of its own ("latent"); where nobody measured it, those for keys
  /// and values of every head say nothing of it.
  Prediction latent_attention(const LayerShape& shape, const std::string& kv_dtype,
                              const LayerWork& work) const {
    OpQuery query = latent_query(attention_query(shape, work, dtype_of(16)), shape);
    query.kv_dtype = kv_dtype;
    const ProfilePart* part = sees_some(shape) ? nullptr : profile_->find(query);
    if (part != nullptr) return predict(*part, query);
    return unmeasured(attention_work(attention_shape(shape), kv_dtype.empty() ? 16 : 8,
                                     work.batch_size, work.tokens, work.context_tokens));
  }

  /// By the rates of attention kernels, where nobody has published times by sizes.
  Prediction unmeasured(const AttentionWork& work) const {
    const double seconds = attention_rates(profile_->device, kernels_).seconds(work);
    return {{seconds, Provenance::modelled, std::nullopt}, "roofline", {}};
  }

  void add_elementwise(const LayerShape& shape, double rows, PredictionSum& sum) const {
    OpQuery query;
    query.op = Op::elementwise;
    query.bytes = elementwise_bytes(shape, rows);
    if (const ProfilePart* part = profile_->find(query)) {
      const Prediction between = predict(*part, query);
      if (between.seconds.provenance == Provenance::modelled) {
        sum.add_minor(between.seconds.value);
      } else {
        sum.add(between);
      }
    } else {
      sum.add_minor(kernels_.layer_overhead_s + query.bytes / profile_->device.memory_bytes_per_s);
    }
  }

  std::shared_ptr<const Profile> profile_;
  KernelSet kernels_;
  std::unique_ptr<LatencyModel> roofline_;
};

}  // namespace

std::unique_ptr<ProfiledModel> make_profiled(std::shared_ptr<const Profile> profile,
                                             const KernelSet& kernels) {
  return std::make_unique<Profiled>(std::move(profile), kernels);
}

}  // namespace tessera::cost
