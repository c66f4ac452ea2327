-- The picture of a served run: what waited and ran, what the KV cache held and what came out, over time, with what the
-- cache holds at most; and the latencies of the requests by when they came, with the limits on them.

local core = require "tessera.core"
local grouped = require "tessera.grouped"
local axis = require "tessera.desk.plot.axis"
local svg = require "tessera.desk.picture.svg"
local units = require "tessera.desk.units"

local M = {}

local margin, height, leading = 16, 110, 16 -- `height` of a panel

local right_margin = 24 -- half of the last time stands in it
local legend_width = 70 -- of the name of a line
local bins, most_requests = 100, 50000 -- of latencies over time

-- The panels of a run: { title, lines = { { name, colour, points = { { time_s, value } } } },
-- limits = { { value, text } } }.
local function panels_of(run)
  local function over_time(name, colour, column)
    local points = {}
    for i, row in ipairs(run.series) do points[i] = { row.time_s, row[column or name] } end
    return { name = name, colour = colour, points = points }
  end
  local panels = {
    { title = "requests", lines = { over_time("waiting", 2), over_time("running", 1) } },
    { title = "KV blocks", lines = { over_time("used", 3, "used_blocks") } },
    { title = "output tok/s", lines = { over_time("throughput", 4, "throughput_tok_s") } },
  }
  if run.kv_blocks then
    panels[2].limits = { { run.kv_blocks, ("all %s"):format(units.number(run.kv_blocks)) } }
  end
  for _, metric in ipairs { "ttft_s", "tpot_s" } do
    local list = run.latencies and run.latencies[metric] or {}
    if #list > 1 then
      local panel = { title = ("%s by arrival (s)"):format(metric:gsub("_s$", ""):upper()), limits = {},
        lines = { { name = "worst", colour = 2, points = {} }, { name = "median", colour = 1, points = {} } } }
      for i, item in ipairs(list) do
        panel.lines[1].points[i] = { item.time_s, item.worst }
        panel.lines[2].points[i] = { item.time_s, item.median }
      end
      for _, target in ipairs(run.targets or {}) do
        if target.metric == metric then
          panel.limits[#panel.limits + 1] = { target.limit_s, ("%s at most %s: %s"):format(target.statistic,
            core.format_seconds(target.limit_s), target.holds and "kept" or "missed") }
        end
      end
      panels[#panels + 1] = panel
    end
  end
  return panels
end

-- A limit far above all that was is told, and not drawn: it would flatten the rest.
local function highest(panel)
  local most = 0
  for _, line in ipairs(panel.lines) do
    for _, point in ipairs(line.points) do most = math.max(most, point[2]) end
  end
  local top = most
  for _, limit in ipairs(panel.limits or {}) do
    if limit[1] <= 3 * most then top = math.max(top, limit[1]) end
  end
  return top
end

-- "KV blocks; - - all 600"
local function heading(panel, top)
  local words = {}
  for i, limit in ipairs(panel.limits or {}) do words[i] = limit[2] .. (limit[1] > top and " (above)" or "") end
  return panel.title .. (#words > 0 and "; - - " .. table.concat(words, ", ") or "")
end

-- Names of the lines from x on, each as wide as any.
local function legend(page, panel, x, y)
  for i, line in ipairs(panel.lines) do
    local at = x + (i - 1) * legend_width
    page:rect(at, y - 9, 10, 10, { class = "ts-f" .. line.colour })
    page:text(at + 14, y, line.name, { class = "ts-muted ts-small" })
  end
end

-- Where a panel's plot begins: below what it is of and, where they are several, the names of its lines.
local function draw_heading(page, panel, top, y)
  local names = #panel.lines > 1 and #panel.lines * legend_width or 0
  local beside = page.width >= svg.roomy_width
  local foot = page:lines(margin, y + 28, svg.wrap(heading(panel, top), page.width - 2 * margin - (beside and names
    or 0), 11), leading, { class = "ts-text ts-small" })
  if names == 0 then return foot - 6 end
  legend(page, panel, beside and page.width - right_margin - names or margin, beside and y + 28 or foot)
  return beside and foot - 6 or foot + leading - 6
end

-- A panel below y; returns where its plot ends.
local function draw_panel(page, panel, y, x_of)
  local highest_value = highest(panel)
  local values = axis.numbers(0, highest_value, { zero = true, num_ticks = 3 })
  local left, right, top = x_of(0), page.width - right_margin, draw_heading(page, panel, highest_value, y)
  local function y_of(value) return top + height * (1 - values.at(value)) end
  for _, tick in ipairs(values.ticks) do
    page:line(left, y_of(tick.value), right, y_of(tick.value), { class = "ts-grid" })
    page:text(left - 6, y_of(tick.value) + 4, tick.text, { class = "ts-muted ts-small", ["text-anchor"] = "end" })
  end
  for _, line in ipairs(panel.lines) do
    local points = {}
    for i, point in ipairs(line.points) do points[i] = { x_of(point[1]), y_of(point[2]) } end
    page:polyline(points, { class = "ts-line ts-k" .. line.colour, ["stroke-dasharray"] = svg.dashes[line.colour] })
  end
  for _, limit in ipairs(panel.limits or {}) do
    if limit[1] <= highest_value then
      page:line(left, y_of(limit[1]), right, y_of(limit[1]), { class = "ts-line ts-k5", ["stroke-dasharray"] = "6 3" })
    end
  end
  return top + height
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

-- Median and worst latency of the requests that came in each of so many stretches of time; nil of too many requests.
local function latencies_of(served)
  if served.num_requests > most_requests then return nil end
  local requests, last = served:requests(), 0
  for _, request in ipairs(requests) do last = math.max(last, request.arrival_s or 0) end
  if last == 0 then return nil end
  local found = {}
  for _, metric in ipairs { "ttft_s", "tpot_s" } do
    local by_bin, list = {}, {}
    for _, request in ipairs(requests) do
      local bin = math.min(math.floor((request.arrival_s or 0) / last * bins), bins - 1)
      if request[metric] then
        by_bin[bin] = by_bin[bin] or {}
        table.insert(by_bin[bin], request[metric])
      end
    end
    for bin = 0, bins - 1 do
      local values = by_bin[bin]
      if values then
        table.sort(values)
        list[#list + 1] = { time_s = (bin + 0.5) / bins * last, median = values[math.ceil(#values / 2)],
          worst = values[#values] }
      end
    end
    found[metric] = list
  end
  return found
end

-- "4 x L4, 2 x T4-16G"
local function engines_of(replicas)
  local words = {}
  for i, group in ipairs(grouped(replicas, function(replica) return replica.name end)) do
    words[i] = ("%d x %s"):format(#group, group.key)
  end
  return table.concat(words, ", ")
end

--- What a picture needs of a run, as plain data.
function M.data(served)
  local data, kv_blocks = served:to_table(), 0
  for _, replica in ipairs(served.replicas) do kv_blocks = kv_blocks + (replica.kv_blocks or 0) end
  data.series, data.text, data.replicas = served:series(300), served.text, nil
  data.engines, data.kv_blocks = engines_of(served.replicas), kv_blocks > 0 and kv_blocks or nil
  data.latencies = latencies_of(served)
  return data
end

--- "1000 requests on 4 x L4"
function M.title(run) return ("%d requests on %s"):format(run.num_requests, run.engines) end

--- The page, `width` in pixels; nil where the run has no series.
function M.draw(run, title, width)
  local series = run.series
  if type(series) ~= "table" or #series < 2 then return nil end
  width = width or svg.wide_width
  local roomy, room = width >= svg.roomy_width, width - 2 * margin
  local left = roomy and 90 or 64
  local last = series[#series].time_s
  local unit = units.of("time_s", last)
  local times = axis.numbers(0, last / unit.worth, { zero = true, num_ticks = roomy and 8 or 4 })
  local function x_of(time_s) return left + times.at(time_s / unit.worth) * (width - right_margin - left) end
  local page = svg.page(width, 0, title)
  local y = page:heading(margin, 26, title, room) + 2
  y = page:lines(margin, y, svg.wrap(state_words(run), room, 11), leading, { class = "ts-text ts-small" })
  -- Of an unstable run latencies measure its length.
  y = page:lines(margin, y + 1, svg.wrap(run.stable and latency_words(run) or "", room, 11), leading,
    { class = "ts-muted ts-small" }) - leading - 1
  for _, panel in ipairs(panels_of(run)) do y = draw_panel(page, panel, y, x_of) end
  for _, tick in ipairs(times.ticks) do
    page:text(x_of(tick.value * unit.worth), y + 18, tick.text .. (tick == times.ticks[#times.ticks] and " "
      .. unit.unit or ""), { class = "ts-muted ts-small", ["text-anchor"] = "middle" })
  end
  page.height = y + 34
  return page
end

return M
