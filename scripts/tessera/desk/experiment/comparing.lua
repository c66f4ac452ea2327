-- What claims compare: values of cells with a better and a worse end, groups of cells, and the means of ratios. A cell
-- is { point, row or nil }; a result collects { lines, values, checked, skipped, failed }.

local core = require "tessera.core"
local rows = require "tessera.desk.rows"
local student_t = require "tessera.models.student_t"
local units = require "tessera.desk.units"
local grid = require "tessera.desk.experiment.grid"

local fail = core.refuse

local M = {}

function M.number_text(value)
  if value == nil then return "none" end
  if type(value) ~= "number" then return tostring(value) end
  return ("%.4g"):format(value)
end

--- "lower" or "higher".
function M.direction(opt, path)
  if opt.lowest and opt.highest then fail(path, "lowest and highest at once") end
  if opt.lowest or opt.highest then return opt.lowest and "lower" or "higher" end
  local better = units.better(opt.column)
  if not better then
    fail(path, ("whether '%s' should be low or high cannot be told from its name; give lowest = true or highest = true")
      :format(opt.column))
  end
  return better
end

--- Of a cell, for comparisons: infeasible points are worst. nil, and what went wrong, for a point that failed.
function M.measure(cell, column, better)
  if cell.row.error then return nil, ("%s (%s)"):format(cell.row.status, (cell.row.error:gsub("\n.*", ""))) end
  local value = rows.value(cell.row, column)
  if value ~= nil and type(value) ~= "number" then
    return nil, ("%s = %s is no number"):format(column, tostring(value))
  end
  return value or (better == "lower" and math.huge or -math.huge)
end

function M.shown(value, cell)
  if value == math.huge or value == -math.huge then return cell.row.status end
  return M.number_text(value)
end

function M.is_better(a, b, better) return (better == "lower" and a < b) or (better == "higher" and a > b) end

--- Counts the cells that were not run, or had no data to run on; a group with one cannot be judged.
function M.missing(cells, result)
  local count = 0
  for _, cell in ipairs(cells) do
    local no_data = cell.row and cell.row.status == "no_data"
    if no_data then result.without_data = (result.without_data or 0) + 1 end
    if not cell.row or no_data then count = count + 1 end
  end
  result.skipped = result.skipped + count
  return count > 0
end

--- One of the values that a verdict is about; a claim that differs keeps all of them in its interval.
function M.compared(result, value) result.values[#result.values + 1] = value end

function M.wrong(result, text)
  result.failed = result.failed + 1
  result.lines[#result.lines + 1] = text
end

--- Measures of all cells of a group, or nil once one of them failed.
function M.measures(group, column, better, result)
  local values = {}
  for i, cell in ipairs(group.cells) do
    local value, why = M.measure(cell, column, better)
    if not value then
      M.wrong(result, ("%s: %s %s"):format(group.text, grid.text(cell.point), why))
      return nil
    end
    values[i] = value
  end
  return values
end

local rounding = 1e-12 -- one plan's times added up in another order are no better

--- What a value may be beaten by: itself with the slack of `within`.
function M.with_slack(value, within, better)
  local lower = better == "lower"
  local rounded = value * ((value > 0) == lower and 1 - rounding or 1 + rounding)
  return lower and rounded / (1 + within) or rounded * (1 + within)
end

--- " ± 0.4" of a mean; what to say where one repetition tells nothing of the spread.
function M.half_text(half, known)
  if not known then return ", one repetition, which tells nothing of the spread" end
  return half > 0 and (" ± %.2g"):format(half) or ""
end

--- " (within 5 %)", or nothing.
function M.within_text(within) return within > 0 and (" (within %g %%)"):format(100 * within) or "" end

function M.is_member(point, wanted)
  for key, value in pairs(wanted) do
    if point[key] ~= value then return false end
  end
  return true
end

--- The cell of a group that has the wanted values.
function M.member(group, wanted)
  for _, cell in ipairs(group.cells) do
    if M.is_member(cell.point, wanted) then return cell end
  end
end

--- The interval that a ratio belongs in: at_least and at_most, or `to` with `rel` to either side (a factor of 1 + rel).
function M.ratio_interval(opt, path)
  if opt.to then
    if not opt.rel or opt.at_least or opt.at_most then
      fail(path, "to goes with rel, how far to either side, and without at_least and at_most")
    end
    return opt.to / (1 + opt.rel), opt.to * (1 + opt.rel)
  end
  if opt.rel then fail(path, "rel goes with to, the ratio that is expected") end
  if not opt.at_least and not opt.at_most then fail(path, "give at_least or at_most, or to and rel") end
  return opt.at_least, opt.at_most
end

--- "2.26 (within a factor of 1.2)", ">= 1.5 and <= 2".
function M.interval_text(opt)
  if opt.to then return ("%s (within a factor of %g)"):format(M.number_text(opt.to), 1 + opt.rel) end
  local words = {}
  if opt.at_least then words[#words + 1] = ">= " .. M.number_text(opt.at_least) end
  if opt.at_most then words[#words + 1] = "<= " .. M.number_text(opt.at_most) end
  return table.concat(words, " and ")
end

--- The interval of the mean of paired ratios by Student's t, of their logarithms where the mean is geometric; nil where
--- there is one pair alone.
function M.interval_of(ratios, opt, path)
  local geometric = opt.mean == "geometric"
  if not geometric and opt.mean ~= "arithmetic" then
    fail(path .. ".confidence", ("the %s of several ratios has no interval; leave mean away"):format(opt.mean))
  end
  local values = {}
  for i, ratio in ipairs(ratios) do values[i] = geometric and math.log(ratio) or ratio end
  local mean, half = student_t.mean_and_half(values, opt.confidence)
  if not half then return nil end
  if geometric then return math.exp(mean - half), math.exp(mean + half) end
  return mean - half, mean + half
end

M.mean_of = {
  geometric = function(ratios)
    local sum = 0
    for _, ratio in ipairs(ratios) do sum = sum + math.log(ratio) end
    return math.exp(sum / #ratios)
  end,
  arithmetic = function(ratios)
    local sum = 0
    for _, ratio in ipairs(ratios) do sum = sum + ratio end
    return sum / #ratios
  end,
  highest = function(ratios) return math.max(unpack(ratios)) end,
  lowest = function(ratios) return math.min(unpack(ratios)) end,
}

return M
