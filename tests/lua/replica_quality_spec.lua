-- Replicas that lose unlike quality: the objective is of the worst seconds and the worst quality together.
local support = require "support"
local ts = require "tessera"

local function problem(cluster, changes)
  return ts.problem(support.changed({ model = "llama-3.1-8b", cluster = cluster, theta = 1, bitwidths = { 4, 8 },
    workload = { prompt_tokens = 512, output_tokens = 100, batch_size = 16 } }, changes))
end

local clusters = { "1xA100-40G+1xT4", "1xL4+1xT4", "(1xRTX-3090+1xRTX-4090)+1xT4" }

describe("replicas that lose unlike quality", function()
  it("have the objective that their seconds and omega say", function()
    local several = 0
    for _, cluster in ipairs(clusters) do
      for _, theta in ipairs { 0.01, 1 } do
        local plan = assert(ts.plan(problem(cluster, { theta = theta, model = "qwen2.5-14b" })))
        assert.near(plan.latency_s + theta * plan.omega, plan.objective, 1e-9 * plan.objective)
        assert.is_true(plan.bound <= plan.objective)
        assert.is_true(ts.check(plan))
        if plan.replicas then several = several + 1 end
      end
    end
    assert.is_true(several > 0, "no replicas")
  end)

  it("are no worse than the fastest plan within any limit on quality, nor better than their bound", function()
    for _, cluster in ipairs(clusters) do
      local plan = assert(ts.plan(problem(cluster)))
      for _, limit in ipairs { 0.002, 0.0035, 0.1, 0.3, 0.6, 0.9, 1, 2 } do
        local within = ts.plan(problem(cluster, { theta = 0, quality = { max_omega = limit } }))
        if within then
          local other = within.latency_s + within.omega
          assert.is_true(plan.objective <= other / (1 - plan.gap) + 1e-9 * other, cluster .. " within " .. limit)
          assert.is_true(plan.bound <= other * (1 + 1e-9))
        end
      end
    end
  end)

  it("stand back where they cost more quality than they are worth", function()
    local p = problem("2xA100-40G+4xT4", { model = "qwen2.5-32b", bitwidths = { 4, 8, 16 },
      workload = { prompt_tokens = 512, output_tokens = 100, batch_size = 32 } })
    local plan, alone = assert(ts.plan(p)), assert(ts.plan(p:with { cluster = "2xA100-40G" }))
    assert.is_true(plan.objective <= alone.objective * (1 + 1e-6))
    support.declines("infeasible", "below the cutoff", ts.plan(p, { cutoff = plan.objective * (1 - 1e-4) }))
  end)
end)
