-- ts.repeated(rows, over): rows that differ in one key alone, which counts repetitions, as one row with means and their
-- 95 % intervals, for ts.table, ts.plot and claims.

local core = require "tessera.core"
local grouped = require "tessera.grouped"
local rows = require "tessera.desk.rows"
local student_t = require "tessera.models.student_t"

local share = 0.95

local function point_without(row, over)
  local point = {}
  for key, value in pairs(row.point) do
    if key ~= over then point[key] = value end
  end
  return point
end

-- What all rows have: the mean of numbers with its half width, other values where they agree.
local function add_column(result, list, name)
  local values, all_numbers, same = {}, true, true
  for i, row in ipairs(list) do
    values[i] = row[name]
    all_numbers = all_numbers and type(row[name]) == "number"
    same = same and row[name] == list[1][name]
  end
  if #values < #list then return end
  if all_numbers then
    result[name], result[name .. "_half"] = student_t.mean_and_half(values, share)
  elseif same then
    result[name] = values[1]
  end
end

local function of_group(group, over)
  local done = {}
  for _, row in ipairs(group) do
    if not rows.failed(row) then done[#done + 1] = row end
  end
  local result = { point = point_without(group[1], over), repetitions = #done }
  local first = done[1] or group[1]
  result.status, result.error = first.status, #done == 0 and first.error or nil
  for _, name in ipairs(rows.columns(done)) do add_column(result, done, name) end
  return result
end

local function repeated(list, over)
  if type(list) ~= "table" then core.refuse("ts.repeated.rows", "rows belong here, not a " .. type(list)) end
  for i, row in ipairs(list) do
    if type(row) ~= "table" or type(row.point) ~= "table" or row.point[over] == nil then
      core.refuse(("ts.repeated.rows[%d]"):format(i), ("it is of no point with a key '%s'"):format(tostring(over)))
    end
  end
  local result = {}
  local alike = grouped(list, function(row) return core.to_json(point_without(row, over)) end)
  for i, group in ipairs(alike) do result[i] = of_group(group, over) end
  return result
end

core.document {
  name = "ts.repeated",
  doc = "Rows of an experiment that differ in one key alone, which counts repetitions, as one row each: the mean of "
    .. "each column of numbers, COLUMN_half, half of its 95 % interval by Student's t, and repetitions, how many there "
    .. "are. Failed ones are left out; other columns stay where all agree.",
  parameters = {
    { "rows", "table[]", "{ point = {...}, columns... }, as t:rows and results:rows give them" },
    { "over", "string", "The key: rep" },
  },
  returns = "table[]",
}

return repeated
