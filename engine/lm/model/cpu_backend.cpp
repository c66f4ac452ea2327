#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "tessera/core/error.h"
#include "tessera/kernels/norm.h"
#include "tessera/kernels/parallel.h"
#include "tessera/lm/backend.h"

namespace tessera::lm {
namespace {

using kernels::Status;

constexpr std::int64_t kAlignment = 64;

void must(kernels::Status status, const char* what) {
  if (status == kernels::Status::ok) return;
  throw Error(ErrorCode::internal,
              std::string("the kernel ") + what + " answers: " + kernels::describe(status));
}

float* floats(const Memory& memory) { return static_cast<float*>(memory.get()); }

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int num_threads) : num_threads_(num_threads) {}

  std::string name() const override { return "cpu"; }
  bool is_host() const override { return true; }

  Memory upload(const void* host, std::int64_t bytes) const override {
    Memory memory = allocate(bytes);
    copy(host, bytes, memory.get());
    return memory;
  }
  void download(const void* device, std::int64_t bytes, void* host) const override {
    copy(device, bytes, host);
  }
  void write(const void* host, std::int64_t bytes, void* device) const override {
    copy(host, bytes, device);
  }
  void copy(const void* from, std::int64_t bytes, void* to) const override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  std::unique_ptr<Linear> make_linear(const LinearSource& source, const LinearForm& form,
                                      const quant::LinearStatistics* inputs) const override {
    return linear::make_linear(source, form, inputs, num_threads_);
  }
  void multiply(const Linear& linear, Rows2d x, Rows2d out) const override {
    linear.apply(x.data, x.stride, x.rows, out.data, out.stride, num_threads_);
  }

