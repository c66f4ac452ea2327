-- Whether a plot hides what its rows differ in: two rows at one place of one series are one line that goes up and down,
-- or two bars that look like one thing twice, where nothing tells that they are of different clusters.

local data = require "tessera.desk.plot.data"
local rows = require "tessera.desk.rows"
local sorted_keys = require "tessera.sorted_keys"

local M = {}

local at_places = { lines = true, bars = true, heatmap = true }

-- What names a row: its point, or, of a plain row, its words (its numbers are what came out).
local function names_of(row)
  if type(row.point) == "table" then return row.point end
  local words = {}
  for name, value in pairs(row) do
    if type(name) == "string" and type(value) ~= "number" and type(value) ~= "table" then words[name] = value end
  end
  words.status, words.error, words.point, words.meta = nil, nil, nil, nil
  return words
end

-- A line over what came out, as latency over omega, goes on through all points of its series.
local function goes_on(opt, row)
  return opt.kind == "lines" and type(row.point) == "table" and row.point[opt.x] == nil
end

local function place_of(opt, row)
  local x = not goes_on(opt, row) and opt.x or nil
  local parts = {}
  for _, name in ipairs { x or "", opt.by or "", opt.facet or "", opt.kind == "heatmap" and opt.y or "" } do
    parts[#parts + 1] = name ~= "" and data.word(rows.value(row, name)) or ""
  end
  return table.concat(parts, "\31")
end

--- Names of the columns in which rows at one place differ and which the plot does not show; nil where there are none.
--- Along a line over what came out a number may change, as theta does along a front; a word may not.
function M.columns(opt)
  if not at_places[opt.kind] then return nil end
  local shown, first, hidden = {}, {}, {}
  for _, option in ipairs { "x", "y", "by", "value", "facet" } do shown[opt[option] or ""] = true end
  for _, row in ipairs(opt.rows) do
    local place, names = place_of(opt, row), names_of(row)
    local words_only, other = goes_on(opt, row), first[place]
    first[place] = other or names
    for name, value in pairs(other and names or {}) do
      local counts = not shown[name] and (not words_only or type(value) == "string")
      if counts and data.word(value) ~= data.word(other[name]) then hidden[name] = true end
    end
  end
  local found = sorted_keys(hidden)
  return #found > 0 and found or nil
end

--- The values of a column, in order of first appearance.
function M.values(list, column)
  local seen, values = {}, {}
  for _, row in ipairs(list) do
    local word = data.word(rows.value(row, column))
    if not seen[word] then values[#values + 1] = word end
    seen[word] = true
  end
  return values
end

return M
