-- What each module may include, besides itself. `M/lua` may include what M may, M, the binding kit, the bindings of
-- what M may include, and what its own row adds.
return {
  ["kernels"] = {},
  ["engine/core"] = {},
  ["engine/cost"] = { "engine/core" },
  ["engine/indicator"] = { "engine/core", "kernels", "engine/weights", "engine/quant" },
  ["engine/quant"] = { "engine/core", "engine/weights", "kernels" },
  ["engine/results"] = { "engine/core" },
  ["engine/sandbox"] = { "engine/core" },
  ["engine/serving"] = { "engine/core", "engine/cost" },
  -- Its rooms, of each other.
  ["engine/serving/base"] = {},
  ["engine/serving/capacity"] = { "engine/serving/results", "engine/serving/simulate", "engine/serving/traffic" },
  ["engine/serving/core"] = { "engine/serving/base", "engine/serving/scheduler" },
  ["engine/serving/kv"] = { "engine/serving/base" },
  ["engine/serving/results"] = {
    "engine/serving/base", "engine/serving/core", "engine/serving/kv", "engine/serving/simulate",
  },
  ["engine/serving/scheduler"] = { "engine/serving/base", "engine/serving/kv" },
  ["engine/serving/simulate"] = {
    "engine/serving/base", "engine/serving/core", "engine/serving/kv", "engine/serving/scheduler",
    "engine/serving/speculation", "engine/serving/traffic",
  },
  ["engine/serving/speculation"] = {},
  ["engine/serving/traffic"] = { "engine/serving/base" },
  ["engine/linear"] = { "engine/core", "engine/quant", "engine/weights", "kernels" },
  ["engine/lua_kit"] = { "engine/core" },
  ["engine/weights"] = { "engine/core", "kernels" },
  ["engine/workers"] = { "engine/core" },
  ["engine/tokenizer"] = { "engine/core", "engine/weights" },
  ["engine/lm"] = {
    "engine/core", "engine/cost", "engine/indicator", "engine/linear", "engine/quant", "engine/tokenizer",
    "engine/weights", "kernels",
  },
  ["engine/profile"] = { "engine/core", "engine/linear", "engine/lm", "engine/weights", "kernels" },
  ["engine/run"] = {
    "engine/core", "engine/lm", "engine/quant", "engine/serving", "engine/weights", "engine/workers", "kernels",
  },
  -- Its rooms, of each other.
  ["engine/run/wire"] = {},
  ["engine/run/stage"] = { "engine/run/wire" },
  ["engine/run/live"] = {},
  ["engine/run/local"] = { "engine/run/live" },
  ["engine/run/master"] = { "engine/run/live", "engine/run/stage", "engine/run/wire" },
  ["engine/run/module"] = { "engine/run/local", "engine/run/master" },
  ["engine/chat"] = { "engine/core", "engine/weights" },
  ["engine/http"] = {
    "engine/chat", "engine/core", "engine/lm", "engine/run", "engine/serving", "engine/workers", "kernels",
  },
  ["engine/torch"] = {
    "engine/core", "engine/linear", "engine/lm", "engine/quant", "engine/run", "engine/weights", "kernels",
  },
  -- Two solvers prove their plans, and must agree: exact and ilp share the instance, and what proposes plans to start
  -- from (moves), which no proof rests on.
  ["solver/instance"] = { "engine/core" },
  ["solver/problem"] = { "engine/core", "engine/cost", "solver/instance" },
  ["solver/offload"] = { "engine/core", "engine/cost", "solver/instance", "solver/problem" },
  ["solver/plan"] = {
    "engine/core", "engine/cost", "engine/serving", "solver/instance", "solver/problem", "solver/offload",
  },
  ["solver/moves"] = { "engine/core", "solver/instance" },
  ["solver/exact"] = { "engine/core", "solver/instance", "solver/moves" },
  ["solver/mip"] = { "engine/core" },
  ["solver/ilp"] = { "engine/core", "solver/instance", "solver/mip", "solver/moves", "solver/offload" },
  ["solver/fleet"] = { "engine/core", "solver/mip" },
  ["solver/heuristic"] = { "engine/core", "solver/instance", "solver/moves", "solver/exact" },
  ["solver/replan"] = { "engine/core", "engine/cost", "solver/instance", "solver/problem" },
  ["solver/planning"] = {
    "engine/core", "engine/cost", "solver/instance", "solver/problem", "solver/offload", "solver/plan", "solver/exact",
    "solver/ilp", "solver/moves", "solver/heuristic",
  },
  ["solver/serving"] = {
    "engine/core", "engine/cost", "engine/serving", "solver/instance", "solver/problem", "solver/plan",
    "solver/planning",
  },
  ["solver/deploy"] = {
    "engine/core", "engine/cost", "engine/serving", "solver/instance", "solver/mip", "solver/problem", "solver/plan",
    "solver/planning", "solver/serving",
  },
  ["engine/lm/lua"] = { "engine/chat" },
  ["solver/fleet_pricing"] = {
    "engine/core", "engine/cost", "engine/serving", "solver/instance", "solver/problem", "solver/plan",
    "solver/planning", "solver/serving", "solver/deploy", "solver/fleet", "solver/replan",
  },
  ["solver/lua"] = {
    "engine/core", "engine/cost", "engine/cost/lua", "engine/indicator/lua", "engine/serving", "engine/serving/lua",
    "solver/instance", "solver/problem", "solver/offload", "solver/plan", "solver/moves", "solver/exact",
    "solver/ilp", "solver/heuristic", "solver/replan", "solver/planning", "solver/serving",
    "solver/deploy", "solver/fleet", "solver/fleet_pricing",
  },
}
