#pragma once

#include <cstdint>

#include "packed.h"
#include "tessera/kernels/activation.h"
#include "tessera/kernels/dense.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/gemm_a8.h"
#include "tessera/kernels/int8.h"
#include "tessera/kernels/moments.h"
#include "tessera/kernels/quantise.h"
#include "tessera/kernels/rope.h"

// What the versions for one instruction set provide. Arguments have been checked; all pointers are
// valid and sizes positive.
namespace tessera::kernels::cpu {

struct AttentionTask;  // attention_task.h

/// Numbers that share a scale: a group of a row, or a whole row.
struct Numbers {
  const void* data;
  Real type;
  std::int64_t count;
};

struct QuantiseOptions {
  float scale;
  int zero_point;
  QuantFormat format;
  Rounding rounding;
  std::uint64_t seed, first_index;  ///< of the first number's element
};

/// out[t * out_stride + row] for the tokens t and the rows `outputs`.
struct Int8Product {
  const std::int8_t* codes;  ///< [tokens][weights.columns]
  const float* scale;        ///< [tokens]
  std::int64_t tokens;
  Int8Weights weights;
  Rows outputs;
  float* out;
  std::int64_t out_stride;

  /// Groups of four columns.
  TESSERA_KERNELS_INLINE std::int64_t quads() const { return (weights.columns + 3) / 4; }
  /// The packed block that begins with a row.
  TESSERA_KERNELS_INLINE const std::int8_t* block(std::int64_t row) const {
    return weights.codes + row * quads() * 4;
  }
};

/// One function of a kernel and the instruction set that it is written for; null: no version.
struct Versions {
  const char* isa;
  void (*moments)(Numbers x, Moments* out) = nullptr;
  /// Of every `group_size` numbers; the last group may be shorter.
  void (*ranges)(Numbers x, std::int64_t group_size, Range* out) = nullptr;
  /// `num_groups` may be 0.
  void (*code_ranges)(const std::int8_t* codes, std::int64_t num_groups, std::int64_t group_size,
                      std::int8_t* min, std::int8_t* max) = nullptr;
  void (*quantise)(Numbers x, const QuantiseOptions& options, std::uint8_t* codes) = nullptr;
  void (*dequantise)(const std::uint8_t* codes, std::int64_t count, float scale, int zero_point,
                     float* out) = nullptr;
  void (*dequant_gemm)(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                       std::int64_t out_stride) = nullptr;
  void (*dequant_gemm_a8)(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                          std::int64_t out_stride) = nullptr;
  void (*dense_gemm)(Matrix activations, DenseWeights weights, Rows outputs, float* out,
                     std::int64_t out_stride) = nullptr;
  void (*quantise_row)(Numbers x, const std::uint8_t* is_outlier, std::int8_t* codes,
                       float* scale) = nullptr;
  void (*int8_gemm)(const Int8Product& product) = nullptr;
  void (*rms_norm)(const float* in, Rows rows, std::int64_t columns, const float* weight,
                   float epsilon, float* out) = nullptr;
  void (*layer_norm)(const float* in, Rows rows, std::int64_t columns, const float* weight,
                     const float* bias, float epsilon, float* out) = nullptr;
  void (*rotate)(float* x, std::int64_t stride, Rows rows, const RopeForm& form,
                 const float* cos_sin, const std::int32_t* positions) = nullptr;
  /// Times `up` where that is not null; `out` may be `x` or `up`.
  void (*activate)(Activation activation, const float* x, const float* up, std::int64_t count,
                   float* out) = nullptr;
  float (*log_sum_exp)(const float* x, std::int64_t count) = nullptr;
  /// f32 to f16 or bf16.
  void (*narrow)(const float* from, std::int64_t count, Real type, void* to) = nullptr;
  void (*attention)(const AttentionTask& task) = nullptr;
};

/// The fastest version of every kernel that this machine runs (or what use_isa() set).
const Versions& chosen();

TESSERA_KERNELS_INLINE float load(const void* data, Real type, std::int64_t i) {
  if (type == Real::f32) {
    float value;
    __builtin_memcpy(&value, static_cast<const char*>(data) + 4 * i, 4);
    return value;
  }
  std::uint16_t bits;
  __builtin_memcpy(&bits, static_cast<const char*>(data) + 2 * i, 2);
  return type == Real::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

TESSERA_KERNELS_INLINE const void* at(const void* data, Real type, std::int64_t i) {
  return static_cast<const char*>(data) + i * size_of(type);
}

}  // namespace tessera::kernels::cpu
