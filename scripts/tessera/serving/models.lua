-- ts.deployment { models = }: several models on the GPUs of one cluster. Here their options become what the simulator
-- takes, and what a strategy decides becomes engines.

local check_types = require "tessera.configurations.check_types"
local core = require "tessera.core"
local options = require "tessera.options"
local placed = require "tessera.serving.placed"
local routers = require "tessera.plugins.routers"
local schedulers = require "tessera.plugins.schedulers"
local solver = require "tessera.solver"
local strategies = require "tessera.plugins.strategies"

local path = "ts.deployment"

local read_deployment = options.reader(path, {
  { name = "cluster", type = "any" },
  { name = "models", type = "any", required = true },
  { name = "strategy", type = "any", default = "iserve" },
  { name = "engine", type = "any", default = {} },
  { name = "router", type = "any" },
  { name = "api_s", type = "number", min = 0, max = 1000, default = 0 },
})

local read_model = options.card {
  name = "ts.deployment.models",
  doc = "One of several models: what its requests take, what is wanted of it, and when it is there.",
  returns = "table",
  options = {
    { name = "name", type = "string", required = true, doc = "That requests name" },
    { name = "estimates", type = "any", lua_type = "tessera.Fingerprint|table[]",
      doc = "Of its configurations, to choose from: a fingerprint, or rows of fingerprint:estimates" },
    { name = "output_tokens", type = "integer", unit = "tokens", default = 100, min = 1, max = 1e7,
      doc = "With a fingerprint: the answers for which configurations are ranked" },
    { name = "num_layers", type = "integer", min = 1, max = 1e4, doc = "With rows: of the model" },
    { name = "step_cost", type = "any", lua_type = "table|fun(step: table): number",
      doc = "Instead: what a step takes, as ts.deployment has it" },
    { name = "memory_bytes", type = "number", unit = "bytes", min = 0, max = 1e18, default = 0,
      doc = "With step_cost: that it takes, of all its GPUs" },
    { name = "plan", type = "any", lua_type = "tessera.Plan",
      doc = "Instead: a plan, whose stages run on `devices`" },
    { name = "intent", type = "any", lua_type = "tessera.Intent|table", doc = "What is wanted, of ts.intent or its "
      .. "options; left out: least cost" },
    { name = "slo", type = "table", doc = "Latency limits of its requests, as ts.serve has them" },
    { name = "at_s", type = "number", unit = "s", default = 0, min = 0, max = 9e6,
      doc = "When it comes and is placed" },
    { name = "until_s", type = "number", unit = "s", min = 0, max = 9e6,
      doc = "From then on it gets no request; its memory is free when what it has is done" },
    { name = "devices", type = "integers", min = 0, max = 1e6,
      doc = "GPUs by hand, stage after stage, from 0: no strategy is asked" },
    { name = "layers", type = "integers", min = 1, max = 1e6, doc = "With devices: of each stage; left out: even" },
    { name = "engine", type = "any", lua_type = "tessera.Engine|table", doc = "Left out: the deployment's" },
  },
}

local function check_shape(row, where)
  options.plain(row, where, "a row of fingerprint:estimates")
  for _, field in ipairs { "tensor_parallel", "pipeline_parallel" } do
    local degree = row[field]
    if type(degree) ~= "number" or degree % 1 ~= 0 or degree < 1 or degree > 1024 then
      core.refuse(("%s.%s"):format(where, field), "a whole number from 1 to 1024 belongs here")
    end
  end
  check_types(row, where, {})
  if row.batch_size ~= nil then options.number(row.batch_size, where .. ".batch_size", 1, 1e5) end
end

-- Its estimates as rows, and its layers.
local function estimates_of(opt, where)
  local given = opt.estimates
  if type(given) ~= "table" then
    core.refuse(where .. ".estimates", ("a fingerprint or rows belong here, not a %s"):format(type(given)))
  end
  if type(given.estimates) == "function" then
    local rows = given:estimates { output_tokens = opt.output_tokens }
    return rows, given.num_layers or opt.num_layers
  end
  options.list(given, where .. ".estimates", "a list of rows of fingerprint:estimates", check_shape)
  return given, opt.num_layers
end

-- Estimates of batches have room for so many requests, and say no more of larger ones.
local function check_seats(model)
  local seats = schedulers.engine(model.engine).max_num_seqs
  for _, row in ipairs(model.estimates) do
    if row.batch_size and seats > row.batch_size then
      core.refuse(model.where .. ".engine.max_num_seqs", ("%d, but the estimates are of at most %d requests at once; "
        .. "give %d, or batch_size = %d to ts.fingerprint"):format(seats, row.batch_size, row.batch_size, seats))
    end
  end
end

local function intent_of(given, where)
  if type(given) == "table" and type(given.rank) == "function" then return given end
  if given ~= nil and type(given) ~= "table" then
    core.refuse(where .. ".intent", ("an intent or its options belong here, not a %s"):format(type(given)))
  end
  return require "tessera.configurations.intent"(given or {})
