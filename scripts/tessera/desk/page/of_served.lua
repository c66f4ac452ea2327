-- The page of a served run: what waited, ran and came out over time, how latencies were spread, and every request.

local core = require "tessera.core"
local html = require "tessera.desk.report.html"
local pictures = require "tessera.desk.report.pictures"
local plot = require "tessera.desk.plot"
local rows_table = require "tessera.desk.page.rows_table"
local served_picture = require "tessera.desk.picture.served"

local h = html.h
local M = {}

local most_requests = 20000 -- of a table, beyond which a browser is slow

local function latency_words(d)
  if not d or not d.p50 then return nil end
  return ("mean %s, p50 %s, p90 %s, p99 %s"):format(core.format_seconds(d.mean), core.format_seconds(d.p50),
    core.format_seconds(d.p90), core.format_seconds(d.p99))
end

local function targets_words(served)
  local words = {}
  for _, target in ipairs(served.targets or {}) do
    words[#words + 1] = ("%s %s at most %s: %s"):format(target.metric:gsub("_s$", ""):upper(), target.statistic,
      core.format_seconds(target.limit_s), target.holds and "kept" or "missed")
  end
  return #words > 0 and table.concat(words, "; ") or nil
end

local function facts(served)
  return html.facts {
    { "verdict", served.verdict }, { "requests", ("%d, %d answered in full"):format(served.num_requests,
      served.num_finished) },
    { "rate", served.offered_request_per_s and ("%.4g req/s answered of %.4g sent"):format(served.request_per_s,
      served.offered_request_per_s) or ("%.4g req/s answered"):format(served.request_per_s) },
    { "output", ("%.4g tok/s"):format(served.throughput_tok_s) },
    { "TTFT", latency_words(served.ttft_s) }, { "TPOT", latency_words(served.tpot_s) },
    { "E2E", latency_words(served.e2e_s) }, { "limits", targets_words(served) },
    { "KV cache", served.kv_peak_usage_ratio and ("%.1f %% used at most, %.1f %% in the mean"):format(
      100 * served.kv_peak_usage_ratio, 100 * served.kv_usage_ratio) or nil },
    { "preemptions", served.preemptions }, { "times are", served.source },
  }
end

--- The picture over time, or nil where the run is too short for one.
function M.over_time(served, title)
  local data = served_picture.data(served)
  return pictures.of_picture(function(width) return served_picture.draw(data, title, width) end)
end

-- How latencies are spread, each with its limits in the title.
local function spread(rows)
  local figures = {}
  for _, metric in ipairs { "ttft_s", "tpot_s", "e2e_s" } do
    local list = {}
    for _, row in ipairs(rows) do
      if row[metric] then list[#list + 1] = row end
    end
    if #list > 1 then
      local made = plot { kind = "cdf", rows = list, x = metric, title = metric:gsub("_s$", ""):upper() }
      figures[#figures + 1] = pictures.of_plot(made, "Shares of requests by " .. metric)
    end
  end
  return #figures > 0 and { h("h3", nil, "Shares of requests by latency"), h("div", { class = "plots" }, figures) }
    or nil
end

--- { title, summary, sections } of what ts.serve, or a server, gave.
function M.page(served)
  local title = served_picture.title(served_picture.data(served))
  local rows, shown = served:requests(), {}
  for i = 1, math.min(#rows, most_requests) do shown[i] = rows[i] end
  return {
    title = title, summary = served.verdict,
    sections = {
      h("section", nil, h("h2", nil, "What became of the requests"), facts(served), M.over_time(served, title)
        or h("p", { class = "muted" }, "The run is too short to be drawn over time."), spread(shown)),
      h("section", nil, h("h2", nil, "Requests"),
        #rows > #shown and h("p", { class = "muted" }, ("The first %d of %d."):format(#shown, #rows)),
        rows_table("requests", "requests", shown, { "request", "outcome", "arrival_s", "queue_s", "ttft_s", "tpot_s",
          "e2e_s", "output_tokens", "cached_tokens", "preemptions", "replica" },
          served.source:find "^measured" and "measured" or "modelled")),
    },
  }
end

return M
