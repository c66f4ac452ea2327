#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/quant/scheme.h"
#include "tessera/quant/statistics.h"

namespace tessera::quant {

/// Row-major [rows output features, columns input features], rows one after the other.
struct MatrixView {
  const float* data = nullptr;
  std::int64_t rows = 0, columns = 0;

  const float* row(std::int64_t r) const { return data + r * columns; }
};

/// A matrix as codes: weight (r, c) is scale * (code - zero_point), divided by input_scales[c]
/// where there are some.
struct Quantised {
  std::int64_t rows = 0, columns = 0;
  Scheme scheme;
  Method method = Method::rtn;            ///< what made the codes: rtn where GPTQ did worse than it
  std::vector<std::uint8_t> codes;        ///< [rows, columns]
  std::vector<float> scales;              ///< [rows, groups]; [1] for granularity tensor
  std::vector<std::uint8_t> zero_points;  ///< the same
  std::vector<std::int32_t> group_index;  ///< [columns], with act_order and groups; else empty
  std::vector<float> input_scales;        ///< [columns], of AWQ; else empty

  double damping = 0;  ///< of GPTQ: what was added to the Hessian's diagonal, over its mean
  /// tr((W - Q) H (W - Q)^T) summed over rows: mean squared error of the outputs, all together.
  /// Absent without statistics; with a diagonal ones only, inputs count as uncorrelated.
  std::optional<double> output_error;
  std::optional<double> rtn_output_error;  ///< the same of round-to-nearest, where it was compared

  std::int64_t groups() const { return num_groups(scheme, columns); }
  /// Index into scales and zero_points.
  std::int64_t scale_index(std::int64_t row, std::int64_t column) const;
  /// Rows [first, last) as values; `out` has (last - first) * columns elements.
  void dequantise(std::int64_t first, std::int64_t last, float* out) const;
  std::vector<float> dequantised() const;  ///< [rows, columns]
  float scale_max() const;
  /// Of what a checkpoint stores: codes packed, scales in scale_type, zero points and indices where
  /// there are some.
  std::int64_t size_bytes() const;
};

/// Largest and mean squared difference of weights, as they are and as they come back.
struct WeightError {
  double mse = 0;
  double max_error = 0;
};
WeightError weight_error(MatrixView weight, const Quantised& quantised);

/// tr(D H D^T) over rows of D = weight - quantised; with a diagonal where there is no Hessian.
double output_error(MatrixView weight, const Quantised& quantised, const LinearStatistics& inputs);

/// Codes of one matrix.
///
/// GPTQ needs a Hessian and promises an output error not above that of round-to-nearest: where it
/// would be, the result is that of round-to-nearest and says so in `method`. AWQ needs abs_mean and
/// measures by the Hessian, or by its diagonal where there is none. SmoothQuant rewrites the layer
/// before (see smooth.h); what is left for a matrix is round-to-nearest.
///
/// @param inputs may be null for rtn, smoothquant
/// @param num_threads 0: as many as there are processors. The result does not depend on it.
/// @throws Error{invalid_argument, out_of_range} for weights that are not finite, statistics of
/// other in_features or absent, a scheme that the method cannot have (GPTQ rounds to nearest)
Quantised quantise(MatrixView weight, const Scheme& scheme, Method method = Method::rtn,
                   const LinearStatistics* inputs = nullptr, int num_threads = 0);

/// Round-to-nearest of rows as they are stored, each by itself, on the caller alone; `out` keeps
/// its memory. For a granularity other than tensor.
/// @throws Error{invalid_argument} where a scale is no number of its type, as with weights that are
/// not finite
void round_rows(const kernels::Matrix& rows, const Scheme& scheme, Quantised& out);

/// Codes of matrices that share their input: each as on its own, but AWQ finds one set of
/// input_scales for all, those with the least output error of all together.
/// @throws as above
std::vector<Quantised> quantise(const std::vector<MatrixView>& weights, const Scheme& scheme,
                                Method method = Method::rtn,
                                const LinearStatistics* inputs = nullptr, int num_threads = 0);

}  // namespace tessera::quant
