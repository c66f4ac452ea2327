-- Whether counts are those of a distribution: Pearson's statistic, and what it exceeds once in a million seeds.
local M = {}

--- The statistic and its degrees of freedom; infinite where something came that cannot come.
function M.statistic(counts, probabilities)
  local total, sum, cells = 0, 0, 0
  for _, count in ipairs(counts) do total = total + count end
  for i, count in ipairs(counts) do
    local expected = total * probabilities[i]
    if probabilities[i] > 0 then cells = cells + 1 end
    if expected > 0 or count > 0 then sum = sum + (count - expected) ^ 2 / expected end
  end
  return sum, cells - 1
end

--- Quantile 1 - 1e-6 of the distribution by Wilson and Hilferty's approximation, which is above it there (15 % for 1
--- degree of freedom, 5 % for 4); 0 of none.
function M.bound(degrees)
  if degrees == 0 then return 0 end
  local part = 2 / (9 * degrees)
  return degrees * (1 - part + 4.753424 * math.sqrt(part)) ^ 3
end

return M
