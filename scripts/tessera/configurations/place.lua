-- ts.place(ranked, gpus, options): the first configuration of a ranking that the GPUs have room for, and which of them
-- take it (iServe, section 6, steps II and III).

local core = require "tessera.core"
local options = require "tessera.options"

local path = "ts.place"

local read = options.card {
  name = path,
  doc = "A block is what a layer of a shard takes. Step II gives one layer after another to stages on the K GPUs with "
    .. "most free memory; a configuration that does not fit so is passed over. Step III puts even stages on the first "
    .. "K GPUs of the policy's order that have room for them, else it keeps step II's.",
  parameters = {
    { "ranked", "table[]", "The best first: tensor_parallel, pipeline_parallel, base_bytes (memory_bytes)" },
    { "gpus", "table[]", "{ free_bytes =, load = } of each" },
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

local function by(...)
  local keys = { ... }
  return function(a, b)
    for _, key in ipairs(keys) do
      local x, y = key(a), key(b)
      if x ~= y then return x < y end
    end
    return a.index < b.index
  end
end
local function load(gpu) return gpu.load end
local function free(gpu) return gpu.free_bytes end
local function minus(key) return function(gpu) return -key(gpu) end end

local freest = by(minus(free))
local orders = { least_loaded = by(load, minus(free)), packing = by(minus(load), free) }

local function sorted(list, less)
  local copy = { unpack(list) }
  table.sort(copy, less)
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
  local view = {}
  for i, gpu in ipairs(gpus) do view[i] = { index = gpu.index, free_bytes = gpu.free_bytes, load = gpu.load } end
  local given, where, seen, list = policy(view, k), path .. ".policy", {}, {}
  options.list(given, where, "a list of 0-based indices of GPUs", options.item_of "number")
  for i, index in ipairs(given) do
    local gpu = gpus[index + 1]
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

-- Step II: layers of the stages on the freest GPUs, one to each in turn; nil where they do not all fit.
local function filled(gpus, tp, pp, block, num_layers)
  local rooms, layers = {}, {}
  for stage = 1, pp do
    local least = math.huge
    for i = (stage - 1) * tp + 1, stage * tp do least = math.min(least, gpus[i].free_bytes) end
    rooms[stage], layers[stage] = math.floor(least / block), 0
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

local function even_layers(num_layers, pp)
  local layers = {}
  for stage = 1, pp do layers[stage] = math.floor(num_layers / pp) + (stage <= num_layers % pp and 1 or 0) end
  return layers
end

local function indices(gpus, k)
  local list = {}
  for i = 1, k do list[i] = gpus[i].index end
  return list
end

-- Where one configuration goes, or nil and a code.
local function placed(row, gpus, opt)
  local tp, pp = row.tensor_parallel, row.pipeline_parallel
  local k = tp * pp
  if k > #gpus then return nil, "too_few_gpus" end
  if pp > opt.num_layers then return nil, "too_many_stages" end
  local bytes = opt.account == "base" and row.base_bytes or row.memory_bytes
  local block = bytes / (tp * opt.num_layers)
  local by_room = sorted(gpus, freest)
  local layers = filled(by_room, tp, pp, block, opt.num_layers)
  if not layers then return nil, "no_room" end
  local found = { block_bytes = block, devices = indices(by_room, k), layers = layers, even = false }
  local even = chosen(gpus, k, math.ceil(opt.num_layers / pp) * block, opt)
  if even then
    table.sort(even, function(a, b) return a.index < b.index end)
    found.devices, found.layers, found.even = indices(even, k), even_layers(opt.num_layers, pp), true
  end
  return found
end

local function check_number(value, where, least, most)
  if type(value) ~= "number" or value ~= value or value < least or value > most then
    core.raise("out_of_range", ("%s: a number in [%g, %g] belongs here"):format(where, least, most), where)
  end
end

local function check(ranked, gpus, opt)
  options.list(ranked, path .. " ranked", "a list of rows", function(row, where)
    if type(row) ~= "table" then core.refuse(where, ("a table belongs here, not a %s"):format(type(row))) end
    for _, field in ipairs { "tensor_parallel", "pipeline_parallel" } do
      check_number(row[field], ("%s.%s"):format(where, field), 1, 1024)
    end
    local field = opt.account == "base" and "base_bytes" or "memory_bytes"
    check_number(row[field], ("%s.%s"):format(where, field), 1, 1e18)
  end)
  options.list(gpus, path .. " gpus", "a list of { free_bytes =, load = }", function(gpu, where)
    if type(gpu) ~= "table" then core.refuse(where, ("a table belongs here, not a %s"):format(type(gpu))) end
    check_number(gpu.free_bytes, where .. ".free_bytes", 0, 1e18)
    if gpu.load ~= nil then check_number(gpu.load, where .. ".load", 0, 1) end
  end)
  local known = { "hybrid", "least_loaded", "packing" }
  if type(opt.policy) ~= "function" and opt.policy ~= "hybrid" and not orders[opt.policy] then
    core.refuse(path .. ".policy", ("no policy is called '%s'%s"):format(tostring(opt.policy),
      core.did_you_mean(tostring(opt.policy), known)))
  end
end

return function(ranked, gpus, given)
  local opt = read(given)
  check(ranked, gpus, opt)
  if #gpus == 0 then core.refuse(path .. " gpus", "the list is empty") end
  local list, reasons = {}, {}
  for i, gpu in ipairs(gpus) do
    list[i] = { index = i - 1, free_bytes = gpu.free_bytes, load = gpu.load or 0 }
  end
  for i, row in ipairs(ranked) do
    local found, why = placed(row, list, opt)
    if found then
      found.rank, found.configuration, found.reasons = i, row, reasons
      return found
    end
    reasons[i] = why
  end
  return nil, { code = "infeasible", message = ("%s: none of %d configurations has room on %d GPUs"):format(path,
    #ranked, #gpus), reasons = reasons }
end
