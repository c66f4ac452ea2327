-- ts.plan_serving: what it lists keeps to what was asked for.
local support = require "support"
local ts = require "tessera"

local function search(changes)
  local options = {
    model = "llama-3.1-8b", cluster = "4xL4", traffic = { rate_per_s = 6, prompt_tokens = 300, output_tokens = 40 },
    slo = { ttft_s = { p99 = 1 }, tpot_s = { p99 = 0.08 } }, num_requests = 100, limit = 3,
  }
  for name, value in pairs(changes or {}) do options[name] = value end
  return ts.plan_serving(options)
end

describe("ts.plan_serving", function()
  it("has the first simulated whole, within the SLO and the devices", function()
    for _, objective in ipairs { "rate", "gpus", "cost" } do
      local list = assert(search { objective = objective })
      local first = list[1]
      assert.equal("whole", first.scope)
      assert.truthy(first.gpus <= 4, objective)
      assert.truthy(first.ttft_p99_s <= 1 and first.tpot_p99_s <= 0.08, objective)
      assert.truthy(objective == "rate" or first.rate_per_s >= 6 * (1 - 1e-9), objective)
      for rank, row in ipairs(list) do assert.equal(rank, row.rank) end
    end
  end)

  it("lists answers of one token, which have no TPOT", function()
    local list = assert(search { traffic = { rate_per_s = 2, prompt_tokens = 300, output_tokens = 1 } })
    assert.is_nil(list[1].tpot_p99_s)
    assert.truthy(list[1].tok_s_per_user > 0)
    assert.truthy(#list:frontier() > 0)
  end)

  it("says why nothing fits", function()
    local list, why = search { slo = { ttft_s = { p99 = 1e-4 } } }
    assert.is_nil(list)
    assert.equal("infeasible", why.code)
    assert.truthy(#why.reasons > 0)
    local none, too_many = search { objective = "gpus", traffic = { rate_per_s = 1e4 } }
    assert.is_nil(none)
    assert.equal("infeasible", too_many.code)
  end)

  it("refuses lists that leave no engine", function()
    for _, name in ipairs { "bitwidths", "kv_bitwidths", "tensor_parallel", "pipeline_parallel" } do
      support.raises("invalid_argument", name .. ": an empty list leaves no engine",
        function() search { [name] = {} } end)
    end
  end)

  it("wants a rate for the objectives that serve one", function()
    support.raises("invalid_argument", "serves the traffic's own rate", function()
      search { objective = "cost", traffic = { prompt_tokens = 300, output_tokens = 40 } }
    end)
  end)

  -- What a router has to know of unlike engines. With equal shares the slow ones meet the SLO's limit first.
  it("gives unlike engines requests by what each sustains", function()
    local slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } }
    for _, router in ipairs { "least_requests", "round_robin" } do
      local list = assert(ts.plan_serving { model = "qwen2.5-14b", cluster = "2xH100-80G+4xA100-80G", slo = slo,
        traffic = { prompt_tokens = 1000, output_tokens = 200 }, num_requests = 1000, disaggregated = false,
        bitwidths = { 16 }, kv_bitwidths = { 16 }, router = router })
      local mixed
      for _, row in ipairs(list) do mixed = mixed or #row.parts == 2 and row end
      local pools, promised = {}, 0
      for i, part in ipairs(mixed.parts) do
        pools[i] = { role = "mixed", model = "qwen2.5-14b", bitwidths = { 16 }, replicas = part.engines,
          cluster = ("%dx%s"):format(part.engines * part.tensor_parallel, part.device),
          tensor_parallel = part.tensor_parallel, engine = part.engine }
      end
      local traffic = ts.traffic { rate_per_s = 20, prompt_tokens = 1000, output_tokens = 200, num_requests = 6000 }
      local function rate_of(some)
        local deployment = ts.deployment { pools = some, router = router }
        return ts.max_rate(deployment, traffic, { slo = slo, tolerance = 0.02 }).rate_per_s
      end
      for i, pool in ipairs(pools) do
        promised = promised + rate_of { pool }
        pools[i].share = mixed.parts[i].share
      end
      local shared = rate_of(pools)
      for _, pool in ipairs(pools) do pool.share = 1 end
      local equal = rate_of(pools)
      assert.is_true(shared > 1.1 * equal, ("%s: %g, with equal shares %g"):format(router, shared, equal))
      assert.is_true(shared > 0.93 * promised, ("%s: %g of %g"):format(router, shared, promised))
      assert.is_true(shared > 0.97 * mixed.rate_per_s, router)
      assert.is_true(shared < 1.03 * mixed.high_per_s, router)
    end
  end)
end)
