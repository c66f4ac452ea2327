-- The picture of a simulated run: a lane per stage and per link, time from left to right.

local core = require "tessera.core"
local axis = require "tessera.desk.plot.axis"
local pipeline = require "tessera.desk.picture.pipeline"
local svg = require "tessera.desk.picture.svg"
local units = require "tessera.desk.units"

local M = {}

local margin, bar_height = 16, 18

-- Where a lane's name stands and its bar lies, from the lane's corner: on a narrow page one below the other.
local function layout_of(width)
  if width >= svg.roomy_width then
    return { width = width, left = margin + 230, lane_height = 28, name_y = 15, name_width = 220, bar_y = 2,
      num_ticks = 8 }
  end
  return { width = width, left = margin, lane_height = 42, name_y = 11, name_width = width - 2 * margin, bar_y = 17,
    num_ticks = 4 }
end

-- Stages first, then the links that carry anything.
local function lanes_of(timeline)
  local lanes, of = {}, {}
  for k, name in ipairs(timeline.stages) do
    lanes[k] = name
    of[(k - 1) * 2] = k
  end
  for i = 1, #timeline.start_s do
    local track = timeline.stage_index[i] * 2 + 1
    if timeline.is_link[i] == 1 and not of[track] then
      lanes[#lanes + 1] = ("link %d to %d"):format(timeline.stage_index[i], timeline.stage_index[i] + 1)
      of[track] = #lanes
    end
  end
  return lanes, of
end

local function event(page, timeline, i, x, y, w)
  local decode = timeline.is_decode[i] == 1
  local phase = decode and "decode" or "prefill"
  local number = tostring(timeline.micro_batch[i])
  page:rect(x, y, math.max(w, 0.5), bar_height, {
    fill = pipeline.phase_colours[phase], class = w > 4 and "ts-edge" or nil,
    tip = ("%s of micro-batch %s: %s from %s"):format(phase, number, core.format_seconds(timeline.duration_s[i]),
      core.format_seconds(timeline.start_s[i])) })
  if svg.text_width(number, 11) + 6 < w then
    page:text(x + w / 2, y + 13, number, { class = "ts-ink ts-small ts-bits", ["text-anchor"] = "middle",
      stroke = pipeline.phase_colours[phase] })
  end
end

local function time_axis(page, times, unit, x_of, top, bottom)
  for _, tick in ipairs(times.ticks) do
    local x = x_of(tick.value)
    page:line(x, top, x, bottom, { class = "ts-grid" })
    page:text(x, bottom + 15, tick.text .. (tick == times.ticks[#times.ticks] and " " .. unit.unit or ""),
      { class = "ts-muted ts-small", ["text-anchor"] = "middle" })
  end
end

-- Returns the foot of the line after its last.
local function legend(page, y, shown, all)
  local x = margin
  for _, phase in ipairs { "prefill", "decode" } do
    page:rect(x, y - 9, 10, 10, { fill = pipeline.phase_colours[phase] })
    page:text(x + 14, y, phase, { class = "ts-muted ts-small" })
    x = x + 70
  end
  local note = "numbers: micro-batches"
  if shown < all then note = note .. ("; the first %d of %d intervals"):format(shown, all) end
  if page.width < svg.roomy_width then x, y = margin, y + 16 end
  return page:lines(x, y, svg.wrap(note, page.width - margin - x, 11), 16, { class = "ts-muted ts-small" })
end

--- The page; run: run:to_table(), nil where it kept no events; `width` in pixels.
function M.draw(run, title, width)
  local timeline = run.timeline
  if type(timeline) ~= "table" or #timeline.start_s == 0 then return nil end
  local layout = layout_of(width or svg.wide_width)
  local lanes, of = lanes_of(timeline)
  local last = 0
  for i = 1, #timeline.start_s do last = math.max(last, timeline.start_s[i] + timeline.duration_s[i]) end
  local unit = units.of("time_s", last)
  local times = axis.numbers(0, last / unit.worth, { num_ticks = layout.num_ticks })
  local page, room = svg.page(layout.width, 0, title), layout.width - 2 * margin
  local y = page:heading(margin, 26, title, room)
  local top = page:lines(margin, y + 2, svg.wrap(("%s in all, %.1f tok/s (%s)"):format(core.format_seconds(run.total_s),
    run.throughput_tok_s, run.provenance), room, 11), 16, { class = "ts-muted ts-small" })
  local bottom = top + #lanes * layout.lane_height
  local scale = (layout.width - margin - layout.left - 14) / times.high
  local function x_of(time) return layout.left + time * scale end
  time_axis(page, times, unit, x_of, top, bottom)
  for k, name in ipairs(lanes) do
    local text = svg.fit(name, layout.name_width, 11)
    page:text(margin, top + (k - 1) * layout.lane_height + layout.name_y, text, { class = "ts-text ts-small",
      tip = text ~= name and name or nil })
  end
  for i = 1, #timeline.start_s do
    local k = of[timeline.stage_index[i] * 2 + timeline.is_link[i]]
    event(page, timeline, i, x_of(timeline.start_s[i] / unit.worth), top + (k - 1) * layout.lane_height + layout.bar_y,
      timeline.duration_s[i] / unit.worth * scale)
  end
  page.height = legend(page, bottom + 38, #timeline.start_s, timeline.num_events) - 4
  return page
end

return M
