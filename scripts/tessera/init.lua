-- The library that every script starts from: local ts = require "tessera".
-- C++ modules do the work; this file gives them the names that scripts rely on.

local core = require "tessera.core"
local indicator = require "tessera.indicator"
local solver = require "tessera.solver"
local planners = require "tessera.planners"
local help = require "tessera.help"
require "tessera.explain" -- the card of plan:explain

local ts = {
  model = core.model,
  device = core.device,
  cluster = core.cluster,
  indicator = indicator.new,
  problem = solver.problem,
  plan = planners.plan,
  planners = planners.list,
  default_planner = planners.default,
  register_planner = planners.register,
  register_heuristic = planners.register_heuristic,
  load_plan = solver.load_plan,
  check = solver.check,
  simulate = solver.simulate,
  beside = require "tessera.beside",
  max_batch = require "tessera.max_batch",
  size = require "tessera.size",
  pareto = require "tessera.pareto",
  replan = require "tessera.replan",
  picture = require "tessera.picture",
  plot = require "tessera.plot",
  experiment = require "tessera.experiment",
  grid = require("tessera.experiment.grid").points,
  paper = require("tessera.experiment.paper").load,
  table = require "tessera.text_table",
  results = require "tessera.results",
  help_topic = help.topic,
  help_topics = help.topics,
}

-- ts.workload { ... } makes one; ts.workload.llmpq is a shipped one.
ts.workload = setmetatable({}, {
  __metatable = "ts.workload",
  __call = function(_, description) return core.workload(description) end,
  __index = function(_, name)
    if type(name) ~= "string" then return nil end
    return core.workload(name)
  end,
  __newindex = function(_, name)
    core.raise("invalid_argument", "ts.workload is read-only: cannot set '" .. tostring(name) .. "'", "ts.workload")
  end,
})

return setmetatable(ts, {
  __metatable = "tessera",
  __index = function(_, name)
    local known = {}
    for key in pairs(ts) do known[#known + 1] = key end
    table.sort(known)
    core.raise("invalid_argument",
      ("ts.%s does not exist%s"):format(tostring(name), core.did_you_mean(tostring(name), known)), "ts")
  end,
})
