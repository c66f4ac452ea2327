// The parts of a decoder by LibTorch's own operators, on any device that it knows. On a CPU the
// kernels do the same faster and without it; there this is what they are compared with.
#include "tessera/torch/torch_backend.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::lm {
namespace {

using kernels::KvBlocks;
using kernels::KvType;

class TorchLinear final : public Linear {
 public:
  TorchLinear(const Linear& values, const at::Device& device, at::ScalarType type,
              std::string describe)
      : Linear(values.out_features(), values.in_features()), describe_(std::move(describe)) {
    at::Tensor dense = at::empty({out_features(), in_features()}, at::kFloat);
    values.dequantise(0, out_features(), dense.data_ptr<float>());
    weight_ = dense.to(device, type);
  }
  void apply(const float* x, std::int64_t x_stride, std::int64_t tokens, float* out,
             std::int64_t out_stride, int) const override {
    const auto options = weight_.options().dtype(at::kFloat);
    const auto at_device = [&](const float* data, std::int64_t columns, std::int64_t stride) {
      return at::from_blob(const_cast<float*>(data), {tokens, columns}, {stride, 1}, options);
    };
    at::Tensor result = at_device(out, out_features(), out_stride);
    const at::Tensor given = at_device(x, in_features(), x_stride).to(weight_.scalar_type());
    result.copy_(at::matmul(given, weight_.t()));
  }
  std::int64_t bytes() const override {
    return weight_.numel() * static_cast<std::int64_t>(weight_.element_size());
  }
  std::string describe() const override { return describe_; }
  void dequantise(std::int64_t first, std::int64_t last, float* out) const override {
    const at::Tensor rows = weight_.slice(0, first, last).to(at::kCPU, at::kFloat).contiguous();
    std::copy_n(rows.data_ptr<float>(), rows.numel(), out);
  }

 private:
  std::string describe_;
  at::Tensor weight_;  // [out_features, in_features]
};

at::ScalarType cache_type(KvType type) {
  switch (type) {
    case KvType::f32:
      return at::kFloat;
    case KvType::f16:
      return at::kHalf;
    case KvType::bf16:
      return at::kBFloat16;
    case KvType::int8:
      return at::kChar;
  }
  throw Error(ErrorCode::internal, "a cache of no type");
}

class TorchBackend final : public Backend {
 public:
  TorchBackend(const at::Device& device, int num_threads, DeviceKernels kernels)
      : device_(device), num_threads_(num_threads), kernels_(std::move(kernels)) {}

  std::string name() const override { return "torch " + device_.str(); }
  bool is_host() const override { return device_.is_cpu(); }

  Memory upload(const void* host, std::int64_t bytes) const override {
    Memory memory = allocate(bytes);
    write(host, bytes, memory.get());
    return memory;
  }
  void download(const void* device, std::int64_t bytes, void* host) const override {
    if (bytes > 0) bytes_at(host, bytes, at::kCPU).copy_(bytes_at(device, bytes, device_));
  }
  void write(const void* host, std::int64_t bytes, void* device) const override {
    if (bytes > 0) bytes_at(device, bytes, device_).copy_(bytes_at(host, bytes, at::kCPU));
  }
  void copy(const void* from, std::int64_t bytes, void* to) const override {
    if (bytes > 0) bytes_at(to, bytes, device_).copy_(bytes_at(from, bytes, device_));
  }

  std::unique_ptr<Linear> make_linear(const LinearSource& source, const LinearForm& form,
                                      const quant::LinearStatistics* inputs) const override {
    check_products(form.dtype);
    return placed(*linear::make_linear(source, form, inputs, num_threads_), form.dtype);
  }
  void multiply(const Linear& linear, Rows2d x, Rows2d out) const override {
    linear.apply(x.data, x.stride, x.rows, out.data, out.stride, num_threads_);
  }

  void norm(const NormWeights& norm, Rows2d in, Rows2d out) const override {
    at::Tensor x = view(in);
    if (norm.rms) {
      x = x * at::rsqrt(x.square().mean({1}, true) + static_cast<double>(norm.epsilon));
    } else {
      x = x - x.mean({1}, true);
      x = x * at::rsqrt(x.square().mean({1}, true) + static_cast<double>(norm.epsilon));
    }
    if (norm.weight != nullptr) x = x * vector(norm.weight, in.columns);
    if (norm.bias != nullptr) x = x + vector(norm.bias, in.columns);
    view(out).copy_(x);
  }
  void add(Rows2d in, Rows2d sum) const override { view(sum).add_(view(in)); }
  void add_bias(const Memory& bias, Rows2d out) const override {
    if (bias != nullptr) view(out).add_(vector(bias, out.columns));
  }
  void scale(float factor, Rows2d x) const override {
    // A product with 0 keeps a NaN that the memory may hold.
    if (factor == 0) {
      view(x).zero_();
    } else {
      view(x).mul_(static_cast<double>(factor));
    }
  }
  void softcap(float cap, Rows2d x) const override {
    view(x).div_(static_cast<double>(cap)).tanh_().mul_(static_cast<double>(cap));
  }

