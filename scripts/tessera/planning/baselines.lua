-- What the baselines share: pairs of micro-batch sizes, one bitwidth for all layers, the best of many candidates.

local core = require "tessera.core"
local timer = require "tessera.planning.timer"

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

--- Layers per device in proportion to `weights`, by the rule of llama.cpp: unit i of `num_units` (0-based) goes to the
--- first device whose weight, added to those before it, is a larger share of all than i / num_units. Only the first
--- `num_layers` units are layers. A device may get none.
function M.proportional_counts(num_layers, num_units, weights)
  local total, added, counts, k = 0, {}, {}, 1
  for i, weight in ipairs(weights) do
    total, counts[i] = total + weight, 0
    added[i] = total
  end
  for unit = 0, num_layers - 1 do
    while k < #weights and added[k] * num_units <= unit * total do k = k + 1 end
    counts[k] = counts[k] + 1
  end
  return counts
end

--- The devices that hold layers, their counts, and the names of those that hold none.
function M.without_empty(order, counts)
  local kept, kept_counts, left_out = {}, {}, {}
  for k, device in ipairs(order) do
    if counts[k] > 0 then
      kept[#kept + 1], kept_counts[#kept_counts + 1] = device, counts[k]
    else
      left_out[#left_out + 1] = device
    end
  end
  return kept, kept_counts, left_out
end

--- "9+10+10+19 layers"; of many stages only how many they are and what the least and the most hold.
function M.layers_text(counts)
  if #counts <= 12 then return table.concat(counts, "+") .. " layers" end
  local least, most = math.min(unpack(counts)), math.max(unpack(counts))
  return ("%d stages of %s layers"):format(#counts, least == most and least or least .. " to " .. most)
end

--- Puts `text` before whatever the candidate's note says already.
function M.add_note(candidate, text)
  candidate.note = candidate.note and text .. "; " .. candidate.note or text
  return candidate
end

--- The micro-batch size that keeps every one of `num_stages` stages busy: the papers' default.
function M.batch_over_stages(problem, num_stages) return math.ceil(problem.batch_size / num_stages) end

--- A function that says whether the planner's time is up.
function M.clock(opt) return timer(opt.time_limit_s).late end

--- Iterates prefill and decode micro-batch sizes, prefill <= decode, keeping what `opt` fixes, until it is late. The
--- papers' objective prices decoding in one micro-batch as a single step, so there the decode size is the batch over
--- the stages.
function M.micro_batches(problem, opt, num_stages, late)
  local sizes = problem:micro_batch_sizes()
  local prefills = opt.prefill_micro_batch_size and { opt.prefill_micro_batch_size } or sizes
  local decodes = opt.decode_micro_batch_size and { opt.decode_micro_batch_size } or sizes
  if problem.objective == "paper" and not opt.decode_micro_batch_size then
    decodes = { M.batch_over_stages(problem, num_stages) }
  end
  local i, k = 1, 0
  return function()
    while prefills[i] and not late() do
      k = k + 1
      if not decodes[k] then
        i, k = i + 1, 0
      elseif prefills[i] <= decodes[k] then
        return prefills[i], decodes[k]
      end
    end
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

--- Plans a split that is settled: one bitwidth for all layers, lowered from the highest until it fits, micro-batch
--- sizes of least latency. Returns what a planner returns, and the bitwidth.
function M.at_one_bitwidth(problem, opt, name, order, counts)
  if #order > problem.num_layers then
    return nil, ("%d stages and only %d layers"):format(#order, problem.num_layers)
  end
  local late, best, chosen = M.clock(opt), nil, nil
  for _, bitwidth in ipairs(M.descending(problem.bitwidths)) do
    best, chosen = M.best_of(problem), bitwidth
    for prefill, decode in M.micro_batches(problem, opt, #order, late) do
      best.offer {
        stages = M.stages(order, counts, bitwidth),
        prefill_micro_batch_size = prefill,
        decode_micro_batch_size = decode,
      }
    end
    if best.candidate or late() then break end
  end
  local candidate, why = M.answer(best, late,
    ("%s fits at no bitwidth: %s"):format(name, best.message or "no micro-batch sizes to try"))
  return candidate, why, chosen
end

--- The same for a split that somebody else's rule makes; the note says what came out, and which devices hold nothing.
function M.as_split(problem, opt, name, order, counts)
  local kept, kept_counts, left_out = M.without_empty(order, counts)
  local candidate, why, bitwidth = M.at_one_bitwidth(problem, opt, name, kept, kept_counts)
  if not candidate then return nil, why end
  local note = ("%s at %d bits"):format(M.layers_text(kept_counts), bitwidth)
  if #left_out > 0 then note = note .. ", no layer on " .. table.concat(left_out, ", ") end
  return M.add_note(candidate, note)
end

return M
