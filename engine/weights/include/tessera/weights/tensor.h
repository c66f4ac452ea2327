#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tessera/kernels/moments.h"
#include "tessera/kernels/types.h"
#include "tessera/weights/linears.h"
#include "tessera/weights/weights.h"

namespace tessera::weights {

/// Numbers with a shape, wherever they are: a tensor on disk, one matrix of a fused tensor, or
/// values in memory. Nothing is read before it is asked for.
class Tensor {
 public:
  Tensor(std::shared_ptr<const Weights> weights, const TensorInfo& info);
  Tensor(std::shared_ptr<const Weights> weights, const LinearWeight& linear);
  /// @throws Error{invalid_argument} unless there are as many values as the shape says
  Tensor(std::string name, std::vector<std::int64_t> shape, std::vector<float> values);

  const std::string& name() const { return name_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::int64_t num_elements() const { return num_elements_; }

  /// Elements [first, first + out.size()), row-major. @throws as weights::read_f32
  void read_f32(std::int64_t first, std::span<float> out) const;
  std::vector<float> values() const;  ///< all of them

  /// Of all elements: computed once, on all cores, with the same result for any number of them.
  const kernels::Moments& moments() const;

 private:
  struct Stored {
    std::shared_ptr<const Weights> weights;
    const TensorInfo* info;
  };
  struct Matrix {
    std::shared_ptr<const Weights> weights;
    LinearWeight linear;
  };

  std::string name_;
  std::vector<std::int64_t> shape_;
  DType dtype_ = DType::f32;
  std::int64_t num_elements_ = 0;
  std::variant<Stored, Matrix, std::vector<float>> source_;
  mutable std::once_flag moments_once_;
  mutable kernels::Moments moments_;
};

/// The kernels' name of a type; empty for types that they do not take.
std::optional<kernels::Real> real_of(DType dtype);

/// Of a tensor's numbers, on `num_threads` threads; the result does not depend on how many.
/// @throws as read_f32
kernels::Moments moments_of(const Weights& weights, const TensorInfo& tensor, int num_threads);

}  // namespace tessera::weights
