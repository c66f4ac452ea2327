-- The published instances: the steady objective against the event simulation, on plans proven optimal.
local ts = require "tessera"

local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"
local folder = here .. "/../../../shared/instances/"

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

describe("the steady objective", function()
  for _, name in ipairs { "c1", "c2", "c3", "c5", "c6", "c9", "c10", "sq2" } do
    local path = folder .. name .. ".json"
    it("agrees with the simulation to 1 % on the optimal plan of " .. name, function()
      if not exists(path) then return pending(path .. " is not there") end
      local problem = ts.problem { instance = path, allow_empty_stage = true }
      local plan = assert(ts.plan(problem, { planner = "exact" }))
      assert.equal("optimal", plan.status)
      assert.is_true(ts.check(plan))
      local real, full = ts.simulate(plan), ts.simulate(plan, { micro_batches = "full" })
      assert.near(plan.latency_s, real.total_s, 0.01 * plan.latency_s)
      assert.near(plan.latency_s, full.total_s, 0.01 * plan.latency_s)
      assert.is_true(real.total_s <= full.total_s * (1 + 1e-9))
    end)
  end
end)
