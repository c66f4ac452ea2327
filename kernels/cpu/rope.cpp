#include "tessera/kernels/rope.h"

#include "check.h"
#include "versions.h"

namespace tessera::kernels {

Status rotate(float* x, std::int64_t stride, Rows rows, RopeForm form, const float* cos_sin,
              const std::int32_t* positions) {
  if (x == nullptr || cos_sin == nullptr || positions == nullptr || !cpu::valid(rows, rows.last) ||
      !cpu::valid_shape(form.num_heads, form.head_dim) || stride < form.num_heads * form.head_dim ||
      !cpu::valid_shape(rows.last, stride) || form.rotary_width <= 0 ||
      form.rotary_width > form.head_dim || form.rotary_width % 2 != 0) {
    return Status::invalid_argument;
  }
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    if (positions[row] < 0) return Status::invalid_argument;
  }
  cpu::chosen().rotate(x, stride, rows, form, cos_sin, positions);
  return Status::ok;
}

}  // namespace tessera::kernels
