-- How fast the planner is, as markdown: tessera tests/bench/planner_table.lua [--quick] [--instances DIR]
-- Every optimum is compared with the published one where there is one; a wrong one ends the run. --quick: one run each,
-- short limits for CBC, no 256 GPUs.
local ts = require "tessera"
local core = require "tessera.core"
local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local report = dofile(here .. "/report.lua")
local instances = dofile(here .. "/instances.lua")

local quick = report.argument "--quick"
local folder = report.argument("--instances", true) or here .. "/../../../shared/instances"
local runs = quick and 1 or 5
local cbc_limit_s = quick and 10 or 60

local small = { "c1", "c2", "c3", "c5", "c6", "c9", "c10", "sq2" }
local large = { { "l70_v4a2", 8 }, { "s8_syn80", 5 }, { "s16_syn96", 4 } }

local function check(name, what, plan, expected)
  assert(plan.status == "optimal", ("%s, %s: not proven"):format(name, what))
  assert(ts.check(plan))
  assert(not expected or math.abs(plan.objective - expected) <= 1e-6 * expected,
    ("%s, %s: %.9g, the published optimum is %.9g"):format(name, what, plan.objective, expected or 0))
end

-- Times of `runs` solves, each proven and compared.
local function exact_times(name, what, problem, options, expected)
  local times = {}
  options.time_limit_s = options.time_limit_s or 600
  for i = 1, runs do
    local plan = assert(ts.plan(problem, options))
    check(name, what, plan, expected)
    times[i] = plan.solve_s
  end
  return times
end

local function cbc_cell(name, problem, options, form, expected)
  options.planner, options.form, options.time_limit_s = "ilp", form, cbc_limit_s
  local times = {}
  for i = 1, quick and 1 or 3 do
    local plan, why = ts.plan(problem, options)
    if not plan or plan.status ~= "optimal" then
      return plan and ("gap %.2g %% after %d s"):format(100 * plan.gap, cbc_limit_s) or why.code
    end
    check(name, "CBC " .. form, plan, expected)
    times[i] = plan.solve_s
  end
  return report.spread(times), report.median(times)
end

-- The pair and the order that expected.json solves by themselves.
local function listed(entry)
  return { device_order = entry.order, prefill_micro_batch_size = entry.eta, decode_micro_batch_size = entry.xi }
end

local function published_row(name, entry, target_s)
  local problem = ts.problem { instance = ("%s/%s.json"):format(folder, name) }
  local whole = exact_times(name, "whole search", problem, {}, entry.full.steady_all_pairs.obj)
  local single = exact_times(name, "one pair", problem, listed(entry), entry.single.steady)
  local base, base_s = cbc_cell(name, problem, listed(entry), "base", entry.single.steady)
  local tight, tight_s = cbc_cell(name, problem, listed(entry), "tightened", entry.single.steady)
  report.row(name, #problem.devices, problem.num_layers, report.spread(whole), target_s, report.spread(single), "0.05",
    base, tight)
  return report.median(whole), report.median(single), base_s, tight_s
end

-- Median of what was measured; what CBC could not prove counts as its limit.
local function median_of(list, count)
  for i = 1, count do list[i] = list[i] or cbc_limit_s end
  return report.seconds(report.median(list))
end

local function published()
  print "\n## Published instances: steady objective, proven optimum (s)\n"
  local expected = report.read_json(folder .. "/expected.json")
  if not expected then return print("skipped: " .. folder .. "/expected.json is not there; see --instances") end
  report.header { "instance", "GPUs", "layers", "whole search", "target", "one (order, eta, xi)", "target",
    "CBC base form", "CBC tightened" }
  local together, singles, base, tight, count = 0, {}, {}, {}, 0
  local function measure(name, target_s)
    count = count + 1
    local whole_s
    whole_s, singles[count], base[count], tight[count] = published_row(name, expected[name], target_s)
    return whole_s
  end
  for _, name in ipairs(small) do together = together + measure(name, 0.4) end
  report.row("all of the above", "", "", report.seconds(together), 1.2, "", "", "", "")
  for _, entry in ipairs(large) do measure(entry[1], entry[2]) end
  report.row("median", "", "", "", "", median_of(singles, count), "0.05",
    median_of(base, count) .. " (target 2, each 10)", median_of(tight, count) .. " (target 0.5)")
