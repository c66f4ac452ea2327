-- Runs whose steps are taken at once are those of single steps also where replicas look at each other: pools, sessions,
-- closed loops, routers that look at tokens and prefixes.
local ts = require "tessera"

local function expect_same(deployment, traffic)
  local one = ts.serve(deployment, traffic, { record = false, skip = false })
  local many = ts.serve(deployment, traffic, { record = false, skip = true })
  assert.equal(one.preemptions, many.preemptions)
  for _, measure in ipairs { "ttft_s", "tpot_s", "e2e_s", "itl_s" } do
    for _, name in ipairs { "mean", "p50", "p99", "max", "n" } do
      assert.equal(one[measure][name], many[measure][name], measure .. "." .. name)
    end
  end
end

describe("stretches", function()
  local function long(mean, max) return { distribution = "lognormal", mean = mean, cv = 1, max = max } end

  it("are single steps in a decode pool that requests are loaded into", function()
    local deployment = ts.deployment { model = "llama-3.1-8b", transfer = { link_gbps = 100, latency_s = 1e-3 },
      pools = { { role = "prefill", cluster = "1xA100-80G" }, { role = "decode", cluster = "2xL4" } } }
    expect_same(deployment, ts.traffic { rate_per_s = 1, num_requests = 300, seed = 2, prompt_tokens = long(1000, 6000),
      output_tokens = long(400, 3000) })
  end)

  it("are single steps for a router by tokens, where a closed loop lets steps end at the same time", function()
    local deployment = ts.deployment { step_cost = { per_token_s = 6e-5 }, router = "least_tokens", replicas = 2 }
    expect_same(deployment, ts.traffic { concurrency = 5, arrivals = "closed" })
  end)

  it("are single steps for a router by prefixes and sessions", function()
    local deployment = ts.deployment { model = "llama-3.1-8b", cluster = "4xL4", replicas = 4, router = "prefix_aware" }
    expect_same(deployment, ts.traffic { rate_per_s = 4, seed = 2, sessions = { turns = 4, think_s = 3 } })
  end)

  it("do not stand still where requests that wait hold what the first of them needs", function()
    local deployment = ts.deployment { step_cost = { base_s = 0.01 },
      pools = { { role = "prefill" }, { role = "decode", engine = { kv_blocks = 8 } } } }
    local traffic = ts.traffic { rate_per_s = 1, prompt_tokens = 1 }
    local served = ts.serve(deployment, traffic)
    assert.equal(traffic.num_requests, served.num_finished)
  end)
end)
