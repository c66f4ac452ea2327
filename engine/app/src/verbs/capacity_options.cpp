#include <algorithm>
#include <string>
#include <string_view>

#include "engine_lua.h"
#include "serving_lua.h"
#include "tessera/core/record_options.h"
#include "tessera/solver/deploy/serving_request.h"
#include "verbs.h"

namespace tessera::app {
namespace {

using enum OptionType;

OptionSpec rate_flag() {
  return {.name = "rate",
          .type = number,
          .doc = "Requests per second to sustain",
          .unit = "1/s",
          .min = 1e-9,
          .max = 1e9};
}

/// What requests come: lengths and rates in the words of the command line, the rest as ts.traffic
/// has it.
void add_traffic(OptionTable& t) {
  t.options.push_back({.name = "prompt_tokens",
                       .type = number,
                       .doc = "Prompt length, the mean where --length-cv varies it",
                       .unit = "tokens",
                       .default_text = std::to_string(kStreamPromptTokens),
                       .min = 1,
                       .max = 1e7});
  t.options.push_back({.name = "output_tokens",
                       .type = number,
                       .doc = "Generated tokens",
                       .unit = "tokens",
                       .default_text = std::to_string(kStreamOutputTokens),
                       .min = 1,
                       .max = 1e7});
  t.options.push_back({.name = "length_cv",
                       .type = number,
                       .doc = "Coefficient of variation of both lengths (log-normal); 0: all alike",
                       .default_text = "0",
                       .min = 0,
                       .max = 100});
  t.options.push_back(rate_flag());
  for (const std::string_view name :
       {"burstiness", "seed", "max_tokens", "lengths", "in_order", "trace", "category", "thin",
        "start_s", "sort", "n", "prefix_groups", "prefix_tokens", "prefix_share", "prefix_zipf"}) {
    t.options.push_back(*serving_lua::traffic_options().find(name));
    if (name == "burstiness" || name == "seed") t.options.back().default_text = "1";
  }
}

/// What is settled of the engines; what is left out is searched, or as ts.engine has it.
void add_engine(OptionTable& t) {
  for (OptionSpec option : serving_lua::engine_options().options) {
    if (!option.flag) continue;
    if (option.name != "scheduler") option.default_text.clear();
    t.options.push_back(option);
  }
}

}  // namespace

void add_stream_flags(OptionTable& table) {
  take_flags(table, options_of<solver::LatencyLimits>());
  table.options.push_back(rate_flag());
}

const OptionTable& capacity_options() {
  static const OptionTable options = [] {
    OptionTable t{"tessera capacity",
                  "Which engines on the devices of a cluster serve a stream of requests within "
                  "latency limits: the largest rate, or with --rate the cheapest or smallest that "
                  "sustains it",
                  "",
                  {}};
    t.options.push_back(as_text("model",
                                "Model by name (llama-3.1-8b), or the path of a config.json, its "
                                "folder or a .gguf file"));
    t.options.push_back(as_text(
        "cluster", "Cluster by name (dgx-h200), a cluster file, or devices as 2xA100-80G+4xL4"));
    for (OptionSpec& option : t.options) option.required = true;
    t.options.push_back(prices_option());
    take_flags(t, options_of<solver::LatencyLimits>());
    add_traffic(t);
    t.options.push_back({.name = "objective",
                         .type = choice,
                         .doc = "rate: as many requests as possible; with --rate: cost, or gpus",
                         .choices = names_of<solver::ServingGoal>()});
    add_quality_bound(t);
    take_flags(t, options_of<solver::ServingRequest>());
    t.options.push_back({.name = "router",
                         .type = text,
                         .doc = "Rule that chooses an engine; see tessera help routers",
                         .default_text = "\"least_requests\""});
    add_engine(t);
    t.options.push_back(
        {.name = "frontier",
         .type = boolean,
         .doc = "Prints tokens per second and user against tokens per second and GPU, too"});
    t.options.push_back(report_flag());
    add_launch_flags(t, {.name = "launch",
                         .type = choice,
                         .doc = "Writes what starts the best, into the folder --out",
                         .choices = {"vllm", "json"}});
    return t;
  }();
  return options;
}

}  // namespace tessera::app
