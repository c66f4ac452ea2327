-- The indicators of the model on disk, and how the truth judges them.
--
-- The truth is the error of the layers' outputs, under rounding to nearest ("measured") and under GPTQ, and the rise of
-- the model's loss where that was measured (tessera.model_on_disk says how).

local indicator = require "tessera.indicator"
local model_on_disk = require "tessera.model_on_disk"

local M = {}

--- The model, as tessera.model_on_disk finds it.
M.disk = model_on_disk.find()
M.bitwidths = { 3, 4, 8, 16 }

-- One scale per output channel everywhere, so that all describe the same rounding.
local options_of = {
  constant = { kind = "constant", statistics = false },
  measured = { kind = "measured" },
  variance = { kind = "variance", granularity = "channel" },
  variance_stochastic = { kind = "variance", granularity = "channel", rounding = "stochastic" },
  variance_weights_only = { kind = "variance", granularity = "channel", statistics = false },
  variance_per_tensor = { kind = "variance", granularity = "tensor" },
  variance_llm_pq_code = { kind = "variance", variant = "llm-pq-code" },
  hessian = { kind = "hessian" },
  hessian_llm_pq_code = { kind = "hessian", variant = "llm-pq-code" },
  gptq_error = { kind = "gptq_error" },
  random = { kind = "random", statistics = false },
}

--- All names that `make` knows, sorted.
M.names = {}
for name in pairs(options_of) do M.names[#M.names + 1] = name end
table.sort(M.names)

--- The indicator of that name; the seed matters to random draws alone.
function M.make(name, seed)
  local options = { model = M.disk.path, bitwidths = M.bitwidths, seed = seed, statistics = M.disk.statistics }
  for key, value in pairs(options_of[name]) do options[key] = value end
  if options.statistics == false then options.statistics = nil end
  return indicator.new(options)
end

local truth

--- { output_error, gptq_error, loss_increase }, the last nil where it was not measured. Made once.
function M.truth()
  truth = truth or {
    output_error = M.make "measured", gptq_error = M.make "gptq_error",
    loss_increase = M.disk.loss and indicator.new(M.disk.loss),
  }
  return truth
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
--- the second one is more than noise, and these bitwidths. nil where there are none.
function M.agreement(one, other, correlation)
  local sum, at = 0, {}
  for _, bitwidth in ipairs(other.bitwidths) do
    local r = bitwidth < 16 and is_known(other, bitwidth) and correlation(one:omegas(bitwidth), other:omegas(bitwidth))
    if r then sum, at[#at + 1] = sum + r, bitwidth end
  end
  if #at > 0 then return sum / #at, at end
end

local function covers(of, bitwidths)
  local known = {}
  for _, bitwidth in ipairs(of.bitwidths) do known[bitwidth] = true end
  for _, bitwidth in ipairs(bitwidths) do
    if not known[bitwidth] then return false end
  end
  return true
end

--- Whether the rise of the loss was measured at all bitwidths that a plan may choose.
function M.knows_loss() return M.disk.loss ~= nil and covers(indicator.new(M.disk.loss), M.bitwidths) end

--- What a plan's bitwidths lose by an indicator; nil where it does not know all that a plan may choose.
function M.lost(plan, of)
  if not covers(of, M.bitwidths) then return nil end
  local sum = 0
  for _, stage in ipairs(plan.stages) do
    for i, bitwidth in ipairs(stage.bitwidths) do sum = sum + of:omega(stage.first_layer + i - 1, bitwidth) end
  end
  return sum
end

--- What the bitwidths of least omega lose in truth, of those whose mean is at most `mean`: for every sum of bits, the
--- best layer by layer. nil as for `lost`.
function M.lost_at(mean, of, truth_of)
  if not covers(truth_of, M.bitwidths) then return nil end
  local least = { [0] = { omega = 0, lost = 0 } }
  for layer = 0, of.num_layers - 1 do
    local longer = {}
    for total, so_far in pairs(least) do
      for _, bitwidth in ipairs(M.bitwidths) do
        local key, omega = total + bitwidth, so_far.omega + of:omega(layer, bitwidth)
        if key <= mean * of.num_layers and (not longer[key] or omega < longer[key].omega) then
          longer[key] = { omega = omega, lost = so_far.lost + truth_of:omega(layer, bitwidth) }
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
  return best.lost
end

return M
