#include "tessera/linear/decoder_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <span>

#include "slices.h"
#include "speed.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/kernels/activation.h"
#include "tessera/kernels/attention.h"
#include "tessera/kernels/norm.h"
#include "tessera/kernels/rope.h"
#include "tessera/kernels/softmax.h"
#include "tessera/linear/product_speed.h"

namespace tessera::linear {
namespace {

using kernels::Real;
using kernels::Rows;
using kernels::Status;

constexpr std::int64_t kSampledRows = 8;  // of a call
constexpr std::int64_t kBlockSize = 16;   // tokens of a block of the KV cache
constexpr float kEpsilon = 1e-5f;

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

std::int64_t product(std::initializer_list<std::int64_t> sides, const char* path) {
  std::int64_t all = 1;
  for (const std::int64_t side : sides) {
    if (all > kMostWeights / side) {
      refuse(ErrorCode::out_of_range, path, "more than {} numbers", kMostWeights);
    }
    all *= side;
  }
  return all;
}

/// Of what was found and what is right.
class Nmse {
 public:
  void add(double found, double right) {
    error_ += (found - right) * (found - right);
    power_ += right * right;
  }
  double value() const { return power_ > 0 ? error_ / power_ : error_; }

 private:
  double error_ = 0, power_ = 0;
};

/// A kernel with what it works on.
class Case {
 public:
  virtual ~Case() = default;
  virtual std::int64_t copies() const = 0;
  virtual void call(std::int64_t copy) = 0;
  virtual std::int64_t bytes() const = 0;
  virtual double flop() const { return 0; }
  /// Of what the call of the first copy gave.
  virtual double nmse() const = 0;
};

/// One that passes over rows of numbers.
class OverRows final : public Case {
 public:
  explicit OverRows(const DecoderKernelRequest& r)
      : r_(r),
        columns_(r.kernel == DecoderKernel::rotate ? r.heads * r.head_dim : r.columns),
        numbers_(product({r.tokens, columns_}, "columns")),
        copies_(kColdBytes / (4 * numbers_) + 1),
        in_(numbers(numbers_ * copies_, 1)),
        weight_(numbers(columns_, 1u << 20)),
        out_(size(numbers_)) {
    if (r.kernel == DecoderKernel::activate) up_ = numbers(numbers_ * copies_, 1u << 28);
    if (r.kernel == DecoderKernel::rotate) {
      if (r.head_dim % 2 != 0) refuse("head_dim", "{} is odd; pairs are rotated", r.head_dim);
      cos_sin_ = numbers(r.tokens * r.head_dim, 1u << 20);
      positions_.resize(size(r.tokens));
      std::iota(positions_.begin(), positions_.end(), 0);
      rotated_.assign(in_.begin(), in_.begin() + numbers_);
    }
  }

  std::int64_t copies() const override { return copies_; }
  std::int64_t bytes() const override {
    const std::int64_t row = 4 * numbers_;
    switch (r_.kernel) {
      case DecoderKernel::rms_norm:
        return 2 * row + 4 * columns_;
      case DecoderKernel::layer_norm:
        return 2 * row + 8 * columns_;
      case DecoderKernel::activate:
        return 3 * row;
      case DecoderKernel::rotate:
        return 2 * row + 4 * r_.tokens * r_.head_dim;
      default:
        return row + 4 * r_.tokens;
    }
  }

  void call(std::int64_t copy) override {
    multiply_rows([&](Rows rows) { return apply(copy * numbers_, rows); });
  }

  double nmse() const override {
    Nmse sum;
    for (std::int64_t i = 0; i < std::min(kSampledRows, r_.tokens); ++i) {
      check_row(i * r_.tokens / std::min(kSampledRows, r_.tokens), sum);
    }
    return sum.value();
  }

 private:
  template <class Call>
  void multiply_rows(const Call& one) {
    const std::int64_t threads = threads_of(static_cast<int>(r_.threads));
    const std::int64_t grain = std::max<std::int64_t>(1, r_.tokens / (2 * threads));
    const auto slice = [&](std::int64_t first, std::int64_t last) {
      if (one(Rows{first, last}) != Status::ok) status_ = Status::invalid_argument;
    };
    kernels::for_slices(static_cast<int>(threads), r_.tokens, threads == 1 ? r_.tokens : grain,
                        std::ref(slice));
    expect_ok(status_, "a kernel over rows");
  }

