#include "packed_linear.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/kernels/cuda/gemm.h"
#include "tessera/kernels/cuda/int8.h"
#include "tessera/kernels/cuda/quantise.h"

namespace tessera::lm {
namespace {

namespace cuda = kernels::cuda;
using kernels::Matrix;
using kernels::Real;
using kernels::Status;

using DevicePointer = std::shared_ptr<const KernelDevice>;

void run(const KernelDevice& device, const char* what, const KernelDevice::Launch& launch) {
  const Status status = device.run(launch);
  if (status == Status::ok) return;
  throw Error(ErrorCode::internal, fmt::format("{} on the GPU: {}", what, describe(status)));
}

template <class T>
Memory uploaded(const KernelDevice& device, const std::vector<T>& values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  Memory memory = device.allocate(bytes);
  device.upload(values.data(), bytes, memory.get());
  return memory;
}

template <class T>
std::vector<T> downloaded(const KernelDevice& device, const T* from, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  device.download(from, count * static_cast<std::int64_t>(sizeof(T)), values.data());
  return values;
}

// Codes of 3, 4 or 8 bits times activations in 16 or 32 bits.
class PackedLinear final : public Linear {
 public:
  PackedLinear(LinearCodes codes, Real activations, DevicePointer device)
      : Linear(codes.rows, codes.columns),
        device_(std::move(device)),
        format_(codes.format),
        activations_(activations),
        description_(std::move(codes.description)),
        packed_bytes_(cuda::packed_weights_bytes(codes.rows, codes.columns, codes.format)),
        packed_(device_->allocate(packed_bytes_)) {
    if (!codes.input_scales.empty()) input_scales_ = uploaded(*device_, codes.input_scales);
    const Memory plain = uploaded(*device_, codes.codes), scales = uploaded(*device_, codes.scales),
                 zero_points = uploaded(*device_, codes.zero_points);
    run(*device_, "packing codes", [&](cuda::Stream stream) {
      return cuda::pack_weights(static_cast<const std::uint8_t*>(plain.get()), codes.rows,
                                codes.columns, format_, static_cast<const float*>(scales.get()),
                                static_cast<const std::uint8_t*>(zero_points.get()), packed_.get(),
                                stream);
    });
  }

  void apply(const float* x, std::int64_t x_stride, std::int64_t tokens, float* out,
             std::int64_t out_stride, int) const override {
    if (tokens == 0) return;
    const cuda::GemmPlan plan = cuda::plan_dequant_gemm(device_->properties(), activations_, tokens,
                                                        out_features(), in_features(), format_);
    if (plan.status != Status::ok) refuse(ErrorCode::unsupported, "tokens", "{}", plan.reason);
    Matrix activations{x, Real::f32, tokens, in_features(), x_stride};
    const Memory rounded = round(activations);
    if (rounded != nullptr)
      activations = {rounded.get(), activations_, tokens, in_features(), in_features()};
    const Memory workspace =
        plan.workspace_bytes > 0 ? device_->allocate(plan.workspace_bytes) : nullptr;
    run(*device_, "a product with codes", [&](cuda::Stream stream) {
      return cuda::dequant_gemm(plan, activations, weights(packed_.get()), out, out_stride,
                                workspace.get(), stream);
    });
  }

  std::int64_t bytes() const override {
    const std::int64_t inputs = input_scales_ == nullptr ? 0 : in_features() * 4;
    return packed_bytes_ + inputs;
  }

  std::string describe() const override {
    return fmt::format("{}, {} activations, CUDA kernels", description_, name_of(activations_));
  }

  // For who looks at them: it copies all of the matrix, for any rows.
  void dequantise(std::int64_t first, std::int64_t last, float* out) const override {
    const auto bytes =
        downloaded(*device_, static_cast<const std::uint8_t*>(packed_.get()), packed_bytes_);
    const Status status = cuda::unpack_host_weights(weights(bytes.data()), {first, last}, out);
    if (status != Status::ok) refuse("rows", "[{}, {}) of {}", first, last, out_features());
    if (input_scales_ == nullptr) return;
    const auto divisors =
        downloaded(*device_, static_cast<const float*>(input_scales_.get()), in_features());
    for (std::int64_t row = first; row < last; ++row) {
      for (const float divisor : divisors) *out++ /= divisor;
    }
  }

 private:
  cuda::PackedWeights weights(const void* data) const {
    return {out_features(), in_features(), format_, data};
  }

