-- Rows of results as what a plot draws: series of points, categories in order of first appearance, and the points that
-- have no number, with why.

local escape = require "tessera.desk.escape"
local rows = require "tessera.desk.rows"

local M = {}

local most_levels = 4 -- a table may hold itself

--- A value of a row as a word: names, numbers, lists.
local function word(value, level)
  if value == nil then return "none" end
  if type(value) == "number" then return ("%.12g"):format(value) end
  if type(value) == "table" then
    if level == most_levels then return "{...}" end
    local parts = {}
    for i, item in ipairs(value) do parts[i] = word(item, (level or 0) + 1) end
    return "{" .. table.concat(parts, ", ") .. "}"
  end
  return escape.clean(tostring(value))
end
M.word = word

-- Beyond it the length of an axis is no number any more.
local largest = 1e300

local good = { done = true, optimal = true, feasible = true }

-- The finite number in a column, or nil and why there is none.
local function number_of(row, column, log)
  local value = rows.value(row, column)
  if type(value) == "number" then
    if value ~= value or math.abs(value) == math.huge then return nil, "not finite" end
    if math.abs(value) > largest then return nil, ("beyond %g"):format(largest) end
    if log and value <= 0 then return nil, ("%g, which a log axis cannot show"):format(value) end
    return value
  end
  if value ~= nil then return nil, "not a number" end
  local status = row.status
  return nil, (status ~= nil and not good[status]) and word(status) or "no value"
end

--- Kinds that show an interval around each point.
M.with_intervals = { lines = true, bars = true, scatter = true }

-- The interval around a point: between two columns, or of a mean.
local function interval_of(row, opt, y)
  local low, high
  if not M.with_intervals[opt.kind] then return nil end
  if opt.low then
    low, high = number_of(row, opt.low, opt.log_y), number_of(row, opt.high, opt.log_y)
  elseif opt.over then
    local half = number_of(row, opt.y .. "_half")
    if half then low, high = y - half, y + half end
  end
  if not low or not high or opt.log_y and low <= 0 then return nil end
  return math.min(low, high), math.max(low, high)
end

--- What the intervals of a plot are called; nil where no point has one.
function M.interval_name(data, opt)
  for _, series in ipairs((data.whole or data).series) do
    for _, point in ipairs(series.points) do
      if point.low then return opt.low and ("%s to %s"):format(opt.low, opt.high) or "95 % interval" end
    end
  end
end

local function all_numbers(list, column)
  for _, row in ipairs(list) do
    local value = rows.value(row, column)
    if value ~= nil and type(value) ~= "number" then return false end
  end
  return true
end

-- An index for each text, in order of first appearance.
local function new_order()
  local order = { list = {}, index = {} }
  function order.of(text)
    if not order.index[text] then
      order.list[#order.list + 1] = text
      order.index[text] = #order.list
    end
    return order.index[text]
  end
  return order
end

-- Categories that are numbers go by size: 2 before 16.
local function sort_numbers(order, list, column)
  if not all_numbers(list, column) then return end
  table.sort(order.list, function(a, b) return (tonumber(a) or math.huge) < (tonumber(b) or math.huge) end)
  for i, text in ipairs(order.list) do order.index[text] = i end
end

--- Words of a column, numbers by size: { list, index, of }.
function M.category_order(list, column)
  local order = new_order()
  for _, row in ipairs(list) do order.of(word(rows.value(row, column))) end
  sort_numbers(order, list, column)
  return order
end

--- series[i] = { name, points = { { x, y, low, high, row } }, missing = { { x, y, why, row } } }; `x_words` and
--- `y_words` are the categories where an axis has words instead of numbers, and x and y then are their index.
function M.read(opt)
  local heat = opt.kind == "heatmap"
  local by_word = opt.kind == "bars" or heat or not all_numbers(opt.rows, opt.x)
  if opt.kind == "pareto" or opt.kind == "cdf" or (opt.kind == "scatter" and opt.log_x) then by_word = false end
  local data = { series = {}, num_points = 0 }
  local x_order = by_word and M.category_order(opt.rows, opt.x)
  local y_order = heat and M.category_order(opt.rows, opt.y)
  local names = opt.by and M.category_order(opt.rows, opt.by) or { list = { "" }, index = { [""] = 1 } }
  for i, name in ipairs(names.list) do data.series[i] = { name = name, points = {}, missing = {} } end
  for _, row in ipairs(opt.rows) do
    local series = data.series[names.index[opt.by and word(rows.value(row, opt.by)) or ""]]
    local item, why_x, why_y = { row = row }, nil, nil
    if by_word then item.x = x_order.of(word(rows.value(row, opt.x)))
    else item.x, why_x = number_of(row, opt.x, opt.log_x) end
    if heat then
      item.y = y_order.of(word(rows.value(row, opt.y)))
      item.value, why_y = number_of(row, opt.value)
    elseif opt.kind ~= "cdf" then
      item.y, why_y = number_of(row, opt.y, opt.log_y)
      if item.y then item.low, item.high = interval_of(row, opt, item.y) end
    end
    item.why = why_y or why_x
    local list = item.why and series.missing or series.points
    list[#list + 1] = item
    if not item.why then data.num_points = data.num_points + 1 end
  end
  data.x_words, data.y_words = x_order and x_order.list, y_order and y_order.list
  return data
end

--- Least and largest of `field` over all points, of y with their intervals, nil where there are none; of a facet, those
--- of all facets.
function M.range(data, field)
  data = data.whole or data
  local low, high
  for _, series in ipairs(data.series) do
    for _, point in ipairs(series.points) do
      local value = point[field]
      local least, most = value, value
      if field == "y" and point.low then least, most = math.min(value, point.low), math.max(value, point.high) end
      low, high = math.min(low or least, least), math.max(high or most, most)
    end
  end
  return low, high
end

--- How many rows have no number, by reason: "2 infeasible, 1 no value"; nil where all have one.
function M.missing_text(data)
  local counts, order = {}, {}
  for _, series in ipairs(data.series) do
    for _, item in ipairs(series.missing) do
      if not counts[item.why] then order[#order + 1] = item.why end
      counts[item.why] = (counts[item.why] or 0) + 1
    end
  end
  if #order == 0 then return nil end
  table.sort(order)
  local parts = {}
  for i, why in ipairs(order) do
    if i == 5 then
      parts[i] = "…"
      break
    end
    parts[i] = ("%d %s"):format(counts[why], why)
  end
  return table.concat(parts, ", ")
end

return M
