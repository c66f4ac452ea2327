-- Bitwidth transfer (LLM-PQ Algorithm 2, extended) in Lua: the worked example of a heuristic. The same moves and the
-- same answers as `planner = "bitwidth_transfer"`, which is written in C++; `bitwidth_transfer_paper` is the algorithm
-- as printed.
--
-- The stage that slows the pipeline down (the straggler) sheds layers to another (a pioneer) by rules: one pioneer
-- layer of b_pi bits makes room for b_pi / b_st straggler layers of b_st bits, and goes the other way (an exchange), or
-- several do for as many as fit in the bytes that they hold, KV cache and all; or straggler layers go over and take a
-- bitwidth b, for which a pioneer layer of b_pi bits becomes b as well and makes room for b_pi / b - 1 of them (a
-- conversion). Of all pioneers and rules the best is taken while the objective falls.
--
-- The paper compares with ">" where the objective must fall, and leaves the second slowest stage out; its published
-- code reads the columns of omega in the wrong order. We do neither.

local ts = require "tessera"

local least_gain_s = 1e-12 -- gains below this are rounding

return ts.register_heuristic {
  name = "bitwidth_transfer_lua",
  doc = "bitwidth_transfer written in Lua: the example to learn from",
  source = "LLM-PQ Algorithm 2, SplitQuant IV-D",
  starts = "every",
  improve = function(search)
    while not search:expired() do
      local best, best_delta = nil, -least_gain_s
      for move in search:moves { from = search:slowest_stage(), kinds = { "rule" } } do
        if move.fits and move.objective_delta < best_delta then
          best, best_delta = move:keep(), move.objective_delta
        end
      end
      if not best then return end
      search:apply(best)
    end
  end,
}