  // Null where the product takes them as they are.
  Memory round(Matrix given) const {
    if (activations_ == Real::f32 && input_scales_ == nullptr) return nullptr;
    Memory memory = device_->allocate(given.rows * given.columns * size_of(activations_));
    run(*device_, "rounding activations", [&](cuda::Stream stream) {
      return cuda::round_activations(given, static_cast<const float*>(input_scales_.get()),
                                     activations_, memory.get(), stream);
    });
    return memory;
  }

  DevicePointer device_;
  kernels::QuantFormat format_;
  Real activations_;
  std::string description_;
  std::int64_t packed_bytes_;
  Memory packed_, input_scales_;  ///< the latter [in_features], null but for AWQ
};

class Int8Linear final : public Linear {
 public:
  Int8Linear(const LinearCodes& codes, DevicePointer device)
      : Linear(codes.rows, codes.columns),
        device_(std::move(device)),
        threshold_(codes.outlier_threshold),
        description_(codes.description),
        scales_(uploaded(*device_, codes.scales)) {
    std::vector<std::int8_t> centred;
    centred.reserve(codes.codes.size());
    for (const std::uint8_t code : codes.codes)
      centred.push_back(static_cast<std::int8_t>(code - kernels::symmetric_zero_point(8)));
    codes_ = uploaded(*device_, centred);
  }

  void apply(const float* x, std::int64_t x_stride, std::int64_t tokens, float* out,
             std::int64_t out_stride, int) const override {
    if (tokens == 0) return;
    const Matrix activations{x, Real::f32, tokens, in_features(), x_stride};
    const Memory codes = device_->allocate(tokens * in_features());
    const Memory scales = device_->allocate(tokens * 4);
    const Memory workspace =
        threshold_ > 0
            ? device_->allocate(cuda::token_outliers_workspace_bytes(tokens, in_features()))
            : nullptr;
    auto* rounded = static_cast<std::int8_t*>(codes.get());
    auto* scale = static_cast<float*>(scales.get());
    run(*device_, "a product in 8 bits", [&](cuda::Stream stream) {
      Status status = cuda::quantise_tokens(activations, threshold_, rounded, scale, stream);
      if (status == Status::ok) {
        status = cuda::int8_gemm(device_->properties(), rounded, scale, tokens, weights(), out,
                                 out_stride, stream);
      }
      if (status != Status::ok || threshold_ == 0) return status;
      return cuda::add_token_outliers(activations, threshold_, weights(), out, out_stride,
                                      workspace.get(), stream);
    });
  }

  std::int64_t bytes() const override { return out_features() * (in_features() + 4); }
  std::string describe() const override { return description_ + ", CUDA kernels"; }

  void dequantise(std::int64_t first, std::int64_t last, float* out) const override {
    const std::int64_t count = last - first;
    const auto codes =
        downloaded(*device_, weights().codes + first * in_features(), count * in_features());
    const auto scales = downloaded(*device_, weights().scale + first, count);
    auto code = codes.begin();
    for (const float scale : scales) {
      for (std::int64_t c = 0; c < in_features(); ++c) *out++ = scale * static_cast<float>(*code++);
    }
  }

 private:
  cuda::Int8Weights weights() const {
    return {out_features(), in_features(), static_cast<const std::int8_t*>(codes_.get()),
            static_cast<const float*>(scales_.get())};
  }

  DevicePointer device_;
  float threshold_;
  std::string description_;
  Memory scales_, codes_;
};

// Why the kernels do not take the codes; empty where they do.
std::string obstacle(const LinearCodes& codes, Real activations, cuda::Device device) {
  if (codes.int8) {
    return codes.columns <= kernels::kMaxInt8Columns
               ? ""
               : fmt::format("int8 sums are exact up to {} columns", kernels::kMaxInt8Columns);
  }
  const cuda::GemmPlan plan =
      cuda::plan_dequant_gemm(device, activations, 1, codes.rows, codes.columns, codes.format);
  return plan.status == Status::ok ? "" : plan.reason;
}

}  // namespace

std::unique_ptr<Linear> make_packed_linear(const Linear& values, Real activations,
                                           std::shared_ptr<const KernelDevice> device,
                                           std::string& why_not) {
  why_not.clear();
  std::optional<LinearCodes> codes = values.codes();
  if (!codes) return nullptr;
  why_not = obstacle(*codes, activations, device->properties());
  if (!why_not.empty()) return nullptr;
  if (codes->int8) return std::make_unique<Int8Linear>(*codes, std::move(device));
  return std::make_unique<PackedLinear>(std::move(*codes), activations, std::move(device));
}

}  // namespace tessera::lm
