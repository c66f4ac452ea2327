-- Het: knows that the devices differ, but not that layers may. Every order of the devices is tried with one bitwidth
-- for all layers and a partition balanced by the stage times of this workload.
-- As the papers do, it enumerates tensor-parallel meshes as well: ts.plan runs it on every one that the problem's
-- tensor_parallel allows and keeps the best.

local search = require "tessera.planning.baselines"
local ts = require "tessera"

return ts.register_planner {
  name = "het",
  doc = "Every mesh and device order, one bitwidth lowered until it fits, partition balanced by the workload",
  source = "SplitQuant VI-A",
  options = {
    max_orders = { type = "integer", default = 200, min = 1, max = 100000, doc = "Device orders tried at most" },
  },
  plan = function(problem, opt)
    local orders = opt.device_order and { opt.device_order } or problem:device_orders(opt.max_orders)
    local late, best = search.clock(opt), nil
    for _, bitwidth in ipairs(search.descending(problem.bitwidths)) do
      best = search.best_of(problem)
      for _, order in ipairs(orders) do
        for prefill, decode in search.micro_batches(problem, opt, #order, late) do
          local counts = problem:balanced_partition {
            device_order = order, bitwidth = bitwidth,
            prefill_micro_batch_size = prefill, decode_micro_batch_size = decode,
          }
          if counts then
            best.offer {
              stages = search.stages(order, counts, bitwidth),
              prefill_micro_batch_size = prefill,
              decode_micro_batch_size = decode,
            }
          end
        end
      end
      if best.candidate or late() then break end
    end
    return search.answer(best, late, "het fits at no bitwidth in any device order")
  end,
}
