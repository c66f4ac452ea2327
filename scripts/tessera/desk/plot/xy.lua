-- kind = "lines", "scatter", "pareto", "cdf": points on two axes of numbers (words on x where a column has words).

local axis = require "tessera.desk.plot.axis"
local curves = require "tessera.desk.plot.curves"
local frames = require "tessera.desk.plot.frame"
local read = require "tessera.desk.plot.data"
local svg = require "tessera.desk.picture.svg"
local units = require "tessera.desk.units"

local M = {}

local least_named = 480 -- pixels of a plot that has room for names beside its lines
local many = 1500 -- points beyond which each is a dot without tooltip
local crowded = 300 -- points beyond which a curve has no markers
local band_opacity = "0.18"

local function swatch(index, lines)
  return function(page, x, y)
    local slot = svg.slot(index)
    if lines then
      page:line(x - 10, y, x + 10, y, { class = "ts-line ts-k" .. slot, ["stroke-dasharray"] = svg.dashes[slot] })
    end
    page:marker(index, x, y)
  end
end

--- A piece of a band, or a whisker.
function M.interval_swatch(opt)
  return function(page, x, y)
    if opt.kind == "lines" then
      page:rect(x - 10, y - 5, 20, 10, { class = "ts-f5", opacity = band_opacity })
    else
      page:whisker(x, y + 5, y - 5, { class = "ts-line ts-k5" })
    end
  end
end

--- Name and swatch of every series.
function M.legend(data, opt)
  local entries = {}
  if #data.series > 1 or data.series[1].name ~= "" then
    for i, series in ipairs(data.series) do
      entries[i] = { name = series.name, draw = swatch(i, opt.kind == "lines" or opt.kind == "cdf") }
    end
  end
  local interval = read.interval_name(data, opt)
  if interval then entries[#entries + 1] = { name = interval, draw = M.interval_swatch(opt) } end
  if opt.kind == "pareto" then
    entries[#entries + 1] = { name = "front: nothing better in both", draw = function(page, x, y)
      page:line(x - 10, y, x + 10, y, { class = "ts-line ts-axis", ["stroke-dasharray"] = "5 3" })
    end }
  end
  return entries
end

local function axes(data, opt)
  local function one(field, column, log, words)
    if words then return axis.words(words), units.of(column, 1) end
    local low, high = read.range(data, field)
    if opt.kind == "cdf" and field == "y" then
      return axis.numbers(0, 1, {}), { label = "share of points (ratio)", unit = "", worth = 1 }
    end
    local unit = units.of(column, math.max(math.abs(low), math.abs(high)))
    return axis.numbers(low / unit.worth, high / unit.worth, { log = log, num_ticks = field == "x" and 7 or 5 }), unit
  end
  local x_axis, x_unit = one("x", opt.x, opt.log_x, data.x_words)
  local y_axis, y_unit = one("y", opt.y, opt.log_y)
  return x_axis, x_unit, y_axis, y_unit
end
M.axes = axes

--- " (12 to 14 s)" where the point has an interval.
function M.interval_text(item, unit)
  if not item.low then return "" end
  return (" (%s to %s)"):format(units.number(item.low / unit.worth), units.value(item.high, unit))
end

local function tip_of(data, series, item, x_unit, y_unit)
  local x = data.x_words and data.x_words[item.x] or units.value(item.x, x_unit)
  return ("%s%s, %s%s"):format(series.name ~= "" and series.name .. ": " or "", x, units.value(item.y, y_unit),
    M.interval_text(item, y_unit))
end

local function pixels(frame, points, scale)
  local list = {}
  for i, item in ipairs(points) do list[i] = { frame.x(item.x / scale.x), frame.y(item.y / scale.y) } end
  return list
end

-- The intervals of a series: bands along a line, whiskers where a point stands alone.
local function draw_intervals(frame, series, slot, opt, scale)
  local y = function(value) return frame.y(value / scale.y) end
  local function whisker(item_x, low, high)
    frame.page:whisker(frame.x(item_x / scale.x), y(low), y(high), { class = "ts-line ts-k" .. slot })
  end
  if opt.kind ~= "lines" then
    for _, item in ipairs(series.points) do
      if item.low then whisker(item.x, item.low, item.high) end
    end
    return
  end
  for _, band in ipairs(curves.bands(series.points)) do
    if #band == 2 then whisker(band[1].x, band[2].y, band[1].y)
    else frame.page:polygon(pixels(frame, band, scale), { class = "ts-f" .. slot, opacity = band_opacity }) end
  end
end

-- The name at the end of a line, where no other name is in its way; the legend has all of them anyway.
local function direct_labels(frame, ends)
  table.sort(ends, function(a, b) return a.y < b.y end)
  local last = -math.huge
  for _, item in ipairs(ends) do
    local width = svg.text_width(item.name, 11)
    if item.y - last > 14 and item.x + width + 10 < frame.page.width then
      frame.page:text(item.x + 9, item.y + 4, item.name, { class = "ts-text ts-small" })
      last = item.y
    end
  end
end

local function draw_points(frame, data, opt, scale)
  local ends = {}
  for i, series in ipairs(data.series) do
    local slot, points = svg.slot(i), series.points
    draw_intervals(frame, series, slot, opt, scale)
    if opt.kind == "lines" or opt.kind == "cdf" then
      frame.page:polyline(pixels(frame, curves.steps(points, opt.kind), scale),
        { class = "ts-line ts-k" .. slot, ["stroke-dasharray"] = svg.dashes[slot] })
    end
    local list = pixels(frame, points, scale)
    if data.num_points > many then
      if opt.kind ~= "lines" and opt.kind ~= "cdf" then frame.page:dots(i, list) end
    elseif data.num_points <= crowded or opt.kind == "scatter" or opt.kind == "pareto" then
      for k, p in ipairs(list) do
        frame.page:marker(i, p[1], p[2], tip_of(data, series, points[k], scale.x_unit, scale.y_unit))
      end
    end
    local final = list[#list]
    if final then ends[#ends + 1] = { name = series.name, x = final[1], y = final[2] } end
  end
  if opt.kind == "lines" and #ends > 1 then direct_labels(frame, ends) end
end

local function draw_front(frame, data, opt, scale)
  local front = curves.front(data, opt.x_better, opt.y_better)
  frame.page:polyline(pixels(frame, curves.stairs(front, opt.x_better), scale),
    { class = "ts-line ts-axis", ["stroke-dasharray"] = "5 3" })
end

function M.draw(data, opt)
  local x_axis, x_unit, y_axis, y_unit = axes(data, opt)
  local missing = read.missing_text(data)
  local named = opt.kind == "lines" and #data.series > 1 and opt.width >= least_named -- at the ends of lines
  local frame = frames.new(opt, {
    x_axis = x_axis, y_axis = y_axis, legend = M.legend(data, opt), summary = opt.summary,
    x_label = opt.x_label or x_unit.label, y_label = opt.y_label or y_unit.label,
    note = missing and "not shown: " .. missing, right = named and 70 or 14,
  })
  local scale = { x = data.x_words and 1 or x_unit.worth, y = y_unit.worth, x_unit = x_unit, y_unit = y_unit }
  if opt.kind == "pareto" then draw_front(frame, data, opt, scale) end
  draw_points(frame, data, opt, scale)
  return frame.page
end

return M
