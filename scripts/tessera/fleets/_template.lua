-- What a script may have a say in while a fleet is planned, to start from: copy what you need into the options of
-- ts.plan_fleet { ..., columns = rules.columns, round = rules.round }.

local rules = {}

-- Kinds of replicas beside the engine's: called for each model, as it is asked for, and class of nodes { name, count,
-- gpus, devices = { L4 = 4 }, usd_per_h }. `rate_per_s` is what one sustains within the model's SLO, and is taken at
-- its word.
function rules.columns(model, node)
  local measured = { ["llama-3.1-8b"] = { L4 = 2.5 } } -- requests/s of a device, on your own machines
  local columns = {}
  for type, rate_per_s in pairs(measured[model.model] or {}) do
    if node.devices[type] then
      columns[#columns + 1] = { devices = { [type] = 1 }, rate_per_s = rate_per_s, label = "measured on " .. type }
    end
  end
  return columns
end

-- How many of each column to have, of the copies that a linear programme has of it. What comes of it is repaired,
-- packed and checked; it only has to be near something good.
function rules.round(copies)
  local whole = {}
  for i, count in ipairs(copies) do whole[i] = math.floor(count + 0.5) end
  return whole
end

return rules
