#include "tessera/weights/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include "bounds.h"
#include "tessera/core/error.h"
#include "tessera/kernels/parallel.h"

namespace tessera::weights {
namespace {

// Long enough for a thread to be worth its start, short enough to stay in the second-level cache.
constexpr std::int64_t kSlice = 1 << 17;
constexpr std::int64_t kRead = 1 << 12;  // 16 KiB as f32

/// The moments of each slice, merged in order. `slice` may throw; the first exception in order
/// leaves this.
kernels::Moments moments_of_slices(
    std::int64_t count, int num_threads,
    const std::function<kernels::Moments(std::int64_t first, std::int64_t size)>& slice) {
  const auto num_slices = static_cast<std::size_t>((count + kSlice - 1) / kSlice);
  std::vector<kernels::Moments> parts(num_slices);
  std::vector<std::exception_ptr> failures(num_slices);
  kernels::for_slices(num_threads, count, kSlice, [&](std::int64_t first, std::int64_t last) {
    const auto index = static_cast<std::size_t>(first / kSlice);
    try {
      parts[index] = slice(first, last - first);
    } catch (const std::exception&) {
      failures[index] = std::current_exception();
    }
  });
  kernels::Moments all;
  for (std::size_t i = 0; i < num_slices; ++i) {
    if (failures[i]) std::rethrow_exception(failures[i]);
    all = kernels::merge(all, parts[i]);
  }
  return all;
}

kernels::Moments moments_at(const void* data, kernels::Real type, std::int64_t count) {
  kernels::Moments moments;
  const kernels::Status status = kernels::moments(data, type, count, &moments);
  if (status != kernels::Status::ok) {
    throw Error(ErrorCode::internal,
                std::string("moments of a tensor: ") + kernels::describe(status));
  }
  return moments;
}

// Read a little at a time, for what the kernels cannot take as it lies: what was read is still in
// the first-level cache when it is counted.
kernels::Moments moments_of_reads(
    std::int64_t count, int num_threads,
    const std::function<void(std::int64_t first, std::span<float> out)>& read) {
  return moments_of_slices(count, num_threads, [&read](std::int64_t first, std::int64_t size) {
    std::vector<float> values(static_cast<std::size_t>(std::min(kRead, size)));
    kernels::Moments moments;
    for (std::int64_t done = 0; done < size;) {
      const std::int64_t part = std::min(kRead, size - done);
      read(first + done, {values.data(), static_cast<std::size_t>(part)});
      moments = kernels::merge(moments, moments_at(values.data(), kernels::Real::f32, part));
      done += part;
    }
    return moments;
  });
}

// Any elements of a matrix whose rows are read whole.
void read_elements(const Weights& weights, const LinearWeight& linear, std::int64_t first,
                   std::span<float> out) {
  if (out.empty()) return;
  const std::int64_t columns = linear.in_features;
  const std::int64_t begin = first / columns;
  const std::int64_t end = (first + static_cast<std::int64_t>(out.size()) - 1) / columns + 1;
  std::vector<float> rows(static_cast<std::size_t>((end - begin) * columns));
  read_linear_rows_f32(weights, linear, begin, end - begin, rows);
  std::copy_n(rows.begin() + (first - begin * columns), out.size(), out.begin());
}

}  // namespace

std::optional<kernels::Real> real_of(DType dtype) {
  if (dtype == DType::f32) return kernels::Real::f32;
  if (dtype == DType::f16) return kernels::Real::f16;
  if (dtype == DType::bf16) return kernels::Real::bf16;
  return std::nullopt;
}

kernels::Moments moments_of(const Weights& weights, const TensorInfo& tensor, int num_threads) {
  const std::int64_t count = tensor.num_elements();
  if (const auto type = real_of(tensor.dtype)) {
    const std::byte* data = weights.bytes(tensor).data();
    return moments_of_slices(count, num_threads, [&](std::int64_t first, std::int64_t size) {
      return moments_at(data + first * kernels::size_of(*type), *type, size);
    });
  }
  return moments_of_reads(count, num_threads, [&](std::int64_t first, std::span<float> out) {
    read_f32(weights, tensor, first, out);
  });
}

Tensor::Tensor(std::shared_ptr<const Weights> weights, const TensorInfo& info)
    : name_(info.name),
      shape_(info.shape),
      dtype_(info.dtype),
      num_elements_(info.num_elements()),
      source_(Stored{std::move(weights), &info}) {}

Tensor::Tensor(std::shared_ptr<const Weights> weights, const LinearWeight& linear)
    : name_(describe(linear)),
      shape_({linear.num_rows, linear.in_features}),
      dtype_(linear.tensor->dtype),
      num_elements_(linear.parameters()),
      source_(Matrix{std::move(weights), linear}) {}

Tensor::Tensor(std::string name, std::vector<std::int64_t> shape, std::vector<float> values)
    : name_(std::move(name)), shape_(std::move(shape)), source_(std::move(values)) {
  const auto count = weights::num_elements(shape_);
  const std::size_t given = std::get<std::vector<float>>(source_).size();
  if (!count || *count != static_cast<std::int64_t>(given)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} values for the shape {}", given, describe_shape(shape_)));
  }
  num_elements_ = *count;
}

void Tensor::read_f32(std::int64_t first, std::span<float> out) const {
  check_elements(name_, first, static_cast<std::int64_t>(out.size()), num_elements_);
  if (const auto* stored = std::get_if<Stored>(&source_)) {
    weights::read_f32(*stored->weights, *stored->info, first, out);
  } else if (const auto* matrix = std::get_if<Matrix>(&source_)) {
    read_elements(*matrix->weights, matrix->linear, first, out);
  } else {
    std::copy_n(std::get<std::vector<float>>(source_).begin() + first, out.size(), out.begin());
  }
}

std::vector<float> Tensor::values() const {
  if (const auto* values = std::get_if<std::vector<float>>(&source_)) return *values;
  std::vector<float> all(static_cast<std::size_t>(num_elements_));
  read_f32(0, all);
  return all;
}

const kernels::Moments& Tensor::moments() const {
  std::call_once(moments_once_, [this] {
    const int num_threads = kernels::hardware_threads();
    if (const auto* stored = std::get_if<Stored>(&source_)) {
      moments_ = moments_of(*stored->weights, *stored->info, num_threads);
    } else {
      moments_ = moments_of_reads(
          num_elements_, num_threads,
          [this](std::int64_t first, std::span<float> out) { read_f32(first, out); });
    }
  });
  return moments_;
}

}  // namespace tessera::weights
