-- kind = "bars": one group per category, one bar per series. A missing number is a hatched bar with its reason.

local axis = require "tessera.desk.plot.axis"
local frames = require "tessera.desk.plot.frame"
local read = require "tessera.desk.plot.data"
local svg = require "tessera.desk.picture.svg"
local units = require "tessera.desk.units"
local xy = require "tessera.desk.plot.xy"

local M = {}

local function swatch(index)
  return function(page, x, y) page:rect(x - 6, y - 5, 12, 11, { class = "ts-f" .. svg.slot(index), rx = "2" }) end
end

--- Name and swatch of every series.
function M.legend(data, opt)
  local entries = {}
  if #data.series > 1 or data.series[1].name ~= "" then
    for i, series in ipairs(data.series) do entries[i] = { name = series.name, draw = swatch(i) } end
  end
  local interval = read.interval_name(data, opt)
  if interval then entries[#entries + 1] = { name = interval, draw = xy.interval_swatch(opt) } end
  return entries
end

-- Bars beyond the eight colours differ by a light pattern: a stripe of the page's colour.
local function bar(frame, index, item, x, width, unit, tip)
  local zero, y = frame.zero, frame.y(item.y / unit.worth)
  local top, height = math.min(zero, y), math.max(math.abs(zero - y), 1)
  frame.page:rect(x, top, width, height,
    { class = "ts-f" .. svg.slot(index), rx = width > 6 and "2" or nil, tip = tip })
  if index > #svg.series_colours then frame.page:hatched(x, top, width, height, { opacity = "0.7", tip = tip }) end
  local text, end_y = units.number(item.y / unit.worth), y
  if item.low then
    local low, high = frame.y(item.low / unit.worth), frame.y(item.high / unit.worth)
    frame.page:whisker(x + width / 2, low, high, { class = "ts-line ts-k5" })
    end_y = y > zero and math.max(low, y) or math.min(high, y)
  end
  if svg.text_width(text, 11) < width + 2 then
    frame.page:text(x + width / 2, y > zero and end_y + 13 or end_y - 5, text,
      { class = "ts-text ts-small ts-halo", ["text-anchor"] = "middle" })
  end
end

local function missing_bar(frame, item, x, width, tip)
  local height = math.min(46, frame.bottom - frame.top)
  frame.page:hatched(x, frame.zero - height, width, height, { stroke = "none", tip = tip })
  if svg.text_width(item.why, 11) < width then
    frame.page:text(x + width / 2, frame.zero - height - 4, item.why,
      { class = "ts-muted ts-small ts-halo", ["text-anchor"] = "middle" })
  end
end

-- Several rows of one category and series share its place, side by side: none hides another.
local function shares_of(series)
  local nth, count = {}, {}
  for _, list in ipairs { series.points, series.missing } do
    for _, item in ipairs(list) do
      count[item.x] = (count[item.x] or 0) + 1
      nth[item] = count[item.x]
    end
  end
  return nth, count
end

local function draw_series(frame, data, index, series, unit, opt)
  local band = frame.width / #data.x_words
  local slot = math.min(band * 0.8 / #data.series, 96)
  local nth, count = shares_of(series)
  local function place(item)
    local width = slot * 0.94 / count[item.x]
    local offset = (index - 0.5 - #data.series / 2) * slot - slot * 0.47
    return frame.x(item.x) + offset + (nth[item] - 1) * width, width
  end
  local function tip(item, text)
    local head = series.name ~= "" and ("%s, %s"):format(data.x_words[item.x], series.name) or data.x_words[item.x]
    return ("%s: %s"):format(head, text)
  end
  for _, item in ipairs(series.points) do
    local x, width = place(item)
    bar(frame, index, item, x, width, unit, tip(item, units.value(item.y, unit) .. xy.interval_text(item, unit)))
  end
  for _, item in ipairs(series.missing) do
    local x, width = place(item)
    missing_bar(frame, item, x, width, tip(item, opt.y .. " " .. item.why))
  end
end

function M.draw(data, opt)
  local low, high = read.range(data, "y")
  local unit = units.of(opt.y, math.max(math.abs(low or 0), math.abs(high or 0)))
  local y_axis
  if opt.log_y and low then y_axis = axis.numbers(low / unit.worth / 1.5, high / unit.worth, { log = true })
  else y_axis = axis.numbers((low or 0) / unit.worth, (high or 1) / unit.worth, { zero = true }) end
  local missing = read.missing_text(data)
  local frame = frames.new(opt, {
    x_axis = axis.words(data.x_words), y_axis = y_axis, legend = M.legend(data, opt),
    x_label = opt.x_label or units.of(opt.x, 1).label, y_label = opt.y_label or unit.label, summary = opt.summary,
    note = missing and "hatched, no number: " .. missing,
  })
  frame.zero = y_axis.log and frame.bottom or frame.y(math.max(y_axis.low, 0))
  for i, series in ipairs(data.series) do draw_series(frame, data, i, series, unit, opt) end
  if y_axis.low < 0 and not y_axis.log then
    frame.page:line(frame.left, frame.zero, frame.right, frame.zero, { class = "ts-axis" })
  end
  return frame.page
end

return M
