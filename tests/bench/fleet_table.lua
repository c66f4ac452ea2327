-- How fast fleets of given columns are solved, as markdown: tessera tests/bench/fleet_table.lua [--instances DIR]
-- Each is held against the bound and the best fleet that another solver has; a better bound than that ends the run.
local core = require "tessera.core"
local ts = require "tessera"
local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local report = dofile(here .. "/report.lua")

local folder = report.argument("--instances", true) or here .. "/../../../shared/instances/fleet"
local names = { "fleet64_cost_1", "fleet256_cost_1", "fleet1024_cost_1", "fleet64_rate_1", "fleet256_rate_1",
  "fleet1024_rate_1", "fleet64_reserve_1" }
local expected = core.from_json(core.read_file(folder .. "/large_expected.json"))

local function percent(ratio) return ("%.2f %%"):format(100 * ratio) end

print(report.machine())
print "\n| instance | seconds to its gap | after 60 s | bound | best known | off the best |\n|---|---|---|---|---|---|"
for _, name in ipairs(names) do
  local path, known = folder .. "/" .. name .. ".json", expected[name]
  local gap = name:find "reserve" and 0.02 or 0.01
  local quick = assert(ts.plan_fleet { instance = path, gap = gap, time_limit_s = 60 })
  local long = assert(ts.plan_fleet { instance = path, gap = 0, time_limit_s = 60 })
  local sign = long.instance.objective == "rate" and -1 or 1
  assert(ts.check(quick) and ts.check(long))
  assert(sign * long.bound <= sign * known.objective + 1e-6, name .. ": a bound that is better than a fleet")
  print(("| %s | %s (%s) | %.4f | %.4f | %.4f | %s |"):format(name,
    quick.gap <= gap and report.seconds(quick.solve_s) or "not in 60", percent(quick.gap), long.objective, long.bound,
    known.objective, percent(sign * (long.objective - known.objective) / known.objective)))
end
