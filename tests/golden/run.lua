-- What one golden case gives, as JSON on stdout: tessera --json run.lua CASE [PLAN]
--   solved: what the planner finds. priced: PLAN (a Lua table of a plan made by hand), every number of it.
-- Without arguments: the names of the cases.
local ts = require "tessera"
local host = require "tessera.host"
local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local cases = dofile(here .. "/cases.lua")

local name, by_hand = host.arguments[1], host.arguments[2]
if not name then
  local names = {}
  for known in pairs(cases) do names[#names + 1] = known end
  table.sort(names)
  host.set_result(names)
  return
end

local case = assert(cases[name], "there is no golden case " .. name)
local problem, options = case[1]()
options = options or case[2]
options.time_limit_s = 250 -- optimality has to be proven, however slow the machine

local function refused(why) return { code = why.code, constraint = why.constraint } end

local plan, why = ts.plan(problem, options)
local solved = refused(why or {})
if plan then solved = plan:to_table() end

local priced
if by_hand and by_hand ~= "" then
  local stages = assert(loadstring("return " .. by_hand))()
  stages.planner = "manual"
  local again, reason = ts.plan(problem, stages)
  priced = again and again:to_table() or refused(reason)
  if again then
    priced.pipelines, priced.placement = nil, nil -- the stages once more, in other words
    local run = ts.simulate(again)
    priced.simulated = { total_s = run.total_s, ttft_s = run.ttft_s, tpot_s = run.tpot_s }
  end
end
host.set_result { solved = solved, priced = priced }
