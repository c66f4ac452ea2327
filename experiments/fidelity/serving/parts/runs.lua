-- Runs of real servers, each simulated and compared: what the experiments of this folder share.
--
-- local runs = require "fidelity.serving.parts.runs"
-- return runs.experiment { name =, doc =, rows =, quick =, groups =, check = }
--
-- `stated = false`, of all or in a row, says that settings are not modelled, so that no interval is made of its runs
-- (fit/intervals.lua). A row is one measured run: `run`, a name; `deployment`, `traffic` and `serve`, options of the
-- functions of these names; `measured`, seconds and requests per second under the names of `metrics`; `below_knee`;
-- `fitted`, left out of the claims; `statistic`, what the latencies are, mean or p50.

local ts = require "tessera"

local errors = require "fidelity.fit.errors"
local csv = require "fidelity.fit.csv"

local M = {}

-- What a client and an HTTP server take of a request before its tokens reach the engine, of vLLM before 0.14, which
-- decides step by step: inference-sim fitted it so (docs/guide/latency-models.md), though to runs of 2026, in which a
-- step that was decided ahead is part of it. Nothing better is published. Kernel sets vllm and vllm_fp8 have the
-- constant of later versions. Its 46 us per output token are left out: the host's time of the kernel sets is fitted to
-- gaps that contain them.
M.old_http_s = 15.6e-3

-- By name: the target of the median error, set before looking.
M.metrics = {
  { name = "e2e", target = 0.10, unit = "_s" },
  { name = "tpot", target = 0.10, unit = "_s" },
  { name = "ttft", target = 0.20, unit = "_s" },
  { name = "request_rate", target = 0.05, unit = "_per_s" },
}

local words = { e2e = "E2E", tpot = "time per token", ttft = "TTFT", request_rate = "requests per second" }

