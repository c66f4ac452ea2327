-- The picture of a simulated run: a lane per stage and per link, time from left to right.

local core = require "tessera.core"
local axis = require "tessera.desk.plot.axis"
local pipeline = require "tessera.desk.picture.pipeline"
local svg = require "tessera.desk.picture.svg"
local units = require "tessera.desk.units"

local M = {}

local width, margin, lane, gap = 960, 16, 22, 6

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
  page:rect(x, y, math.max(w, 0.5), lane - 4, {
    fill = pipeline.phase_colours[phase], class = w > 4 and "ts-edge" or nil,
    tip = ("%s of micro-batch %s: %s from %s"):format(phase, number, core.format_seconds(timeline.duration_s[i]),
      core.format_seconds(timeline.start_s[i])) })
  if svg.text_width(number, 11) + 6 < w then
    page:text(x + w / 2, y + 13, number, { class = "ts-ink ts-small ts-bits", ["text-anchor"] = "middle",
      stroke = pipeline.phase_colours[phase] })
  end
end

local function time_axis(page, times, unit, left, top, bottom)
  for _, tick in ipairs(times.ticks) do
    local x = left + times.at(tick.value) * (width - margin - left - 14)
    page:line(x, top, x, bottom, { class = "ts-grid" })
    page:text(x, bottom + 15, tick.text .. (tick == times.ticks[#times.ticks] and " " .. unit.unit or ""),
      { class = "ts-muted ts-small", ["text-anchor"] = "middle" })
  end
end

local function legend(page, y, shown, all)
  local x = margin
  for _, phase in ipairs { "prefill", "decode" } do
    page:rect(x, y - 9, 10, 10, { fill = pipeline.phase_colours[phase] })
    page:text(x + 14, y, phase, { class = "ts-muted ts-small" })
    x = x + 70
  end
  local note = "numbers: micro-batches"
  if shown < all then note = note .. ("; the first %d of %d intervals"):format(shown, all) end
  page:text(x, y, note, { class = "ts-muted ts-small" })
end

--- The page; run: run:to_table(), nil where it kept no events.
function M.draw(run, title)
  local timeline = run.timeline
  if type(timeline) ~= "table" or #timeline.start_s == 0 then return nil end
  local lanes, of = lanes_of(timeline)
  local last = 0
  for i = 1, #timeline.start_s do last = math.max(last, timeline.start_s[i] + timeline.duration_s[i]) end
  local unit = units.of("time_s", last)
  local times = axis.numbers(0, last / unit.worth, { num_ticks = 8 })
  local left, top = margin + 230, 62
  local bottom = top + #lanes * (lane + gap)
  local page = svg.page(width, bottom + 50, title)
  page:text(margin, 26, svg.fit(title, width - 2 * margin, 15), { class = "ts-text ts-title" })
  page:text(margin, 46, ("%s in all, %.1f tok/s (%s)"):format(core.format_seconds(run.total_s), run.throughput_tok_s,
    run.provenance), { class = "ts-muted ts-small" })
  time_axis(page, times, unit, left, top, bottom)
  for k, name in ipairs(lanes) do
    local text = svg.fit(name, 220, 11)
    page:text(margin, top + (k - 1) * (lane + gap) + 15, text, { class = "ts-text ts-small",
      tip = text ~= name and name or nil })
  end
  local scale = (width - margin - left - 14) / times.high
  for i = 1, #timeline.start_s do
    local k = of[timeline.stage_index[i] * 2 + timeline.is_link[i]]
    event(page, timeline, i, left + timeline.start_s[i] / unit.worth * scale, top + (k - 1) * (lane + gap) + 2,
      timeline.duration_s[i] / unit.worth * scale)
  end
  legend(page, bottom + 38, #timeline.start_s, timeline.num_events)
  return page
end

return M
