-- The library that every script starts from: local ts = require "tessera".
-- C++ modules do the work; this file gives them the names that scripts rely on.

local core = require "tessera.core"
local indicator = require "tessera.indicator"
local solver = require "tessera.solver"
local planners = require "tessera.planning.planners"
local registry = require "tessera.plugins.planners"
local help = require "tessera.help"
require "tessera.planning.explain" -- the card of plan:explain

-- Parts that most scripts do without: loaded, cards and all, when their name is first used. A module is the part, or
-- has it in a field.
local later = {
  beside = "tessera.planning.beside",
  device_changes = "tessera.planning.device_changes",
  max_batch = "tessera.planning.max_batch",
  size = "tessera.planning.size",
  pareto = "tessera.planning.pareto",
  replan = "tessera.planning.replan",
  select_strategy = "tessera.planning.select_strategy",
  fit_correction = "tessera.planning.fit_correction",
  load_launch = "tessera.launch.reader",
  picture = "tessera.desk.picture",
  plot = "tessera.desk.plot",
  table = "tessera.desk.text_table",
  histogram = "tessera.desk.histogram",
  repeated = "tessera.desk.repeated",
  report = "tessera.desk.page",
  experiment = "tessera.desk.experiment",
  collection = "tessera.desk.collection",
  data_sets = { "tessera.desk.data_sets", "list" },
  grid = { "tessera.desk.experiment.grid", "points" },
  paper = { "tessera.desk.experiment.paper", "load" },
  results = "tessera.desk.results",
  profile = { "tessera.cost", "profile" },
  fit_profile = { "tessera.cost", "fit_profile" },
  cross_validate = { "tessera.cost", "cross_validate" },
  calibrate = { "tessera.cost", "calibrate" },
  calibration_points = "tessera.devices.calibration_points",
  detect = { "tessera.devices.detect.this_machine", "detect" },
  measure_profile = { "tessera.devices.measure_profile", "measure_profile" },
  weights = { "tessera.weights", "open" },
  quantise = { "tessera.quant", "quantise" },
  quality_map = "tessera.models.quality_map",
  quantise_model = { "tessera.models.with_bar", "quantise_model" },
  prune_model = { "tessera.models.with_bar", "prune_model" },
  language_model = { "tessera.models.with_bar", "language_model" },
  execute = "tessera.runtime.execute",
  tokenizer = { "tessera.lm", "tokenizer" },
  tensor = { "tessera.weights", "tensor" },
  read_profile_data = { "tessera.cost", "read_profile_data" },
  engine = { "tessera.plugins.schedulers", "engine" },
  schedulers = { "tessera.plugins.schedulers", "list" },
  register_scheduler = { "tessera.plugins.schedulers", "register_scheduler" },
  traffic = { "tessera.serving", "traffic" },
  deployment = "tessera.serving.deployment",
  strategies = { "tessera.plugins.strategies", "list" },
  register_strategy = { "tessera.plugins.strategies", "register_strategy" },
  routers = { "tessera.plugins.routers", "list" },
  register_router = { "tessera.plugins.routers", "register_router" },
  serve = "tessera.runtime.serve",
  replay = { "tessera.serving", "replay" },
  view = { "tessera.serving.view", "view" },
  max_rate = "tessera.serving.max_rate",
  plan_serving = "tessera.serving.plan",
  plan_fleet = "tessera.fleets.plan",
  load_plan = { "tessera.fleets.save", "load" },
  check = "tessera.fleets.check",
  schemes = { "tessera.configurations.schemes", "list" },
  configurations = "tessera.configurations.space",
  fingerprint = "tessera.configurations.fingerprint",
  select = "tessera.configurations.select",
  intent = "tessera.configurations.intent",
  place = "tessera.configurations.place",
  speculative = "tessera.speculative",
  sampling = "tessera.sampling",
}

local ts = {
  model = core.model,
  device = core.device,
  cluster = core.cluster,
  indicator = indicator.new,
  problem = solver.problem,
  plan = planners.plan,
  planners = planners.list,
  default_planner = planners.default,
  register_planner = registry.register_planner,
  register_heuristic = registry.register_heuristic,
  simulate = solver.simulate,
}

local function load_all()
  for name in pairs(later) do local _ = ts[name] end
  require "tessera.models.plan_quality" -- the card of plan:quality
  require "tessera.launch" -- the card of plan:export
  for _, part in ipairs { "serve", "export", "deployment", "losses", "periods", "rules" } do
    require("tessera.fleets." .. part)
  end
end

-- Whoever asks for help wants every card.
function ts.help_topic(name)
  load_all()
  return help.topic(name)
end

function ts.help_topics()
  load_all()
  return help.topics()
end

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
  __members = later, -- completed like the rest
  __index = function(_, name)
    local part = later[name]
    if part then
      ts[name] = type(part) == "string" and require(part) or require(part[1])[part[2]]
      return ts[name]
    end
    local known = {}
    for key in pairs(later) do known[#known + 1] = key end
    for key in pairs(ts) do
      if not later[key] then known[#known + 1] = key end
    end
    table.sort(known)
    core.raise("invalid_argument",
      ("ts.%s does not exist%s"):format(tostring(name), core.did_you_mean(tostring(name), known)), "ts")
  end,
})
