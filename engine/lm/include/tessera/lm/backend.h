#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "tessera/kernels/activation.h"
#include "tessera/kernels/attention.h"
#include "tessera/kernels/rope.h"
#include "tessera/linear/linear.h"
#include "tessera/lm/language_model.h"

namespace tessera::lm {

using linear::Linear;
using linear::LinearForm;
using linear::LinearSource;

/// Memory of a device; freed with the last owner.
using Memory = std::shared_ptr<void>;

/// Counts what is allocated, and the most that was at once.
class MemoryMeter : public std::enable_shared_from_this<MemoryMeter> {
 public:
  Memory counted(Memory memory, std::int64_t bytes) {
    const std::int64_t now = now_ += bytes;
    for (std::int64_t peak = peak_; now > peak && !peak_.compare_exchange_weak(peak, now);) {
    }
    void* const data = memory.get();
    return {data, [memory = std::move(memory), bytes, meter = shared_from_this()](void*) mutable {
              memory = nullptr;
              meter->now_ -= bytes;
            }};
  }
  MemoryUse use() const { return {now_, peak_}; }

 private:
  std::atomic<std::int64_t> now_ = 0, peak_ = 0;
};

/// A matrix of f32 on the device, [rows][columns] with rows `stride` numbers apart.
struct Rows2d {
  float* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;

  /// Columns [first, first + count) of it.
  Rows2d part(std::int64_t first, std::int64_t count) const {
    return {data + first, rows, count, stride};
  }
};

/// Of the gate of gpt-oss; source: GptOssExperts of transformers.
inline constexpr double kClampedSwigluSlope = 1.702;

struct NormWeights {
  Memory weight, bias;  ///< f32 on the device; either may be null
  float epsilon = 0;
  bool rms = true;
};

/// Slots and tables of a step, on the device.
struct BatchTables {
  Memory query_start, context_tokens, block_table;  ///< int32, as kernels::RaggedBatch has them
  Memory slots;                                     ///< int64, one a token
  std::int64_t num_sequences = 0, max_blocks = 0;
};

/// What a decoder's layers are made of, on one device. Pointers are the device's. Everything
/// happens in the order of the calls; `download` waits for what came before.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  ///< "cpu", "torch cuda:0"

  virtual bool is_host() const = 0;  ///< its memory is the program's

  /// Counted in memory_use() until its last owner is gone.
  Memory allocate(std::int64_t bytes) const { return meter_->counted(take(bytes), bytes); }
  MemoryUse memory_use() const { return meter_->use(); }
  virtual Memory upload(const void* host, std::int64_t bytes) const = 0;
  virtual void download(const void* device, std::int64_t bytes, void* host) const = 0;
  virtual void write(const void* host, std::int64_t bytes, void* device) const = 0;
  virtual void copy(const void* from, std::int64_t bytes, void* to) const = 0;  ///< both its own

  virtual std::unique_ptr<Linear> make_linear(const LinearSource& source, const LinearForm& form,
                                              const quant::LinearStatistics* inputs) const = 0;
  virtual void multiply(const Linear& linear, Rows2d x, Rows2d out) const = 0;

  virtual void norm(const NormWeights& norm, Rows2d in, Rows2d out) const = 0;
  virtual void add(Rows2d in, Rows2d sum) const = 0;
  virtual void add_bias(const Memory& bias, Rows2d out) const = 0;
  virtual void scale(float factor, Rows2d x) const = 0;
  virtual void softcap(float cap, Rows2d x) const = 0;  ///< x = cap tanh(x / cap)
  virtual void clamp(float most, Rows2d x) const = 0;   ///< to [-most, most]
  /// `cos_sin` [rows][rotary_width], a row for each row of x.
  virtual void rotate(const kernels::RopeForm& form, const Memory& cos_sin, Rows2d x) const = 0;
  virtual void activate(kernels::Activation activation, Rows2d x) const = 0;
  /// gate = activation(gate) * up
  virtual void gated_activation(kernels::Activation activation, Rows2d gate, Rows2d up) const = 0;
  /// x = x sigmoid(gate)
  virtual void sigmoid_gate(Rows2d gate, Rows2d x) const = 0;
  /// gate = (up + 1) g sigmoid(kClampedSwigluSlope g), where g = min(gate, limit) and up is clamped
  virtual void clamped_swiglu(float limit, Rows2d gate, Rows2d up) const = 0;

  virtual void store_kv(Rows2d keys, Rows2d values, const BatchTables& batch,
                        const kernels::KvBlocks& blocks) const = 0;
  virtual void attention(Rows2d queries, const BatchTables& batch,
                         const kernels::AttentionForm& form, const kernels::KvBlocks& blocks,
                         Rows2d out) const = 0;

  /// out[i] = in[rows[i]]
  virtual void gather(Rows2d in, std::span<const std::int64_t> rows, Rows2d out) const = 0;
  /// sum[rows[i]] += weights[i] * in[i]; rows differ from each other
  virtual void scatter_add(Rows2d in, std::span<const std::int64_t> rows,
                           std::span<const float> weights, Rows2d sum) const = 0;

 private:
  virtual Memory take(std::int64_t bytes) const = 0;

  std::shared_ptr<MemoryMeter> meter_ = std::make_shared<MemoryMeter>();
};

/// Our kernels on host memory. Results do not depend on num_threads.
std::shared_ptr<const Backend> make_cpu_backend(int num_threads);

/// `own`, but for the heads that are not in the blocks: the last ones of store_kv and attention go
/// elsewhere, while the others are attended to here.
std::shared_ptr<const Backend> make_split_backend(std::shared_ptr<const Backend> own,
                                                  std::shared_ptr<HeadsElsewhere> elsewhere);

}  // namespace tessera::lm
