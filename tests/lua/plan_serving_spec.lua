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
end)
