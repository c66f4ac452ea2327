-- The picture of a served run: what waited and ran, what the KV cache held and what came out, over time.

local core = require "tessera.core"
local axis = require "tessera.desk.plot.axis"
local svg = require "tessera.desk.picture.svg"
local units = require "tessera.desk.units"

local M = {}

local width, margin, left, height, gap = 960, 16, 90, 110, 34

-- One panel each, with the columns of a run's series that it shows.
local panels = {
  { title = "requests", lines = { { "waiting", 2 }, { "running", 1 } } },
  { title = "KV blocks", lines = { { "used_blocks", 3 } } },
  { title = "output tok/s", lines = { { "throughput_tok_s", 4 } } },
}

local function highest(series, panel)
  local most = 0
  for _, line in ipairs(panel.lines) do
    for _, row in ipairs(series) do most = math.max(most, row[line[1]]) end
  end
  return most
end

-- A panel with its top at y.
local function draw_panel(page, series, panel, y, times, unit)
  local values = axis.numbers(0, highest(series, panel), { zero = true, num_ticks = 3 })
  local right = width - margin
  local function x_of(time_s) return left + times.at(time_s / unit.worth) * (right - left) end
  local function y_of(value) return y + height * (1 - values.at(value)) end
  page:text(margin, y - 8, panel.title, { class = "ts-text ts-small" })
  for _, tick in ipairs(values.ticks) do
    page:line(left, y_of(tick.value), right, y_of(tick.value), { class = "ts-grid" })
    page:text(left - 6, y_of(tick.value) + 4, tick.text, { class = "ts-muted ts-small", ["text-anchor"] = "end" })
  end
  local at = right
  for _, line in ipairs(panel.lines) do
    local points = {}
    for i, row in ipairs(series) do points[i] = { x_of(row.time_s), y_of(row[line[1]]) } end
    page:polyline(points, { class = "ts-line ts-k" .. line[2], ["stroke-dasharray"] = svg.dashes[line[2]] })
    if #panel.lines > 1 then
      at = at - 70
      page:rect(at, y - 17, 10, 10, { class = "ts-f" .. line[2] })
      page:text(at + 14, y - 8, line[1], { class = "ts-muted ts-small" })
    end
  end
end

local function latency_words(run)
  local words = {}
  for _, name in ipairs { "ttft_s", "tpot_s", "e2e_s" } do
    local d = run[name]
    if type(d) == "table" and d.p50 then
      words[#words + 1] = ("%s p50 %s, p99 %s"):format(name:gsub("_s$", ""):upper(), core.format_seconds(d.p50),
        core.format_seconds(d.p99))
    end
  end
  if run.attainment_ratio then
    words[#words + 1] = ("%.1f %% within the SLO"):format(100 * run.attainment_ratio)
  end
  return table.concat(words, "; ")
end

-- "stable; 0.4754 req/s of 0.5229 offered; KV cache 73.5 % used at most"
local function state_words(run)
  if not run.stable then return run.verdict end
  local words = { run.verdict, ("%.4g req/s"):format(run.request_per_s) }
  if run.offered_request_per_s then words[2] = words[2] .. (" of %.4g offered"):format(run.offered_request_per_s) end
  if run.kv_peak_usage_ratio then
    words[3] = ("KV cache %.1f %% used at most"):format(100 * run.kv_peak_usage_ratio)
  end
  return table.concat(words, "; ")
end

--- What a picture needs of a run, as plain data.
function M.data(served)
  local data = served:to_table()
  data.series, data.text, data.replicas = served:series(300), served.text, nil
  return data
end

--- The page; nil where the run has no series.
function M.draw(run, title)
  local series = run.series
  if type(series) ~= "table" or #series < 2 then return nil end
  local last = series[#series].time_s
  local unit = units.of("time_s", last)
  local times = axis.numbers(0, last / unit.worth, { zero = true, num_ticks = 8 })
  local top = 96
  local bottom = top + #panels * (height + gap) - gap
  local page = svg.page(width, bottom + 34, title)
  page:text(margin, 26, svg.fit(title, width - 2 * margin, 15), { class = "ts-text ts-title" })
  page:text(margin, 46, svg.fit(state_words(run), width - 2 * margin, 11), { class = "ts-text ts-small" })
  -- Of an unstable run latencies measure its length.
  page:text(margin, 63, run.stable and latency_words(run) or "", { class = "ts-muted ts-small" })
  for i, panel in ipairs(panels) do
    draw_panel(page, series, panel, top + (i - 1) * (height + gap), times, unit)
  end
  for _, tick in ipairs(times.ticks) do
    local x = left + times.at(tick.value) * (width - margin - left)
    page:text(x, bottom + 18, tick.text .. (tick == times.ticks[#times.ticks] and " " .. unit.unit or ""),
      { class = "ts-muted ts-small", ["text-anchor"] = "middle" })
  end
  return page
end

return M
