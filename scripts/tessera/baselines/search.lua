-- What the baselines share: pairs of micro-batch sizes, one bitwidth for all layers, the best of many candidates.

local core = require "tessera.core"

local M = {}

--- Bitwidths from the highest to the lowest.
function M.descending(bitwidths)
  local list = {}
  for i = #bitwidths, 1, -1 do list[#list + 1] = bitwidths[i] end
  return list
end

--- Stages of `counts[k]` layers on `order[k]`, all at one bitwidth.
function M.stages(order, counts, bitwidth)
  local stages = {}
  for k, device in ipairs(order) do
    local bitwidths = {}
    for i = 1, counts[k] do bitwidths[i] = bitwidth end
    stages[k] = { device = device, bitwidths = bitwidths }
  end
  return stages
end

--- Layers per stage, as even as possible, the earlier stages holding one more where it does not divide.
function M.even_counts(num_layers, num_stages)
  local counts = {}
  for k = 1, num_stages do
    counts[k] = math.floor(num_layers / num_stages) + (k <= num_layers % num_stages and 1 or 0)
  end
  return counts
end

--- A function that says whether the planner's time is up.
function M.clock(opt)
  local limit_s, started = opt.time_limit_s or 60, os.clock()
  return function() return os.clock() - started >= limit_s end
end

--- Iterates prefill and decode micro-batch sizes, prefill <= decode, keeping what `opt` fixes, until it is late. The
--- papers' objective prices decoding in one micro-batch as a single step, so there the decode size is the batch over
--- the stages.
function M.micro_batches(problem, opt, num_stages, late)
  local sizes = problem:micro_batch_sizes()
  local prefills = opt.prefill_micro_batch_size and { opt.prefill_micro_batch_size } or sizes
  local decodes = opt.decode_micro_batch_size and { opt.decode_micro_batch_size } or sizes
  if problem.objective == "paper" and not opt.decode_micro_batch_size then
    decodes = { math.ceil(problem.batch_size / num_stages) }
  end
  local pairs_list = {}
  for _, prefill in ipairs(prefills) do
    for _, decode in ipairs(decodes) do
      if prefill <= decode then pairs_list[#pairs_list + 1] = { prefill, decode } end
    end
  end
  local i = 0
  return function()
    i = i + 1
    if pairs_list[i] and not late() then return pairs_list[i][1], pairs_list[i][2] end
  end
end

--- Keeps the candidate of least latency that fits, and why the last one did not.
function M.best_of(problem)
  local self = {}
  function self.offer(candidate)
    local priced = problem:evaluate(candidate)
    if not priced.fits then
      self.message = priced.message
    elseif not self.latency_s or priced.latency_s < self.latency_s then
      self.latency_s, self.candidate = priced.latency_s, candidate
    end
  end
  return self
end

--- The planner's answer: the best candidate, or nil and why there is none.
function M.answer(best, late, message)
  if best.candidate then
    if late() then best.candidate.note = "stopped by the time limit: not every micro-batch size or order was tried" end
    return best.candidate
  end
  if late() then return nil, core.why("time_limit", "no plan was found within the time limit; raise time_limit_s") end
  return nil, message
end

return M