  Status apply(std::int64_t first, Rows rows) {
    float* in = in_.data() + first;
    switch (r_.kernel) {
      case DecoderKernel::rms_norm:
        return kernels::rms_norm(in, rows, columns_, weight_.data(), kEpsilon, out_.data());
      case DecoderKernel::layer_norm:
        return kernels::layer_norm(in, rows, columns_, weight_.data(), weight_.data(), kEpsilon,
                                   out_.data());
      case DecoderKernel::activate:
        return kernels::gated_activation(kernels::Activation::silu, in, up_.data() + first,
                                         columns_, rows, columns_, out_.data(), columns_);
      case DecoderKernel::rotate:
        return kernels::rotate(in, columns_, rows, {r_.heads, r_.head_dim, r_.head_dim, false},
                               cos_sin_.data(), positions_.data());
      default:
        return kernels::log_sum_exp(in, rows, columns_, out_.data());
    }
  }

  void check_row(std::int64_t row, Nmse& sum) const {
    const std::int64_t first = row * columns_;
    const std::span<const float> in(in_.data() + first, size(columns_));
    const auto found = [&](std::int64_t c) { return double{out_[size(first + c)]}; };
    const double n = static_cast<double>(columns_);
    double mean = 0, squares = 0, exponentials = 0;
    for (const float x : in) mean += x / n;
    for (const float x : in) squares += double{x} * x / n;
    for (const float x : in) exponentials += std::exp(double{x});
    const double variance = squares - mean * mean;
    for (std::int64_t c = 0; c < columns_; ++c) {
      const double x = in[size(c)], weight = weight_[size(c)];
      switch (r_.kernel) {
        case DecoderKernel::rms_norm:
          sum.add(found(c), x / std::sqrt(squares + double{kEpsilon}) * weight);
          break;
        case DecoderKernel::layer_norm:
          sum.add(found(c), (x - mean) / std::sqrt(variance + double{kEpsilon}) * weight + weight);
          break;
        case DecoderKernel::activate:
          sum.add(found(c), x / (1 + std::exp(-x)) * double{up_[size(first + c)]});
          break;
        case DecoderKernel::rotate:
          sum.add(x, rotated(row, c));
          break;
        default:
          sum.add(double{out_[size(row)]}, std::log(exponentials));
      }
    }
  }

  /// Where the first call has left a number of the first copy.
  double rotated(std::int64_t row, std::int64_t column) const {
    const std::int64_t half = r_.head_dim / 2, in_head = column % r_.head_dim;
    const bool is_first = in_head < half;
    const std::int64_t pair = is_first ? in_head : in_head - half;
    const std::int64_t at = row * columns_ + column - in_head + pair;
    const double a = rotated_[size(at)], b = rotated_[size(at + half)];
    const double cosine = cos_sin_[size(row * r_.head_dim + pair)];
    const double sine = cos_sin_[size(row * r_.head_dim + half + pair)];
    return is_first ? a * cosine - b * sine : b * cosine + a * sine;
  }

  const DecoderKernelRequest& r_;
  std::int64_t columns_, numbers_, copies_;
  std::vector<float> in_, weight_, out_, up_, cos_sin_, rotated_;
  std::vector<std::int32_t> positions_;
  std::atomic<Status> status_{Status::ok};
};

/// Paged attention of the last tokens of sequences of one length.
class Attention final : public Case {
 public:
  explicit Attention(const DecoderKernelRequest& r)
      : r_(r), stride_(r.heads * r.head_dim), scale_(1 / std::sqrt(float(r.head_dim))) {
    if (r.heads % r.kv_heads != 0) {
      refuse("kv_heads",
             "{} heads share {} of keys and values; a divisor of the heads belongs here", r.heads,
             r.kv_heads);
    }
    if (r.tokens > r.context_tokens) {
      refuse("context_tokens", "{} tokens attend, which are among the context's {}", r.tokens,
             r.context_tokens);
    }
    form_ = {r.heads, scale_, 0, 0, nullptr};
    per_sequence_ = (r.context_tokens + kBlockSize - 1) / kBlockSize;
    const std::int64_t stored = product(
        {r.sequences, per_sequence_ * kBlockSize, r.kv_heads, r.head_dim}, "context_tokens");
    product({r.sequences, r.tokens, stride_}, "tokens");
    copies_ = kColdBytes / std::max<std::int64_t>(1, 2 * stored * r.kv_bitwidth / 8) + 1;
    make_blocks();
    queries_ = numbers(r.sequences * r.tokens * stride_, 1u << 28);
    out_.resize(queries_.size());
    for (std::int64_t s = 0; s <= r.sequences; ++s) {
      starts_.push_back(static_cast<std::int32_t>(s * r.tokens));
      contexts_.push_back(static_cast<std::int32_t>(r.context_tokens));
    }
    table_.resize(size(blocks_.num_blocks));
    std::iota(table_.begin(), table_.end(), 0);
  }

