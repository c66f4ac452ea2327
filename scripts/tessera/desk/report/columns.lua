-- The columns of a run's table: grid keys, status, then what the script returned; where the paper has a column, its
-- numbers stand before ours and the difference after.

local rows = require "tessera.desk.rows"
local data = require "tessera.desk.plot.data"

local M = {}

local function is_number(value) return type(value) == "number" and value == value and math.abs(value) < math.huge end

local function any_value(list, name)
  for _, row in ipairs(list) do
    if rows.value(row, name) ~= nil then return true end
  end
  return false
end

local function any_number(list, name)
  for _, row in ipairs(list) do
    if is_number(rows.value(row, name)) then return true end
  end
  return false
end
M.any_number = any_number

local function set_of(names)
  local set = {}
  for _, name in ipairs(names) do set[name] = true end
  return set
end

--- Names of the run's grid keys and of the columns its rows return, in order.
function M.names(run, list)
  local declared = run.declaration or {}
  local keys = declared.keys and #declared.keys > 0 and declared.keys or rows.keys(list)
  local columns, seen = {}, set_of(keys)
  seen.status, seen.point, seen.meta, seen.error = true, true, true, true
  for _, names in ipairs { declared.columns or {}, rows.columns(list) } do
    for _, name in ipairs(names) do
      if not seen[name] then columns[#columns + 1] = name end
      seen[name] = true
    end
  end
  return keys, columns
end

-- Published numbers by point: a function of (row, column), and the columns that the paper has.
local function paper_of(run, keys, columns)
  local published = (run.declaration or {}).paper
  if type(published) ~= "table" then return nil, {} end
  if published.rows then published = published.rows end
  local is_key, known, by_point, used = set_of(keys), set_of(columns), {}, {}
  for _, name in ipairs(keys) do is_key[name] = true end
  local function place(row, names)
    local parts = {}
    for i, name in ipairs(names) do parts[i] = data.word(rows.value(row, name)) end
    return table.concat(parts, "\31")
  end
  -- A paper need not say every key: those that its first row has are what its rows are found by.
  local by = {}
  for _, name in ipairs(keys) do
    if published[1] and rows.value(published[1], name) ~= nil then by[#by + 1] = name end
  end
  for _, row in ipairs(published) do
    by_point[place(row, by)] = row
    for _, fields in ipairs { row, row.point or {} } do
      for name, value in pairs(fields) do
        if known[name] and not is_key[name] and is_number(value) then used[name] = true end
      end
    end
  end
  return function(row, name)
    local found = by_point[place(row, by)]
    return found and rows.value(found, name)
  end, used
end

local function relative(ours, paper)
  if is_number(ours) and is_number(paper) and paper ~= 0 then return 100 * (ours / paper - 1) end
end

-- What the paper has comes first: that is what a reader compares.
local function ordered(names, in_paper)
  local result = {}
  for _, name in ipairs(names) do
    if in_paper[name] then result[#result + 1] = name end
  end
  for _, name in ipairs(names) do
    if not in_paper[name] then result[#result + 1] = name end
  end
  return result
end

--- List of { name, label, role = "key" | "status" | "ours" | "paper" | "diff" | "took", value = function(row),
--- number = true for numbers with a unit, right = true for keys that are numbers }.
function M.of(run, list)
  local keys, names = M.names(run, list)
  local paper, in_paper = paper_of(run, keys, names)
  local result = {}
  local function add(column) result[#result + 1] = column end
  for _, name in ipairs(keys) do
    local column = { name = name, label = name:gsub("_", " "), role = "key" }
    function column.value(row) return row.point and row.point[name] end
    column.right = any_number(list, name)
    add(column)
  end
  add { name = "status", label = "status", role = "status", value = function(row) return row.status end }
  for _, name in ipairs(ordered(names, in_paper)) do
    local function ours(row) return row[name] end
    local number = any_number(list, name)
    if in_paper[name] then
      add { name = name, role = "paper", number = true, value = function(row) return paper(row, name) end }
    end
    if in_paper[name] and any_value(list, name) then -- what only the paper has stands alone
      add { name = name, role = "ours", number = number, value = ours }
      add { name = name, role = "diff", number = true, value = function(row)
        return relative(row[name], paper(row, name))
      end }
    elseif not in_paper[name] then
      add { name = name, role = "ours", number = number, alone = true, value = ours }
    end
  end
  add { name = "took_s", role = "took", number = true, value = function(row) return (row.meta or {}).duration_s end }
  return result
end

return M
