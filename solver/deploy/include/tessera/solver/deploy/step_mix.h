#pragma once

#include <cstdint>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/serving/step_cost.h"

namespace tessera::solver {

/// A step of prompts and decodes of one size each, for a look at prices.
struct StepMix {
  std::int64_t num_decodes = 0, context_tokens = 0;
  std::int64_t num_prompts = 0, prompt_tokens = 1, prompt_context_tokens = 0;
};

/// What the step takes on each stage, and from the first to the end of the last (s).
struct StepTimes {
  std::vector<double> stage_s;
  double whole_s = 0;
};
StepTimes step_times(const serving::StepCost& cost, const StepMix& mix);

/// The whole of it (s).
double step_s(const serving::StepCost& cost, const StepMix& mix);

}  // namespace tessera::solver

template <>
struct tessera::Fields<tessera::solver::StepMix> {
  using M = tessera::solver::StepMix;
  static constexpr auto tokens = [](std::string_view name, std::string_view doc,
                                    double min) -> FieldSpec {
    return {.name = name,
            .doc = doc,
            .unit = "tokens",
            .min = min,
            .max = 1e8,
            .as_option = AsOption::defaulted};
  };
  static constexpr auto list = std::tuple{
      field<&M::num_decodes>({.name = "num_decodes",
                              .doc = "Requests that decode one token",
                              .min = 0,
                              .max = 1e6,
                              .as_option = AsOption::defaulted}),
      field<&M::context_tokens>(tokens("context_tokens", "In the KV cache of each of them", 0)),
      field<&M::num_prompts>({.name = "num_prompts",
                              .doc = "Prompts, or pieces of them",
                              .min = 0,
                              .max = 1e5,
                              .as_option = AsOption::defaulted}),
      field<&M::prompt_tokens>(tokens("prompt_tokens", "Tokens of each", 1)),
      field<&M::prompt_context_tokens>(
          tokens("prompt_context_tokens", "In the KV cache of each", 0))};
};
