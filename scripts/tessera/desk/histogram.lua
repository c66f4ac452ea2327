-- ts.histogram(values, edges): how many values lie between the edges, as rows for ts.table and ts.plot.

local core = require "tessera.core"
local options = require "tessera.options"

local fail = core.refuse

local function label(from, to)
  if to == math.huge then return ("from %g"):format(from) end
  return ("%g-%g"):format(from, to - 1)
end

-- Edges { 0, 128, 513 } make 0-127, 128-512 and from 513. Values are whole: the label says the last one of a bucket.
local function histogram(values, edges)
  options.list(values, "ts.histogram values", "a list of numbers")
  options.list(edges, "ts.histogram edges", "a list of numbers")
  if #edges == 0 then fail("ts.histogram edges", "at least one number is needed") end
  local rows = {}
  for i, from in ipairs(edges) do
    local to = edges[i + 1] or math.huge
    if type(from) ~= "number" or type(to) ~= "number" or from >= to or to ~= to then
      fail(("ts.histogram edges[%d]"):format(i), "numbers that ascend are needed")
    end
    rows[i] = { from = from, to = to < math.huge and to or nil, label = label(from, to), count = 0, share = 0 }
  end
  for i, value in ipairs(values) do
    if type(value) ~= "number" or value < edges[1] or value ~= value then
      fail(("ts.histogram values[%d]"):format(i), ("a number of at least %g is needed"):format(edges[1]))
    end
    local low, high = 1, #edges
    while low < high do
      local middle = math.ceil((low + high) / 2)
      if value >= edges[middle] then low = middle else high = middle - 1 end
    end
    rows[low].count = rows[low].count + 1
  end
  for _, row in ipairs(rows) do row.share = #values > 0 and row.count / #values or 0 end
  return rows
end

core.document {
  name = "ts.histogram",
  doc = "How many values lie between edges: rows with label, from, to, count and share, for ts.table and ts.plot.",
  parameters = {
    { "values", "number[]", "Whole numbers, none below the first edge" },
    { "edges", "number[]", "Ascending; a bucket begins at each, the last has no end" },
  },
  returns = "table[]",
}

return histogram
