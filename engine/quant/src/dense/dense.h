#pragma once

#include <cstdint>

#include "tessera/kernels/quantise.h"

/// The inner loops of the quantisers, compiled for every x86-64 and again for AVX2 with FMA; the
/// right ones are taken at run time. Raw pointers only: what the second compilation would share
/// with the rest of the program (std, Eigen) must not come from it.
namespace tessera::quant::dense {

/// Part of a row-major matrix; `stride` is the distance of rows.
struct Block {
  float* data;
  std::int64_t rows, columns, stride;
};
struct ConstBlock {
  const float* data;
  std::int64_t rows, columns, stride;
};

enum class Op { as_is, transposed };

/// The updated weights of one row in a block of GPTQ, and where their codes go.
struct RowBlock {
  float* weights;  ///< [width] in; out: the values that the codes stand for
  std::int64_t width;
  const float* inverse;  ///< [width, width], upper triangle: R^-1 of the block's H = R R^T
  kernels::QuantFormat format;
  const std::int32_t* group;  ///< [width]: which scale of the row belongs to each column
  bool choose_scales;         ///< when the first column of a group is reached; else they are given
  float* scales;              ///< of the row
  std::uint8_t* zero_points;  ///< of the row
  std::uint8_t* codes;        ///< [width]
  float* errors;              ///< [width]: (w - q) / inverse[j][j]
};

struct Functions {
  /// c += alpha op(a) op(b)
  void (*multiply_add)(float alpha, ConstBlock a, Op op_a, ConstBlock b, Op op_b, Block c);
  /// Column by column: choose the code, and let the columns after it make up for its error
  /// (GPTQ, algorithm 1, the inner loop).
  void (*compensate)(const RowBlock& row);
};

/// For this processor.
const Functions& functions();

extern const Functions baseline;
extern const Functions avx2;  ///< must not be called without AVX2 and FMA

}  // namespace tessera::quant::dense
