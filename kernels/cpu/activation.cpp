#include "tessera/kernels/activation.h"

#include "check.h"
#include "versions.h"

namespace tessera::kernels {
namespace {

bool valid(Activation activation) {
  return activation == Activation::relu || activation == Activation::gelu ||
         activation == Activation::gelu_tanh || activation == Activation::silu;
}

bool valid_rows(Rows rows, std::int64_t columns, std::int64_t stride) {
  return cpu::valid(rows, rows.last) && columns > 0 && stride >= columns &&
         cpu::valid_shape(rows.last, stride);
}

}  // namespace

Status activate(Activation activation, Rows rows, std::int64_t columns, std::int64_t stride,
                float* x) {
  if (!valid(activation) || x == nullptr || !valid_rows(rows, columns, stride)) {
    return Status::invalid_argument;
  }
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    float* at = x + row * stride;
    cpu::chosen().activate(activation, at, nullptr, columns, at);
  }
  return Status::ok;
}

Status gated_activation(Activation activation, const float* gate, const float* up,
                        std::int64_t stride, Rows rows, std::int64_t columns, float* out,
                        std::int64_t out_stride) {
  if (!valid(activation) || gate == nullptr || up == nullptr || out == nullptr ||
      !valid_rows(rows, columns, stride) || !valid_rows(rows, columns, out_stride)) {
    return Status::invalid_argument;
  }
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    cpu::chosen().activate(activation, gate + row * stride, up + row * stride, columns,
                           out + row * out_stride);
  }
  return Status::ok;
}

}  // namespace tessera::kernels
