-- One line per experiment: how near its numbers are to the published ones, and what became of its claims.

local columns_of = require "tessera.desk.report.columns"
local median = require "tessera.median"
local rows = require "tessera.desk.rows"
local verdict = require "tessera.desk.experiment.verdict"

local M = {}

--- Of a run and its rows: experiment, points, failed, cells (numbers that stand beside a published one),
--- median_difference (%, of these cells, without sign; nil without any) and claims, counted by status.
function M.of(run, list)
  local differences, failed = {}, 0
  for _, column in ipairs(columns_of.of(run, list)) do
    for _, row in ipairs(column.role == "diff" and list or {}) do
      local difference = column.value(row)
      if difference then differences[#differences + 1] = math.abs(difference) end
    end
  end
  for _, row in ipairs(list) do failed = failed + (rows.failed(row) and 1 or 0) end
  return {
    experiment = run.experiment, points = #list, failed = failed, cells = #differences,
    median_difference = median(differences), claims = verdict.count(run.claims),
  }
end

M.columns = { "experiment", "points", "cells", "median diff (%)", "hold", "not reproduced", "fail", "not checked",
  "notes" }

--- The values of such a line, in the order of `columns`. A point that failed counts beside the claims that fail.
function M.line(s)
  local difference = s.median_difference and tonumber(("%.1f"):format(s.median_difference))
  return {
    s.experiment, s.points, s.cells > 0 and s.cells or nil, difference, s.claims.pass, s.claims.differs,
    s.claims.fail + s.failed, s.claims.skipped, s.claims.note,
  }
end

-- Sums of what can be summed.
local function total(summaries)
  local all = { "all", 0, 0, nil, 0, 0, 0, 0, 0 }
  for _, s in ipairs(summaries) do
    for c, value in pairs(M.line(s)) do
      if c ~= 1 and c ~= 4 then all[c] = all[c] + value end
    end
  end
  return all
end

--- All lines and their sum as a sheet (see tessera.desk.sheet).
function M.sheet(summaries)
  local lines = {}
  for i, s in ipairs(summaries) do lines[i] = M.line(s) end
  if #lines > 1 then lines[#lines + 1] = total(summaries) end
  return { columns = M.columns, lines = lines }
end

return M
