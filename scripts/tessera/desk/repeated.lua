-- ts.repeated(rows, over, against): rows that differ in one key alone, which counts repetitions, as one row with means
-- and their 95 % intervals, for tables, plots and claims; with `against`, of differences to that point, in pairs.

local core = require "tessera.core"
local grouped = require "tessera.grouped"
local rows = require "tessera.desk.rows"
local sorted_keys = require "tessera.sorted_keys"
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

-- "planner=uniform"
local function against_text(against)
  local parts = {}
  for _, key in ipairs(sorted_keys(against)) do parts[#parts + 1] = key .. "=" .. tostring(against[key]) end
  return table.concat(parts, " ")
end

-- A row less its partner: its numbers are differences.
local function difference(row, partner)
  local result = { point = row.point, status = row.status, error = row.error }
  if rows.failed(partner) then result.status, result.error = partner.status, partner.error end
  for name, value in pairs(row) do
    if type(value) == "number" and type(partner[name]) == "number" then result[name] = value - partner[name] end
  end
  return result
end

-- Each row less the one that has the values of `against` and all else, the repetition too, as it has; what has no such
-- partner, and the partners themselves, are left out.
local function differences(list, against)
  local partners, result, found = {}, {}, false
  local function place(point)
    local copy = {}
    for key, value in pairs(point) do copy[key] = value end
    for key, value in pairs(against) do copy[key] = value end
    return core.to_json(copy)
  end
  for _, row in ipairs(list) do partners[core.to_json(row.point)] = row end
  for _, row in ipairs(list) do
    local partner = partners[place(row.point)]
    found = found or partner ~= nil
    if partner and partner ~= row then result[#result + 1] = difference(row, partner) end
  end
  if not found and #list > 0 then
    core.refuse("ts.repeated.against", ("no row has %s"):format(against_text(against)))
  end
  return result
end

local function check_against(list, over, against)
  if type(against) ~= "table" or next(against) == nil then
    core.refuse("ts.repeated.against", "values of keys belong here, { planner = \"uniform\" }")
  end
  for key in pairs(against) do
    if key == over then core.refuse("ts.repeated.against", ("'%s' counts the repetitions"):format(over)) end
    if #list > 0 and list[1].point[key] == nil then
      core.refuse("ts.repeated.against", ("no key '%s'%s"):format(tostring(key),
        core.did_you_mean(tostring(key), rows.keys(list))))
    end
  end
end

local function repeated(list, over, against)
  if type(list) ~= "table" then core.refuse("ts.repeated.rows", "rows belong here, not a " .. type(list)) end
  for i, row in ipairs(list) do
    if type(row) ~= "table" or type(row.point) ~= "table" or row.point[over] == nil then
      core.refuse(("ts.repeated.rows[%d]"):format(i), ("it is of no point with a key '%s'"):format(tostring(over)))
    end
  end
  if against ~= nil then
    check_against(list, over, against)
    list = differences(list, against)
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
    .. "are. Failed ones are left out; other columns stay where all agree. With `against` the numbers are differences "
    .. "to the point that has these values and is the same else, taken repetition by repetition: an interval without "
    .. "0 is a difference that the repetitions show (a paired test).",
  parameters = {
    { "rows", "table[]", "{ point = {...}, columns... }, as t:rows and results:rows give them" },
    { "over", "string", "The key: rep" },
    { "against", "table?", "Values that the other of each pair has: { planner = \"uniform\" }" },
  },
  returns = "table[]",
}

return repeated
