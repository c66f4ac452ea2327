#include "tessera/kernels/norm.h"

#include <cmath>

#include "check.h"
#include "versions.h"

namespace tessera::kernels {
namespace {

bool valid_rows(const float* in, Rows rows, std::int64_t columns, std::int64_t stride,
                const float* out) {
  return in != nullptr && out != nullptr && cpu::valid(rows, rows.last) && columns > 0 &&
         stride >= columns && cpu::valid_shape(rows.last, stride);
}

}  // namespace

Status rms_norm(const float* in, Rows rows, std::int64_t columns, const float* weight,
                float epsilon, float* out) {
  if (!valid_rows(in, rows, columns, columns, out) || weight == nullptr || !(epsilon >= 0) ||
      !std::isfinite(epsilon)) {
    return Status::invalid_argument;
  }
  cpu::chosen().rms_norm(in, rows, columns, weight, epsilon, out);
  return Status::ok;
}

Status layer_norm(const float* in, Rows rows, std::int64_t columns, const float* weight,
                  const float* bias, float epsilon, float* out) {
  if (!valid_rows(in, rows, columns, columns, out) || !(epsilon >= 0) || !std::isfinite(epsilon)) {
    return Status::invalid_argument;
  }
  cpu::chosen().layer_norm(in, rows, columns, weight, bias, epsilon, out);
  return Status::ok;
}

// One addition per number: the compiler's own vectors wait for memory as well as any.
Status add(const float* in, Rows rows, std::int64_t columns, float* sum) {
  if (!valid_rows(in, rows, columns, columns, sum)) return Status::invalid_argument;
  for (std::int64_t i = rows.first * columns; i < rows.last * columns; ++i) sum[i] += in[i];
  return Status::ok;
}

Status add_bias(const float* bias, Rows rows, std::int64_t columns, std::int64_t stride,
                float* out) {
  if (!valid_rows(bias, rows, columns, stride, out)) return Status::invalid_argument;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t c = 0; c < columns; ++c) out[row * stride + c] += bias[c];
  }
  return Status::ok;
}

}  // namespace tessera::kernels
