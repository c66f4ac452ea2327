#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/indicator.h"

namespace tessera::indicator {

/// Without values yet; room for all.
/// @throws Error{invalid_argument, out_of_range} for no layers, no bitwidths, one given twice or
/// outside [2, kMaxIndicatorBitwidth]
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

/// CSV with a header: columns layer, bit|bitwidth, omega|gptq_error_mean (summed over an `operator`
/// column), and optionally model (then `model` picks rows). Lines that start with '#' are comments.
/// Layers are numbered from 0. Every layer must have every bitwidth that any layer has; a missing
/// one is an error that names it. A file with an `operator` column is a log of what was run: there,
/// a bitwidth that some layer lacks, in whole or in one operator, is left out and `source` says so.
/// Or JSON, as indicator_from_json reads it.
/// @throws Error{invalid_argument | not_found | out_of_range} naming file and line or field.
Indicator read_indicator(const std::string& path, const std::string& model);

}  // namespace tessera::indicator
