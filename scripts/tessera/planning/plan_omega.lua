-- The quality penalty of a plan in units that plans of different problems share, and the name of the indicator that it
-- is in.

local core = require "tessera.core"
local store = require "tessera.store"

local M = {}

-- As the engine normalises omega: 4 bits throughout are 1, or the lowest bitwidth of an indicator without 4.
local function total_at_reference(indicator)
  local reference = indicator.bitwidths[1]
  for _, bitwidth in ipairs(indicator.bitwidths) do
    if bitwidth == 4 then reference = 4 end
  end
  local sum = 0
  for _, omega in ipairs(indicator:omegas(reference)) do sum = sum + omega end
  return sum > 0 and sum or 1, reference
end

-- "variance paper 1f2e3d4c": kind, variant, and the first digits of the hash of its normalised omegas, since another
-- text or another rounding makes another indicator of the same kind. Those at the reference tell such apart; a table of
-- someone's own may differ anywhere.
local function name_of(indicator, total, reference)
  local words = {}
  for _, bitwidth in ipairs(indicator.kind == "imported" and indicator.bitwidths or { reference }) do
    words[#words + 1] = bitwidth
    for _, omega in ipairs(indicator:omegas(bitwidth)) do words[#words + 1] = ("%.6g"):format(omega / total) end
  end
  local name = { indicator.kind, store.sha256(table.concat(words, " ")):sub(1, 8) }
  if indicator.variant ~= "" then table.insert(name, 2, indicator.variant) end
  return table.concat(name, " ")
end

--- omega of a plan, normalised whatever its problem's theta_unit is, and its indicator's name.
function M.of(plan)
  local problem = plan:problem()
  local indicator = problem.indicator
  if not indicator then core.refuse("plan", "it is of an abstract instance, whose omega has no indicator") end
  local total, reference = total_at_reference(indicator)
  local is_raw = problem.theta_unit == "ms_per_raw_omega"
  return is_raw and plan.omega / total or plan.omega, name_of(indicator, total, reference)
end

return M