  void clamp(float most, Rows2d x) const override {
    view(x).clamp_(-static_cast<double>(most), static_cast<double>(most));
  }
  void sigmoid_gate(Rows2d gate, Rows2d x) const override { view(x).mul_(at::sigmoid(view(gate))); }
  void clamped_swiglu(float limit, Rows2d gate, Rows2d up) const override {
    const double most = static_cast<double>(limit);
    const at::Tensor x = view(gate).clamp_max(most);
    view(gate).copy_((view(up).clamp(-most, most) + 1) * x * at::sigmoid(x * kClampedSwigluSlope));
  }

  void rotate(const kernels::RopeForm& form, const Memory& cos_sin, Rows2d x) const override {
    const std::int64_t pairs = form.rotary_width / 2;
    const at::Tensor table = at::from_blob(cos_sin.get(), {x.rows, 1, 2, pairs}, floats());
    const at::Tensor cosines = table.select(2, 0), sines = table.select(2, 1);
    at::Tensor turned = heads(x, form.num_heads, form.head_dim).narrow(2, 0, form.rotary_width);
    at::Tensor first =
        form.interleaved ? turned.slice(2, 0, form.rotary_width, 2) : turned.narrow(2, 0, pairs);
    at::Tensor second = form.interleaved ? turned.slice(2, 1, form.rotary_width, 2)
                                         : turned.narrow(2, pairs, pairs);
    const at::Tensor a = first * cosines - second * sines, b = second * cosines + first * sines;
    first.copy_(a);
    second.copy_(b);
  }
  void activate(kernels::Activation activation, Rows2d x) const override {
    view(x).copy_(activated(activation, view(x)));
  }
  void gated_activation(kernels::Activation activation, Rows2d gate, Rows2d up) const override {
    view(gate).copy_(activated(activation, view(gate)) * view(up));
  }

  void store_kv(Rows2d keys, Rows2d values, const BatchTables& batch,
                const KvBlocks& blocks) const override {
    const at::Tensor slots = at::from_blob(batch.slots.get(), {keys.rows}, integers(at::kLong));
    const at::Tensor block = at::floor_divide(slots, blocks.block_size);
    const at::Tensor place = at::remainder(slots, blocks.block_size);
    store(heads(keys, blocks.num_kv_heads, blocks.head_dim), block, place, blocks, blocks.keys,
          blocks.key_scale);
    store(heads(values, blocks.num_kv_heads, blocks.head_dim), block, place, blocks, blocks.values,
          blocks.value_scale);
  }

  void attention(Rows2d queries, const BatchTables& batch, const kernels::AttentionForm& form,
                 const KvBlocks& blocks, Rows2d out) const override {
    if (kernels_.attend && kernels_.attend(queries, batch, form, blocks, out)) return;
    const auto host = [&](const Memory& memory, std::int64_t count) {
      std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
      download(memory.get(), count * 4, numbers.data());
      return numbers;
    };
    const auto starts = host(batch.query_start, batch.num_sequences + 1);
    const auto contexts = host(batch.context_tokens, batch.num_sequences);
    const at::Tensor tables =
        at::from_blob(batch.block_table.get(), {batch.num_sequences, batch.max_blocks},
                      integers(at::kInt))
            .to(at::kLong);
    const at::Tensor q = heads(queries, form.num_heads, blocks.head_dim);
    at::Tensor result = heads(out, form.num_heads, blocks.head_dim);
    for (std::int64_t s = 0; s < batch.num_sequences; ++s) {
      const auto index = static_cast<std::size_t>(s);
      const std::int64_t first = starts[index], count = starts[index + 1] - first;
      const std::int64_t length = contexts[index];
      const std::int64_t used = (length + blocks.block_size - 1) / blocks.block_size;
      const at::Tensor table = tables[s].narrow(0, 0, used);
      const std::int64_t group = form.num_heads / blocks.num_kv_heads;
      const auto of_heads = [&](void* data, float* scales) {
        return loaded(data, scales, table, blocks).narrow(1, 0, length).repeat_interleave(group, 0);
      };
      const at::Tensor scores = scored(q.narrow(0, first, count).transpose(0, 1),
                                       of_heads(blocks.keys, blocks.key_scale), length, form);
      const at::Tensor seen =
          at::matmul(shares(scores, form), of_heads(blocks.values, blocks.value_scale));
      result.narrow(0, first, count).copy_(seen.transpose(0, 1));
    }
  }

