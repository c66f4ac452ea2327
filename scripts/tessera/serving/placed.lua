-- What a strategy returned, checked, as engines of the simulator; and places by hand.

local check_types = require "tessera.configurations.check_types"
local core = require "tessera.core"
local even = require("tessera.serving.fixed_shape").even
local options = require "tessera.options"

local M = {}

local path = "ts.deployment.strategy"

local function sum(list)
  local total = 0
  for _, item in ipairs(list) do total = total + item end
  return total
end

-- GPUs of each stage of a plan, and what each takes.
local function stages_of_plan(plan, where)
  local stages = plan.stages
  if #stages == 0 then core.refuse(where, "the plan has replicas; give a model for each, or a plan of one pipeline") end
  local list = {}
  for k, stage in ipairs(stages) do
    list[k] = { layers = stage.num_layers, count = tonumber(stage.device:match "^(%d+)x") or 1,
      bytes = stage.memory.total_bytes }
  end
  return list
end

-- The first GPU that is not of the type which a row names for its stage, and that type; nil where there is none.
local function of_another_type(row, devices, gpus)
  if not row.device_types then return nil end
  for i, device in ipairs(devices) do
    local wanted = row.device_types[math.ceil(i * #row.device_types / #devices)]
    if gpus[device + 1].name ~= wanted then return device, wanted end
  end
  return nil
end

-- The best row by its intent that has this shape, on GPUs of these types.
local function row_by_hand(model, gpus)
  local count = #model.devices
  for _, row in ipairs(model.intent:rank(model.estimates)) do
    if row.tensor_parallel * row.pipeline_parallel == count
      and (not model.layers or #model.layers == row.pipeline_parallel)
      and not of_another_type(row, model.devices, gpus) then
      return row
    end
  end
  core.refuse(model.where .. ".devices", ("no configuration runs on %d GPUs%s"):format(count,
    model.layers and (" in %d stages"):format(#model.layers) or ""))
end

--- The place that somebody chose by hand, as a strategy would return it.
--- @param gpus all there are, with their names
function M.by_hand(model, gpus)
  local found = { devices = model.devices, layers = model.layers }
  if model.estimates then
    found.configuration = row_by_hand(model, gpus)
    found.layers = found.layers or even(model.num_layers, found.configuration.pipeline_parallel)
    if sum(found.layers) ~= model.num_layers then
      core.refuse(model.where .. ".layers", ("%d in all, but the model has %d"):format(sum(found.layers),
        model.num_layers))
    end
  elseif model.layers then
    core.refuse(model.where .. ".layers", "are of estimates; step_cost has one stage, and a plan its own")
  end
  return found
end

-- A number of at least `least`, where it is given.
local function check_number(value, where, least)
  if value == nil then return nil end
  if type(value) ~= "number" or not (value >= least and value < math.huge) then
    core.refuse(where, ("%s belongs here, not %s"):format(least >= 0 and ("a number from %d on"):format(least)
      or "a finite number", tostring(value)))
  end
  return value
end

local function check_list(list, where, what)
  options.list(list, where, what, function(item, at)
    if type(item) ~= "number" or item % 1 ~= 0 or item < 0 then
      core.refuse(at, ("a whole number belongs here, not %s"):format(tostring(item)))
    end
  end)
  if #list == 0 then core.refuse(where, "the list is empty") end
end

local function check_devices(devices, where, gpus)
  check_list(devices, where .. ".devices", "a list of GPUs, from 0")
  local seen = {}
  for i, device in ipairs(devices) do
    local at = ("%s.devices[%d]"):format(where, i)
    if device >= #gpus then
      core.refuse(at, ("there is no GPU %d of %d (they count from 0)"):format(device, #gpus))
    end
    if seen[device] then core.refuse(at, ("GPU %d is there twice"):format(device)) end
    seen[device] = true
  end
end

-- What a request takes, by the row: of GPUs of several types by what the whole would on that of each stage.
local function step_cost_of(row, layers, num_layers)
  -- Where decoding slows with context the time of a prompt comes out as less than nothing.
  local function prompt_s(seconds) return math.max(0, seconds) end
  if not row.by_type then
    return { ttft_s = prompt_s(row.ttft_s), tpot_s = row.tpot_s, further_s = row.further_s, stage_layers = layers }
  end
  local cost = { stage_ttft_s = {}, stage_tpot_s = {}, stage_further_s = row.further_s and {} }
  for k, count in ipairs(layers) do
    local own = row.by_type[row.device_types[k]]
    cost.stage_ttft_s[k] = prompt_s(own.ttft_s) * count / num_layers
    cost.stage_tpot_s[k] = own.tpot_s * count / num_layers
    if row.further_s then cost.stage_further_s[k] = own.further_s * count / num_layers end
  end
  return cost
end

-- Of estimates: its pool, and bytes of each GPU by stage.
local function of_estimates(model, found, where, gpus)
  local row = found.configuration
  options.plain(row, where .. ".configuration", "a row of the model's estimates")
  for _, field in ipairs { "ttft_s", "tpot_s", "base_bytes", "memory_bytes" } do
    check_number(row[field], ("%s.configuration.%s"):format(where, field), field == "ttft_s" and -1e9 or 0)
    if row[field] == nil and field ~= "base_bytes" then
      core.refuse(("%s.configuration.%s"):format(where, field), "missing: a row of the model's estimates belongs there")
    end
  end
  local further = row.further_s ~= nil and "further_s" or nil
  check_number(row.further_s, where .. ".configuration.further_s", 0)
  check_types(row, where .. ".configuration", { "ttft_s", "tpot_s", "base_bytes", further })
  check_list(found.layers, where .. ".layers", "a list of the layers of each stage")
  if sum(found.layers) ~= model.num_layers then
    core.refuse(where .. ".layers", ("%d in all, but '%s' has %d"):format(sum(found.layers), model.name,
      model.num_layers))
  end
  if #found.devices % #found.layers ~= 0 then
    core.refuse(where .. ".devices", ("%d GPUs for %d stages; give as many for each"):format(#found.devices,
      #found.layers))
  end
  if row.by_type and #found.layers ~= row.pipeline_parallel then
    core.refuse(where .. ".layers", ("%d stages, but the configuration has %d, of types of their own"):format(
      #found.layers, row.pipeline_parallel))
  end
  local stranger, wanted = of_another_type(row, found.devices, gpus)
  if stranger then
    core.refuse(where .. ".devices", ("GPU %d is of type %s, but the configuration was estimated on %s there"):format(
      stranger, gpus[stranger + 1].name, wanted))
  end
  local bytes, blocks = {}, found.stage_block_bytes or {}
  for k, count in ipairs(found.layers) do
    local own = row.by_type and row.by_type[row.device_types[k]] or row
    local block = check_number(blocks[k], ("%s.stage_block_bytes[%d]"):format(where, k), 0)
      or check_number(found.block_bytes, where .. ".block_bytes", 0)
      or (own.base_bytes or own.memory_bytes) / (#found.devices / #found.layers * model.num_layers)
    bytes[k] = count * block
  end
  return { step_cost = step_cost_of(row, found.layers, model.num_layers) }, bytes
end

local function of_plan(model, found, where)
  local stages, count, bytes, layers = stages_of_plan(model.plan, model.where .. ".plan"), 0, {}, {}
  for k, stage in ipairs(stages) do
    if stage.count ~= stages[1].count then
      core.refuse(model.where .. ".plan", "its stages have unlike numbers of GPUs, which do not share clocks here")
    end
    count, bytes[k], layers[k] = count + stage.count, stage.bytes / stage.count, stage.layers
  end
  if #found.devices ~= count then
    core.refuse(where .. ".devices", ("%d GPUs, but the plan of '%s' has %d"):format(#found.devices, model.name, count))
  end
  return { plan = model.plan }, bytes, layers
end

-- Of step costs: stages as they have them, memory shared out like layers.
local function of_step_cost(model, found)
  local cost, bytes = type(model.step_cost) == "table" and model.step_cost or {}, {}
  local layers = cost.stage_layers or even(#(cost.stage_tpot_s or { 1 }), #(cost.stage_tpot_s or { 1 }))
  for k, count in ipairs(layers) do
    bytes[k] = model.memory_bytes * count / sum(layers) / (#found.devices / #layers)
  end
  return { step_cost = model.step_cost }, bytes
end

-- One engine: { pool =, stage_bytes =, seats = }, and layers of its stages.
local function engine_of(model, found, where, gpus)
  options.plain(found, where, "a place, { devices =, layers =, configuration = }")
  check_devices(found.devices, where, gpus)
  local seats = check_number(found.seats, where .. ".seats", 1)
  local pool, bytes, layers
  if model.estimates then
    pool, bytes = of_estimates(model, found, where, gpus)
    layers = found.layers
  elseif model.plan then
    pool, bytes, layers = of_plan(model, found, where)
  else
    pool, bytes = of_step_cost(model, found)
    layers = {}
  end
  pool.role, pool.engine, pool.devices = "mixed", model.engine, found.devices
  return { pool = pool, stage_bytes = bytes, seats = seats }, layers
end

-- "no_room 3, too_few_gpus 1"
local function counted(reasons)
  local counts, names = {}, {}
  for _, reason in ipairs(reasons or {}) do
    reason = type(reason) == "string" and reason or "?"
    if not counts[reason] then names[#names + 1] = reason end
    counts[reason] = (counts[reason] or 0) + 1
  end
  table.sort(names)
  for i, name in ipairs(names) do names[i] = ("%s %d"):format(name, counts[name]) end
  return table.concat(names, ", ")
end

--- Why a model gets no place, in words.
function M.why(why, model)
  if type(why) == "string" then return why end
  if type(why) == "table" and type(why.message) == "string" then
    local reasons = type(why.reasons) == "table" and counted(why.reasons) or ""
    return why.message .. (reasons ~= "" and (" (%s)"):format(reasons) or "")
  end
  core.refuse(path, ("of '%s' it returned nil and %s; give the reason, a text, beside nil"):format(model.name,
    why == nil and "no reason" or "a " .. type(why)))
end

--- What a strategy returned, as the engine takes it.
function M.engines(model, found, strategy, gpus)
  if type(found) ~= "table" then
    core.refuse(path, ("of '%s' it returned a %s; give a place, { devices =, layers =, configuration = }, a list of "
      .. "places, or nil and why"):format(model.name, type(found)))
  end
  options.plain(found, path, "a place, or a list of places")
  local list = found[1] ~= nil and found or { found }
  local result = { replicas = {}, memory_bytes = 0 }
  local first, largest = list[1], 0
  for i, place in ipairs(list) do
    local where = ("%s: the place of '%s'%s"):format(path, model.name, #list > 1 and (" [%d]"):format(i) or "")
    local replica, layers = engine_of(model, place, where, gpus)
    result.replicas[i] = replica
    if i == 1 then result.layers = layers end
    local row = place.configuration
    local bytes = 0
    for _, part in ipairs(replica.stage_bytes) do
      bytes, largest = bytes + part * #place.devices / #replica.stage_bytes, math.max(largest, part)
    end
    result.memory_bytes = result.memory_bytes + (row and row.memory_bytes or bytes)
  end
  if strategy.load_bytes_per_s then result.ready_after_s = largest / strategy.load_bytes_per_s end
  if first.configuration then
    local shown = {}
    for key, value in pairs(first.configuration) do shown[key] = value end
    if type(first.reasons) == "table" and #first.reasons > 0 then
      result.passed_over = ("%d better: %s"):format(#first.reasons, counted(first.reasons))
      shown.passed_over = result.passed_over
    end
    shown.even = first.even
    result.configuration = shown
  end
  return result
end

return M
