#include "tessera/kernels/softmax.h"

#include "check.h"
#include "versions.h"

namespace tessera::kernels {

Status log_sum_exp(const float* logits, Rows rows, std::int64_t columns, float* out) {
  if (logits == nullptr || out == nullptr || !cpu::valid(rows, rows.last) ||
      !cpu::valid_shape(rows.last, columns)) {
    return Status::invalid_argument;
  }
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    out[row] = cpu::chosen().log_sum_exp(logits + row * columns, columns);
  }
  return Status::ok;
}

}  // namespace tessera::kernels
