-- PipeEdge as the papers use it: uniform quantisation, and a heterogeneous partition of the layers that is exact for
-- ONE phase. The partition minimises the time of the slowest stage in prefill, by dynamic programming; decoding takes
-- what comes out. One bitwidth, lowered from the highest until the model fits; prefill and decode micro-batches of one
-- size, the batch over the number of stages (LLM-PQ 6.1); devices in the order given.
--
-- PipeEdge itself (Hu et al., DSD 2022) knows encoders, whose one phase is like prefill; its dynamic programme also
-- chooses which devices to use and in which order, and counts transfers. The papers say nothing of that, so the order
-- is taken as given here; in a given order every boundary sends the same activations, so transfers do not move it.
-- LLM-PQ's published code (qpipe/algo/pipeedge_ilp.py) solves an integer programme instead and balances one DECODE
-- step, at the mean context; that is `phase = "decode"`. The bitwidth is an argument there, lowered by hand.

local core = require "tessera.core"
local search = require "tessera.planning.baselines"
local ts = require "tessera"

return ts.register_planner {
  name = "pipeedge",
  doc = "Exact partition for one phase alone, one bitwidth lowered until it fits, batch over stages",
  source = "LLM-PQ 6.1, PipeEdge (DSD 2022)",
  options = {
    phase = { type = "string", default = "prefill", doc = "What is balanced: prefill, or decode as in LLM-PQ's code" },
  },
  plan = function(problem, opt)
    if opt.phase ~= "prefill" and opt.phase ~= "decode" then
      core.raise("invalid_argument", ("ts.plan.phase: '%s' is neither 'prefill' nor 'decode'"):format(opt.phase),
        "ts.plan.phase")
    end
    local order = opt.device_order or problem.devices
    if #order > problem.num_layers then
      return nil, ("%d stages and only %d layers"):format(#order, problem.num_layers)
    end
    local default = search.batch_over_stages(problem, #order)
    local prefill = opt.prefill_micro_batch_size or opt.decode_micro_batch_size or default
    local decode = opt.decode_micro_batch_size or opt.prefill_micro_batch_size or default
    local late, best = search.clock(opt), search.best_of(problem)
    for _, bitwidth in ipairs(search.descending(problem.bitwidths)) do
      if late() then break end
      local counts = problem:balanced_partition {
        device_order = order, bitwidth = bitwidth, phase = opt.phase,
        prefill_micro_batch_size = prefill, decode_micro_batch_size = decode,
      }
      if counts then
        best.offer {
          stages = search.stages(order, counts, bitwidth),
          prefill_micro_batch_size = prefill,
          decode_micro_batch_size = decode,
        }
        if best.candidate then
          return search.add_note(best.candidate,
            ("%s at %d bits, balanced for %s alone"):format(search.layers_text(counts), bitwidth, opt.phase))
        end
      end
    end
    return search.answer(best, late, "pipeedge fits at no bitwidth: " .. (best.message
      or ("in no partition do all %d stages hold their layers with micro-batches of %d"):format(#order, prefill)))
  end,
}
