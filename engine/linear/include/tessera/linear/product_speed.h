#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/quant/scheme.h"

// How fast the kernels multiply with a weight matrix of one shape on this machine.
namespace tessera::linear {

/// The kernels that multiply with a weight matrix; each has versions by instruction set.
enum class ProductKernel { dense_gemm, dequant_gemm, dequant_gemm_a8, int8_gemm };

struct ProductRequest {
  std::optional<ProductKernel> kernel = {};  ///< absent: the one that models have at these bits
  std::int64_t rows = 4096, columns = 4096;  ///< of the weights: outputs and inputs
  std::int64_t tokens = 1;
  std::int32_t bitwidth = 4;  ///< 3, 4, 8: codes; 16: numbers, as `dtype`
  std::string isa = {};  ///< of the version, as kernels::cpu_kernels() has them; empty: the fastest
  std::int64_t group_size = 128;  ///< columns that share a scale (f16), of codes
  kernels::Real dtype = kernels::Real::f16;
  std::int32_t activation_bitwidth = 16;  ///< 8: rounded per 32 columns (gemm_a8.h), of codes
  std::int64_t threads = 0;               ///< 0: all there are
  std::int64_t repeats = 5;
  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C: what is measured by then is returned
};

struct ProductSpeed {
  ProductKernel kernel = ProductKernel::dequant_gemm;
  std::string isa = {};           ///< of the version that ran
  std::vector<double> product_s;  ///< of each repeat, one product
  std::int64_t weight_bytes = 0;  ///< that a product reads
  std::int64_t token_bytes = 0;   ///< of activations, which it reads, and of what it writes
  /// Squared distance from the product in double of the very numbers that are multiplied, over the
  /// squares of that product, of a sample of its outputs.
  double nmse = 0;
};

/// Random weights times random activations, after one time that does not count, whose result is
/// checked. Of few tokens the
/// weights are many copies, read in turn, so that they come from memory as in a model.
/// @throws Error{out_of_range} for a shape of more than kMostWeights, Error{invalid_argument} for a
/// form that the kernels do not have, Error{internal} where a result is wrong
ProductSpeed measure_product(const ProductRequest& request);

inline constexpr std::int64_t kMostWeights = std::int64_t{1} << 30;

}  // namespace tessera::linear

template <>
inline constexpr auto tessera::kEnumNames<tessera::linear::ProductKernel> =
    tessera::enum_names<tessera::linear::ProductKernel>(
        {{tessera::linear::ProductKernel::dense_gemm, "dense_gemm"},
         {tessera::linear::ProductKernel::dequant_gemm, "dequant_gemm"},
         {tessera::linear::ProductKernel::dequant_gemm_a8, "dequant_gemm_a8"},
         {tessera::linear::ProductKernel::int8_gemm, "int8_gemm"}});

template <>
struct tessera::Fields<tessera::linear::ProductRequest> {
  using R = tessera::linear::ProductRequest;
  static constexpr double kMost = 1 << 24;
  static constexpr auto list = std::tuple{
      field<&R::kernel, NotInFiles>(
          {.name = "kernel",
           .doc = "dense_gemm: weights as numbers; dequant_gemm: as codes, activations as numbers; "
                  "dequant_gemm_a8: both rounded; int8_gemm: W8A8. Default: by the bitwidths"}),
      field<&R::isa, NotInFiles>(
          {.name = "isa",
           .doc = "Version, as tessera version --kernels names it; default: the fastest"}),
      field<&R::rows, NotInFiles>({.name = "rows",
                                   .doc = "Of the weights: outputs",
                                   .min = 1,
                                   .max = kMost,
                                   .as_option = AsOption::required}),
      field<&R::columns, NotInFiles>({.name = "columns",
                                      .doc = "Of the weights: inputs",
                                      .min = 1,
                                      .max = kMost,
                                      .as_option = AsOption::required}),
      field<&R::tokens, NotInFiles>({.name = "tokens",
                                     .doc = "Rows of activations",
                                     .min = 1,
                                     .max = 1 << 16,
                                     .as_option = AsOption::defaulted}),
      field<&R::bitwidth, NotInFiles>({.name = "bitwidth",
                                       .doc = "3, 4, 8: codes; 16: numbers",
                                       .unit = "bits",
                                       .min = 3,
                                       .max = 16,
                                       .as_option = AsOption::defaulted}),
      field<&R::group_size, NotInFiles>({.name = "group_size",
                                         .doc = "Columns that share a scale; 0: all",
                                         .min = 0,
                                         .max = kMost,
                                         .as_option = AsOption::defaulted}),
      field<&R::dtype, NotInFiles>(
          {.name = "dtype", .doc = "Of numbers", .as_option = AsOption::defaulted}),
      field<&R::activation_bitwidth, NotInFiles>({.name = "activation_bitwidth",
                                                  .doc = "16: f32; 8: rounded per 32 columns",
                                                  .unit = "bits",
                                                  .min = 8,
                                                  .max = 16,
                                                  .as_option = AsOption::defaulted}),
      field<&R::threads, NotInFiles>({.name = "threads",
                                      .doc = "0: all there are",
                                      .min = 0,
                                      .max = 1024,
                                      .as_option = AsOption::defaulted}),
      field<&R::repeats, NotInFiles>({.name = "repeats",
                                      .doc = "Times that count",
                                      .min = 1,
                                      .max = 1000,
                                      .as_option = AsOption::defaulted})};
};