end

local function quality_floor()
  print "\n## Quality floor, whole search (s): theta = 0, omega at most that of 4 bits throughout\n"
  report.header { "instance", "whole search", "target", "objective", "omega" }
  for _, name in ipairs { "c1", "c2", "c3", "c5", "c6", "c9", "c10", "sq2", "l70_v4a2", "s8_syn80", "s16_syn96" } do
    local path = ("%s/%s.json"):format(folder, name)
    local file = io.open(path)
    if not file then
      print("skipped: " .. path .. " is not there; see --instances")
      return
    end
    file:close()
    local problem = ts.problem { instance = path, quality = { max_omega = 1 } }
    local plan = assert(ts.plan(problem, { time_limit_s = 600 }))
    local times = exact_times(name, "quality floor", problem, {}, plan.objective)
    report.row(name, report.spread(times), 5, ("%.6g"):format(plan.objective), ("%.6g"):format(plan.omega))
  end
end

local function large_cluster(name, target_s)
  local path = os.tmpname()
  instances.write(name, path)
  local problem = ts.problem { instance = path }
  os.remove(path)
  local plan, why = ts.plan(problem, { time_limit_s = target_s })
  if not plan then return report.row(name, problem.num_layers, why.code, target_s, "-", "-") end
  assert(ts.check(plan))
  local outcome = plan.status == "optimal" and "proven" or ("within %.2g %% of its bound"):format(100 * plan.gap)
  report.row(name, problem.num_layers, report.seconds(plan.solve_s), target_s, outcome, ("%.6g"):format(plan.objective))
end

local function clusters_of_any_size()
  print "\n## Large clusters, four types of GPU (tests/bench/instances.lua), whole search (s)\n"
  report.header { "cluster", "layers", "time", "limit", "outcome", "objective" }
  large_cluster("32 GPUs", 60)
  large_cluster("64 GPUs", 180)
  if not quick then large_cluster("256 GPUs", 600) end
end

-- Moves that a heuristic in Lua looks at per second: all of the plan's, round after round, keeping the best.
local function moves_per_s(problem)
  local rates = {}
  ts.register_heuristic { name = "bench_moves", doc = "Looks at every move", improve = function(search)
    for i = 1, runs do
      local seen, started = 0, core.clock()
      while core.clock() - started < 0.5 do
        local best
        for move in search:moves { kinds = { "shift", "swap", "retype" } } do
          seen = seen + 1
          if move.fits and move.objective_delta < (best and best.objective_delta or -1e-12) then best = move:keep() end
        end
      end
      rates[i] = seen / (core.clock() - started) / 1e6
    end
  end }
  assert(ts.plan(problem, { planner = { "threshold", "bench_moves" } }))
  return rates
end

local function same_plan(a, b)
  assert(a.objective == b.objective and #a.stages == #b.stages)
  for k, stage in ipairs(a.stages) do
    assert(stage.device == b.stages[k].device and table.concat(stage.bitwidths) == table.concat(b.stages[k].bitwidths))
  end
end

local function search_api()
  print "\n## Heuristics in Lua\n"
  report.header { "problem", "moves from Lua (million/s)", "target", "bitwidth transfer in C++ (s)", "in Lua (s)",
    "ratio", "target", "plans" }
  for _, case in ipairs { { "llmpq-3", "opt-30b" }, { "llmpq-5", "opt-66b" }, { "llmpq-7", "bloom-176b" } } do
    local problem = ts.problem { cluster = case[1], model = case[2] }
    local cpp, lua, ratio = {}, {}, {}
    for i = 1, runs do
      local a = assert(ts.plan(problem, { planner = "bitwidth_transfer" }))
      local b = assert(ts.plan(problem, { planner = "bitwidth_transfer_lua" }))
      same_plan(a, b)
      cpp[i], lua[i], ratio[i] = a.solve_s, b.solve_s, b.solve_s / a.solve_s
    end
    report.row(case[2] .. " on " .. case[1], report.spread(moves_per_s(problem)), "2", report.spread(cpp),
      report.spread(lua), report.spread(ratio), "3", "identical")
  end
end

print(report.machine())
if quick then print "Quick run: one run each." end
-- One section each; another one is another function here.
for _, section in ipairs { published, quality_floor, clusters_of_any_size, search_api } do section() end
