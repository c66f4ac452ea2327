#include "tessera/indicator/indicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"
#include "tessera/core/text.h"

namespace tessera::indicator {
namespace {

std::vector<std::int32_t> checked_bitwidths(std::vector<std::int32_t> bitwidths,
                                            std::size_t num_layers) {
  if (num_layers == 0) {
    throw Error(ErrorCode::out_of_range, "num_layers is 0, an indicator needs at least one layer",
                "num_layers");
  }
  if (bitwidths.empty()) {
    throw Error(ErrorCode::invalid_argument, "bitwidths is empty", "bitwidths");
  }
  std::sort(bitwidths.begin(), bitwidths.end());
  // One bit has no quantisation step: 2^(b-1) - 1 is 0.
  if (bitwidths.front() < 2 || bitwidths.back() > kMaxIndicatorBitwidth) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("bitwidths {} go outside [2, {}]", fmt::join(bitwidths, ", "),
                            kMaxIndicatorBitwidth),
                "bitwidths");
  }
  const auto twice = std::adjacent_find(bitwidths.begin(), bitwidths.end());
  if (twice != bitwidths.end()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("bitwidths names {} twice", *twice),
                "bitwidths");
  }
  return bitwidths;
}

// LLM-PQ's published generator: penalty of a bitwidth before any draw.
double published_base(std::int32_t bitwidth) {
  switch (bitwidth) {
    case 2:
      return 6.4;
    case 3:
      return 4.8;
    case 4:
      return 1.6;
    case 8:
      return 0.4;
    case 16:
      return 0.1;
    default:
      throw Error(ErrorCode::out_of_range,
                  fmt::format("the published random indicator has no base value for {} bits; it "
                              "has 2, 3, 4, 8, 16",
                              bitwidth),
                  "bitwidths");
  }
}

void draw_paper(Indicator& indicator, Rng& rng) {
  std::vector<double> draws(indicator.bitwidths.size());
  for (std::size_t layer = 0; layer < indicator.num_layers; ++layer) {
    for (double& draw : draws) draw = rng.uniform();
    std::sort(draws.begin(), draws.end(), std::greater<>());
    indicator.omega.insert(indicator.omega.end(), draws.begin(), draws.end());
  }
}

void draw_llm_pq_uniform(Indicator& indicator, Rng& rng) {
  for (std::size_t layer = 0; layer < indicator.num_layers; ++layer) {
    for (const std::int32_t bitwidth : indicator.bitwidths) {
      const double base = published_base(bitwidth);
      const double attention = base + rng.uniform();
      const double ffn = base + rng.uniform();
      indicator.omega.push_back(attention + ffn);
    }
  }
}

void draw_llm_pq_constant(Indicator& indicator, Rng& rng) {
  for (std::size_t layer = 0; layer < indicator.num_layers; ++layer) {
    const double r = rng.uniform();
    for (const std::int32_t bitwidth : indicator.bitwidths) {
      indicator.omega.push_back(2 * r * published_base(bitwidth));
    }
  }
}

}  // namespace

Indicator make_empty(const std::string& kind, std::size_t num_layers,
                     const std::vector<std::int32_t>& bitwidths) {
  Indicator result;
  result.kind = kind;
  result.num_layers = num_layers;
  result.bitwidths = checked_bitwidths(bitwidths, num_layers);
  result.omega.reserve(num_layers * result.bitwidths.size());
  return result;
}

Indicator make_constant(std::size_t num_layers, const std::vector<std::int32_t>& bitwidths) {
  Indicator result = make_empty("constant", num_layers, bitwidths);
  result.source = "(1 / (2^(b-1) - 1))^2 for every layer: SplitQuant eq. (3), unit weights, inputs";
  for (std::size_t layer = 0; layer < num_layers; ++layer) {
    for (const std::int32_t bitwidth : result.bitwidths) {
      const double step = 1 / (std::ldexp(1.0, bitwidth - 1) - 1);
      result.omega.push_back(step * step);
    }
  }
  return result;
}

Indicator make_random(std::size_t num_layers, const std::vector<std::int32_t>& bitwidths,
                      const std::string& variant, std::uint64_t seed) {
  Indicator result = make_empty("random", num_layers, bitwidths);
  result.variant = variant;
  result.source = fmt::format("random draws, variant {}, seed {}", variant, seed);
  Rng rng(seed);
  if (variant == "paper") {
    draw_paper(result, rng);
  } else if (variant == "llm-pq-uniform") {
    draw_llm_pq_uniform(result, rng);
  } else if (variant == "llm-pq-constant") {
    draw_llm_pq_constant(result, rng);
  } else {
    const std::vector<std::string> known = {"paper", "llm-pq-uniform", "llm-pq-constant"};
    throw Error(ErrorCode::invalid_argument,
                fmt::format("unknown variant {} of the random indicator{}", quote(variant),
                            did_you_mean(variant, known)),
                "variant");
  }
  return result;
}

}  // namespace tessera::indicator
