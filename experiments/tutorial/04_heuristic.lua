-- Step 4: a heuristic of your own. It improves a plan by moves that the engine hands out, applies and checks again.
local ts = require "tessera"

ts.register_heuristic {
  name = "greedy_balance",
  doc = "Moves layers off the slowest stage, or lowers their bitwidth, while that helps",
  source = "the tutorial",
  options = { max_moves = { type = "integer", default = 200, min = 0, doc = "Accepted moves before stopping" } },
  improve = function(search, opt)
    while search:moves_made() < opt.max_moves and not search:expired() do
      local best
      for move in search:moves { from = search:slowest_stage() } do
        if move.fits and move.objective_delta < (best and best.objective_delta or -1e-12) then best = move:keep() end
      end
      if not best then break end
      search:apply(best)
    end
  end,
}

local problem = ts.problem {
  model = "opt-13b",
  cluster = ts.cluster { { "T4-16G", 1 }, { "V100-32G", 1 }, link_gbps = 100 },
  workload = ts.workload { prompt_tokens = 512, output_tokens = 100, batch_size = 16 },
  theta = 1,
}
local rows = {}
for _, planner in ipairs { "uniform", "adabits", { "adabits", "greedy_balance" }, "exact" } do
  local plan = assert(ts.plan(problem, { planner = planner }))
  rows[#rows + 1] = {
    planner = plan.planner, objective_s = plan.objective, throughput_tok_s = plan.throughput_tok_s,
    mean_bitwidth = plan.mean_bitwidth, omega = plan.omega,
  }
end
print "A named planner cuts one pipeline; left to itself ts.plan tries replicas (step 1)."
print(ts.table(rows, { columns = { "planner", "objective_s", "throughput_tok_s", "mean_bitwidth", "omega" } }))
