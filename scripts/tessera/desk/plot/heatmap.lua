-- kind = "heatmap": a cell per pair of categories, dark where the value is large, with the number where it fits.

local axis = require "tessera.desk.plot.axis"
local frames = require "tessera.desk.plot.frame"
local read = require "tessera.desk.plot.data"
local svg = require "tessera.desk.picture.svg"
local units = require "tessera.desk.units"

local M = {}

-- Viridis, which grows evenly in lightness: readable in grey and for colour-blind readers.
local stops = {
  { 253, 231, 37 }, { 122, 209, 81 }, { 34, 168, 132 }, { 42, 120, 142 }, { 65, 68, 135 }, { 68, 1, 84 },
}

-- Relative luminance as WCAG 2 defines it; on colours above 0.18 black text has the better contrast.
local function luminance(rgb)
  local weights, sum = { 0.2126, 0.7152, 0.0722 }, 0
  for c = 1, 3 do
    local part = rgb[c] / 255
    sum = sum + weights[c] * (part <= 0.04045 and part / 12.92 or ((part + 0.055) / 1.055) ^ 2.4)
  end
  return sum
end

--- Colour of a share from 0 to 1, and whether light text reads better on it.
function M.colour(share)
  local at = share * (#stops - 1)
  local i = math.min(math.floor(at), #stops - 2)
  local a, b, part = stops[i + 1], stops[i + 2], at - i
  local rgb = {}
  for c = 1, 3 do rgb[c] = math.floor(a[c] + part * (b[c] - a[c]) + 0.5) end
  return ("#%02x%02x%02x"):format(rgb[1], rgb[2], rgb[3]), luminance(rgb) < 0.18
end

local function share_of(value, low, high)
  return high > low and (value - low) / (high - low) or 0.5
end
M.share_of = share_of

local line_of_colours = 20 -- pixels that they have for themselves where the plot is narrow

-- The colours from low to high, above the plot at the right.
local function colour_bar(frame, low, high, unit, opt)
  local width, steps = 120, 24
  local low_text, high_text = units.number(low / unit.worth), units.number(high / unit.worth)
  local x, y = opt.width - 22 - width - svg.text_width(high_text, 11), frame.top - 20
  frame.page:text(x - 6, y + 9, low_text, { class = "ts-muted ts-small", ["text-anchor"] = "end" })
  for i = 0, steps - 1 do
    frame.page:rect(x + i * width / steps, y, width / steps + 0.5, 10, { fill = (M.colour(i / (steps - 1))) })
  end
  frame.page:text(x + width + 6, y + 9, high_text, { class = "ts-muted ts-small" })
end

local function draw_cell(frame, data, item, size, scale, opt)
  local x, y = frame.x(item.x) - size.width / 2, frame.y(item.y) - size.height / 2
  local place = ("%s, %s"):format(data.x_words[item.x], data.y_words[item.y])
  if item.why then
    frame.page:hatched(x, y, size.width, size.height, { tip = ("%s: %s %s"):format(place, opt.value, item.why) })
    if svg.text_width(item.why, 11) < size.width - 4 and size.height > 14 then
      frame.page:text(frame.x(item.x), frame.y(item.y) + 4, item.why,
        { class = "ts-text ts-small ts-halo", ["text-anchor"] = "middle" })
    end
    return
  end
  local fill, light_text = M.colour(share_of(item.value, scale.low, scale.high))
  frame.page:rect(x, y, size.width, size.height, { class = size.width > 6 and "ts-edge" or nil, fill = fill,
    tip = ("%s: %s"):format(place, units.value(item.value, scale.unit)) })
  local text = units.number(item.value / scale.unit.worth)
  if svg.text_width(text, 11) < size.width - 2 and size.height > 14 then
    frame.page:text(frame.x(item.x), frame.y(item.y) + 4, text,
      { class = (light_text and "ts-on" or "ts-ink") .. " ts-small", ["text-anchor"] = "middle" })
  end
end

--- Its colours are explained above each.
function M.legend() return {} end

function M.draw(data, opt)
  local low, high = read.range(data, "value")
  local unit = units.of(opt.value, math.max(math.abs(low or 0), math.abs(high or 0)))
  local missing = read.missing_text(data)
  local frame = frames.new(opt, {
    x_axis = axis.words(data.x_words), y_axis = axis.words(data.y_words), summary = opt.summary,
    x_label = opt.x_label or units.of(opt.x, 1).label,
    y_label = ("%s of %s"):format(unit.label, opt.y_label or units.of(opt.y, 1).label),
    note = missing and "hatched, no number: " .. missing,
    above = opt.width < svg.roomy_width and line_of_colours or 0,
  })
  local size = { width = frame.width / #data.x_words, height = (frame.bottom - frame.top) / #data.y_words }
  if low then colour_bar(frame, low, high, unit, opt) end
  for _, series in ipairs(data.series) do
    for _, list in ipairs { series.missing, series.points } do
      for _, item in ipairs(list) do
        draw_cell(frame, data, item, size, { low = low, high = high, unit = unit }, opt)
      end
    end
  end
  return frame.page
end

return M
