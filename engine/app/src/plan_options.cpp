#include "plan_options.h"

namespace tessera::app {
namespace {

constexpr double kManyTokens = 1e7;

std::vector<OptionSpec> problem_options() {
  return {
      {.name = "model",
       .type = OptionType::text,
       .doc = "Model by name (opt-30b), or the path of a config.json",
       .required = true},
      {.name = "cluster",
       .type = OptionType::text,
       .doc = "Cluster by name (llmpq-3), or devices as 3xT4-16G+1xV100-32G",
       .required = true},
      {.name = "prompt_tokens",
       .type = OptionType::integer,
       .doc = "Prompt length of every request",
       .unit = "tokens",
       .default_text = "512",
       .min = 1,
       .max = kManyTokens},
      {.name = "output_tokens",
       .type = OptionType::integer,
       .doc = "Tokens generated per request",
       .unit = "tokens",
       .default_text = "100",
       .min = 1,
       .max = kManyTokens},
      {.name = "batch_size",
       .type = OptionType::integer,
       .doc = "Requests served together",
       .unit = "requests",
       .default_text = "32",
       .min = 1,
       .max = 1e6},
      {.name = "bitwidths",
       .type = OptionType::integer_list,
       .doc = "Weight bitwidths that layers may have",
       .unit = "bits",
       .default_text = "{3, 4, 8, 16}",
       .min = 1,
       .max = 32},
      {.name = "objective",
       .type = OptionType::choice,
       .doc = "What is minimised: time of the whole batch in steady state, or the papers' formula",
       .default_text = "\"steady\"",
       .choices = {"steady", "paper"}},
      {.name = "theta",
       .type = OptionType::number,
       .doc = "Weight of the quality penalty omega in the objective",
       .default_text = "1",
       .min = 0,
       .max = 1e12},
      {.name = "quality",
       .type = OptionType::text,
       .doc = "Quality floor: a planner whose plan must be matched (uniform)"},
      {.name = "memory",
       .type = OptionType::choice,
       .doc = "Memory model",
       .default_text = "\"physical\"",
       .choices = {"physical", "llm-pq"}},
      {.name = "kernel_set",
       .type = OptionType::text,
       .doc = "Which bitwidths run on which device (llmpq_2023)"},
      {.name = "kv_bitwidth",
       .type = OptionType::integer,
       .doc = "Bitwidth of the KV cache",
       .unit = "bits",
       .default_text = "16",
       .min = 2,
       .max = 32},
  };
}

std::vector<OptionSpec> search_options() {
  return {
      {.name = "planner",
       .type = OptionType::text,
       .doc = "Planner; 'tessera help planners' lists them"},
      {.name = "time_limit_s",
       .type = OptionType::number,
       .doc = "Wall-clock limit of the search; the best plan so far is kept",
       .unit = "s",
       .default_text = "60",
       .min = 0,
       .max = 1e7},
      {.name = "gap",
       .type = OptionType::number,
       .doc = "Relative gap between plan and bound at which to stop",
       .default_text = "0",
       .min = 0,
       .max = 1},
      {.name = "prefill_micro_batch_size",
       .type = OptionType::integer,
       .doc = "Fixes the prefill micro-batch; searched when absent",
       .unit = "requests",
       .min = 1,
       .max = 1e6},
      {.name = "decode_micro_batch_size",
       .type = OptionType::integer,
       .doc = "Fixes the decode micro-batch; searched when absent",
       .unit = "requests",
       .min = 1,
       .max = 1e6},
      {.name = "seed",
       .type = OptionType::integer,
       .doc = "Seed of planners that use chance",
       .default_text = "0",
       .min = 0,
       .max = 9007199254740992.0},
      {.name = "save", .type = OptionType::text, .doc = "Writes the plan to this file"},
  };
}

}  // namespace

const OptionTable& plan_options() {
  static const OptionTable table = [] {
    OptionTable result{
        "tessera plan", "Plans one model on one cluster and prints the plan", "", {}};
    result.options = problem_options();
    for (OptionSpec& option : search_options()) result.options.push_back(std::move(option));
    return result;
  }();
  return table;
}

}  // namespace tessera::app
