-- What the rows of experiments/quality/indicators say: how well each indicator orders the plans, whether losses of
-- single layers add up, and what the variance misses.

local indicators = require "lib.quality.indicators"
local plans = require "lib.quality.plans"
local rank = require "lib.rank_correlation"
local summary = require "lib.quality.summary"

local M = {}

-- Sum of an indicator's omega over a plan's layers.
local function predicted(omega, bitwidths)
  local sum = 0
  for layer, bitwidth in ipairs(plans.list(bitwidths)) do sum = sum + omega[tostring(bitwidth)][layer] end
  return sum
end

local function columns_of(rows)
  local of = { kl = {}, loss = {}, plans = {}, omega = {} }
  for _, row in ipairs(rows) do
    if row.point.kind == "indicator" then
      of.omega[row.point.name] = row.omega
    else
      of.kl[#of.kl + 1], of.loss[#of.loss + 1], of.plans[#of.plans + 1] =
        row.kl_nats, row.loss_increase_nats, row.bitwidths
    end
  end
  function of.sums(name)
    local list = {}
    for i, bitwidths in ipairs(of.plans) do list[i] = predicted(of.omega[name], bitwidths) end
    return list
  end
  return of
end

local function interval_text(found)
  return found and ("%.2f [%.2f, %.2f]"):format(found.value, found.low, found.high) or "none: all sums are equal"
end

-- Sums of equal terms in another order differ in the last digits, which is no order.
local function rounded(values)
  local list = {}
  for i, value in ipairs(values) do list[i] = tonumber(("%.9g"):format(value)) end
  return list
end

-- Correlation of an indicator's sums with the divergence, and all of it in words.
local function agreement(of, name)
  local sums = rounded(of.sums(name))
  local kl = summary.bootstrap(rank.spearman, { sums, of.kl }, 1)
  local tau = rank.kendall(sums, of.kl)
  return kl, ("rho %s with the divergence (tau %s), %s with the loss, %d plans"):format(interval_text(kl),
    tau and ("%.2f"):format(tau) or "none", interval_text(summary.bootstrap(rank.spearman, { sums, of.loss }, 1)),
    #of.kl)
end

-- How much better one indicator's correlation is than another's, over the same resamples.
local function advantage(of, name, other)
  local function difference(a, b, kl)
    local one, two = rank.spearman(a, kl), rank.spearman(b, kl)
    return one and two and one - two
  end
  return summary.bootstrap(difference, { rounded(of.sums(name)), rounded(of.sums(other)), of.kl }, 1)
end

-- Measured over the sum of single layers: the one scale (geometric mean), and the factor by which the sum misses after
-- it (exp of the standard deviation of the logarithm).
local function additivity(of, name)
  local logs = {}
  for i, sum in ipairs(of.sums(name)) do logs[i] = math.log(of.kl[i] / sum) end
  return math.exp(summary.mean(logs)), math.exp(summary.deviation(logs))
end

local function logs(values)
  local list = {}
  for i, value in ipairs(values) do list[i] = math.log(math.max(value, 1e-12)) end
  return list
end

-- What of the layers' own divergence at a bitwidth the variance explains, and the depth beside it.
local function explained(of, bitwidth)
  local key, depth = tostring(bitwidth), {}
  local truth = logs(of.omega.divergence[key])
  for i in ipairs(truth) do depth[i] = math.log(i) end
  local variance = logs(of.omega.variance[key])
  return summary.regression(truth, { variance }), summary.regression(truth, { variance, depth })
end

-- Bounds chosen on an early state of the small model; on its final one losses of layers do not add up.
local small_model = "bounds of an early state of this model; losses of its layers do not add up"
local other_models = "papers show it for OPT and BLOOM; it is a property of the model"
local theirs = {
  variance = true, variance_weights_only = true, variance_per_tensor = true, hessian = true, gptq_error = true,
  measured = true,
}
local ours = { relative = true, relative_robust = true, error_robust = true, depth = true }

-- A claim on rows of these points of the model.
local function claims_of(t, where)
  return function(text, holds, may_differ)
    if may_differ == small_model and where.model ~= "grammar-opt-5m" then may_differ = nil end
    t:expect_that {
      text = text, where = where, may_differ = may_differ,
      holds = function(_, rows) return holds(columns_of(rows)) end,
    }
  end
end

-- Mean and standard deviation of the correlation of random indicators: uniform draws, the larger the fewer bits.
local function of_random(of)
  local draw, found = summary.generator(1), {}
  for i = 1, 200 do
    local omega = { ["3"] = {}, ["4"] = {}, ["8"] = {} }
    for layer = 1, #of.plans[1] do
      local draws = { draw(2 ^ 30), draw(2 ^ 30), draw(2 ^ 30) }
      table.sort(draws)
      omega["8"][layer], omega["4"][layer], omega["3"][layer] = unpack(draws)
    end
    of.omega.draw = omega
    found[i] = rank.spearman(of.sums "draw", of.kl)
  end
  return summary.mean(found), summary.deviation(found)
end

local function expect_order(claim)
  for _, name in ipairs(indicators.names) do
    if theirs[name] or ours[name] then
      claim(name .. " orders plans better than chance", function(of)
        local found, text = agreement(of, name)
        return found ~= nil and found.low > 0, text
      end, other_models)
    end
  end
  claim("constant says nothing: all plans have the same counts", function(of)
    local found, text = agreement(of, "constant")
    return found == nil, text
  end)
  claim("random draws have a rho between -0.1 and 0.1 on average", function(of)
    local mean, deviation = of_random(of)
    return math.abs(mean) <= 0.1, ("%.2f, standard deviation %.2f, 200 draws"):format(mean, deviation)
  end)
  for _, name in ipairs { "divergence_scaled", "divergence_short", "divergence", "divergence_same_text" } do
    claim(name .. ", of one layer at a time, has a rho of 0.75 to 1", function(of)
      local found, text = agreement(of, name)
      return found.value >= 0.75, text
    end, small_model)
  end
  claim("loss, of one layer at a time, has a rho of 0.4 to 1", function(of)
    local found, text = agreement(of, "loss")
    return found.value >= 0.4, text
  end)
end

local function expect_better(claim)
  for _, name in ipairs { "relative", "relative_robust", "error_robust", "depth", "divergence_scaled", "divergence" } do
    claim(name .. " orders plans better than the variance does", function(of)
      local found = advantage(of, name, "variance")
      return found.low > 0, "rho higher by " .. interval_text(found)
    end, "which of the two is better was not known before the run")
  end
end

local function expect_additive(claim)
  claim("after one scale, the layers' own divergences miss that of the plan by a factor of at most 1.4", function(of)
    local scale, miss = additivity(of, "divergence_same_text")
    return miss <= 1.4, ("%.2f after a scale of %.2f; public per-tensor data: 1.12 to 1.4"):format(miss, scale)
  end)
  claim("that scale is between 0.5 and 2: what layers lose roughly adds up", function(of)
    local scale = additivity(of, "divergence_same_text")
    return scale >= 0.5 and scale <= 2, ("%.2f"):format(scale)
  end, small_model)
  for _, bitwidth in ipairs { 3, 4 } do
    claim(("at %d bits the variance explains at least half of the spread of the layers' divergences"):format(bitwidth),
      function(of)
        local alone, with_depth = explained(of, bitwidth)
        return alone.r2 >= 0.5, ("r2 %.2f; with log depth %.2f, at exponents %.2f of variance and %.2f of layer + 1")
          :format(alone.r2, with_depth.r2, with_depth[2], with_depth[3])
      end, other_models)
  end
end

--- The claims on one model: on all plans, or on those of a quick run while there are no others.
function M.expect(t, model)
  local is_full = #t:rows { model = model, part = "full" } > 0
  local claim = claims_of(t, { model = model, part = not is_full and "quick" or nil })
  expect_order(claim)
  expect_better(claim)
  expect_additive(claim)
end

return M
