-- Where no plan keeps a bound on perplexity or accuracy: the best quality that plans reach, and what to change.

local bound_words = require "tessera.planning.bound_words"
local core = require "tessera.core"

local M = {}

local strongest_theta, search_s = 1e9, 2

-- The value that would have been kept, at the end of the band that the bound looks at.
local function loosened(bound, quality)
  local at_mid, words = bound.at == "mid", {}
  if bound.max_perplexity_increase then
    local band = quality.perplexity_increase
    words[#words + 1] = ("max_perplexity_increase = %.2g"):format(1.01 * (at_mid and band.mid or band.high))
  end
  if bound.min_accuracy_recovery then
    local band = quality.accuracy_recovery
    local kept = at_mid and band.mid or band.low
    words[#words + 1] = ("min_accuracy_recovery = %.3f"):format(math.floor(1e3 * kept) / 1e3)
  end
  return table.concat(words, ", ")
end

--- `why` of a problem with such a bound, in its words; others as they are. `plan` plans a problem.
function M.explain(problem, why, plan)
  local bound = problem.quality
  if not bound or not (bound.max_perplexity_increase or bound.min_accuracy_recovery) then return why end
  if why.code ~= "infeasible" or (why.constraint and why.constraint ~= "quality") then return why end
  local free = problem:with { quality = { at_least = "none" }, theta = strongest_theta }
  local best = plan(free, { planner = "exact", time_limit_s = search_s })
  if not best then return why end
  local text = ("no plan that fits keeps the bound: %s. The best that fits: %s (grade %s). Ask for %s, or give more "
    .. "memory or higher bitwidths%s"):format(bound_words(bound), best.quality.text, best.quality.grade,
    loosened(bound, best.quality), best.quality.grade ~= "measured"
      and "; own losses (ts.indicator, kind divergence) narrow the band" or "")
  local told = core.why("infeasible", text)
  told.constraint = "quality"
  return told
end

return M
