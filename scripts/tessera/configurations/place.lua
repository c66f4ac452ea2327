-- ts.place(ranked, gpus, options): the first configuration of a ranking that the GPUs have room for, and which of them
-- take it (iServe, section 6, steps II and III).

local check_types = require "tessera.configurations.check_types"
local core = require "tessera.core"
local even_layers = require "tessera.configurations.even_layers"
local options = require "tessera.options"
local sort_by_fields = require "tessera.sort_by_fields"

local path = "ts.place"

local read = options.card {
  name = path,
  doc = "A block is what a layer of a shard takes. Step II gives one layer after another to stages on the K GPUs with "
    .. "most free memory; a configuration that does not fit so is passed over. Step III puts even stages on the first "
    .. "K GPUs of the policy's order that have room for them, else it keeps step II's. A configuration that names "
    .. "types of GPUs goes to such, each type in an order of its own.",
  parameters = {
    { "ranked", "table[]", "The best first: tensor_parallel, pipeline_parallel, base_bytes (memory_bytes), "
      .. "device_types, by_type" },
    { "gpus", "table[]", "{ free_bytes =, load =, device = (its type) } of each" },
  },
  returns = "table?, tessera.Error?",
  options = {
    { name = "num_layers", type = "integer", required = true, min = 1, max = 1e4, doc = "Of the model" },
    { name = "policy", type = "any", lua_type = "string|function", default = "hybrid",
      doc = "hybrid: packing among GPUs whose load is below theta, where they are enough, else least_loaded of the "
        .. "others; packing: the most loaded first; least_loaded; or function(gpus, k) that returns 0-based indices" },
    { name = "theta", type = "number", default = 0.5, min = 0, max = 1, doc = "Load from which a GPU is not packed" },
    { name = "account", type = "choice", default = "base", choices = { "base", "footprint" },
      doc = "base: blocks share the model's memory on one GPU, as in the paper; footprint: that of the configuration, "
        .. "with what is replicated" },
  },
}

local freest = { "-free_bytes" }
local orders = { least_loaded = { "load", "-free_bytes" }, packing = { "-load", "free_bytes" } }

local function sorted(list, fields)
  local copy = { unpack(list) }
  sort_by_fields(copy, fields, 0)
  return copy
end

