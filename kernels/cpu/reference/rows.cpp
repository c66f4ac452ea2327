// Norms, rotations, activations and sums of rows in double: what the fast versions are measured
// against.
#include <cmath>

#include "reference.h"

namespace tessera::kernels::cpu::reference {

void rms_norm(const float* in, Rows rows, std::int64_t columns, const float* weight, float epsilon,
              float* out) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const float* x = in + row * columns;
    double squares = 0;
    for (std::int64_t c = 0; c < columns; ++c) squares += double{x[c]} * x[c];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(columns) + epsilon);
    for (std::int64_t c = 0; c < columns; ++c) {
      out[row * columns + c] = static_cast<float>(x[c] * scale * weight[c]);
    }
  }
}

void layer_norm(const float* in, Rows rows, std::int64_t columns, const float* weight,
                const float* bias, float epsilon, float* out) {
  const auto count = static_cast<double>(columns);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const float* x = in + row * columns;
    double sum = 0, squares = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += x[c];
    for (std::int64_t c = 0; c < columns; ++c)
      squares += (x[c] - sum / count) * (x[c] - sum / count);
    const double mean = sum / count, scale = 1 / std::sqrt(squares / count + epsilon);
    for (std::int64_t c = 0; c < columns; ++c) {
      const double w = weight == nullptr ? 1 : weight[c], b = bias == nullptr ? 0 : bias[c];
      out[row * columns + c] = static_cast<float>((x[c] - mean) * scale * w + b);
    }
  }
}

void rotate(float* x, std::int64_t stride, Rows rows, const RopeForm& form, const float* cos_sin,
            const std::int32_t* positions) {
  const std::int64_t pairs = form.rotary_width / 2;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const float* cosines = cos_sin + positions[row] * form.rotary_width;
    for (std::int64_t head = 0; head < form.num_heads; ++head) {
      float* at = x + row * stride + head * form.head_dim;
      for (std::int64_t i = 0; i < pairs; ++i) {
        float& a = at[form.interleaved ? 2 * i : i];
        float& b = at[form.interleaved ? 2 * i + 1 : i + pairs];
        const double c = cosines[i], s = cosines[pairs + i], old = a;
        a = static_cast<float>(old * c - b * s);
        b = static_cast<float>(b * c + old * s);
      }
    }
  }
}

namespace {

double activation_of(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return x < 0 ? 0 : x;  // a NaN is not below 0
    case Activation::gelu:
      return x * 0.5 * std::erfc(-x * 0.70710678118654752);
    case Activation::gelu_tanh:
      return x / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

}  // namespace

void activate(Activation activation, const float* x, const float* up, std::int64_t count,
              float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(activation_of(activation, x[i]));
    out[i] = up == nullptr ? value : value * up[i];
  }
}

float log_sum_exp(const float* x, std::int64_t count) {
  float largest = x[0];
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::isnan(x[i])) return x[i];
    if (x[i] > largest) largest = x[i];
  }
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(double{x[i]} - largest);
  return static_cast<float>(largest + std::log(sum));
}

void narrow(const float* from, std::int64_t count, Real type, void* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint16_t bits = type == Real::f16 ? f32_to_f16(from[i]) : f32_to_bf16(from[i]);
    __builtin_memcpy(static_cast<char*>(to) + 2 * i, &bits, 2);
  }
}

}  // namespace tessera::kernels::cpu::reference
