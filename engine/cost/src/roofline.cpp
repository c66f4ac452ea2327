#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "counts.h"
#include "layer_operators.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/cost/gguf.h"
#include "tessera/cost/latency.h"
#include "work.h"

namespace tessera::cost {
namespace {

/// What an LM head in a GGUF file is read like: most of them are beside layers of 4 bits.
constexpr std::int32_t kGgufHeadBitwidth = 4;

double weight_bytes(const LinearShape& linear, const KernelRule& rule, bool gguf, double copies) {
  const double matrix = count(linear.in_features) * count(linear.out_features);
  if (gguf) return copies * matrix * gguf_bits(rule.bitwidth) / 8;
  double bytes = matrix * rule.bitwidth / 8;
  if (rule.bitwidth < 16) {
    const double groups =
        rule.group_size > 0 ? std::ceil(count(linear.in_features) / rule.group_size) : 1;
    bytes += count(linear.out_features) * groups * (kFp16Bytes + rule.bitwidth / 8.0);
  }
  return copies * bytes;
}

void check_positive(double value, const char* name, const std::string& where) {
  if (std::isfinite(value) && value > 0) return;
  throw Error(ErrorCode::out_of_range,
              fmt::format("{}: {} is {}, a positive number is needed", where, name, value), name);
}

void check_work(const LayerWork& work, std::int32_t kv_bitwidth) {
  check_positive(work.batch_size, "batch_size", "latency of a layer");
  check_positive(work.tokens, "tokens", "latency of a layer");
  if (kv_bitwidth < kMinKvBitwidth || kv_bitwidth > kMaxKvBitwidth) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("latency of a layer: kv_bitwidth is {}, the allowed range is [{}, {}]",
                            kv_bitwidth, kMinKvBitwidth, kMaxKvBitwidth),
                "kv_bitwidth");
  }
  if (!std::isfinite(work.context_tokens) || work.context_tokens < 0) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("latency of a layer: context_tokens is {}, at least 0 is needed",
                            work.context_tokens),
                "context_tokens");
  }
}

// A rule with the rates that its arithmetic runs at on this device: on the rows of one tile, and on
// those beyond.
struct Kernel {
  const KernelRule* rule = nullptr;
  double flop_per_s = 0;
  double bytes_per_s = 0;
  double tile_flop_per_s = 0;

  double compute_s(double flop, double rows) const {
    if (rule->full_rate_rows == 0) return flop / flop_per_s;
    const double in_tile = std::min(1.0, rule->full_rate_rows / rows);
    return flop * (in_tile / tile_flop_per_s + (1 - in_tile) / flop_per_s);
  }
};

