#include <initializer_list>

#include "core_lua.h"
#include "solver_lua.h"
#include "verbs.h"

namespace tessera::app {
namespace {

// The library's own records, so that flags, ts.problem and ts.plan cannot disagree.
void take(OptionTable& table, const OptionTable& from, std::initializer_list<const char*> names) {
  for (const char* name : names) table.options.push_back(*from.find(name));
}

OptionSpec as_text(std::string_view name, std::string_view doc) {
  return {.name = name, .type = OptionType::text, .doc = doc};
}

}  // namespace

const OptionTable& plan_options() {
  static const OptionTable table = [] {
    OptionTable t{"tessera plan", "Plans one model on one cluster and prints the plan", "", {}};
    t.options.push_back(as_text(
        "model",
        "Model by name (opt-30b), or the path of a config.json, its folder or a .gguf file"));
    t.options.push_back(
        as_text("cluster", "Cluster by name (llmpq-3), or devices as 3xT4-16G+1xV100-32G"));
    for (OptionSpec& option : t.options) option.required = true;
    take(t, core_lua::workload_options(),
         {"prompt_tokens", "output_tokens", "batch_size", "chunk_tokens", "lengths"});
    take(t, solver_lua::problem_options(),
         {"bitwidths", "objective", "theta", "theta_unit", "memory", "kernel_set", "kv_bitwidth",
          "tensor_parallel", "allow_empty_stage"});
    t.options.push_back(
        as_text("quality", "Quality floor: a planner whose omega may not be exceeded (uniform)"));
    t.options.push_back(as_text("indicator", "Indicator as a JSON or CSV file"));
    take(t, solver_lua::plan_options(),
         {"planner", "device_order", "prefill_micro_batch_size", "decode_micro_batch_size",
          "replicas", "every_candidate", "time_limit_s", "gap", "threads", "group", "seed"});
    t.options.push_back({.name = "beside",
                         .type = OptionType::boolean,
                         .doc = "Shows what people run today on the same problem",
                         .default_text = "true"});
    t.options.push_back(as_text("save", "Writes the plan to this file"));
    t.options.push_back(as_text("picture", "Writes the pipeline as an SVG picture to this file"));
    return t;
  }();
  return table;
}

}  // namespace tessera::app
