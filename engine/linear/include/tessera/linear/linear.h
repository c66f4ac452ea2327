#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/quant/quantise.h"
#include "tessera/weights/linears.h"
#include "tessera/weights/weights.h"

// Products with weight matrices on the CPU, in whichever form a matrix is kept. Free of LibTorch.
namespace tessera::linear {

/// How a matrix is kept and multiplied.
struct LinearForm {
  std::int32_t bitwidth = 16;                 ///< 16: numbers, as `dtype`; 8, 4, 3: codes
  quant::Method method = quant::Method::rtn;  ///< of codes: rtn, gptq or awq
  /// Of codes, but for its bitwidth; act_order group is refused.
  quant::Scheme scheme = {.scale_type = kernels::Real::f16};
  /// Of numbers. f32 keeps what a file holds in 16 bits in these: the same numbers, half the bytes.
  kernels::Real dtype = kernels::Real::f32;
  std::int32_t activation_bitwidth = 16;  ///< 16: f32; 8: rounded per 32 columns (gemm_a8.h)
  /// W8A8, with bitwidth 8: weights with a scale per row (method rtn or gptq, `scheme` aside),
  /// activations with a scale per token.
  bool int8 = false;
  /// Of W8A8: activations of at least this size are multiplied as they are (LLM.int8(), Dettmers et
  /// al., 2022, section 3.2), with the weights that their codes stand for: no second copy is kept.
  /// Which are outliers is decided token by token, not for a batch: batching changes nothing. 0:
  /// none.
  double outlier_threshold = 6;
  /// With bitwidth 16: what a file holds as blocks of GGUF or as codes of compressed-tensors is
  /// multiplied as it stands, W8A8 checkpoints as W8A8. `dtype` is for what is neither, and for
  /// blocks of a type that the kernels do not multiply; activation_bitwidth for blocks and codes.
  bool as_stored = false;

  friend bool operator==(const LinearForm&, const LinearForm&) = default;
};

/// A matrix [out_features, in_features] on disk: one, or several of the same input (q, k and v;
/// gate and up) whose rows follow each other, so that one product makes all of their outputs.
struct LinearSource {
  std::shared_ptr<const weights::Weights> weights;
  std::vector<weights::LinearWeight> parts;  ///< stacked in this order
  /// Output row r is row `row_order[r]` of the stack; none twice, and rows of a part stay in it
  /// where parts are stored in different types. Empty: as they are. Undoes GGUF's permutation of q
  /// and k; without some of the rows it is a tensor-parallel rank's share.
  std::vector<std::int64_t> row_order = {};
  /// Inputs [first_column, first_column + num_columns) alone, a rank's share; 0: all of them. What
  /// is rounded is rounded as a whole and then cut, so that its codes are those of the whole:
  /// nothing that shares a scale along the inputs may lie on both sides of a cut, a row's one scale
  /// aside. What rounds activations rounds a token's share of them by itself.
  std::int64_t first_column = 0, num_columns = 0;
};

/// The codes of a matrix in the order of its outputs, plain, for a device that packs them in its
/// own order. A weight is scale * (code - zero_point) / input_scale.
struct LinearCodes {
  std::int64_t rows = 0, columns = 0;
  kernels::QuantFormat format{};          ///< W8A8: 8 bits, symmetric, a scale a row, f32
  std::vector<std::uint8_t> codes;        ///< [rows][columns]
  std::vector<float> scales;              ///< [rows][num_groups]
  std::vector<std::uint8_t> zero_points;  ///< [rows][num_groups]
  std::vector<float> input_scales;        ///< [columns], of AWQ; else empty
  bool int8 = false;                      ///< W8A8: the activations are rounded too
  float outlier_threshold = 0;            ///< of W8A8, as LinearForm has it
  std::string description;                ///< "4-bit rtn, group 128", without the activations
};

/// A matrix in memory. Does not change; several threads may apply it.
class Linear {
 public:
  virtual ~Linear() = default;
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  std::int64_t in_features() const { return in_features_; }
  std::int64_t out_features() const { return out_features_; }

  /// out[t][o] = sum over i of weight[o][i] * x[t][i], sums in f32.
  /// @param x [tokens][x_stride], x_stride >= in_features
  /// @param out [tokens][out_stride], out_stride >= out_features
  /// @param num_threads 0: all there are. The result does not depend on it, nor on the other tokens
  /// or how many there are: a token alone has the bits that it has among others.
  virtual void apply(const float* x, std::int64_t x_stride, std::int64_t tokens, float* out,
                     std::int64_t out_stride, int num_threads) const = 0;

  virtual std::int64_t bytes() const = 0;  ///< kept in memory
  /// "4-bit rtn, group 128", "q4_1 as stored", "bf16"
  virtual std::string describe() const = 0;
  /// Output rows [first, last) as f32, the very values that are multiplied; `out` has
  /// (last - first) * in_features elements.
  virtual void dequantise(std::int64_t first, std::int64_t last, float* out) const = 0;

  /// Absent for numbers, for blocks with minima, and for products of several parts.
  virtual std::optional<LinearCodes> codes() const { return std::nullopt; }
  /// Whose outputs stand side by side; empty for a product that is one.
  virtual std::span<const std::unique_ptr<Linear>> parts() const { return {}; }

 protected:
  Linear(std::int64_t out_features, std::int64_t in_features)
      : out_features_(out_features), in_features_(in_features) {}

 private:
  std::int64_t out_features_, in_features_;
};

/// Reads, quantises and packs; the pages of the file are released as they have been read.
/// @param inputs what calibration saw; needed for gptq and awq, else null
/// @throws Error{invalid_argument, out_of_range} for a form, a stack or a cut that cannot be, and
/// for weights that are not finite, naming the tensor; Error{unsupported} for quantising a
/// checkpoint that is quantised already; Error{io} where the file has changed
std::unique_ptr<Linear> make_linear(const LinearSource& source, const LinearForm& form,
                                    const quant::LinearStatistics* inputs, int num_threads);

/// Of values in memory, [rows, columns] row-major.
std::unique_ptr<Linear> make_linear(std::span<const float> values, std::int64_t rows,
                                    std::int64_t columns, const LinearForm& form,
                                    const quant::LinearStatistics* inputs, int num_threads);

/// Products of the same input as one, their outputs side by side; at least one.
std::unique_ptr<Linear> side_by_side(std::vector<std::unique_ptr<Linear>> parts);

/// @throws Error{out_of_range, invalid_argument, unsupported} naming the field of a form that no
/// matrix can have
void check(const LinearForm& form);

}  // namespace tessera::linear
