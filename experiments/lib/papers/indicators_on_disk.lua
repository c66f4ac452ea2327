-- The indicators of the model on disk, and how the truth judges them.
--
-- The model is the one that TESSERA_WEIGHTS names, else the small one that ships, with the texts and the rounding of
-- lib.quality.subject. The truth of a layer is the error of its outputs under rounding to nearest ("measured"), and
-- the divergence of the model with that layer alone quantised; of a plan, what the model says with its bitwidths.

local indicators = require "lib.quality.indicators"
local subjects = require "lib.quality.subject"

local M = {}

M.bitwidths = indicators.bitwidths

local named = os.getenv "TESSERA_WEIGHTS"

--- Its name, and whether it is another than the one that ships.
M.is_real = named ~= nil and named ~= ""
M.name = M.is_real and subjects.real or subjects.small

--- The model and its texts (lib.quality.subject), or nil and why there is none.
function M.subject(is_quick) return subjects.find(M.name, is_quick) end

--- Indicators that are compared, sorted.
M.names = {
  "constant", "gptq_error", "hessian", "hessian_llm_pq_code", "measured", "random", "variance", "variance_llm_pq_code",
  "variance_per_tensor", "variance_stochastic", "variance_weights_only",
}

--- make(name, subject, folder, seed): the indicator of that name; the seed matters to random draws alone.
M.make = indicators.object

local truths = {}

--- { output_error, divergence }: what one layer at a time loses. Made once.
function M.truth(subject, folder)
  truths[subject.path] = truths[subject.path] or {
    output_error = M.make("measured", subject, folder), divergence = M.make("divergence_short", subject, folder),
  }
  return truths[subject.path]
end

-- Whether most layers lose more at a bitwidth than two standard errors, where these are known.
local function is_known(of, bitwidth)
  local count = 0
  for layer = 0, of.num_layers - 1 do
    if of:omega(layer, bitwidth) > 2 * (of:standard_error(layer, bitwidth) or 0) then count = count + 1 end
  end
  return 2 * count > of.num_layers
end

--- How far two indicators put the layers in the same order: the mean of a rank correlation over the bitwidths at which
--- the second one is more than noise. nil where there are none.
function M.agreement(one, other, correlation)
  local sum, count = 0, 0
  for _, bitwidth in ipairs(other.bitwidths) do
    local r = bitwidth < 16 and is_known(other, bitwidth) and correlation(one:omegas(bitwidth), other:omegas(bitwidth))
    if r then sum, count = sum + r, count + 1 end
  end
  return count > 0 and sum / count or nil
end

--- What bitwidths lose by an indicator, summed over the layers.
function M.lost(bitwidths, of)
  local sum = 0
  for i, bitwidth in ipairs(bitwidths) do sum = sum + of:omega(i - 1, bitwidth) end
  return sum
end

--- The bitwidths of least omega of those whose mean is at most `mean`: for every sum of bits, the best layer by layer.
function M.chosen_at(mean, of)
  local least = { [0] = { omega = 0 } }
  for layer = 0, of.num_layers - 1 do
    local longer = {}
    for total, so_far in pairs(least) do
      for _, bitwidth in ipairs(M.bitwidths) do
        local key, omega = total + bitwidth, so_far.omega + of:omega(layer, bitwidth)
        local other = longer[key]
        local better = not other or omega < other.omega
          or omega == other.omega and bitwidth < other.bitwidth
        if key <= mean * of.num_layers and better then
          longer[key] = { omega = omega, bitwidth = bitwidth, before = so_far }
        end
      end
    end
    least = longer
  end
  local best
  for total = 0, mean * of.num_layers do
    local one = least[total]
    if one and (not best or one.omega < best.omega) then best = one end
  end
  local list = {}
  while best.before do
    table.insert(list, 1, best.bitwidth)
    best = best.before
  end
  return list
end

return M
