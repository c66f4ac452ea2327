-- What the functions share that solve many problems: one time limit for all of them, and a proven solve within it.

local core = require "tessera.core"
local timer = require "tessera.planning.timer"

local M = {}

--- The planner that proves optima of a problem: the exact search cannot keep side constraints, the ILP does.
function M.prover(problem) return #problem.constraints > 0 and "ilp" or "exact" end

--- A clock that runs out: `left()` seconds, and `stopped` once a solve ran into the end or was interrupted.
function M.new(limit_s)
  local self = timer(limit_s)
  self.stopped, self.solves = false, 0

  --- The best plan over every open choice, proven; or nil and why. A plan that is not proven counts as stopped, and is
  --- returned.
  function self.solve(problem, options)
    local given = { planner = M.prover(problem), time_limit_s = self.left() }
    for key, value in pairs(options or {}) do given[key] = value end
    self.solves = self.solves + 1
    local plan, why = require("tessera.planning.planners").plan(problem, given)
    if not plan and why.code ~= "infeasible" then self.stopped = true end
    if plan and plan.status ~= "optimal" then self.stopped = true end
    if not plan and why.code == "interrupted" then self.interrupted = true end
    return plan, why
  end
  return self
end

--- "3 x T4-16G + 1 x V100-32G" for a list of { name, count }.
function M.describe(devices)
  local parts = {}
  for _, item in ipairs(devices) do
    if item.count > 0 then parts[#parts + 1] = ("%d x %s"):format(item.count, item.name) end
  end
  return table.concat(parts, " + ")
end

--- Whether it is an object of the engine of this kind; a table may call itself one.
function M.is(value, kind) return type(value) == "userdata" and getmetatable(value) == kind end

--- The argument, which must be a plan or a problem of the engine.
function M.object(value, kind, path)
  if not M.is(value, kind) then
    local other = getmetatable(value)
    core.raise("invalid_argument", ("%s: a %s belongs here, not a %s"):format(path, kind,
      type(value) == "userdata" and type(other) == "string" and other or type(value)), path)
  end
  return value
end

return M
