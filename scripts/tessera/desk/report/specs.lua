-- Which plots a run has: those that its experiment declares, or the obvious ones of its rows.

local columns_of = require "tessera.desk.report.columns"
local hidden = require "tessera.desk.plot.hidden"
local units = require "tessera.desk.units"

local M = {}

local max_facets, max_bars = 12, 60

-- What a run is about: throughput where it has one, else the first returned column with a better end, else any number.
function M.goal(list, names)
  for _, name in ipairs(names) do
    if name:find "_tok_s$" and columns_of.any_number(list, name) then return name end
  end
  for _, name in ipairs(names) do
    if units.better(name) and columns_of.any_number(list, name) then return name end
  end
  for _, name in ipairs(names) do
    if columns_of.any_number(list, name) then return name end
  end
end

local function default_spec(list, keys, y)
  local x, by = keys[1], keys[2]
  if #list == 0 or not x then return nil end
  local num_x, num_by = #hidden.values(list, x), by and #hidden.values(list, by) or 1
  local number = columns_of.any_number(list, x)
  if num_by > 12 then return number and { kind = "scatter", x = x, y = y } or { kind = "cdf", x = y } end
  if number and num_x > 2 then return { kind = "lines", x = x, y = y, by = by } end
  if num_x * num_by > max_bars then return { kind = "cdf", x = y, by = by } end
  return { kind = "bars", x = x, y = y, by = by }
end

-- One picture, with a small plot per value of a third key. What would take more than that, or more keys, is shown as a
-- distribution.
local function default_specs(list, keys, y)
  local spec, others = default_spec(list, keys, y), {}
  if not spec then return {} end
  for i = 3, #keys do
    if #hidden.values(list, keys[i]) > 1 then others[#others + 1] = keys[i] end
  end
  if #others > 1 or (others[1] and #hidden.values(list, others[1]) > max_facets) then
    return { { kind = "cdf", x = y, by = spec.by } }
  end
  spec.facet = others[1]
  return { spec }
end

--- The plots that suit rows whose experiment declares none.
function M.obvious(run, list)
  local keys, names = columns_of.names(run, list)
  local y, over = M.goal(list, names), run.declaration.over
  if not y then return {} end
  if not over then return default_specs(list, keys, y) end
  local others = {}
  for _, key in ipairs(keys) do
    if key ~= over then others[#others + 1] = key end
  end
  local specs = default_specs(list, others, y)
  for _, spec in ipairs(specs) do spec.over = over end
  return specs
end

--- Options of ts.plot without rows: those that are declared, or the obvious ones.
function M.of(run, list)
  local declared, result = run.declaration.plots, {}
  if type(declared) ~= "table" or #declared == 0 then return M.obvious(run, list) end
  for i, spec in ipairs(declared) do
    result[i] = {}
    for key, value in pairs(spec) do result[i][key] = value end
  end
  return result
end

return M