  void gather(Rows2d in, std::span<const std::int64_t> rows, Rows2d out) const override {
    view(out).copy_(view(in).index_select(0, index(rows)));
  }
  void scatter_add(Rows2d in, std::span<const std::int64_t> rows, std::span<const float> weights,
                   Rows2d sum) const override {
    const at::Tensor shares =
        at::from_blob(const_cast<float*>(weights.data()),
                      {static_cast<std::int64_t>(weights.size()), 1}, at::kFloat)
            .to(device_);
    view(sum).index_add_(0, index(rows), view(in) * shares);
  }

 private:
  Memory take(std::int64_t bytes) const override {
    const at::Tensor bytes_of =
        at::empty({std::max<std::int64_t>(bytes, 1)}, at::TensorOptions(device_).dtype(at::kByte));
    return Memory(bytes_of.data_ptr(), [bytes_of](void*) {});
  }
  // A matrix that lies on the CPU, on the device.
  std::unique_ptr<Linear> placed(const Linear& values, kernels::Real dtype) const {
    std::string why_not;
    if (kernels_.pack && !values.parts().empty()) {
      std::vector<std::unique_ptr<Linear>> parts;
      for (const auto& part : values.parts()) parts.push_back(placed(*part, dtype));
      return side_by_side(std::move(parts));
    }
    if (kernels_.pack) {
      if (auto packed = kernels_.pack(values, dtype, why_not)) return packed;
    }
    if (!why_not.empty()) why_not = " (" + why_not + ")";
    return std::make_unique<TorchLinear>(values, device_, scalar_type(dtype),
                                         fmt::format("{}, multiplied in {} by LibTorch{}",
                                                     values.describe(), name_of(dtype), why_not));
  }
  // LibTorch 1.13 multiplies no halves on the CPU.
  void check_products(kernels::Real dtype) const {
    if (dtype == kernels::Real::f32 || !device_.is_cpu()) return;
    try {
      const at::Tensor one = at::ones({2, 2}, at::TensorOptions(device_).dtype(scalar_type(dtype)));
      at::matmul(one, one);
    } catch (const c10::Error&) {
      refuse(ErrorCode::unsupported, "dtype",
             "{}: this LibTorch, version {}, does not multiply it on the CPU; take f32, or device "
             "\"cpu\"",
             name_of(dtype), TESSERA_TORCH_VERSION);
    }
  }

  static at::ScalarType scalar_type(kernels::Real dtype) {
    return dtype == kernels::Real::f32   ? at::kFloat
           : dtype == kernels::Real::f16 ? at::kHalf
                                         : at::kBFloat16;
  }
  at::TensorOptions floats() const { return at::TensorOptions(device_).dtype(at::kFloat); }
  at::TensorOptions integers(at::ScalarType type) const {
    return at::TensorOptions(device_).dtype(type);
  }
  static at::Tensor bytes_at(const void* data, std::int64_t bytes, const at::Device& device) {
    return at::from_blob(const_cast<void*>(data), {bytes},
                         at::TensorOptions(device).dtype(at::kByte));
  }
  at::Tensor view(Rows2d x) const {
    return at::from_blob(x.data, {x.rows, x.columns}, {x.stride, 1}, floats());
  }
  // [rows][heads][head_dim]
  at::Tensor heads(Rows2d x, std::int64_t num_heads, std::int64_t head_dim) const {
    return at::from_blob(x.data, {x.rows, num_heads, head_dim}, {x.stride, head_dim, 1}, floats());
  }
  at::Tensor vector(const Memory& memory, std::int64_t count) const {
    return at::from_blob(memory.get(), {count}, floats());
  }
  at::Tensor index(std::span<const std::int64_t> rows) const {
    return at::from_blob(const_cast<std::int64_t*>(rows.data()),
                         {static_cast<std::int64_t>(rows.size())}, at::kLong)
        .to(device_);
  }

  static at::Tensor activated(kernels::Activation activation, const at::Tensor& x) {
    switch (activation) {
      case kernels::Activation::relu:
        return at::relu(x);
      case kernels::Activation::gelu:
        return at::gelu(x);
      case kernels::Activation::gelu_tanh:
        return at::gelu(x, "tanh");
      case kernels::Activation::silu:
        return at::silu(x);
    }
    throw Error(ErrorCode::internal, "an activation of no kind");
  }

