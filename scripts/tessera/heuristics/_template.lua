-- A heuristic to start from: copy this file into a folder `heuristics` of TESSERA_PATH (or `require` it), rename
-- it, and change `improve`. `tessera help planners` then lists it, and
-- ts.plan(problem, { planner = { "adabits", "my_heuristic" } }) runs it.

local ts = require "tessera"

return ts.register_heuristic {
  name = "my_heuristic",
  doc = "Takes the best of all moves while one helps",
  source = "", -- the paper it comes from
  options = { -- each a name, type (number, integer, boolean, string), default, range and doc
    max_moves = { type = "integer", default = 200, min = 0, doc = "Accepted moves before stopping" },
  },

  -- `search` holds a plan that fits. A move is a read-only view, good until the next step: keep() what you need longer.
  --   search:moves { from = stage, to = stage, kinds = { "shift", "swap", "retype", "rule", "micro_batch", "order" } }
  --   move.kind from_stage to_stage first_layer num_layers from_bitwidth to_bitwidth fits
  --   move.objective_delta prefill_delta_s decode_delta_s omega_delta memory_delta_bytes
  --   search:random_move { kinds = ..., fits = true } count { ... } stages() micro_batch_sizes() omega()
  --   search:apply(move) undo() perturb(strength) evaluate(move) objective() best() slowest_stage() random()
  -- An error in improve is raised by ts.plan, unless its on_error is "continue".
  improve = function(search, opt)
    while search:moves_made() < opt.max_moves and not search:expired() do
      local best
      for move in search:moves() do
        if move.fits and move.objective_delta < (best and best.objective_delta or -1e-12) then best = move:keep() end
      end
      if not best then return end -- the best plan met is kept by the engine: nothing to return
      search:apply(best)
    end
  end,
}
