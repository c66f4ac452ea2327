-- What a sweep prints at its end: rows, failures, claims.

local grouped = require "tessera.grouped"
local published = require "tessera.desk.published"
local one_repetition = require "tessera.desk.one_repetition"
local repeated = require "tessera.desk.repeated"
local rows = require "tessera.desk.rows"
local sheet = require "tessera.desk.sheet"
local grid = require "tessera.desk.experiment.grid"
local verdict = require "tessera.desk.experiment.verdict"

local M = {}

local max_rows, max_failures, max_lines = 60, 5, 8

-- The table as a sheet (see tessera.desk.sheet): what is declared, the published numbers beside ours.
local function sheet_of(experiment, list)
  local printed, names = published.of(experiment.paper), experiment.columns or rows.columns(list)
  published.annotate(list, printed)
  return rows.sheet(list, { keys = experiment.keys, others = published.beside(names, list, printed),
    spread = experiment.over ~= nil })
end

--- The rows as a table, as many as fit a screen or two.
function M.rows(experiment, list, write)
  local shown = {}
  if experiment.over then list = repeated(list, experiment.over) end
  for i = 1, math.min(#list, max_rows) do shown[i] = list[i] end
  write(sheet.table(sheet_of(experiment, shown)))
  local warning = experiment.over and one_repetition(list, experiment.over)
  if warning then write("note: " .. warning .. "\n") end
  if #list > #shown then
    write(("... and %d more rows: tessera results %s\n"):format(#list - #shown, experiment.name))
  end
end

-- What went wrong with a failed row.
local function cause_of(row)
  return row.status .. "\n" .. row.error .. "\n" .. (row.meta and row.meta.traceback or "")
end

--- The first causes of failures, each with its first point and the way to it.
function M.failures(experiment, list, database, write)
  local failed = {}
  for _, row in ipairs(list) do
    if row.error then failed[#failed + 1] = row end
  end
  if #failed == 0 then return 0 end
  write(("\n%d of %d points failed:\n"):format(#failed, #list))
  local causes = grouped(failed, cause_of)
  for i = 1, math.min(#causes, max_failures) do
    local row, more = causes[i][1], #causes[i] - 1
    write(("  %s: %s%s: %s\n"):format(row.status, grid.text(row.point, experiment.keys),
      more == 0 and "" or (" and %d more"):format(more), row.error))
    local traceback = row.meta and row.meta.traceback or ""
    if traceback ~= "" then write("    " .. traceback:gsub("\n", "\n    ") .. "\n") end
  end
  write(("  all of them: tessera results %s --results %s --failed; once more: --retry-failed\n"):format(
    experiment.name, database))
  return #failed
end

--- What is said beneath the table.
function M.notes(experiment, write)
  if #(experiment.notes or {}) == 0 then return end
  write "\nnotes:\n"
  for _, note in ipairs(experiment.notes) do write("  - " .. note .. "\n") end
end

local words = { pass = "pass   ", fail = "FAIL   ", skipped = "skipped", differs = "differs", note = "note   " }

--- The claims with their numbers; how many failed.
function M.claims(list, write)
  if #list == 0 then return 0 end
  local differ = verdict.count(list).differs
  write(("\nclaims%s:\n"):format(differ > 0 and (", of which %d %s not reproduced"):format(differ,
    differ == 1 and "is" or "are") or ""))
  local failed = 0
  for _, claim in ipairs(list) do
    local text = ("  %s  %s"):format(words[claim.status], claim.text)
    if claim.numbers then text = text .. ": " .. claim.numbers end
    if claim.status == "skipped" and not claim.waits then
      text = text .. (": %d point%s %s"):format(claim.skipped, claim.skipped == 1 and "" or "s",
        claim.without_data == claim.skipped and "without data" or "not run")
        .. (claim.checked > 0 and not claim.numbers and ("; holds for the %d checked"):format(claim.checked) or "")
    end
    write(text .. "\n")
    for i = 1, math.min(#claim.lines, max_lines) do
      write("           " .. claim.lines[i]:gsub("\n", "\n           ") .. "\n")
    end
    if #claim.lines > max_lines then write(("           ... and %d more\n"):format(#claim.lines - max_lines)) end
    local why = verdict.why { status = claim.status, note = claim.note, not_reproduced = claim.not_reproduced,
      here = claim.here ~= nil and verdict.text(claim.here) or nil }
    if why then write("           " .. why .. "\n") end
    if claim.status == "fail" then failed = failed + 1 end
  end
  return failed
end

return M