-- The rows of a table of measurements, or nil and why, from what lib.measured says of its path.
function M.read(path, why)
  if not path then return nil, why end
  local rows = {}
  for row in csv.rows(path) do rows[#rows + 1] = row end
  return rows
end

-- Lists of names, and of rows by name.
local function by_name(list)
  local names, rows = {}, {}
  for i, row in ipairs(list) do
    if rows[row.run] then error("two runs are named " .. row.run, 0) end
    names[i], rows[row.run] = row.run, row
  end
  return names, rows
end

function M.predict(row, seed)
  local options = { seed = seed }
  for key, value in pairs(row.traffic) do options[key] = value end
  local served = ts.serve(ts.deployment(row.deployment), ts.traffic(options), row.serve or { record = false })
  local which = row.statistic or "mean"
  return {
    e2e = served.e2e_s[which], ttft = served.ttft_s[which], tpot = served.tpot_s[which],
    request_rate = served.request_per_s,
  }, served
end

-- What a row's errors are pooled with (fit/intervals.lua): the model on that GPU at that bitwidth, and the class of the
-- deployment. Rates say something where the server sets them.
local function add_class(columns, row, name)
  local class = ts.deployment(row.deployment).run_class
  for _, key in ipairs { "kernel_set", "runtime", "bitwidth", "measured_chip" } do columns[key] = class[key] end
  columns.group = ("%s: %s on %s, %d bits"):format(name, row.deployment.model,
    (row.deployment.cluster:gsub("%d+x", "")), class.bitwidth)
  columns.rate_is_offered = row.traffic == nil or row.traffic.arrivals ~= "closed"
end

-- The columns of a row of an experiment.
local function columns_of(row, predicted, o)
  local columns = { below_knee = row.below_knee, fitted = row.fitted or false, case = row.case }
  local given = row.deployment
  local one_pool = type(given.model) == "string" and type(given.cluster) == "string"
  local drafts = one_pool and given.engine and given.engine.speculative
  if one_pool and not drafts and o.stated ~= false and row.stated ~= false then add_class(columns, row, o.name) end
  for _, metric in ipairs(M.metrics) do
    local measured, ours = row.measured[metric.name], predicted[metric.name]
    if measured then
      columns["measured_" .. metric.name .. metric.unit] = measured
      columns["predicted_" .. metric.name .. metric.unit] = ours
      columns[metric.name .. "_error_ratio"] = ours / measured - 1
    end
  end
  return columns
end

-- Sizes of a column, in order.
function M.sizes(rows, column, keep)
  local list = {}
  for _, row in ipairs(rows) do
    if row[column] and (not keep or keep(row)) then list[#list + 1] = math.abs(row[column]) end
  end
  table.sort(list)
  return list
end

function M.median(sorted) return errors.quantile(sorted, 0.5) end

local function said(sorted, rows, column, keep)
  local farthest
  for _, row in ipairs(rows) do
    if row[column] and keep(row) and (not farthest or math.abs(row[column]) > math.abs(farthest[column])) then
      farthest = row
    end
  end
  return ("median %.1f %%, nine of ten within %.1f %%, of %d; farthest %+.0f %% (%s)"):format(
    100 * errors.quantile(sorted, 0.5), 100 * errors.quantile(sorted, 0.9), #sorted, 100 * farthest[column],
    farthest.point.run)
end

-- One claim per metric and group of rows: the median error below the knee meets its target. A group is { name =, keep
-- =, metrics =, targets =, differs =, note = }; `targets` has, by metric, another target and one for nine of ten;
-- `differs` why the target is missed and what comes out instead.
local function expect_targets(t, group)
  for _, metric in ipairs(M.metrics) do
    local column, differ = metric.name .. "_error_ratio", group.differs and group.differs[metric.name]
    local function kept(row) return row.below_knee and not row.fitted and (not group.keep or group.keep(row)) end
    local asked = not group.metrics or group.metrics[metric.name]
    local target, nine_of_ten = metric.target, nil
    if group.targets and group.targets[metric.name] then target, nine_of_ten = unpack(group.targets[metric.name]) end
    if asked then
      t:expect_that {
        text = ("%s%s: the median error below the knee is at most %g %%%s"):format(
          group.name and group.name .. ", " or "", words[metric.name], 100 * target,
          nine_of_ten and (", nine of ten are within %g %%"):format(100 * nine_of_ten) or ""),
        not_reproduced = differ and differ.why, here = differ and differ.here, note = group.note,
        holds = function(_, rows)
          local sorted = M.sizes(rows, column, kept)
          local median = M.median(sorted)
          local holds = median <= target and (not nine_of_ten or errors.quantile(sorted, 0.9) <= nine_of_ten)
          return holds, said(sorted, rows, column, kept), median
        end,
      }
    end
  end
end

function M.experiment(o)
  local list, why = o.rows()
  local names, rows = by_name(list or {})
  local quick = {}
  for i = 1, #names, math.max(1, math.floor(#names / (o.quick or 4))) do quick[#quick + 1] = names[i] end
  local experiment = {
    name = "fidelity/serving/" .. o.name, doc = o.doc, seed = 1,
    grid = { run = #names > 0 and names or { "none" } }, quick = { run = #names > 0 and quick or { "none" } },
    columns = o.columns or {
      "case", "below_knee", "measured_e2e_s", "predicted_e2e_s", "e2e_error_ratio", "measured_tpot_s",
      "predicted_tpot_s", "tpot_error_ratio", "measured_ttft_s", "predicted_ttft_s", "ttft_error_ratio",
      "measured_request_rate_per_s", "predicted_request_rate_per_s", "request_rate_error_ratio",
    },
    notes = o.notes,
    run = function(point, context)
      if why then return { status = why.code, message = why.message } end
      local row = rows[point.run]
      local predicted, served = (o.predict or M.predict)(row, 1, context)
      local columns = columns_of(row, predicted, o)
      if o.more then o.more(row, predicted, served, columns) end
      return columns
    end,
    check = function(t)
      if why then return t:skip("not checked: " .. why.message) end
      for _, group in ipairs(o.groups or {}) do expect_targets(t, group) end
      if o.check then o.check(t, rows) end
    end,
    plots = o.plots or {
      {
        kind = "scatter", x = "measured_tpot_s", y = "predicted_tpot_s", by = "below_knee", log_x = true,
        log_y = true,
      },
    },
  }
  return ts.experiment(experiment)
end

return M