  void norm(const NormWeights& norm, Rows2d in, Rows2d out) const override {
    // A row after the other where they are not dense: heads inside of a fused q, k, v.
    const bool dense = in.stride == in.columns && out.stride == out.columns;
    const auto some = [&](const float* from, kernels::Rows rows, float* to) {
      return norm.rms
                 ? kernels::rms_norm(from, rows, in.columns, floats(norm.weight), norm.epsilon, to)
                 : kernels::layer_norm(from, rows, in.columns, floats(norm.weight),
                                       floats(norm.bias), norm.epsilon, to);
    };
    for_rows("norm", in.rows, in.columns * 2, [&](std::int64_t first, std::int64_t last) {
      if (dense) return some(in.data, {first, last}, out.data);
      for (std::int64_t row = first; row < last; ++row) {
        const Status status = some(in.data + row * in.stride, {0, 1}, out.data + row * out.stride);
        if (status != Status::ok) return status;
      }
      return Status::ok;
    });
  }
  void add(Rows2d in, Rows2d sum) const override {
    for_rows("add", in.rows, in.columns, [&](std::int64_t first, std::int64_t last) {
      return kernels::add(in.data, {first, last}, in.columns, sum.data);
    });
  }
  void add_bias(const Memory& bias, Rows2d out) const override {
    if (bias == nullptr) return;
    for_rows("add_bias", out.rows, out.columns, [&](std::int64_t first, std::int64_t last) {
      return kernels::add_bias(floats(bias), {first, last}, out.columns, out.stride, out.data);
    });
  }
  void scale(float factor, Rows2d x) const override {
    each(x, [factor](float value) { return value * factor; });
  }
  void softcap(float cap, Rows2d x) const override {
    each(x, [cap](float value) { return cap * std::tanh(value / cap); });
  }
  void clamp(float most, Rows2d x) const override {
    each(x, [most](float value) { return std::clamp(value, -most, most); });
  }
  void sigmoid_gate(Rows2d gate, Rows2d x) const override {
    for_rows("sigmoid_gate", x.rows, x.columns * 4, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        const float* g = gate.data + row * gate.stride;
        float* to = x.data + row * x.stride;
        for (std::int64_t c = 0; c < x.columns; ++c) to[c] /= 1 + std::exp(-g[c]);
      }
      return Status::ok;
    });
  }
  void clamped_swiglu(float limit, Rows2d gate, Rows2d up) const override {
    for_rows("clamped_swiglu", gate.rows, gate.columns * 4,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) {
                 float* g = gate.data + row * gate.stride;
                 const float* u = up.data + row * up.stride;
                 for (std::int64_t c = 0; c < gate.columns; ++c) {
                   const float x = std::min(g[c], limit);
                   const float slope = static_cast<float>(kClampedSwigluSlope);
                   g[c] = (std::clamp(u[c], -limit, limit) + 1) * x / (1 + std::exp(-slope * x));
                 }
               }
               return Status::ok;
             });
  }
  void rotate(const kernels::RopeForm& form, const Memory& cos_sin, Rows2d x) const override {
    for_rows("rotate", x.rows, x.columns, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        const std::int32_t position = 0;  // in the table of this row
        const Status status = kernels::rotate(x.data + row * x.stride, x.stride, {0, 1}, form,
                                              floats(cos_sin) + row * form.rotary_width, &position);
        if (status != Status::ok) return status;
      }
      return Status::ok;
    });
  }
  void activate(kernels::Activation activation, Rows2d x) const override {
    for_rows("activate", x.rows, x.columns * 4, [&](std::int64_t first, std::int64_t last) {
      return kernels::activate(activation, {first, last}, x.columns, x.stride, x.data);
    });
  }
  void gated_activation(kernels::Activation activation, Rows2d gate, Rows2d up) const override {
    for_rows("gated_activation", gate.rows, gate.columns * 4,
             [&](std::int64_t first, std::int64_t last) {
               return kernels::gated_activation(activation, gate.data, up.data, gate.stride,
                                                {first, last}, gate.columns, gate.data,
                                                gate.stride);
             });
  }

  void store_kv(Rows2d keys, Rows2d values, const BatchTables& batch,
                const kernels::KvBlocks& blocks) const override {
    for_rows("store_kv", keys.rows, keys.columns * 2, [&](std::int64_t first, std::int64_t last) {
      return kernels::store_kv(keys.data, values.data, keys.stride, {first, last},
                               static_cast<const std::int64_t*>(batch.slots.get()), blocks);
    });
  }
  void attention(Rows2d queries, const BatchTables& batch, const kernels::AttentionForm& form,
                 const kernels::KvBlocks& blocks, Rows2d out) const override {
    const kernels::RaggedBatch ragged{
        batch.num_sequences, static_cast<const std::int32_t*>(batch.query_start.get()),
        static_cast<const std::int32_t*>(batch.context_tokens.get()),
        static_cast<const std::int32_t*>(batch.block_table.get()), batch.max_blocks};
    const std::int64_t tasks = kernels::num_attention_tasks(ragged, blocks, form);
    if (tasks <= 0) must(kernels::Status::invalid_argument, "paged_attention");
    for_tasks("paged_attention", tasks, 1, [&](std::int64_t first, std::int64_t last) {
      return kernels::paged_attention(queries.data, queries.stride, ragged, form, blocks,
                                      {first, last}, out.data, out.stride);
    });
  }

  void gather(Rows2d in, std::span<const std::int64_t> rows, Rows2d out) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(in.data + rows[i] * in.stride, in.columns,
                  out.data + static_cast<std::int64_t>(i) * out.stride);
    }
  }
  void scatter_add(Rows2d in, std::span<const std::int64_t> rows, std::span<const float> weights,
                   Rows2d sum) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const float* from = in.data + static_cast<std::int64_t>(i) * in.stride;
      float* to = sum.data + rows[i] * sum.stride;
      for (std::int64_t c = 0; c < in.columns; ++c) to[c] += weights[i] * from[c];
    }
  }

 private:
  Memory take(std::int64_t bytes) const override {
    const std::int64_t whole = std::max<std::int64_t>(bytes, 1);
    void* data = std::aligned_alloc(
        kAlignment, static_cast<std::size_t>((whole + kAlignment - 1) / kAlignment * kAlignment));
    if (data == nullptr) throw std::bad_alloc();
    return {data, std::free};
  }
  /// Calls f on slices; what it answers other than ok ends the step.
  template <class F>
  void for_tasks(const char* what, std::int64_t count, std::int64_t grain, const F& f) const {
    if (count <= grain) return must(f(0, count), what);
    std::atomic<Status> worst{Status::ok};
    kernels::for_slices(num_threads_, count, grain, [&](std::int64_t first, std::int64_t last) {
      const Status status = f(first, last);
      if (status != Status::ok) worst.store(status, std::memory_order_relaxed);
    });
    must(worst.load(std::memory_order_relaxed), what);
  }
  /// Rows in slices that are worth a thread; `numbers` is the work of a row.
  template <class F>
  void for_rows(const char* what, std::int64_t rows, std::int64_t numbers, const F& f) const {
    constexpr std::int64_t kWorth = 32768;
    for_tasks(what, rows, std::max<std::int64_t>(1, kWorth / std::max<std::int64_t>(numbers, 1)),
              f);
  }
  template <class F>
  void each(Rows2d x, const F& f) const {
    for_rows("each", x.rows, x.columns, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        float* values = x.data + row * x.stride;
        for (std::int64_t c = 0; c < x.columns; ++c) values[c] = f(values[c]);
      }
      return Status::ok;
    });
  }

  int num_threads_;
};

}  // namespace

std::shared_ptr<const Backend> make_cpu_backend(int num_threads) {
  return std::make_shared<CpuBackend>(num_threads > 0 ? num_threads : kernels::hardware_threads());
}

}  // namespace tessera::lm
