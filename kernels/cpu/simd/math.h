#pragma once

#include "vector.h"

// Functions of vectors of f32. Polynomials are interpolations at Chebyshev nodes, worked out in 50
// digits; NaN gives NaN. `Isa` is one of the structs of isa.h.
namespace tessera::kernels::cpu {
namespace {

template <class Isa>
struct Math {
  static constexpr int kLanes = Isa::kLanes;
  using Floats = typename Isa::Floats;
  using Ints = typename Simd<kLanes>::Ints;

  TESSERA_KERNELS_INLINE static Floats number(float value) { return all<Floats>(value); }
  TESSERA_KERNELS_INLINE static Floats absolute(Floats x) { return (Floats)((Ints)x & 0x7fffffff); }

  /// c[0] + c[1] x + ...
  template <int Count>
  TESSERA_KERNELS_INLINE static Floats polynomial(Floats x, const float (&c)[Count]) {
    Floats sum = number(c[Count - 1]);
#pragma GCC unroll 16
    for (int i = Count - 2; i >= 0; --i) sum = Isa::fma(sum, x, number(c[i]));
    return sum;
  }

  /// 2^n for n in [-126, 127].
  TESSERA_KERNELS_INLINE static Floats power_of_2(Ints n) { return (Floats)((n + 127) << 23); }

  /// e^x within 2 units of the last place; 0 and Inf where that is what it rounds to.
  TESSERA_KERNELS_INLINE static Floats exp(Floats x) {
    x = x < number(-104.0f) ? number(-104.0f) : x;
    x = x > number(89.0f) ? number(89.0f) : x;
    constexpr float kRound = 0x1.8p23f;  // an addition that leaves the whole part in the last bits
    const Floats shifted = Isa::fma(x, number(0x1.715476p0f), number(kRound));  // 1 / log 2
    const Floats n = shifted - kRound;
    // log 2 in two parts, the first so short that n times it is exact.
    const Floats r = Isa::fma(n, number(2.12194440e-4f), Isa::fma(n, number(-0.693359375f), x));
    constexpr float kTail[] = {5.000000000e-01f, 1.666657703e-01f, 4.166655466e-02f,
                               8.363173075e-03f, 1.392617612e-03f};
    const Floats e = Isa::fma(r * r, polynomial(r, kTail), r) + 1.0f;
    // Two steps, since 2^n itself may be neither normal nor finite.
    const Ints whole = (Ints)shifted - 0x4b400000, part = whole >> 1;
    return e * power_of_2(part) * power_of_2(whole - part);
  }

  TESSERA_KERNELS_INLINE static Floats tanh(Floats x) {
    const Floats size = absolute(x), square = x * x;
    constexpr float kSmall[] = {-3.333333317e-01f, 1.333330356e-01f,  -5.395925958e-02f,
                                2.176891865e-02f,  -8.343945516e-03f, 2.292744816e-03f};
    const Floats small = Isa::fma(x * square, polynomial(square, kSmall), x);
    const Floats e = exp(size * -2.0f);
    const Floats large = (Floats)((Ints)((1.0f - e) / (1.0f + e)) | ((Ints)x & (1 << 31)));
    return size < number(0.625f) ? small : large;
  }

  /// x Phi(x), Phi being the normal distribution's cumulative function. With t = |x|:
  /// Phi(-t) = exp(-t^2 / 2) P(u) / (t + 4), u = (t - 4) / (t + 4), which is smooth up to infinity.
  TESSERA_KERNELS_INLINE static Floats gelu(Floats x) {
    const Floats size = absolute(x), t = size > number(20.0f) ? number(20.0f) : size;  // Phi: 0
    const Floats reach = 1.0f / (t + 4.0f);
    constexpr float kP[] = {7.552851272e-01f,  -6.078965956e-01f, 3.871375595e-01f,
                            -1.865241843e-01f, 6.039531343e-02f,  -7.521255530e-03f,
                            -3.476196460e-03f, 1.575752081e-03f,  1.293401230e-04f,
                            -1.626163157e-04f};
    const Floats p = polynomial(1.0f - 8.0f * reach, kP) * reach;
    const Floats square = t * t, rest = Isa::fma(t, t, -square);  // what rounding took off
    const Floats tail = exp(square * -0.5f) * Isa::fma(rest * -0.5f, p, p);
    return x * (x < number(0.0f) ? tail : 1.0f - tail);
  }

  TESSERA_KERNELS_INLINE static Floats silu(Floats x) { return x / (1.0f + exp(-x)); }

  TESSERA_KERNELS_INLINE static Floats gelu_tanh(Floats x) {
    const Floats inside = Isa::fma(x * x * 0.044715f, x, x);  // x (1 + tanh(y)) / 2 = silu(2 y)
    return x / (1.0f + exp(inside * -1.5957691216057308f));
  }

  TESSERA_KERNELS_INLINE static Floats relu(Floats x) {
    return x < number(0.0f) ? number(0.0f) : x;
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