  std::int64_t copies() const override { return copies_; }
  std::int64_t bytes() const override {
    const std::int64_t tokens = r_.sequences * r_.context_tokens * r_.kv_heads;
    const std::int64_t scales = r_.kv_bitwidth == 8 ? 4 * tokens : 0;
    return 2 * (tokens * r_.head_dim * r_.kv_bitwidth / 8 + scales) +
           8 * r_.sequences * r_.tokens * stride_;
  }
  double flop() const override {
    const auto tokens = static_cast<double>(r_.tokens), context = double(r_.context_tokens);
    const double seen =
        tokens * (context - (tokens - 1) / 2);  // keys, each query with those before
    return 4 * seen * static_cast<double>(r_.sequences * stride_);
  }

  void call(std::int64_t copy) override {
    const kernels::RaggedBatch batch = batch_of(copy);
    const std::int64_t tasks = kernels::num_attention_tasks(batch, blocks_, form_);
    const int threads = threads_of(static_cast<int>(r_.threads));
    const auto slice = [&](std::int64_t first, std::int64_t last) {
      const Status status = kernels::paged_attention(queries_.data(), stride_, batch, form_,
                                                     blocks_, {first, last}, out_.data(), stride_);
      if (status != Status::ok) status_ = status;
    };
    kernels::for_slices(threads, tasks, threads == 1 ? tasks : 1, std::ref(slice));
    expect_ok(status_, "attention");
  }

  double nmse() const override {
    Nmse sum;
    for (std::int64_t i = 0; i < kSampledRows; ++i) {
      const std::int64_t sequence = i * r_.sequences / kSampledRows;
      const std::int64_t token = i * r_.tokens / kSampledRows, head = i * r_.heads / kSampledRows;
      check_head(sequence, token, head, sum);
    }
    return sum.value();
  }

 private:
  void make_blocks() {
    const auto type = r_.kv_bitwidth == 8 ? kernels::KvType::int8 : kernels::KvType::f16;
    const std::int64_t of_copy = r_.sequences * per_sequence_, num_blocks = of_copy * copies_;
    blocks_ = {nullptr,    nullptr,    nullptr,     nullptr,    type,
               num_blocks, kBlockSize, r_.kv_heads, r_.head_dim};
    const std::int64_t bytes = kernels::kv_bytes(blocks_);
    cache_.resize(2 * size(bytes));
    scales_.resize(type == kernels::KvType::int8 ? 2 * size(num_blocks * kBlockSize * r_.kv_heads)
                                                 : 0);
    blocks_.keys = cache_.data();
    blocks_.values = cache_.data() + bytes;
    if (!scales_.empty()) {
      blocks_.key_scale = scales_.data();
      blocks_.value_scale = scales_.data() + scales_.size() / 2;
    }
    // Block by block, so that what is stored is not there in f32 as well.
    const std::int64_t width = r_.kv_heads * r_.head_dim;
    std::vector<std::int64_t> slots(size(kBlockSize));
    for (std::int64_t block = 0; block < num_blocks; ++block) {
      std::iota(slots.begin(), slots.end(), block * kBlockSize);
      const auto from = static_cast<std::uint64_t>(block % of_copy * kBlockSize * width);
      const std::vector<float> keys = numbers(kBlockSize * width, from + 1);
      const std::vector<float> values = numbers(kBlockSize * width, from + (1u << 30));
      expect_ok(kernels::store_kv(keys.data(), values.data(), width, {0, kBlockSize}, slots.data(),
                                  blocks_),
                "filling the KV cache");
    }
  }

