-- Small multiples: one small plot per value of a column, with the same axes, colours and legend, so that they compare.

local curves = require "tessera.desk.plot.curves"
local data_of = require "tessera.desk.plot.data"
local frames = require "tessera.desk.plot.frame"
local rows = require "tessera.desk.rows"

local M = {}

--- More are a wall of stamps.
M.most = 36

local narrowest = 270 -- pixels of one

--- The data of each facet, in order: { name, data }. `data`: of all rows.
function M.split(data, opt)
  local parts, by_name = {}, {}
  for _, name in ipairs(data_of.category_order(opt.rows, opt.facet).list) do
    local part = { series = {}, num_points = 0, x_words = data.x_words, y_words = data.y_words, whole = data }
    for s, series in ipairs(data.series) do part.series[s] = { name = series.name, points = {}, missing = {} } end
    by_name[name] = part
    parts[#parts + 1] = { name = name, data = part }
  end
  for s, series in ipairs(data.series) do
    for _, kind in ipairs { "points", "missing" } do
      for _, item in ipairs(series[kind]) do
        local part = by_name[data_of.word(rows.value(item.row, opt.facet))]
        table.insert(part.series[s][kind], item)
        if kind == "points" then part.num_points = part.num_points + 1 end
      end
    end
  end
  for _, part in ipairs(opt.kind == "cdf" and parts or {}) do curves.cumulate(part.data) end
  return parts
end

--- The options of one facet: its own title and size, and no legend.
function M.options(opt, name, width, height)
  local copy = {}
  for key, value in pairs(opt) do copy[key] = value end
  copy.title, copy.facet, copy.no_legend = ("%s: %s"):format(opt.facet, name), nil, true
  copy.width, copy.height, copy.summary = width, height, ("%s, %s"):format(opt.summary, copy.title)
  return copy
end

--- A page with all of them; draw(data, opt) draws one.
function M.draw(data, opt, draw, legend)
  local parts = M.split(data, opt)
  local columns = math.max(1, math.min(#parts, math.floor(opt.width / narrowest)))
  local width, height = math.floor(opt.width / columns), math.max(220, math.floor(opt.height * 0.66))
  local page, top = frames.heading(opt, legend)
  local left, tallest = 0, 0
  for i, part in ipairs(parts) do
    local inner = part.data.num_points > 0 and draw(part.data, M.options(opt, part.name, width, height))
      or frames.empty(M.options(opt, part.name, width, height), data_of.missing_text(part.data) or "no rows")
    page:place(inner, left, top)
    left, tallest = left + width, math.max(tallest, inner.height)
    if i % columns == 0 or i == #parts then left, top, tallest = 0, top + tallest, 0 end
  end
  page.height = math.ceil(top)
  return page
end

return M
