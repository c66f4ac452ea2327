-- What the paper printed, beside the rows of an experiment: a row gets "paper.NAME" where the paper has a number in the
-- column NAME, and "diff.NAME", ours over it less one, where both have one.

local M = {}

local paper_mark, diff_mark = "paper.", "diff."

local function is_number(value) return type(value) == "number" and value == value and math.abs(value) < math.huge end

--- "paper" or "diff" and the column NAME, or nil for what is no column of these.
function M.split(name)
  if name:sub(1, #paper_mark) == paper_mark then return "paper", name:sub(#paper_mark + 1) end
  if name:sub(1, #diff_mark) == diff_mark then return "diff", name:sub(#diff_mark + 1) end
end

-- The columns in which the paper has a number somewhere, in its order.
local function columns_of(paper)
  local found, seen = {}, {}
  local function look(name)
    if seen[name] or type(name) ~= "string" then return end
    for _, row in ipairs(paper.rows) do
      if is_number(row[name]) then
        seen[name], found[#found + 1] = true, name
        return
      end
    end
  end
  for _, name in ipairs(type(paper.columns) == "table" and paper.columns or {}) do look(name) end
  return found
end

-- By the values of `keys`; a number and the word that reads like it are two.
local function place(point, keys)
  local parts = {}
  for i, key in ipairs(keys) do
    local value = point[key]
    parts[i] = type(value) == "number" and ("n%.17g"):format(value) or type(value):sub(1, 1) .. tostring(value)
  end
  return table.concat(parts, "\31")
end

--- { columns, row = function(point) } of what ts.paper gave or a declaration stored; nil where nothing is in print.
function M.of(paper)
  if type(paper) ~= "table" or type(paper.rows) ~= "table" or type(paper.keys) ~= "table" then return nil end
  local by_place = {}
  for _, row in ipairs(paper.rows) do
    if type(row) ~= "table" or type(row.point) ~= "table" then return nil end
    by_place[place(row.point, paper.keys)] = row
  end
  local columns = columns_of(paper)
  if #columns == 0 then return nil end
  return { columns = columns, row = function(point) return by_place[place(point, paper.keys)] or {} end }
end

--- Ours over the published number, less one; nil where one of them is none.
function M.difference(ours, theirs)
  if is_number(ours) and is_number(theirs) and theirs ~= 0 then return ours / theirs - 1 end
end

--- Adds "paper.NAME" and "diff.NAME" to the rows. `published`: of M.of, or nil.
function M.annotate(list, published)
  if not published then return list end
  for _, row in ipairs(list) do
    local printed = published.row(row.point)
    for _, name in ipairs(published.columns) do
      row[paper_mark .. name] = printed[name]
      row[diff_mark .. name] = M.difference(row[name], printed[name])
    end
  end
  return list
end

--- Names of columns with those of the paper beside: "paper.NAME" before NAME, "diff.NAME" behind. A column that no row
--- has stands for the paper's alone. `list`: annotated rows.
function M.beside(names, list, published)
  local printed, ours, result = {}, {}, {}
  for _, name in ipairs(published and published.columns or {}) do printed[name] = true end
  for _, row in ipairs(list) do
    for _, name in ipairs(names) do ours[name] = ours[name] or row[name] ~= nil end
  end
  for _, name in ipairs(names) do
    if printed[name] then result[#result + 1] = paper_mark .. name end
    if ours[name] or not printed[name] then result[#result + 1] = name end
    if printed[name] and ours[name] then result[#result + 1] = diff_mark .. name end
  end
  return result
end

--- What people read above a column among the columns `names`: "paper", "diff", or "NAME (paper)" for one that stands
--- without NAME.
function M.heading(name, names)
  local kind, column = M.split(name)
  if not kind then return name end
  for _, other in ipairs(names) do
    if other == column then return kind end
  end
  return ("%s (%s)"):format(column, kind)
end

-- The published column that a word "paper" or "diff" at `place` of a list of names is about: the next of the names
-- that has one, or for "diff" the last before.
local function partner(names, at, published)
  local printed = {}
  for _, name in ipairs(published.columns) do printed[name] = true end
  local ahead, behind
  for i = #names, at + 1, -1 do ahead = printed[names[i]] and names[i] or ahead end
  for i = 1, at - 1 do behind = printed[names[i]] and names[i] or behind end
  if names[at] == "diff" then return behind or ahead end
  return ahead or behind
end

--- The names with "paper" and "diff" as columns: of the name beside them, or of all that the paper has; a name that
--- only the paper has is the paper's. `list`: annotated rows.
function M.expand(names, published, list)
  if not names or not published then return names end
  local result, ours = {}, {}
  for _, row in ipairs(list) do
    for name in pairs(row) do ours[name] = true end
  end
  for i, name in ipairs(names) do
    if ours[name] or (name ~= "paper" and name ~= "diff") then
      result[#result + 1] = not ours[name] and ours[paper_mark .. name] and paper_mark .. name or name
    else
      local column = partner(names, i, published)
      for _, of in ipairs(column and { column } or published.columns) do result[#result + 1] = name .. "." .. of end
    end
  end
  return result
end

--- A row with { paper = { NAME = }, diff = { NAME = } } in place of "paper.NAME" and "diff.NAME", for JSON.
function M.nested(row)
  local result = {}
  for name, value in pairs(row) do
    local kind, column = M.split(name)
    if kind and (row[kind] == nil) then
      result[kind] = result[kind] or {}
      result[kind][column] = value
    else
      result[name] = value
    end
  end
  return result
end

return M