local function kept(list, keep)
  local result = {}
  for _, gpu in ipairs(list) do
    if keep(gpu) then result[#result + 1] = gpu end
  end
  return result
end

-- What a policy of a script returned, as GPUs.
local function asked(policy, gpus, k)
  local view, by_index = {}, {}
  for i, gpu in ipairs(gpus) do
    view[i] = { index = gpu.index, free_bytes = gpu.free_bytes, load = gpu.load, device = gpu.device }
    by_index[gpu.index] = gpu
  end
  local given, where, seen, list = policy(view, k), path .. ".policy", {}, {}
  options.list(given, where, "a list of 0-based indices of GPUs", options.item_of "number")
  for i, index in ipairs(given) do
    local gpu = by_index[index]
    if not gpu then
      core.refuse(("%s[%d]"):format(where, i), ("there is no GPU %s of %d"):format(tostring(index), #gpus))
    end
    if seen[index] then core.refuse(("%s[%d]"):format(where, i), ("GPU %d is there twice"):format(index)) end
    seen[index], list[i] = true, gpu
  end
  return list
end

-- The first k of the policy's order that have so much room, or nil.
local function chosen(gpus, k, share, opt)
  local function has_room(gpu) return gpu.free_bytes >= share end
  local list
  if type(opt.policy) == "function" then
    list = kept(asked(opt.policy, gpus, k), has_room)
  elseif opt.policy == "hybrid" then
    local room = kept(gpus, has_room)
    list = sorted(kept(room, function(gpu) return gpu.load < opt.theta end), orders.packing)
    if #list < k then
      list = sorted(kept(room, function(gpu) return gpu.load >= opt.theta end), orders.least_loaded)
    end
    if #list < k then list = sorted(room, orders.least_loaded) end
  else
    list = kept(sorted(gpus, orders[opt.policy]), has_room)
  end
  if #list < k then return nil end
  return { unpack(list, 1, k) }
end

-- Of each stage its type, `false` where the configuration names none, and what a layer takes of each of its GPUs; and
-- the GPUs that each type takes.
local function stages_of(row, opt)
  local stages, counts = {}, {}
  for k = 1, row.pipeline_parallel do
    local own = row.device_types and row.device_types[k] or false
    local figures = row.by_type and row.by_type[own] or row
    local bytes = opt.account == "base" and figures.base_bytes or figures.memory_bytes
    stages[k] = { type = own, block = bytes / (row.tensor_parallel * opt.num_layers) }
    counts[own] = (counts[own] or 0) + row.tensor_parallel
  end
  return stages, counts
end

-- The GPUs of the stages, of each type the next ones of its order.
local function dealt(stages, tp, order_of)
  local list, taken = {}, {}
  for _, stage in ipairs(stages) do
    for _ = 1, tp do
      taken[stage.type] = (taken[stage.type] or 0) + 1
      list[#list + 1] = order_of[stage.type][taken[stage.type]]
    end
  end
  return list
end

-- Step II: layers of the stages on the freest GPUs, one to each in turn; nil where they do not all fit.
local function filled(gpus, tp, stages, num_layers)
  local rooms, layers, pp = {}, {}, #stages
  for k, stage in ipairs(stages) do
    local least = math.huge
    for i = (k - 1) * tp + 1, k * tp do least = math.min(least, gpus[i].free_bytes) end
    rooms[k], layers[k] = math.floor(least / stage.block), 0
  end
  local left, stage = num_layers, 1
  while left > 0 do
    local full = 0
    while layers[stage] >= rooms[stage] do
      full, stage = full + 1, stage % pp + 1
      if full == pp then return nil end
    end
    layers[stage], left, stage = layers[stage] + 1, left - 1, stage % pp + 1
  end
  for _, count in ipairs(layers) do
    if count == 0 then return nil end
  end
  return layers
end

-- Step III: GPUs for even stages, of each type by the policy and then by their numbers; nil where a type has too few.
local function evened(by_type, stages, counts, row, opt)
  local order_of, most = {}, math.ceil(opt.num_layers / row.pipeline_parallel)
  for _, stage in ipairs(stages) do
    local own = stage.type
    if not order_of[own] then
      order_of[own] = chosen(by_type[own], counts[own], most * stage.block, opt)
      if not order_of[own] then return nil end
      table.sort(order_of[own], function(a, b) return a.index < b.index end)
    end
  end
  return dealt(stages, row.tensor_parallel, order_of)
end

local function indices(gpus)
  local list = {}
  for i, gpu in ipairs(gpus) do list[i] = gpu.index end
  return list
end

-- Where one configuration goes, or nil and a code.
--- @param freest_of the GPUs of each type (false: all), with most free memory first
local function placed(row, by_type, freest_of, opt)
  local tp, pp = row.tensor_parallel, row.pipeline_parallel
  local stages, counts = stages_of(row, opt)
  for own, count in pairs(counts) do
    if count > #(by_type[own] or {}) then return nil, "too_few_gpus" end
  end
  if pp > opt.num_layers then return nil, "too_many_stages" end
  local gpus = dealt(stages, tp, freest_of)
  local layers = filled(gpus, tp, stages, opt.num_layers)
  if not layers then return nil, "no_room" end
  local even = evened(by_type, stages, counts, row, opt)
  local found = { devices = indices(even or gpus), layers = even and even_layers(opt.num_layers, pp) or layers,
    even = even ~= nil, block_bytes = stages[1].block }
  if row.by_type then
    found.stage_block_bytes = {}
    for k, stage in ipairs(stages) do found.stage_block_bytes[k] = stage.block end
  end
  return found
end

local function check_row(row, where, opt)
  if type(row) ~= "table" then core.refuse(where, ("a table belongs here, not a %s"):format(type(row))) end
  for _, field in ipairs { "tensor_parallel", "pipeline_parallel" } do
    local own = ("%s.%s"):format(where, field)
    if options.number(row[field], own, 1, 1024) % 1 ~= 0 then core.refuse(own, "a whole number belongs here") end
  end
  local field = opt.account == "base" and "base_bytes" or "memory_bytes"
  options.number(row[field], ("%s.%s"):format(where, field), 1, 1e18)
  check_types(row, where, { field })
end

local function check(ranked, gpus, opt)
  local typed = false
  options.list(ranked, path .. " ranked", "a list of rows", function(row, where)
    check_row(row, where, opt)
    typed = typed or row.device_types ~= nil
  end)
  options.list(gpus, path .. " gpus", "a list of { free_bytes =, load = }", function(gpu, where)
    if type(gpu) ~= "table" then core.refuse(where, ("a table belongs here, not a %s"):format(type(gpu))) end
    options.number(gpu.free_bytes, where .. ".free_bytes", 0, 1e18)
    if gpu.load ~= nil then options.number(gpu.load, where .. ".load", 0, 1) end
    if typed and type(gpu.device) ~= "string" then
      core.refuse(where .. ".device", "name its type: configurations are of types of GPUs")
    end
  end)
  local known = { "hybrid", "least_loaded", "packing" }
  if type(opt.policy) ~= "function" and opt.policy ~= "hybrid" and not orders[opt.policy] then
    core.refuse(path .. ".policy", ("no policy is called '%s'%s"):format(tostring(opt.policy),
      core.did_you_mean(tostring(opt.policy), known)))
  end
end

-- GPUs by type; under `false` all of them.
local function by_type_of(gpus)
  local by_type = { [false] = {} }
  for i, gpu in ipairs(gpus) do
    local own = { index = i - 1, position = i, free_bytes = gpu.free_bytes, load = gpu.load or 0, device = gpu.device }
    for _, name in ipairs { false, gpu.device } do
      by_type[name] = by_type[name] or {}
      table.insert(by_type[name], own)
    end
  end
  return by_type
end

return function(ranked, gpus, given)
  local opt = read(given)
  check(ranked, gpus, opt)
  if #gpus == 0 then core.refuse(path .. " gpus", "the list is empty") end
  local by_type, freest_of, reasons = by_type_of(gpus), {}, {}
  for name, list in pairs(by_type) do freest_of[name] = sorted(list, freest) end
  for i, row in ipairs(ranked) do
    local found, why = placed(row, by_type, freest_of, opt)
    if found then
      found.rank, found.configuration, found.reasons = i, row, reasons
      return found
    end
    reasons[i] = why
  end
  return nil, { code = "infeasible", message = ("%s: none of %d configurations has room on %d GPUs"):format(path,
    #ranked, #gpus), reasons = reasons }
end
