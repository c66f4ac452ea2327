#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/model_shape.h"
#include "tessera/weights/weights.h"

namespace tessera::weights {

/// Numbers of 4 or 8 bits that count only times scales beside them: FP8 with a scale for a tensor,
/// a row or a block; E2M1 in blocks of 16 (NVFP4) and 32 (MXFP4); bitsandbytes' NF4 and FP4.
enum class Scaled { no, fp8, nvfp4, mxfp4, bitsandbytes };

/// Where one weight matrix [num_rows output features, in_features] of a decoder layer is stored: a
/// tensor, some rows of a fused one (query, key and value; gate and up), or one expert of a stack.
///
/// Output row r is row `stored_row(r)` of the matrix that starts at element `offset` of the
/// tensor; `transposed` matrices (GPT-2) are stored [in_features, stored_rows], so that "row" there
/// means column.
///
/// GGUF files of the Llama family hold the rows of q_proj and k_proj permuted for their form of
/// rotary embeddings. The permutation stays inside a head; statistics of a tensor are the same,
/// rows are not in Hugging Face's order.
struct LinearWeight {
  std::int64_t layer_index = 0;
  std::string linear;     ///< LinearShape::name: "q_proj", "experts.up_proj"
  std::int64_t copy = 0;  ///< the expert; 0 for dense layers
  const TensorInfo* tensor = nullptr;
  std::int64_t offset = 0;  ///< elements before the matrix, in a stack of experts
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;  ///< out_features
  std::int64_t in_features = 0;
  std::int64_t stored_rows = 0;  ///< of the fused matrix
  /// Fused per head (BLOOM, Falcon): `block_rows` rows, then on by `block_stride`. A matrix in one
  /// piece is one block.
  std::int64_t block_rows = 0;
  std::int64_t block_stride = 0;
  bool transposed = false;
  /// Stored as integers with scales and zero points: `tensor` is weight_packed of
  /// compressed-tensors, qweight of GPTQ and AWQ, or an int8 weight; read by quant::read_codes
  /// (quant/stored.h), not as numbers.
  bool codes = false;
  Scaled scaled = Scaled::no;    ///< read as numbers, times their scales
  std::int64_t num_stacked = 1;  ///< experts in the tensor

  bool is_quantised() const { return codes || scaled != Scaled::no; }
  std::int64_t parameters() const { return num_rows * in_features; }
  std::int64_t stored_row(std::int64_t row) const {
    return first_row + row / block_rows * block_stride + row % block_rows;
  }
  /// Its rows follow each other in the tensor, as they are.
  bool is_contiguous() const { return !transposed && block_rows == num_rows; }
};

/// What a caller can read: checkpoints of numbers alone, or what is quantised already too.
enum class Readable { numbers, quantised };

/// Every matrix of every decoder layer, by layer, in the order of LayerShape::linears, experts in
/// order; each checked against the model's shape, as are the token embedding and the LM head.
/// @throws Error{not_found} for a missing tensor, Error{invalid_argument} for a misshapen one (the
/// message names tensor, expected and found shape, and file) or more layers than the model has,
/// Error{unsupported} for a checkpoint that is quantised already, but in a way that is known to a
/// caller who reads these
std::vector<LinearWeight> linears_of(const Weights& weights, const ModelShape& model,
                                     Readable readable = Readable::numbers);

/// One of them. @throws as linears_of
LinearWeight linear_of(const Weights& weights, const ModelShape& model, std::int64_t layer_index,
                       const LinearShape& linear, std::int64_t copy,
                       Readable readable = Readable::numbers);

/// Bits of a weight of every decoder layer's matrices as they are stored, rounded down (what is
/// beside the codes of a block counts: 4.5 is 4), 16 for numbers of 16 bits and more.
/// @throws as linears_of
std::vector<std::int32_t> stored_bitwidths(const Weights& weights, const ModelShape& model);

/// The matrix, row-major; `out` has `num_rows * in_features` elements.
void read_linear_f32(const Weights& weights, const LinearWeight& linear, std::span<float> out);

/// Rows [first, first + num_rows) of it. @throws Error{unsupported} for codes
void read_linear_rows_f32(const Weights& weights, const LinearWeight& linear, std::int64_t first,
                          std::int64_t num_rows, std::span<float> out);

/// "layer 3 q_proj", "layer 3 experts.up_proj of expert 7"
std::string describe(const LinearWeight& linear);

}  // namespace tessera::weights

template <>
inline constexpr auto tessera::kEnumNames<tessera::weights::Scaled> =
    tessera::enum_names<tessera::weights::Scaled>({{tessera::weights::Scaled::no, "numbers"},
                                                   {tessera::weights::Scaled::fp8, "fp8"},
                                                   {tessera::weights::Scaled::nvfp4, "nvfp4"},
                                                   {tessera::weights::Scaled::mxfp4, "mxfp4"},
                                                   {tessera::weights::Scaled::bitsandbytes,
                                                    "4 bits of bitsandbytes"}});
