-- What differs between two lists of rows, point by point.

local store = require "tessera.store"
local rows = require "tessera.desk.rows"
local sheet = require "tessera.desk.sheet"

local M = {}

local function by_key(list)
  local found = {}
  for _, row in ipairs(list) do found[store.key(row.point)] = row end
  return found
end

local function without(list, others)
  local left = {}
  for _, row in ipairs(list) do
    if not others[store.key(row.point)] then left[#left + 1] = row end
  end
  return left
end

local function same(a, b)
  if type(a) == "table" and type(b) == "table" then return store.key(a) == store.key(b) end
  return a == b
end

-- (new - old) / |old|; nil where that means nothing.
local function relative_difference(old, new)
  if type(old) ~= "number" or type(new) ~= "number" then return nil end
  if old ~= 0 then return (new - old) / math.abs(old) end
end

--- { only_old, only_new: rows; changed: list of { point, column, old, new, relative_difference }; num_same: rows }.
--- `columns`: which to compare, status and error among them; default: all.
function M.compare(old, new, columns)
  local old_rows, new_rows = by_key(old), by_key(new)
  local both = {}
  for _, list in ipairs { old, new } do
    for _, row in ipairs(list) do both[#both + 1] = row end
  end
  local names = columns
  if not names then
    names = rows.columns(both)
    table.insert(names, 1, "error")
    table.insert(names, 1, "status")
  end
  local result = { only_old = without(old, new_rows), only_new = without(new, old_rows), changed = {}, num_same = 0 }
  for _, row in ipairs(old) do
    local other = new_rows[store.key(row.point)]
    local before = #result.changed
    for _, name in ipairs(other and names or {}) do
      if not same(row[name], other[name]) then
        result.changed[#result.changed + 1] = { point = row.point, column = name, old = row[name], new = other[name],
          relative_difference = relative_difference(row[name], other[name]) }
      end
    end
    if other and #result.changed == before then result.num_same = result.num_same + 1 end
  end
  return result
end

local function percent(ratio) return ratio and ("%+.3g %%"):format(100 * ratio) end

--- The changes as a sheet: the point's keys, column, old, new, difference.
function M.sheet(result)
  local keys = rows.keys(result.changed)
  local page = { columns = { unpack(keys) }, lines = {} }
  local num_keys = #keys
  for i, name in ipairs { "column", "old", "new", "difference" } do page.columns[num_keys + i] = name end
  for l, change in ipairs(result.changed) do
    local line = {}
    for k, key in ipairs(keys) do line[k] = change.point[key] end
    line[num_keys + 1], line[num_keys + 2], line[num_keys + 3] = change.column, change.old, change.new
    line[num_keys + 4] = percent(change.relative_difference)
    page.lines[l] = line
  end
  return page
end

local function points_text(list, name)
  if #list == 0 then return "" end
  return ("\nonly in %s:\n%s"):format(name, sheet.table(rows.sheet(list)))
end

--- For people to read; `old_name` and `new_name` say what was compared.
function M.text(result, old_name, new_name)
  local changed_points = {}
  for _, change in ipairs(result.changed) do changed_points[store.key(change.point)] = true end
  local num_changed = 0
  for _ in pairs(changed_points) do num_changed = num_changed + 1 end
  local text = ("%s against %s: %d rows the same, %d changed, %d only in the first, %d only in the second\n")
    :format(old_name, new_name, result.num_same, num_changed, #result.only_old, #result.only_new)
  if num_changed > 0 then
    text = text .. "\n" .. sheet.table(M.sheet(result))
  end
  return text .. points_text(result.only_old, old_name) .. points_text(result.only_new, new_name)
end

return M