class Roofline final : public LatencyModel {
 public:
  Roofline(Device device, KernelSet kernels)
      : device_(std::move(device)), kernels_(std::move(kernels)) {
    check_positive(device_.memory_bytes_per_s, "memory_bytes_per_s", device_.name);
    check_positive(kernels_.attention_flop_ratio, "attention_flop_ratio", kernels_.name);
    check_positive(kernels_.attention_memory_ratio, "attention_memory_ratio", kernels_.name);
    const auto fp16 = device_.flop_per_s.find("fp16");
    if (fp16 == device_.flop_per_s.end()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: flop_per_s has no fp16, which attention needs", device_.name),
                  "flop_per_s");
    }
    check_positive(fp16->second, "flop_per_s.fp16", device_.name);
    attention_ = attention_rates(device_, kernels_);
  }

  Prediction layer(const LayerShape& layer, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                   const LayerWork& work) const override {
    check_work(work, kv_bitwidth);
    const double seconds = products_s(layer, bitwidth, work, kernels_.layer_overhead_s) +
                           attention_.seconds(state_work(layer, work.batch_size, work.tokens));
    return modelled(seconds + attention(layer, bitwidth, kv_bitwidth, work).seconds.value);
  }

  Prediction experts(const LayerShape& layer, std::int32_t bitwidth,
                     const LayerWork& work) const override {
    check_work(work, kMaxKvBitwidth);
    return modelled(products_s(experts_alone(layer), bitwidth, work, 0));
  }

  Prediction attention(const LayerShape& layer, std::int32_t, std::int32_t kv_bitwidth,
                       const LayerWork& work) const override {
    check_work(work, kv_bitwidth);
    return with_further_heads(kernels_, device_, layer, work, [&](const LayerShape& shape) {
      return modelled(attention_.seconds(attention_work(
          attention_shape(shape), kv_bitwidth, work.batch_size, work.tokens, work.context_tokens)));
    });
  }

  Prediction embedding(const ModelShape& model, double rows) const override {
    check_positive(rows, "rows", "latency of the embedding");
    const Kernel kernel = find_kernel(16);
    const double vocab = std::max(1.0, count(model.vocab_size));
    const double width = count(model.token_embedding_parameters) / vocab;
    const double positions = model.position_embedding_parameters > 0 ? 1 : 0;
    const double layer_inputs = count(model.layer_embedding_parameters) / vocab;
    // One row of each table in, the hidden state out, and what projections or norms there are.
    const double bytes =
        rows * (width + layer_inputs + (1 + positions) * count(model.hidden_size)) * kFp16Bytes +
        count(model.embedding_other_parameters) * kFp16Bytes;
    return modelled(bytes / kernel.bytes_per_s + kernel.rule->linear_overhead_s);
  }

  Prediction lm_head(const ModelShape& model, double rows) const override {
    check_positive(rows, "rows", "latency of the LM head");
    const Kernel kernel = find_kernel(kernels_.gguf ? kGgufHeadBitwidth : 16);
    const double parameters = count(model.lm_head_parameters) + count(model.final_other_parameters);
    const double flop = 2 * parameters * rows;
    const double bits = kernels_.gguf ? gguf_head_bits(kGgufHeadBitwidth) : 16;
    const double bytes = parameters * bits / 8 + rows * (count(model.hidden_size) * kFp16Bytes +
                                                         count(model.vocab_size) * kFp32Bytes);
    return modelled(std::max(flop / kernel.flop_per_s, bytes / kernel.bytes_per_s) +
                    kernel.rule->token_s_per_parameter * rows * parameters +
                    kernel.rule->linear_overhead_s);
  }

  bool is_monotone() const override { return true; }

 private:
  /// On top of `seconds`.
  double products_s(const LayerShape& layer, std::int32_t bitwidth, const LayerWork& work,
                    double seconds) const {
    const Kernel kernel = find_kernel(bitwidth);
    const Kernel dense = kernel.rule->experts_only ? find_kernel(16) : kernel;
    const double rows = work.batch_size * work.tokens;
    // What expands weights while it reads them is no slower than 16 bits on the rows of one tile.
    std::optional<Kernel> full;
    if (rows <= kernel.rule->full_rate_rows && kernels_.find(device_, 16) != nullptr) {
      full = find_kernel(16);
    }
    for (const LinearShape& linear : layer.linears) {
      const double own_s = linear_s(linear, is_expert(linear) ? kernel : dense, rows);
      seconds += full ? std::min(own_s, linear_s(linear, *full, rows)) : own_s;
    }
    return seconds;
  }

  Prediction modelled(double seconds) const {
    return {{seconds, weaker(Provenance::modelled, kernels_.provenance), std::nullopt},
            "roofline",
            std::nullopt};
  }

  double linear_s(const LinearShape& linear, const Kernel& kernel, double rows) const {
    const KernelRule& rule = *kernel.rule;
    const double matrix = count(linear.in_features) * count(linear.out_features);
    const double work = rows * (matrix * linear.mean_active());
    const double activations = rows * linear.mean_active() *
                               (count(linear.in_features) + count(linear.out_features)) *
                               kFp16Bytes;
    const double bytes =
        weight_bytes(linear, rule, kernels_.gguf, copies_touched(linear, rows)) + activations;
    return std::max(kernel.compute_s(2 * work, rows), bytes / kernel.bytes_per_s) +
           rule.token_s_per_parameter * work + rule.linear_overhead_s;
  }

  Kernel find_kernel(std::int32_t bitwidth) const {
    const KernelRule* rule = kernels_.find(device_, bitwidth);
    if (rule == nullptr) no_rule(bitwidth);
    const double rate = device_.flop_per_s.at(rule->compute_dtype);  // find() saw to it
    check_positive(rate, "flop_per_s", device_.name);
    check_positive(rule->flop_ratio, "flop_ratio", kernels_.name);
    check_positive(rule->memory_ratio, "memory_ratio", kernels_.name);
    const double flop_per_s = rate * rule->flop_ratio;
    const KernelRule* full = kernels_.find(device_, 16);
    const double full_per_s =
        full == nullptr ? 0 : device_.flop_per_s.at(full->compute_dtype) * full->flop_ratio;
    return {rule, flop_per_s, device_.memory_bytes_per_s * rule->memory_ratio,
            std::max(flop_per_s, full_per_s)};
  }

  [[noreturn]] void no_rule(std::int32_t bitwidth) const {
    std::vector<std::string> known;
    for (const std::int32_t b : kernels_.bitwidths_on(device_)) known.push_back(std::to_string(b));
    throw Error(
        ErrorCode::unsupported,
        fmt::format("no kernel of the set '{}' runs {} bits on {} (compute capability {}); {}",
                    kernels_.name, bitwidth, device_.name, device_.compute_capability,
                    known.empty() ? "it has none for this device"
                                  : "bitwidths that it has there: " + join(known, ", ")),
        "bitwidths");
  }

  Device device_;
  KernelSet kernels_;
  AttentionRates attention_;
};

}  // namespace

std::unique_ptr<LatencyModel> make_roofline(const Device& device, const KernelSet& kernels) {
  return std::make_unique<Roofline>(device, kernels);
}

}  // namespace tessera::cost
