#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/provenance.h"
#include "tessera/core/record.h"

namespace tessera::indicator {

inline constexpr std::int32_t kMaxBitwidth = 32;

/// How much quality a layer loses at a bitwidth: omega[layer][bit] >= 0, raw (not normalised).
struct Indicator {
  std::string kind;     ///< "constant", "random", "variance", "hessian", "gptq_error",
                        ///< "measured", "imported"
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

}  // namespace tessera::indicator

namespace tessera {

template <>
struct Fields<indicator::Indicator> {
  using Indicator = indicator::Indicator;
  static constexpr auto list = std::tuple{
      field<&Indicator::kind>(
          {.name = "kind",
           .doc = "constant, random, variance, hessian, gptq_error, measured or imported",
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
      field<&Indicator::bitwidths, indicator::AscendingBitwidths>(
          {.name = "bitwidths",
           .doc = "Bitwidths it covers",
           .min = 1,
           .max = indicator::kMaxBitwidth})};
};

}  // namespace tessera

namespace tessera::indicator {

/// Without values yet; room for all.
/// @throws Error{invalid_argument, out_of_range} for no layers, no bitwidths, one given twice or
/// outside [2, kMaxBitwidth]
Indicator make_empty(const std::string& kind, std::size_t num_layers,
                     const std::vector<std::int32_t>& bitwidths);

/// The same for every layer: the squared quantisation step (1 / (2^(b-1) - 1))^2 of SplitQuant's
/// eq. (3) with unit weights and inputs. 16 bits cost that formula's value as well (about 1e-9).
Indicator make_constant(std::size_t num_layers, const std::vector<std::int32_t>& bitwidths);

/// `variant`:
///  "paper"           uniform draws in [0, 1), sorted within a layer so that fewer bits cost more
///  (LLM-PQ section 6.5); "llm-pq-uniform"  (base + U1) + (base + U2), draws per layer and bit, not
///  monotone (published code); "llm-pq-constant" 2 r base, one draw r per layer (published code);
///  base {2: 6.4, 3: 4.8, 4: 1.6, 8: 0.4, 16: 0.1}.
/// @throws Error{out_of_range} for a bitwidth that has no base value in the published code's
/// variants.
Indicator make_random(std::size_t num_layers, const std::vector<std::int32_t>& bitwidths,
                      const std::string& variant, std::uint64_t seed);

/// JSON: { "bitwidths": [..], "omega": [[..] per layer] } (what `save` writes; "standard_error",
/// shaped as omega, may be there), or an array of objects { "3": x, "4": y, ... }. CSV with a
/// header: columns layer, bit|bitwidth, omega|gptq_error_mean (summed over an `operator` column),
/// and optionally model (then `model` picks rows). Lines that start with '#' are comments. Layers
/// are numbered from 0. Every layer must have every bitwidth that any layer has; a missing one is
/// an error that names it. A file with an `operator` column is a log of what was run: there, a
/// bitwidth that some layer lacks, in whole or in one operator, is left out and `source` says so.
/// @throws Error{invalid_argument | not_found | out_of_range} naming file and line or field.
Indicator read_indicator(const std::string& path, const std::string& model);
Indicator indicator_from_json(const Json& json, const std::string& path);
Json to_json(const Indicator& indicator);

}  // namespace tessera::indicator
