-- What experiments say of the errors of predictions.
--
-- local errors = require "fidelity.fit.errors"; errors.row({ 0.1, 0.2 }, { 0.05, 0.15 })

local M = {}

-- Linear between the neighbours.
function M.quantile(sorted, q)
  local at = 1 + q * (#sorted - 1)
  local low = math.floor(at)
  return sorted[low] + (at - low) * ((sorted[low + 1] or sorted[low]) - sorted[low])
end

-- A row on sorted errors: its figures, and whether they are within { median, p90 }.
function M.row(sorted, limits)
  local median, p90 = M.quantile(sorted, 0.5), M.quantile(sorted, 0.9)
  return {
    status = "ok", num_points = #sorted, median = median, p90 = p90, worst = sorted[#sorted],
    in_target = median <= limits[1] and p90 <= limits[2],
  }
end

return M
