// What ts.plan and `tessera plan` understand, whoever plans.

#include "solver_lua.h"
#include "tessera/core/units.h"

namespace tessera::solver_lua {

const OptionTable& plan_options() {
  static const OptionTable table{
      "ts.plan",
      "Plans a problem. What is not given is searched.",
      "tessera.Plan?, tessera.Error?",
      {{.name = "planner",
        .type = OptionType::text,
        .doc = "Planner's name, or a list: a planner, then heuristics; see `tessera help planners`",
        .default_text = "\"exact\"",
        .lua_type = "string|string[]"},
       {.name = "device_order",
        .type = OptionType::text_list,
        .doc = "Devices by stage; default: searched"},
       {.name = "prefill_micro_batch_size",
        .type = OptionType::integer,
        .doc = "Requests per prefill micro-batch; default: searched",
        .unit = "requests",
        .min = 1,
        .max = 1e6},
       {.name = "decode_micro_batch_size",
        .type = OptionType::integer,
        .doc = "Requests per decode micro-batch; default: searched",
        .unit = "requests",
        .min = 1,
        .max = 1e6},
       {.name = "stages",
        .type = OptionType::table,
        .doc = "Of planner \"manual\": { { device =, bitwidths = { 8, ... } }, ... }",
        .lua_type = "table[]"},
       {.name = "replicas",
        .type = OptionType::table,
        .doc = "Pipelines to split the cluster into: a number, several to choose from, or \"all\"",
        .default_text = "1",
        .lua_type = "integer|integer[]|string"},
       {.name = "every_candidate",
        .type = OptionType::boolean,
        .doc = "Plan each open choice for its own sake, not only until it is proven no better",
        .default_text = "false"},
       {.name = "cutoff",
        .doc = "Only plans with an objective below it are of interest",
        .unit = "s"},
       {.name = "time_limit_s",
        .doc = "Wall-clock limit; the best plan so far is returned with its bound",
        .unit = "s",
        .default_text = "60",
        .min = 0,
        .max = 1e7},
       {.name = "gap",
        .doc = "Relative gap between plan and bound at which to stop",
        .default_text = "0",
        .min = 0,
        .max = 1},
       {.name = "threads",
        .type = OptionType::integer,
        .doc = "Threads of planners that use several; 0: one per core",
        .default_text = "0",
        .min = 0,
        .max = 1024},
       {.name = "group",
        .type = OptionType::integer,
        .doc = "Neighbouring layers decided together, by planners of the engine",
        .unit = "layers",
        .default_text = "1",
        .min = 1,
        .max = 1e6},
       {.name = "on_error",
        .type = OptionType::choice,
        .doc = "When a heuristic of a chain fails: stop with its error, or continue from the best "
               "plan so far, with a note",
        .default_text = "\"stop\"",
        .choices = {"stop", "continue"}},
       {.name = "seed",
        .type = OptionType::integer,
        .doc = "Seed of planners that draw",
        .default_text = "0",
        .min = 0,
        .max = kMaxExactInteger},
       {.name = "on_incumbent",
        .type = OptionType::callback,
        .doc =
            "Called with { objective, bound, gap } for each better plan; bound and gap where there "
            "is a bound",
        .lua_type = "fun(incumbent: table)"},
       start_option(),
       form_option(
           "\"tightened\"",
           "Of planner \"ilp\": the programme with ranges, local search and a cutoff, or as it "
           "stands; same optimum")}};
  return table;
}

}  // namespace tessera::solver_lua
