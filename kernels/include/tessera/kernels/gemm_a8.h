#pragma once

#include <cstdint>

#include "tessera/kernels/gemm.h"

namespace tessera::kernels {

/// Columns that share a scale when activations are rounded to 8 bits; the block that llama.cpp's
/// Q8_0 has. A group of the weights begins a new block, so the last one of a group may be shorter.
inline constexpr std::int64_t kActivationBlock = 32;

/// dequant_gemm() with the activations rounded to 8 bits first ("a8"): every block of a token gets
/// scale = max |x| / 127 in f32 and codes to nearest, as quantise_rows() makes them, and the
/// products of a block are summed exactly, as integers. Arguments as in dequant_gemm(); the weights
/// are the same packed ones.
///
/// Accuracy: against the product of the rounded activations, only the f32 sum over the blocks
/// rounds. Against the product of the activations themselves, each of them is off by at most half
/// a step, max |x| of its block / 254. For normally distributed activations the NMSE is then
/// E[max^2 of 32] / 127^2 / 12 = 2.96e-5; measured against double, 4-bit weights in groups of 32,
/// 4096 columns: 2.86e-5 (dequant_gemm: below 1e-9). A single large number takes the digits of the
/// 31 beside it; for such activations dequant_gemm() is the one to take.
///
/// A block that is all zero adds 0. NaN or Inf anywhere in a token make all of its outputs NaN.
/// A sum of the products of a block with the codes beyond the largest f32 becomes Inf.
///
/// A token's outputs have the same bits with any number of tokens and any slice of outputs, for one
/// version of the kernel.
Status dequant_gemm_a8(Matrix activations, PackedWeights weights, Rows outputs, float* out,
                       std::int64_t out_stride);

}  // namespace tessera::kernels