  // [blocks][heads][block_size][head_dim]
  at::Tensor cache(void* data, const KvBlocks& blocks) const {
    return at::from_blob(
        data, {blocks.num_blocks, blocks.num_kv_heads, blocks.block_size, blocks.head_dim},
        integers(cache_type(blocks.type)));
  }
  at::Tensor scales_of(float* data, const KvBlocks& blocks) const {
    return at::from_blob(data, {blocks.num_blocks, blocks.num_kv_heads, blocks.block_size},
                         floats());
  }
  void store(at::Tensor rows, const at::Tensor& block, const at::Tensor& place,
             const KvBlocks& blocks, void* data, float* scales) const {
    using at::indexing::Slice;
    if (blocks.type == KvType::int8) {
      at::Tensor scale = rows.abs().amax({2}, true) / 127;
      scale = at::where(scale == 0, at::ones_like(scale), scale);
      scales_of(scales, blocks).index_put_({block, Slice(), place}, scale.squeeze(2));
      rows = at::round(rows / scale);
    }
    cache(data, blocks).index_put_({block, Slice(), place}, rows.to(cache_type(blocks.type)));
  }
  // Keys or values of one sequence, [heads][tokens][head_dim] in f32.
  at::Tensor loaded(void* data, float* scales, const at::Tensor& table,
                    const KvBlocks& blocks) const {
    at::Tensor pages = cache(data, blocks).index_select(0, table).to(at::kFloat);
    if (blocks.type == KvType::int8)
      pages = pages * scales_of(scales, blocks).index_select(0, table).unsqueeze(3);
    return pages.transpose(0, 1).reshape({blocks.num_kv_heads, -1, blocks.head_dim});
  }
  // [heads][queries][tokens], what a query does not see at -infinity.
  at::Tensor scored(const at::Tensor& queries, const at::Tensor& keys, std::int64_t length,
                    const kernels::AttentionForm& form) const {
    at::Tensor scores = at::matmul(queries, keys.transpose(1, 2)) * static_cast<double>(form.scale);
    if (form.softcap > 0)
      scores =
          at::tanh(scores / static_cast<double>(form.softcap)) * static_cast<double>(form.softcap);
    const at::Tensor positions = at::arange(length, integers(at::kLong));
    const at::Tensor own = positions.slice(0, length - queries.size(1)).unsqueeze(1);
    const at::Tensor ahead = positions.unsqueeze(0) - own;  // key less query
    if (form.alibi_slopes != nullptr) {
      const at::Tensor slopes =
          at::from_blob(const_cast<float*>(form.alibi_slopes), {form.num_heads, 1, 1}, floats());
      scores = scores + slopes * ahead;
    }
    at::Tensor hidden = ahead > 0;
    if (form.window > 0) hidden = hidden.logical_or(ahead <= -form.window);
    if (form.chunk > 0) hidden = hidden.logical_or(ahead < -own.remainder(form.chunk));
    return scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }

  // A sink takes its share of the softmax and gives nothing.
  at::Tensor shares(const at::Tensor& scores, const kernels::AttentionForm& form) const {
    if (form.sinks == nullptr) return at::softmax(scores, -1);
    const at::Tensor sinks =
        at::from_blob(const_cast<float*>(form.sinks), {form.num_heads, 1, 1}, floats())
            .expand({form.num_heads, scores.size(1), 1});
    return at::softmax(at::cat({scores, sinks}, -1), -1).narrow(-1, 0, scores.size(2));
  }

  at::Device device_;
  int num_threads_;
  DeviceKernels kernels_;
};

}  // namespace

void check_torch_device(const std::string& device) {
  const bool cuda = device == "cuda" || device.starts_with("cuda:");
  if (!cuda && device != "cpu")
    refuse("device", "{} is neither cpu nor cuda or cuda:N", quote(device));
  // The order of the driver's tools, not of speed: N is then the same GPU for all.
  if (cuda) setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
  if (cuda && !at::hasCUDA()) {
    refuse(ErrorCode::unsupported, "device",
           "{}: this LibTorch, version {}, knows no CUDA or finds no GPU; build against one that "
           "does",
           device, TESSERA_TORCH_VERSION);
  }
}

std::shared_ptr<const Backend> make_torch_backend(const std::string& device, int num_threads,
                                                  DeviceKernels kernels) {
  check_torch_device(device);
  return std::make_shared<TorchBackend>(at::Device(device), num_threads, std::move(kernels));
}

}  // namespace tessera::lm
