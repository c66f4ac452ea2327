// A LatencyModel on a profile: which part prices what, and what stands in where there is none.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "counts.h"
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

// Runtimes multiply the queries, keys and values of a layer in one product, and gate and up too.
std::string fused_name(const std::string& name) {
  const auto ends_with = [&](std::string_view end) { return name.ends_with(end); };
  const auto prefix = name.substr(0, name.rfind('.') + 1);
  if (ends_with("q_proj") || ends_with("k_proj") || ends_with("v_proj")) return prefix + "qkv_proj";
  if (ends_with("gate_proj") || ends_with("up_proj")) return prefix + "gate_up_proj";
  return name;
}

std::vector<LinearShape> fused(const LayerShape& layer) {
  std::vector<LinearShape> result;
  for (LinearShape linear : layer.linears) {
    linear.name = fused_name(linear.name);
    const auto same = std::find_if(result.begin(), result.end(), [&](const LinearShape& other) {
      return other.name == linear.name && other.in_features == linear.in_features &&
             other.num_copies == linear.num_copies;
    });
    if (same == result.end()) {
      result.push_back(linear);
    } else {
      same->out_features += linear.out_features;
    }
  }
  return result;
}

// Bytes that the kernels between the products move, in FP16: two norms (read, write), two residual
// additions (two reads, one write), the activation (a write, and a read per input), and the rotary
// embedding of queries and keys.
double elementwise_bytes(const LayerShape& layer, double rows) {
  double hidden = 0, ffn = 0, gates = 1;
  for (const LinearShape& linear : layer.linears) {
    if (linear.name.ends_with("q_proj") || linear.name.ends_with("q_a_proj")) {
      hidden = count(linear.in_features);
    }
    if (linear.name.ends_with("gate_proj")) gates = 2;
    if (linear.name.ends_with("down_proj")) {
      ffn += count(linear.in_features) * count(linear.num_active);
    }
  }
  const double rotary = 2 * count(layer.head_dim) * count(layer.num_heads + layer.num_kv_heads);
  return rows * kFp16Bytes * ((4 + 6) * hidden + (1 + gates) * ffn + rotary);
}

/// The layer without its experts.
LayerShape without_experts(LayerShape layer) {
  std::erase_if(layer.linears, [](const LinearShape& linear) { return linear.num_copies > 1; });
  return layer;
}

/// Gate, up and down of all experts of a layer as one operation, where it has just these.
std::optional<OpQuery> experts_query(const LayerShape& layer, double rows,
                                     const std::string& dtype) {
  OpQuery query;
  query.op = Op::experts;
  query.dtype = dtype;
  query.tokens = rows;
  std::set<std::string> matrices;
  for (const LinearShape& linear : layer.linears) {
    if (linear.num_copies == 1) continue;
    const bool down = linear.name == "experts.down_proj";
    query.hidden_size = count(down ? linear.out_features : linear.in_features);
    query.inner_size = count(down ? linear.in_features : linear.out_features);
    query.num_experts = count(linear.num_copies);
    query.top_k = count(linear.num_active);
    matrices.insert(linear.name);
  }
  static const std::set<std::string> all = {"experts.gate_proj", "experts.up_proj",
                                            "experts.down_proj"};
  return matrices == all ? std::optional(query) : std::nullopt;
}

bool has_experts(const LayerShape& layer) {
  return std::any_of(layer.linears.begin(), layer.linears.end(),
                     [](const LinearShape& linear) { return linear.num_copies > 1; });
}

class Profiled final : public ProfiledModel {
 public:
  Profiled(std::shared_ptr<const Profile> profile, KernelSet kernels)
      : profile_(std::move(profile)),
        kernels_(std::move(kernels)),
        roofline_(make_roofline(profile_->device, kernels_)) {}

  // Ratios to what was measured change with the work.
  bool is_monotone() const override { return false; }