end

local function check_source(opt, where)
  local given = {}
  for _, field in ipairs { "estimates", "step_cost", "plan" } do
    if opt[field] ~= nil then given[#given + 1] = field end
  end
  if #given == 1 then return end
  core.refuse(where, #given == 0 and "give estimates, step_cost or plan"
    or ("%s and %s both say what a step takes; give one"):format(given[1], given[2]))
end

local function check_times(opt, where)
  if opt.until_s and opt.until_s <= opt.at_s then
    core.refuse(where .. ".until_s", ("it leaves at %g s, before it comes at %g s"):format(opt.until_s, opt.at_s))
  end
end

local function check_devices(opt, where, gpus)
  if opt.layers and not opt.devices then core.refuse(where .. ".layers", "are of stages on devices: give both") end
  local seen = {}
  for i, device in ipairs(opt.devices or {}) do
    local item = ("%s.devices[%d]"):format(where, i)
    if device >= #gpus then
      core.refuse(item, ("there is no GPU %d of %d (they count from 0)"):format(device, #gpus))
    end
    if seen[device] then core.refuse(item, ("GPU %d is there twice"):format(device)) end
    seen[device] = true
  end
  if opt.devices and #opt.devices == 0 then core.refuse(where .. ".devices", "the list is empty") end
end

-- A model as strategies see it.
local function model_of(given, index, engine, gpus)
  local where = ("%s.models[%d]"):format(path, index)
  options.plain(given, where, "a model")
  local opt = read_model(given, where)
  check_source(opt, where)
  -- What its engines are made of is told now, if it is wrong.
  local made = opt.engine or engine
  solver.deployment { engine = made, plan = opt.plan, step_cost = not opt.plan and (opt.step_cost or { base_s = 1 })
    or nil }
  check_times(opt, where)
  check_devices(opt, where, gpus)
  local model = {
    name = opt.name, index = index, where = where, at_s = opt.at_s, until_s = opt.until_s, slo = opt.slo,
    devices = opt.devices, layers = opt.layers, step_cost = opt.step_cost, plan = opt.plan,
    memory_bytes = opt.memory_bytes, engine = made, intent = intent_of(opt.intent, where),
  }
  if opt.estimates ~= nil then
    model.estimates, model.num_layers = estimates_of(opt, where)
    check_seats(model)
    if not model.num_layers then core.refuse(where .. ".num_layers", "missing: rows do not say how many there are") end
  end
  if model.devices then model.by_hand = placed.by_hand(model, gpus) end
  return model
end

local function models_of(opt, gpus)
  local list, names, where = {}, {}, path .. ".models"
  options.list(opt.models, where, "a list of models")
  if #opt.models == 0 then core.refuse(where, "the list is empty") end
  for i, given in ipairs(opt.models) do
    list[i] = model_of(given, i, opt.engine, gpus)
    local name = list[i].name
    if names[name] then
      core.refuse(("%s[%d].name"):format(where, i), ("models[%d] is called '%s' already"):format(names[name], name))
    end
    names[name] = i
  end
  return list
end

-- What a strategy may keep or change is its own.
local function shown(model)
  local copy = {}
  for key, value in pairs(model) do copy[key] = value end
  copy.where, copy.by_hand, copy.engine = nil, nil, nil
  return copy
end

return function(given)
  for key in pairs(given) do
    if key == "model" or key == "plan" or key == "step_cost" or key == "pools" or key == "devices" then
      core.refuse(("%s.%s"):format(path, key), "given beside models, each of which has its own; give one or the other")
    end
  end
  local opt = read_deployment(given, path)
  if opt.cluster == nil then core.refuse(path .. ".cluster", "missing: the GPUs that the models share") end
  local cluster = core.cluster(opt.cluster)
  local devices = {}
  for i, device in ipairs(cluster.devices) do
    devices[i] = { name = device.name, total_bytes = device.memory_bytes }
  end
  local strategy, models = strategies.resolved(opt.strategy), models_of(opt, devices)
  local function start(traffic, gpus)
    local own, list = strategy.opt(), {}
    for i, model in ipairs(models) do list[i] = shown(model) end
    if strategy.prepare then strategy.prepare({ now_s = 0, gpus = gpus }, list, traffic, own) end
    local function place(index, now_s, view)
      local model = models[index]
      if model.by_hand then return placed.engines(model, model.by_hand, strategy, devices) end
      local found, why = strategy.place({ now_s = now_s, gpus = view }, list[index], own)
      if found == nil then return nil, placed.why(why, model) end
      return placed.engines(model, found, strategy, devices)
    end
    return place, strategy.route and function(index, request)
      if models[index].by_hand then return 1 end
      return strategy.route(request, list[index], own)
    end
  end
  return solver.models_deployment {
    models = models, devices = devices, window_s = strategy.window_s,
    router = opt.router ~= nil and routers.resolved(opt.router) or nil, api_s = opt.api_s, start = start,
    source = ("strategy %s"):format(strategy.name),
  }
end
