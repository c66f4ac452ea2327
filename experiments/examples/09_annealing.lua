-- A heuristic that draws: simulated annealing by random moves, the same result for the same seed, beside the optimum.
local ts = require "tessera"

ts.register_heuristic {
  name = "annealing",
  doc = "Simulated annealing: a random move is taken if it helps, or else with a chance that falls with time",
  source = "Kirkpatrick et al., Science 1983",
  options = {
    num_steps = { type = "integer", default = 3000, min = 1, doc = "Moves drawn" },
    start_ratio = { type = "number", default = 0.005, min = 1e-9, doc = "First temperature, over the first objective" },
    end_ratio = { type = "number", default = 1e-5, min = 1e-9, doc = "Last temperature, over the first objective" },
  },
  improve = function(search, opt)
    local scale = search:objective()
    for step = 1, opt.num_steps do
      if search:expired() then return end -- the plan then says that it was stopped: another run may end elsewhere
      local move = search:random_move { kinds = { "shift", "retype", "swap", "micro_batch", "order" }, fits = true }
      if not move then return end
      local cooled = (step - 1) / math.max(1, opt.num_steps - 1)
      local temperature = scale * opt.start_ratio * (opt.end_ratio / opt.start_ratio) ^ cooled
      local worse = move.objective_delta
      if worse <= 0 or search:random() < math.exp(-worse / temperature) then search:apply(move) end
    end
  end,
}

local problem = ts.problem {
  model = "opt-30b",
  cluster = ts.cluster { { "T4-16G", 3, node = "a" }, { "V100-32G", 1, node = "b" }, link_gbps = 100 },
  workload = { prompt_tokens = 512, output_tokens = 100, batch_size = 32 },
  bitwidths = { 3, 4, 8, 16 },
  theta = 1,
}
local best = assert(ts.plan(problem, { planner = "exact" }))
local rows = {}
for seed = 1, 3 do
  for _, time in ipairs { "first", "again" } do
    local plan = assert(ts.plan(problem, { planner = { "adabits", "annealing" }, seed = seed }))
    rows[#rows + 1] = {
      seed = seed, run = time, objective_s = plan.objective, above_optimum = plan.objective / best.objective - 1,
    }
  end
end
print(ts.table(rows, { columns = { "seed", "run", "objective_s", "above_optimum" } }))
