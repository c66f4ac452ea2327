-- What each method loses against the optimum and how long it takes, on the papers' clusters, as markdown:
--   tessera tests/bench/planner_methods.lua [--quick]         --quick: the three smallest clusters
local ts = require "tessera"
local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local report = dofile(here .. "/report.lua")

-- Model of each cluster, and the solver time that LLM-PQ prints for it: Gurobi, or its heuristic where that took too
-- long.
local clusters = {
  { "llmpq-1", "opt-13b", "0.30 s" }, { "llmpq-2", "opt-13b", "0.30 s" }, { "llmpq-3", "opt-30b", "2.8 s" },
  { "llmpq-4", "opt-30b", "2.3 s (heuristic)" }, { "llmpq-5", "opt-66b", "9.9 s (heuristic)" },
  { "llmpq-6", "opt-66b", "116 s" }, { "llmpq-7", "bloom-176b", "44 s" }, { "llmpq-8", "bloom-176b", "19 s" },
  { "llmpq-9", "opt-30b", "1.2 s" }, { "llmpq-10", "opt-66b", "2.5 s (heuristic)" },
  { "llmpq-11", "bloom-176b", "3.4 s (heuristic)" },
}

-- A column each: its title, the planner it needs, and the options of ts.plan.
local methods = {
  { "exact", "exact", { planner = "exact" } },
  { "ilp", "ilp", { planner = "ilp" } },
  { "bitwidth transfer", "bitwidth_transfer", { planner = "bitwidth_transfer" } },
  { "adabits", "adabits", { planner = "adabits" } },
  { "group 2", "exact", { planner = "exact", group = 2 } },
  { "uniform", "uniform", { planner = "uniform" } },
  { "het", "het", { planner = "het" } },
  { "pipeedge", "pipeedge", { planner = "pipeedge" } },
}

local limit_s = 60
local quick = report.argument "--quick"

local registered = {}
for _, card in ipairs(ts.planners()) do registered[card.name] = true end

local function problem_of(cluster, model)
  return ts.problem { model = model, cluster = cluster, workload = "llmpq", objective = "steady", theta = 1 }
end

-- The methods of this build, with a line about each of the others.
local function available()
  local probe, found = problem_of("llmpq-1", "opt-13b"), {}
  for _, method in ipairs(methods) do
    local title, planner, options = unpack(method)
    local ok, err = registered[planner], "no planner is called '" .. planner .. "'"
    if ok then ok, err = pcall(ts.plan, probe, options) end
    if ok then
      found[#found + 1] = method
    else
      print(("Skipped: %s (%s)"):format(title, tostring(err)))
    end
  end
  return found
end

local function cell(plan, why, best)
  if not plan then return why.code == "infeasible" and "does not fit" or "none in " .. limit_s .. " s" end
  local text = ("%.4g s"):format(plan.objective)
  if best and best ~= plan then
    text = text .. (" (%+.2f %%)"):format(100 * (plan.objective / best.objective - 1))
  end
  if plan.status ~= "optimal" and plan.bound then text = text .. ", not proven" end
  return text .. (", %s s"):format(report.seconds(plan.solve_s))
end

local function measure(cluster, model, printed, columns)
  local problem = problem_of(cluster, model)
  local best
  local cells = { cluster, model }
  for _, method in ipairs(columns) do
    local options = { time_limit_s = limit_s }
    for key, value in pairs(method[3]) do options[key] = value end
    local plan, why = ts.plan(problem, options)
    if plan then assert(ts.check(plan)) end
    if method[1] == "exact" then best = plan end
    assert(not (plan and best) or plan.objective >= best.bound * (1 - 1e-6),
      ("%s: %s beats the bound"):format(cluster, method[1]))
    cells[#cells + 1] = cell(plan, why, best)
  end
  cells[#cells + 1] = printed
  report.row(unpack(cells))
end

print(report.machine())
print "Each cell: objective (steady, theta = 1), loss against the optimum, planning time.\n"
local columns = available()
local titles = { "cluster", "model" }
for _, method in ipairs(columns) do titles[#titles + 1] = method[1] end
titles[#titles + 1] = "solver time printed by LLM-PQ"
print ""
report.header(titles)
for i, entry in ipairs(clusters) do
  local cluster, model, printed = unpack(entry)
  if i <= 3 or not quick then measure(cluster, model, printed, columns) end
end
