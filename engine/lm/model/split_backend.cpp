#include <utility>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/lm/backend.h"

namespace tessera::lm {
namespace {

class SplitBackend final : public Backend {
 public:
  SplitBackend(std::shared_ptr<const Backend> own, std::shared_ptr<HeadsElsewhere> elsewhere)
      : own_(std::move(own)), elsewhere_(std::move(elsewhere)) {}

  std::string name() const override { return own_->name(); }
  bool is_host() const override { return own_->is_host(); }
  Memory upload(const void* host, std::int64_t bytes) const override {
    Memory memory = allocate(bytes);
    own_->write(host, bytes, memory.get());
    return memory;
  }
  void download(const void* device, std::int64_t bytes, void* host) const override {
    own_->download(device, bytes, host);
  }
  void write(const void* host, std::int64_t bytes, void* device) const override {
    own_->write(host, bytes, device);
  }
  void copy(const void* from, std::int64_t bytes, void* to) const override {
    own_->copy(from, bytes, to);
  }

  std::unique_ptr<Linear> make_linear(const LinearSource& source, const LinearForm& form,
                                      const quant::LinearStatistics* inputs) const override {
    return own_->make_linear(source, form, inputs);
  }
  void multiply(const Linear& linear, Rows2d x, Rows2d out) const override {
    own_->multiply(linear, x, out);
  }
  void norm(const NormWeights& norm, Rows2d in, Rows2d out) const override {
    own_->norm(norm, in, out);
  }
  void add(Rows2d in, Rows2d sum) const override { own_->add(in, sum); }
  void add_bias(const Memory& bias, Rows2d out) const override { own_->add_bias(bias, out); }
  void scale(float factor, Rows2d x) const override { own_->scale(factor, x); }
  void softcap(float cap, Rows2d x) const override { own_->softcap(cap, x); }
  void sigmoid_gate(Rows2d gate, Rows2d x) const override { own_->sigmoid_gate(gate, x); }
  void clamp(float most, Rows2d x) const override { own_->clamp(most, x); }
  void clamped_swiglu(float limit, Rows2d gate, Rows2d up) const override {
    own_->clamped_swiglu(limit, gate, up);
  }
  void rotate(const kernels::RopeForm& form, const Memory& cos_sin, Rows2d x) const override {
    own_->rotate(form, cos_sin, x);
  }
  void activate(kernels::Activation activation, Rows2d x) const override {
    own_->activate(activation, x);
  }
  void gated_activation(kernels::Activation activation, Rows2d gate, Rows2d up) const override {
    own_->gated_activation(activation, gate, up);
  }
  void gather(Rows2d in, std::span<const std::int64_t> rows, Rows2d out) const override {
    own_->gather(in, rows, out);
  }
  void scatter_add(Rows2d in, std::span<const std::int64_t> rows, std::span<const float> weights,
                   Rows2d sum) const override {
    own_->scatter_add(in, rows, weights, sum);
  }

  void store_kv(Rows2d keys, Rows2d values, const BatchTables& batch,
                const kernels::KvBlocks& blocks) const override {
    const std::int64_t kept = blocks.num_kv_heads * blocks.head_dim;
    if (kept > 0) own_->store_kv(keys.part(0, kept), values.part(0, kept), batch, blocks);
    keys_ = keys.part(kept, keys.columns - kept);  // they go with the queries
    values_ = values.part(kept, values.columns - kept);
  }

  void attention(Rows2d queries, const BatchTables& batch, const kernels::AttentionForm& form,
                 const kernels::KvBlocks& blocks, Rows2d out) const override {
    const std::int64_t group =
        form.num_heads / (blocks.num_kv_heads + keys_.columns / blocks.head_dim);
    const std::int64_t kept = blocks.num_kv_heads * group * blocks.head_dim;
    const std::int64_t moved = queries.columns - kept;
    if (moved > 0) elsewhere_->send(side_by_side({queries.part(kept, moved), keys_, values_}));
    if (kept > 0) {
      kernels::AttentionForm own = form;
      own.num_heads = blocks.num_kv_heads * group;
      own_->attention(queries.part(0, kept), batch, own, blocks, out.part(0, kept));
    }
    if (moved > 0) put(elsewhere_->receive(), out.part(kept, moved));
  }

 private:
  Memory take(std::int64_t bytes) const override { return own_->allocate(bytes); }

  std::vector<float> side_by_side(std::initializer_list<Rows2d> parts) const {
    std::int64_t width = 0, first = 0;
    for (const Rows2d& part : parts) width += part.columns;
    std::vector<float> rows(static_cast<std::size_t>(parts.begin()->rows * width));
    for (const Rows2d& part : parts) {
      for (std::int64_t row = 0; row < part.rows; ++row) {
        own_->download(part.data + row * part.stride, part.columns * 4,
                       rows.data() + row * width + first);
      }
      first += part.columns;
    }
    return rows;
  }
  void put(const std::vector<float>& rows, Rows2d out) const {
    if (std::ssize(rows) != out.rows * out.columns) {
      refuse(ErrorCode::out_of_range, "attention", "{} numbers came back for {} tokens of {}",
             rows.size(), out.rows, out.columns);
    }
    for (std::int64_t row = 0; row < out.rows; ++row) {
      own_->write(rows.data() + row * out.columns, out.columns * 4, out.data + row * out.stride);
    }
  }

  const std::shared_ptr<const Backend> own_;
  const std::shared_ptr<HeadsElsewhere> elsewhere_;
  mutable Rows2d keys_, values_;  ///< of the heads elsewhere, until the layer's attention
};

}  // namespace

std::shared_ptr<const Backend> make_split_backend(std::shared_ptr<const Backend> own,
                                                  std::shared_ptr<HeadsElsewhere> elsewhere) {
  return std::make_shared<SplitBackend>(std::move(own), std::move(elsewhere));
}

}  // namespace tessera::lm
