-- `tessera strategies`: three ways to run a batch on a fast and a slow GPU, what each takes and costs, and which is the
-- cheapest within a limit on latency.

local core = require "tessera.core"
local host = require "tessera.host"
local taken = require "tessera.cli.taken"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local defaults = { prompt_tokens = 512, output_tokens = 64, batch_size = 32, link_gbps = 16, formulas = "profile" }

-- { "A10", "T4-16G" } is a pair; of { "A10+T4-16G", "A10" } each is a configuration.
local function configurations_of(names)
  if not table.concat(names):find("+", 1, true) then return { names } end
  local list = {}
  for i, text in ipairs(names) do
    list[i] = {}
    for name in text:gmatch "[^+%s]+" do list[i][#list[i] + 1] = name end
  end
  return list
end

-- By device; where one has no price, nothing is paid for any, and the faster wins.
local function prices_of(given, configurations)
  local prices, unknown, free = taken.usd_per_hour(given), nil, {}
  for _, devices in ipairs(configurations) do
    for _, name in ipairs(devices) do
      local device = core.device(name)
      free[device.name] = 0
      if not (prices[device.name] or device.price_usd_per_h) then unknown = device.name end
    end
  end
  if not unknown then return prices end
  return free, ("Nothing is counted as paid: no price of %s is known; --usd-per-hour %s=1.29 gives one, and the "
    .. "cheapest is chosen.\n"):format(unknown, unknown)
end

local function head_text(given)
  local slo = given.slo_s_per_token and (", at most %g s a token"):format(given.slo_s_per_token) or ""
  local by = given.formulas == "profile" and "by Tessera's prices and memory"
    or ("by FlexLLM's equations (%s)"):format(given.formulas)
  return ("%s, %d requests of %d prompt and %d output tokens, link %g Gb/s%s; %s\n"):format(given.model,
    given.batch_size, given.prompt_tokens, given.output_tokens, given.link_gbps, slo, by)
end

local function plain_row(row)
  local copy = {}
  for key, value in pairs(row) do copy[key] = value end
  copy.plan = row.plan and row.plan:to_table()
  if copy.tokens_per_usd == math.huge then copy.tokens_per_usd = nil end -- which JSON does not have
  return copy
end

local function as_data(found, why)
  local data = { candidates = {}, notes = found.notes, why = why and why.message }
  for i, row in ipairs(found) do data.candidates[i] = plain_row(row) end
  if found.chosen then data.chosen = { strategy = found.chosen.strategy, devices = found.chosen.devices } end
  if found.exact then
    data.exact = {}
    for key, value in pairs(found.exact) do
      data.exact[key] = type(value) == "userdata" and value:to_table() or value
    end
    if data.exact.tokens_per_usd == math.huge then data.exact.tokens_per_usd = nil end
  end
  return data
end

--- @param given table the flags
function M.main(given)
  for name, value in pairs(defaults) do given[name] = given[name] or value end
  local configurations = configurations_of(given.devices)
  local prices, unpaid = prices_of(given, configurations)
  local found, why = ts.select_strategy {
    model = given.model, devices = configurations, link_gbps = given.link_gbps,
    workload = { prompt_tokens = given.prompt_tokens, output_tokens = given.output_tokens,
      batch_size = given.batch_size },
    slo = { s_per_token = given.slo_s_per_token }, formulas = given.formulas, exact = given.exact,
    time_limit_s = given.time_limit_s, prices = prices,
  }
  local rows = found or why.candidates
  if host.json then
    host.set_result(as_data(rows, why))
  else
    terminal.say(terminal.wrapped(head_text(given)) .. tostring(rows) .. "\n"
      .. terminal.wrapped((why and why.message .. "\n" or "") .. (unpaid or "")))
  end
  return found and 0 or 3
end

return M
