#pragma once

#include "math.h"
#include "shuffle.h"
#include "tessera/kernels/activation.h"
#include "tessera/kernels/rope.h"

// Norms, rotations, activations and sums of rows, for vectors of Isa::kLanes floats.
namespace tessera::kernels::cpu {
namespace {

template <class Isa>
class RowKernels {
 public:
  static constexpr int kLanes = Isa::kLanes;
  using Floats = typename Isa::Floats;

  static void rms_norm(const float* in, Rows rows, std::int64_t columns, const float* weight,
                       float epsilon, float* out) {
    const auto count = static_cast<float>(columns);
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const float* x = in + row * columns;
      const float squares = sum(columns, [&](std::int64_t c, std::int64_t n, Floats add) {
        const Floats v = read_some(x + c, n);
        return Isa::fma(v, v, add);
      });
      const Floats scale = all<Floats>(1 / __builtin_sqrtf(squares / count + epsilon));
      float* to = out + row * columns;
      for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
        write_some(to + c, read_some(x + c, n) * scale * read_some(weight + c, n), n);
      });
    }
  }

  static void layer_norm(const float* in, Rows rows, std::int64_t columns, const float* weight,
                         const float* bias, float epsilon, float* out) {
    const auto count = static_cast<float>(columns);
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const float* x = in + row * columns;
      const float total = sum(columns, [&](std::int64_t c, std::int64_t n, Floats add) {
        return add + read_some(x + c, n);
      });
      const Floats mean = all<Floats>(total / count);
      const float squares = sum(columns, [&](std::int64_t c, std::int64_t n, Floats add) {
        Floats v = read_some(x + c, n) - mean;
        if (n < kLanes) v = first_lanes(v, n);
        return Isa::fma(v, v, add);
      });
      const Floats scale = all<Floats>(1 / __builtin_sqrtf(squares / count + epsilon));
      float* to = out + row * columns;
      for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
        Floats v = (read_some(x + c, n) - mean) * scale;
        if (weight != nullptr) v *= read_some(weight + c, n);
        if (bias != nullptr) v += read_some(bias + c, n);
        write_some(to + c, v, n);
      });
    }
  }

  static void rotate(float* x, std::int64_t stride, Rows rows, const RopeForm& form,
                     const float* cos_sin, const std::int32_t* positions) {
    const std::int64_t pairs = form.rotary_width / 2;
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const float* cosines = cos_sin + positions[row] * form.rotary_width;
      for (std::int64_t head = 0; head < form.num_heads; ++head) {
        float* at = x + row * stride + head * form.head_dim;
        if (form.interleaved) {
          rotate_neighbours(at, cosines, pairs);
        } else {
          rotate_halves(at, cosines, pairs);
        }
      }
    }
  }

  static void activate(Activation activation, const float* x, const float* up, std::int64_t count,
                       float* out) {
    switch (activation) {
      case Activation::relu:
        return apply<Math<Isa>::relu>(x, up, count, out);
      case Activation::gelu:
        return apply<Math<Isa>::gelu>(x, up, count, out);
      case Activation::gelu_tanh:
        return apply<Math<Isa>::gelu_tanh>(x, up, count, out);
      case Activation::silu:
        return apply<Math<Isa>::silu>(x, up, count, out);
    }
  }

  static float log_sum_exp(const float* x, std::int64_t count) {
    Floats top = all<Floats>(-__builtin_inff()), nan{};
    for_vectors(count, [&](std::int64_t i, std::int64_t n) {
      const Floats v = n < kLanes ? read_some(x + i, n) : read<Floats>(x + i);
      nan += v - v;  // Inf gives a NaN too, and is asked for below
      top = Isa::max(n < kLanes ? only(v, n) : v, top);
    });
    const float largest = largest_lane<kLanes>(top), spoilt = sum_of_lanes<kLanes>(nan);
    if (spoilt != spoilt) {
      bool has_nan = false;
      for (std::int64_t i = 0; i < count; ++i) has_nan = has_nan || x[i] != x[i];
      if (has_nan) return __builtin_nanf("");
      if (largest == __builtin_inff() || largest == -__builtin_inff()) return largest;
    }
    double total = 0;
    const Floats base = all<Floats>(largest);
    // Lanes add up few numbers in f32, blocks in double.
    for (std::int64_t first = 0; first < count; first += kBlock) {
      const std::int64_t length = count - first < kBlock ? count - first : kBlock;
      total += static_cast<double>(sum(length, [&](std::int64_t i, std::int64_t n, Floats add) {
        const Floats e = Math<Isa>::exp(read_some(x + first + i, n) - base);
        return add + (n < kLanes ? first_lanes(e, n) : e);
      }));
    }
    return static_cast<float>(static_cast<double>(largest) + __builtin_log(total));
  }

 private:
  static constexpr std::int64_t kBlock = 1024;

  TESSERA_KERNELS_INLINE static Floats read_some(const float* from, std::int64_t count) {
    return count == kLanes ? read<Floats>(from) : Isa::read_part(from, count);
  }
  TESSERA_KERNELS_INLINE static void write_some(float* to, Floats v, std::int64_t count) {
    if (count == kLanes) {
      write(to, v);
    } else {
      Isa::write_part(to, v, count);
    }
  }
  /// Zeros (or what `fill` has) in the lanes from `count` on.
  TESSERA_KERNELS_INLINE static Floats first_lanes(Floats v, std::int64_t count, float fill = 0) {
    float lane[kLanes];
    write(lane, v);
    for (std::int64_t i = count; i < kLanes; ++i) lane[i] = fill;
    return read<Floats>(lane);
  }
  TESSERA_KERNELS_INLINE static Floats only(Floats v, std::int64_t count) {
    return first_lanes(v, count, -__builtin_inff());
  }

  /// f(first, number of lanes) for every vector of a row.
  template <class F>
  TESSERA_KERNELS_INLINE static void for_vectors(std::int64_t columns, const F& f) {
    std::int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) f(c, std::int64_t{kLanes});
    if (c < columns) f(c, columns - c);
  }

  /// The sum over a row; f(first, number of lanes, sum so far) adds a vector. Four sums in turn, so
  /// that additions need not wait for each other.
  template <class F>
  TESSERA_KERNELS_INLINE static float sum(std::int64_t columns, const F& f) {
    Floats sums[4] = {};
    std::int64_t c = 0;
    for (; c + 4 * kLanes <= columns; c += 4 * kLanes) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sums[i] = f(c + i * kLanes, std::int64_t{kLanes}, sums[i]);
    }
    for (; c + kLanes <= columns; c += kLanes) sums[0] = f(c, std::int64_t{kLanes}, sums[0]);
    if (c < columns) sums[1] = f(c, columns - c, sums[1]);
    return sum_of_lanes<kLanes>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }

  TESSERA_KERNELS_INLINE static void rotate_pair(Floats& a, Floats& b, Floats c, Floats s) {
    const Floats old = a;
    a = Isa::fma(a, c, -(b * s));
    b = Isa::fma(b, c, old * s);
  }

  static void rotate_halves(float* x, const float* cosines, std::int64_t pairs) {
    for_vectors(pairs, [&](std::int64_t i, std::int64_t n) {
      Floats a = read_some(x + i, n), b = read_some(x + pairs + i, n);
      rotate_pair(a, b, read_some(cosines + i, n), read_some(cosines + pairs + i, n));
      write_some(x + i, a, n);
      write_some(x + pairs + i, b, n);
    });
  }

  static void rotate_neighbours(float* x, const float* cosines, std::int64_t pairs) {
    for_vectors(pairs, [&](std::int64_t i, std::int64_t n) {
      const std::int64_t in_a = 2 * n < kLanes ? 2 * n : kLanes, in_b = 2 * n - in_a;
      Floats a = read_some(x + 2 * i, in_a), b = read_some(x + 2 * i + in_a, in_b);
      split_pairs<kLanes>(a, b);
      rotate_pair(a, b, read_some(cosines + i, n), read_some(cosines + pairs + i, n));
      join_pairs<kLanes>(a, b);
      write_some(x + 2 * i, a, in_a);
      write_some(x + 2 * i + in_a, b, in_b);
    });
  }

  template <Floats (*Function)(Floats)>
  static void apply(const float* x, const float* up, std::int64_t count, float* out) {
    for_vectors(count, [&](std::int64_t i, std::int64_t n) {
      Floats v = Function(read_some(x + i, n));
      if (up != nullptr) v *= read_some(up + i, n);
      write_some(out + i, v, n);
    });
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
