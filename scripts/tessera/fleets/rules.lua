-- What a script has a say in while a fleet is planned: kinds of replicas (`columns`), and how a linear programme's
-- copies are rounded (`round`). One that takes too long, fails or gives what cannot be is left aside from then on, and
-- a note names it: the search goes on as without it.

local classes = require "tessera.fleets.classes"
local core = require "tessera.core"
local host = require "tessera.host"
local options = require "tessera.options"

local M = {}

-- Of the time limit, what all calls of a function may take together.
local share_of_time = 0.2
local most_columns = 1000 -- that a call may give

options.card {
  name = "ts.plan_fleet.columns",
  doc = "What columns = f(model, node) is: called for each model, as it is asked for, and class of nodes { name, "
    .. "count, gpus, devices = { L4 = 4 }, usd_per_h }. It returns a list of kinds of replicas, each as below, or nil: "
    .. "they count beside those of the engine, at the rates that it gives.",
  returns = "table[]?",
  options = {
    { name = "devices", type = "table", lua_type = "table<string, integer>", required = true,
      doc = "Of a node, by type" },
    { name = "rate_per_s", type = "any", lua_type = "number|number[]", unit = "1/s", required = true,
      doc = "Requests that it sustains within the SLO; of several classes of requests a list, each served alone" },
    { name = "label", type = "string", doc = "What to call it; default: its devices" },
  },
}

-- f(...) as `check` gives it, within the time that is left to it; afterwards, and where it fails, `otherwise()`.
local function guarded(name, f, limit_s, notes, check, otherwise)
  local left_s, is_out = limit_s * share_of_time, false
  local path = "ts.plan_fleet." .. name
  if type(f) ~= "function" then core.refuse(path, "a function belongs here, not a " .. type(f)) end
  local function aside(reason)
    is_out = true
    notes[#notes + 1] = ("%s was left aside: %s"):format(name, reason)
    return otherwise
  end
  return function(...)
    if is_out then return otherwise(...) end
    local started = core.clock()
    local ok, in_time, answer = pcall(host.limited, math.max(0, left_s), path, f, ...)
    left_s = left_s - (core.clock() - started)
    if not ok then
      if type(in_time) == "table" and in_time.code == "interrupted" then error(in_time, 0) end
      return aside("it failed: " .. tostring(in_time))(...)
    end
    if not in_time then return aside(("it took more than %.3g s"):format(limit_s * share_of_time))(...) end
    local fine, result = pcall(check, answer, ...)
    if not fine then return aside(tostring(result))(...) end
    return result
  end
end

--- As round = f(search): f(copies) gives a number for each.
function M.round(f, limit_s, notes)
  local function up(copies)
    local whole = {}
    for i, count in ipairs(copies) do whole[i] = math.ceil(count - 1e-7) end
    return whole
  end
  local function check(answer, copies)
    options.plain(answer, "round", "a list of numbers")
    if #answer ~= #copies then
      core.refuse("round", ("it gave %d numbers, one for each of %d columns belongs here"):format(#answer, #copies))
    end
    for i, count in ipairs(answer) do options.number(count, ("round[%d]"):format(i), 0, 1e12) end
    return answer
  end
  return guarded("round", f, limit_s, notes, check, up)
end

local function check_column(column, path, node, num_classes)
  options.plain(column, path, "a kind of replica: { devices =, rate_per_s = }")
  local rates = column.rate_per_s
  if type(rates) == "table" then
    for b, rate in ipairs(rates) do options.number(rate, ("%s.rate_per_s[%d]"):format(path, b), 0, 1e15) end
  else
    options.number(rates, path .. ".rate_per_s", 0, 1e15)
  end
  local num_rates = type(rates) == "table" and #rates or 1
  if num_rates ~= num_classes then
    core.refuse(path .. ".rate_per_s", ("%d rates for %d classes of requests"):format(num_rates, num_classes))
  end
  if column.label ~= nil and type(column.label) ~= "string" then
    core.refuse(path .. ".label", "a text belongs here, not a " .. type(column.label))
  end
  options.plain(column.devices, path .. ".devices", "devices by type: { L4 = 2 }")
  local total = 0
  for name, count in pairs(column.devices) do
    local where = ("%s.devices.%s"):format(path, tostring(name))
    if not node.devices[name] then core.refuse(where, ("a node of %s has none"):format(node.name)) end
    options.number(count, where, 0, node.devices[name], "")
    if count % 1 ~= 0 then core.refuse(where, ("%g is no whole number"):format(count)) end
    total = total + count
  end
  if total == 0 then core.refuse(path .. ".devices", "a replica takes at least one device") end
end

--- As columns = f(model, node): a function of the name of a model and of a class of nodes.
function M.columns(f, models, limit_s, notes)
  local by_name = {}
  for _, model in ipairs(models) do by_name[model.name] = model end
  local function none() return {} end
  local function check(answer, model, node)
    if answer == nil then return {} end
    options.list(answer, "columns", "a list of kinds of replicas")
    if #answer > most_columns then
      core.refuse("columns", ("%d kinds of replicas for %s are more than %d"):format(#answer, node.name, most_columns))
    end
    for i, column in ipairs(answer) do check_column(column, ("columns[%d]"):format(i), node, #classes.of(model)) end
    return answer
  end
  local call = guarded("columns", f, limit_s, notes, check, none)
  return function(name, node) return call(by_name[name], node) end
end

return M