  kernels::RaggedBatch batch_of(std::int64_t copy) const {
    return {r_.sequences, starts_.data(), contexts_.data(),
            table_.data() + copy * r_.sequences * per_sequence_, per_sequence_};
  }

  /// A number as it is stored, of the first copy.
  double stored(const void* data, const float* scales, std::int64_t sequence, std::int64_t token,
                std::int64_t head, std::int64_t c) const {
    const std::int64_t block = sequence * per_sequence_ + token / kBlockSize;
    const std::int64_t place = (block * r_.kv_heads + head) * kBlockSize + token % kBlockSize;
    const std::size_t at = size(place * r_.head_dim + c);
    if (r_.kv_bitwidth == 8) {
      return double{scales[size(place)]} * static_cast<const std::int8_t*>(data)[at];
    }
    return kernels::f16_to_f32(static_cast<const std::uint16_t*>(data)[at]);
  }

  void check_head(std::int64_t sequence, std::int64_t token, std::int64_t head, Nmse& sum) const {
    const std::int64_t kv_head = head / (r_.heads / r_.kv_heads);
    const std::int64_t seen = r_.context_tokens - r_.tokens + token + 1;
    const std::size_t row = size((sequence * r_.tokens + token) * stride_ + head * r_.head_dim);
    std::vector<double> weights(size(seen));
    for (std::int64_t key = 0; key < seen; ++key) {
      double score = 0;
      for (std::int64_t c = 0; c < r_.head_dim; ++c) {
        score += queries_[row + size(c)] *
                 stored(blocks_.keys, blocks_.key_scale, sequence, key, kv_head, c);
      }
      weights[size(key)] = std::exp(score * double{scale_});
    }
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::int64_t c = 0; c < r_.head_dim; ++c) {
      double right = 0;
      for (std::int64_t key = 0; key < seen; ++key) {
        right += weights[size(key)] / all *
                 stored(blocks_.values, blocks_.value_scale, sequence, key, kv_head, c);
      }
      sum.add(out_[row + size(c)], right);
    }
  }

  const DecoderKernelRequest& r_;
  std::int64_t stride_;
  float scale_;
  kernels::AttentionForm form_{};
  kernels::KvBlocks blocks_{};
  std::int64_t per_sequence_ = 0, copies_ = 1;
  std::vector<std::byte> cache_;
  std::vector<float> scales_, queries_, out_;
  std::vector<std::int32_t> starts_, contexts_, table_;
  std::atomic<Status> status_{Status::ok};
};

std::unique_ptr<Case> case_of(const DecoderKernelRequest& request) {
  if (request.kernel == DecoderKernel::attention) return std::make_unique<Attention>(request);
  return std::make_unique<OverRows>(request);
}

}  // namespace

DecoderKernelSpeed measure_decoder_kernel(const DecoderKernelRequest& request) {
  const std::int32_t bits = request.kv_bitwidth;
  if (bits != 8 && bits != 16) {
    refuse("kv_bitwidth", "{} is neither 8 nor 16", bits);
  }
  const WithIsa isa(request.isa);
  DecoderKernelSpeed speed;
  speed.isa = chosen_isa(name_of(request.kernel));
  const std::unique_ptr<Case> one = case_of(request);
  speed.bytes = one->bytes();
  speed.flop = one->flop();
  one->call(0);
  speed.nmse = one->nmse();
  if (!(speed.nmse <= kMostNmse)) {
    refuse(ErrorCode::internal, "kernel",
           "{} ({}) gave a wrong result: {:.2g} of its power is off, at most {:.0e} rounds away; "
           "TESSERA_KERNELS_ISA=scalar keeps to the reference",
           name_of(request.kernel), speed.isa, speed.nmse, kMostNmse);
  }
  const auto call = [&](std::int64_t copy) { one->call(copy); };
  time_copies(one->copies(), request.stop, call);
  while (std::ssize(speed.call_s) < request.repeats && !(request.stop && *request.stop)) {
    speed.call_s.push_back(time_copies(one->copies(), request.stop, call));
  }
  return speed;
}

}  // namespace tessera::linear
