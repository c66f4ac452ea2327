-- A strategy is data: { name =, stages = 2 } has layers on both devices, { replicas = 2 } requests,
-- { attention_on = 2 } the layers on the first and KV heads of them on the second. split(case) says how much: layers or
-- requests on the first, or the share of the heads on the second.

local core = require "tessera.core"
local options = require "tessera.options"

local M = {}

local kinds = { "replicas", "attention_on", "stages" }
local names = { replicas = "data_parallel", attention_on = "attention_offload", stages = "model_parallel" }

-- What each kind fills in of a row, from the number on one side.
local fill = {
  replicas = function(row, first) row.batch = { first, row.batch_size - first } end,
  stages = function(row, first, case) row.layers = { first, case.num_layers - first } end,
  attention_on = function(row, ratio) row.attention_ratio = ratio end,
}

-- How the paper splits, where nothing else is said.
local usual = {
  replicas = function(case, pair, row)
    if type(case.batch_split) == "number" then return case.batch_split end
    if not pair[2] then return row.batch_size end
    if case.batch_split == "even" then return math.ceil(row.batch_size / 2) end
    local first, second = pair[1].flop_per_s, pair[2].flop_per_s
    return math.floor(row.batch_size * first / (first + second) + 0.5)
  end,
  stages = function(case, pair)
    return case.layers_on_first or (pair[2] and math.ceil(case.num_layers / 2) or case.num_layers)
  end,
  attention_on = function(case, pair) return case.attention_ratio or (pair[2] and 1 or 0) end,
}

local is_idle = {
  replicas = function(row) return row.batch[2] == 0 end,
  stages = function(row) return row.layers[2] == 0 end,
  attention_on = function(row) return row.attention_ratio == 0 end,
}

local most = {
  replicas = function(_, row) return row.batch_size, "requests" end,
  stages = function(case) return case.num_layers, "layers" end,
  attention_on = function() return 1, "of the KV heads" end,
}

--- The paper's three, in its order.
M.paper = {}
for i, kind in ipairs(kinds) do M.paper[i] = { name = names[kind], kind = kind } end

function M.by_name(name)
  for _, own in ipairs(M.paper) do
    if own.name == name then return own end
  end
  local known = {}
  for i, own in ipairs(M.paper) do known[i] = own.name end
  return nil, known
end

local function of_table(given, where)
  options.plain(given, where, "{ name =, stages = 2 | replicas = 2 | attention_on = 2, split = function(case) }")
  local kind
  for key, value in pairs(given) do
    if names[key] then
      if kind then core.refuse(where, ("it has both %s and %s; a strategy is one of them"):format(kind, key)) end
      if value ~= 2 then
        core.refuse(where .. "." .. key, ("%s, but a strategy is of two devices; write 2"):format(tostring(value)))
      end
      kind = key
    elseif key ~= "name" and key ~= "split" then
      core.refuse(where, ("unknown key '%s'%s"):format(tostring(key), core.did_you_mean(tostring(key),
        { "name", "split", unpack(kinds) })))
    end
  end
  if not kind then core.refuse(where, "give stages = 2, replicas = 2 or attention_on = 2") end
  if type(given.name) ~= "string" or given.name == "" then core.refuse(where .. ".name", "a name belongs here") end
  if given.split ~= nil and type(given.split) ~= "function" then
    core.refuse(where .. ".split", "a function of the case belongs here")
  end
  return { name = given.name, kind = kind, split = given.split }
end

--- A strategy by its name, or of a table.
function M.read(given, where)
  if type(given) == "table" then return of_table(given, where) end
  if type(given) ~= "string" then core.refuse(where, "a name or a table belongs here") end
  local own, known = M.by_name(given)
  if not own then
    core.refuse(where, ("no strategy is called '%s'%s"):format(given, core.did_you_mean(given, known)))
  end
  return own
end

local function split_by_script(strategy, case, pair, row)
  local devices = {}
  for i, device in ipairs(pair) do
    devices[i] = { name = device.name, flop_per_s = device.flop_per_s, memory_bytes = device.memory_bytes,
      usd_per_h = device.usd_per_h }
  end
  local answer = strategy.split { batch_size = row.batch_size, num_layers = case.num_layers,
    num_kv_heads = case.num_kv_heads, hidden_size = case.hidden_size, prompt_tokens = case.prompt_tokens,
    output_tokens = case.output_tokens, devices = devices }
  local limit, what = most[strategy.kind](case, row)
  local whole = strategy.kind == "attention_on" or (type(answer) == "number" and answer % 1 == 0)
  if type(answer) ~= "number" or not whole or not (answer >= 0 and answer <= limit) then
    core.raise("out_of_range", ("strategy '%s': its split is %s; %s from 0 to %d belong there"):format(strategy.name,
      tostring(answer), what, limit), "split")
  end
  return answer
end

--- Fills in who does what, on a pair or on one device.
function M.split(strategy, case, pair, row)
  local own = strategy.split and pair[2] and split_by_script(strategy, case, pair, row)
  fill[strategy.kind](row, own or usual[strategy.kind](case, pair, row), case)
end

--- Whether a row leaves the second device out.
function M.is_second_idle(strategy, row) return is_idle[strategy.kind](row) end

return M