  Prediction layer(const LayerShape& shape, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                   const LayerWork& work) const override {
    if (work.phase == Phase::decode && kernels_.reads_kv_per_query_head(shape, profile_->device)) {
      return layer(kernels_.as_decoded(shape, profile_->device), bitwidth, kv_bitwidth, work);
    }
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

  Prediction attention(const LayerShape& shape, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                       const LayerWork& work) const override {
    if (work.phase == Phase::decode && kernels_.reads_kv_per_query_head(shape, profile_->device)) {
      const LayerShape decoded = kernels_.as_decoded(shape, profile_->device);
      return attention(decoded, bitwidth, kv_bitwidth, work);
    }
    const bool of_operators = has_products(bitwidth) && !layer_part(shape, bitwidth, work);
    if (kv_bitwidth == 8 && of_operators) return attention_op(shape, "fp8", work);
    auto price = measured_attention(shape, bitwidth, work);
    if (!price) return roofline_->attention(shape, bitwidth, kv_bitwidth, work);
    if (kv_bitwidth == 16) return *price;
    return carried(*price, roofline_->attention_s(shape, bitwidth, kv_bitwidth, work) /
                               roofline_->attention_s(shape, bitwidth, 16, work));
  }

  Prediction embedding(const ModelShape& model, double rows) const override {
    return roofline_->embedding(model, rows);
  }

  Prediction lm_head(const ModelShape& model, double rows) const override {
    OpQuery query;
    query.dtype = dtype_of(16);
    query.m = rows;
    query.n = std::max(1.0, count(model.vocab_size));
    query.k = std::max(1.0, count(model.hidden_size));
    const ProfilePart* part = query.dtype.empty() ? nullptr : profile_->find(query);
    return part != nullptr ? predict(*part, query) : roofline_->lm_head(model, rows);
  }

  Prediction op(const OpQuery& query) const override {
    check_query(query);
    const Link link = node_link(profile_->device);
    if (query.op == Op::all_reduce && query.name.empty()) {
      return predict_sum(query, link, profile_.get());
    }
    if (const ProfilePart* part = profile_->find(query))
      return possible(predict(*part, query), query);
    if (is_collective(query.op)) return modelled_collective(query, link);
    if (query.op == Op::send_recv) {
      return {{transfer_s(query.bytes, link, nullptr), Provenance::modelled, {}}, "link", {}};
    }
    if (query.op == Op::experts) {
      if (const ProfilePart* part = experts_part(query)) return at_dtype(predict(*part, query));
    }
    const double floor_s = work_of(profile_->device, query).floor_s();
    for (const char* dtype : {"bfloat16", "float16"}) {
      OpQuery other = query;
      other.dtype = dtype;
      other.kv_dtype.clear();
      const ProfilePart* part = profile_->find(other);
      if (part == nullptr) continue;
      return possible(
          carried(predict(*part, other), floor_s / work_of(profile_->device, other).floor_s()),
          query);
    }
    return {{floor_s / floor_ratio(query), Provenance::modelled, std::nullopt}, "roofline", {}};
  }

 private:
  /// A time that no measurement stands behind.
  static Prediction modelled(Prediction from) {
    from.seconds.provenance = weaker(from.seconds.provenance, Provenance::modelled);
    from.seconds.error.reset();
    return from;
  }

  /// A product that is carried beyond what was measured takes no less than reading its weights at
  /// the memory's rate, or computing at the fastest unit's.
  Prediction possible(Prediction price, const OpQuery& query) const {
    if (query.op != Op::gemm || price.seconds.provenance != Provenance::modelled) return price;
    double fastest = 0;
    for (const auto& [dtype, rate] : profile_->device.flop_per_s) fastest = std::max(fastest, rate);
    const double bytes = query.n * query.k * dtype_traits(query.dtype).weight_bits / 8;
    const double least_s = std::max(2 * query.m * query.n * query.k / fastest,
                                    bytes / profile_->device.memory_bytes_per_s);
    price.seconds.value = std::max(price.seconds.value, least_s);
    return price;
  }

  /// A time of one dtype or bitwidth taken over for another.
  static Prediction carried(const Prediction& from, double ratio) {
    return carried_to(from, from.seconds.value * ratio);
  }
  static Prediction carried_to(Prediction from, double seconds) {
    from.seconds.value = seconds;
    from.method += ", carried over by roofline ratio";
    return modelled(std::move(from));
  }

  /// A kernel that was measured in 16 bits says by its weights' bytes what it takes in others.
  static Prediction at_dtype(Prediction from) {
    from.method += ", carried over by the dtype";
    return modelled(std::move(from));
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
    if (shape.latent_width) return nullptr;
    return profile_->find(layer_query(shape, bitwidth, work));
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

  std::string dtype_of(std::int32_t bitwidth) const {
    const KernelRule* rule = kernels_.find(profile_->device, bitwidth);
    return rule == nullptr ? "" : rule->dtype;
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

  /// Borrows the shape for as long as it lives.
  static OpQuery layer_query(const LayerShape& shape, std::int32_t bitwidth,
                             const LayerWork& work) {
    OpQuery query;
    query.op = Op::layer;
    query.phase = work.phase;
    query.bitwidth = bitwidth;
    query.batch_size = work.batch_size;
    query.tokens = work.tokens;
    query.context_tokens = work.context_tokens;
    query.layer = std::shared_ptr<const LayerShape>(std::shared_ptr<void>(), &shape);
    return query;
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
    OpQuery gemm;
    gemm.dtype = dtype_of(bitwidth);
    PredictionSum sum;
    const double rows = rows_of(work);
    const bool experts_added = add_experts(shape, rows, gemm.dtype, sum);
    for (const LinearShape& linear : fused(shape)) {
      if (experts_added && linear.num_copies > 1) continue;
      const double touched = copies_touched(linear, rows);
      gemm.m = rows * count(linear.num_active) / touched;
      gemm.n = touched * count(linear.out_features);
      gemm.k = count(linear.in_features);
      sum.add(linear.num_copies == 1 ? op(gemm) : of_experts(gemm));
    }
    sum.add(attention_op(shape, kv_dtype, work));
    add_elementwise(experts_added ? without_experts(shape) : shape, rows, sum);
    return sum.result("operator");
  }

  /// Whether products of the bitwidth were measured.
  bool has_products(std::int32_t bitwidth) const {
    OpQuery gemm;
    gemm.dtype = dtype_of(bitwidth);
    return !gemm.dtype.empty() && profile_->find(gemm) != nullptr;
  }

  Prediction attention_op(const LayerShape& shape, const std::string& kv_dtype,
                          const LayerWork& work) const {
    if (shape.latent_width) return latent_attention(shape, kv_dtype.empty() ? 16 : 8, work);
    OpQuery query = attention_query(shape, work);
    query.kv_dtype = kv_dtype;  // without a part of it: the 16-bit one by the bytes' ratio
    return op(query);
  }

  /// Adds the experts where they were measured, which are their products and the activation
  /// between, and says whether it did.
  bool add_experts(const LayerShape& shape, double rows, const std::string& dtype,
                   PredictionSum& sum) const {
    if (!has_experts(shape)) return false;
    const auto query = experts_query(shape, rows, dtype);
    if (!query || experts_part(*query) == nullptr) return false;
    sum.add(op(*query));
    return true;
  }

  /// Where no experts were measured. Runtimes multiply those that the rows touch in one grouped
  /// kernel: a product of all their columns reads as many weights and does as much arithmetic.
  /// Routing, sorting and gathering the rows cost a start, and the arithmetic reaches less of the
  /// peak. The error of dense products says nothing of this.
  Prediction of_experts(const OpQuery& gemm) const {
    Prediction price = op(gemm);
    const double compute_s = work_of(profile_->device, gemm).compute_s();
    price.seconds.value =
        kExpertsStart_s + std::max(price.seconds.value, compute_s / kExpertsFlopRatio);
    return modelled(std::move(price));
  }

  /// Kernels of attention to latents were never measured: those for keys and values of every head
  /// say nothing of them.
  Prediction latent_attention(const LayerShape& shape, double kv_bits,
                              const LayerWork& work) const {
    const AttentionWork attention = attention_work(attention_shape(shape), kv_bits, work.batch_size,
                                                   work.tokens, work.context_tokens);
    const double seconds = attention_rates(profile_->device, kernels_).seconds(attention);
    return {{seconds, Provenance::modelled, std::nullopt}, "roofline", {}};
  }

  OpQuery attention_query(const LayerShape& shape, const LayerWork& work) const {
    OpQuery query;
    query.op = Op::attention;
    query.phase = work.phase;
    query.dtype = dtype_of(16).empty() ? "bfloat16" : dtype_of(16);
    query.batch_size = work.batch_size;
    query.tokens = work.tokens;
    query.context_tokens = work.context_tokens;
    const AttentionShape attention = attention_shape(shape);
    query.num_heads = attention.num_heads;
    query.num_kv_heads = attention.num_kv_heads;
    query.head_dim = attention.head_dim;
    query.window = attention.window;
    return query;
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
