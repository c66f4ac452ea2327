#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/provenance.h"
#include "tessera/core/record.h"

namespace tessera {

/// What an indicator may hold, wherever it comes from.
inline constexpr std::int64_t kMaxIndicatorLayers = 10'000;
inline constexpr std::int32_t kMaxIndicatorBitwidth = 32;
inline constexpr double kMaxIndicatorOmega = 1e300;

/// How much quality a layer loses at a bitwidth: omega[layer][bit] >= 0, raw (not normalised).
struct Indicator {
  std::string kind;     ///< "constant", "random", "variance", "hessian", "gptq_error", "measured",
                        ///< "loss", "divergence" (of the running model), "imported"
  std::string variant;  ///< where a kind has several
  std::vector<std::int32_t> bitwidths;  ///< ascending
  std::vector<double> omega;            ///< [num_layers * bitwidths.size()]
  std::vector<double> standard_error;   ///< of omega where it was sampled, else empty
  std::size_t num_layers = 0;
  double overhead_s = 0;    ///< time it took to obtain, of which
  double weights_s = 0;     ///< over the weights
  double statistics_s = 0;  ///< over what calibration saw
  Provenance provenance = Provenance::modelled;
  std::string source;

  /// @throws Error{out_of_range} for a layer or bitwidth that it does not hold.
  double at(std::size_t layer, std::int32_t bitwidth) const;
  /// Of omega, where it is the mean of a sample, such as a loss over pieces of text.
  /// @throws Error{out_of_range} as `at` does.
  std::optional<double> standard_error_at(std::size_t layer, std::int32_t bitwidth) const;
  bool has(std::int32_t bitwidth) const;
};

/// Bitwidths of files: ascending, each once, at least one.
struct AscendingBitwidths {
  static Json write(const std::vector<std::int32_t>& bitwidths);
  static std::vector<std::int32_t> read(const Json& json, const std::string& path,
                                        const FieldSpec& spec);
};

template <>
struct Fields<Indicator> {
  static constexpr auto list = std::tuple{
      field<&Indicator::kind>(
          {.name = "kind",
           .doc = "constant, random, variance, hessian, gptq_error, measured, loss, divergence or "
                  "imported",
           .in_file = InFile::defaulted}),
      field<&Indicator::variant>(
          {.name = "variant", .doc = "Which form of its kind", .in_file = InFile::defaulted}),
      field<&Indicator::num_layers, NotInFiles>({.name = "num_layers", .doc = "Layers it covers"}),
      field<&Indicator::provenance>({.name = "provenance",
                                     .doc = "measured, fitted, published or modelled",
                                     .in_file = InFile::defaulted}),
      field<&Indicator::overhead_s>({.name = "overhead_s",
                                     .doc = "Time it took to obtain",
                                     .unit = "s",
                                     .min = 0,
                                     .max = 1e12,
                                     .in_file = InFile::defaulted}),
      field<&Indicator::weights_s>({.name = "weights_s",
                                    .doc = "Of it, time over the weights",
                                    .unit = "s",
                                    .min = 0,
                                    .max = 1e12,
                                    .in_file = InFile::defaulted}),
      field<&Indicator::statistics_s>({.name = "statistics_s",
                                       .doc = "Of it, time over the statistics of the inputs",
                                       .unit = "s",
                                       .min = 0,
                                       .max = 1e12,
                                       .in_file = InFile::defaulted}),
      field<&Indicator::source>(
          {.name = "source", .doc = "Where it comes from", .in_file = InFile::defaulted}),
      field<&Indicator::bitwidths, AscendingBitwidths>({.name = "bitwidths",
                                                        .doc = "Bitwidths it covers",
                                                        .min = 1,
                                                        .max = kMaxIndicatorBitwidth})};
};

/// { "bitwidths": [..], "omega": [[..] per layer] } (what `to_json` writes; "standard_error",
/// shaped as omega, may be there), or an array of objects { "3": x, "4": y, ... }, one per layer.
/// @throws Error{invalid_argument | out_of_range} naming the field.
Indicator indicator_from_json(const Json& json, const std::string& path);
Json to_json(const Indicator& indicator);

}  // namespace tessera
