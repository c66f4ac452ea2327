#include <algorithm>
#include <cmath>

#include "tessera/kernels/types.h"
#include "tessera/quant/quantise.h"

namespace tessera::quant {

std::int64_t Quantised::scale_index(std::int64_t row, std::int64_t column) const {
  switch (scheme.granularity) {
    case Granularity::tensor:
      return 0;
    case Granularity::channel:
      return row;
    case Granularity::group:
      break;
  }
  return row * groups() + (group_index.empty() ? column / scheme.group_size
                                               : group_index[static_cast<std::size_t>(column)]);
}

void Quantised::dequantise(std::int64_t first, std::int64_t last, float* out) const {
  for (std::int64_t r = first; r < last; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto scale = static_cast<std::size_t>(scale_index(r, c));
      const int code = codes[static_cast<std::size_t>(r * columns + c)];
      float value = scales[scale] * static_cast<float>(code - zero_points[scale]);
      if (!input_scales.empty()) value /= input_scales[static_cast<std::size_t>(c)];
      *out++ = value;
    }
  }
}

std::vector<float> Quantised::dequantised() const {
  std::vector<float> values(codes.size());
  dequantise(0, rows, values.data());
  return values;
}

float Quantised::scale_max() const {
  return scales.empty() ? 0 : *std::max_element(scales.begin(), scales.end());
}

std::int64_t Quantised::size_bytes() const {
  const std::int64_t codes_per_word = 32 / scheme.bitwidth;
  const auto words = [&](std::int64_t count) {
    return 4 * ((count + codes_per_word - 1) / codes_per_word);
  };
  const auto num_scales = static_cast<std::int64_t>(scales.size());
  const std::int64_t num_zero_points = scheme.symmetric ? 0 : num_scales;
  return rows * words(columns) + num_scales * kernels::size_of(scheme.scale_type) +
         words(num_zero_points) +
         static_cast<std::int64_t>(4 * (group_index.size() + input_scales.size()));
}

WeightError weight_error(MatrixView weight, const Quantised& quantised) {
  WeightError error;
  std::vector<float> values(static_cast<std::size_t>(weight.columns));
  double sum = 0;
  for (std::int64_t r = 0; r < weight.rows; ++r) {
    quantised.dequantise(r, r + 1, values.data());
    for (std::int64_t c = 0; c < weight.columns; ++c) {
      const double d = static_cast<double>(weight.row(r)[c]) - values[static_cast<std::size_t>(c)];
      sum += d * d;
      error.max_error = std::max(error.max_error, std::abs(d));
    }
  }
  error.mse = sum / static_cast<double>(weight.rows * weight.columns);
  return error;
}

}  // namespace tessera::quant
