-- What the host and the API server add to a served run: ts.deployment's api_s, host_step_s and host_sequence_s.
local support = require "support"
local ts = require "tessera"
local raises = support.raises

local cost = { base_s = 0.01, per_token_s = 1e-4, per_sequence_s = 5e-4, per_context_token_s = 1e-6 }
local api_s = 0.25

local function by_cost(api) return ts.deployment { step_cost = cost, engine = { max_num_seqs = 4 }, api_s = api } end

local function on_gpu(changes)
  local options = { model = "llama-3-8b", cluster = "1xH100-80G", kernel_set = "vllm" }
  for key, value in pairs(changes or {}) do options[key] = value end
  return ts.deployment(options)
end

describe("api_s", function()
  it("delays every request of an open loop by itself, and changes nothing else", function()
    local traffic = ts.traffic { rate_per_s = 20, num_requests = 200, seed = 3, prompt_tokens = 60, output_tokens = 20 }
    local without, with = ts.serve(by_cost(), traffic), ts.serve(by_cost(api_s), traffic)
    local later = with:requests()
    for i, request in ipairs(without:requests()) do
      assert.equal(request.arrival_s, later[i].arrival_s)
      assert.near(request.ttft_s + api_s, later[i].ttft_s, 1e-9)
      assert.near(request.e2e_s + api_s, later[i].e2e_s, 1e-9)
    end
    assert.equal(without.tpot_s.mean, with.tpot_s.mean)
    assert.equal(#without:steps(), #with:steps())
  end)

  it("is part of the round of a closed loop", function()
    -- One request at a time: a round is the request and the time before it.
    local traffic = ts.traffic { arrivals = "closed", concurrency = 1, num_requests = 5, prompt_tokens = 60,
      output_tokens = 20 }
    local without, with = ts.serve(by_cost(), traffic):requests(), ts.serve(by_cost(api_s), traffic):requests()
    for i = 2, 5 do
      local round, later = without[i].arrival_s - without[i - 1].arrival_s, with[i].arrival_s - with[i - 1].arrival_s
      assert.near(round + api_s, later, 1e-9)
    end
  end)

  it("delays each turn of a session", function()
    local traffic = ts.traffic { rate_per_s = 1, num_requests = 12, seed = 1, prompt_tokens = 60, output_tokens = 20,
      sessions = { turns = 4, think_s = 1 } }
    for _, request in ipairs(ts.serve(by_cost(api_s), traffic):requests()) do
      assert.is_true(request.ttft_s >= api_s)
    end
  end)

  it("is a time", function()
    raises("out_of_range", "api_s", function() by_cost(-1) end)
    raises("invalid_argument", "api_s", function() by_cost(0 / 0) end)
  end)
end)

describe("host_step_s and host_sequence_s", function()
  local traffic = ts.traffic { arrivals = "closed", concurrency = 8, num_requests = 8, prompt_tokens = 8,
    output_tokens = 50 }
  local function tpot_s(changes) return ts.serve(on_gpu(changes), traffic).tpot_s.p50 end

  it("replace the kernel set's", function()
    -- Eight requests a step, one at a time after another: device and host.
    local neither = tpot_s { host_step_s = 0, host_sequence_s = 0 }
    assert.near(neither + 0.002, tpot_s { host_step_s = 0.002, host_sequence_s = 0 }, 1e-9)
    assert.near(neither + 8 * 0.0005, tpot_s { host_step_s = 0, host_sequence_s = 0.0005 }, 1e-9)
    assert.is_true(tpot_s() > neither)
  end)

  it("pass beside the device where they overlap", function()
    local engine = { host = "overlapped" }
    local neither = tpot_s { host_step_s = 0, host_sequence_s = 0, engine = engine }
    assert.near(neither, tpot_s { host_step_s = 0.001, host_sequence_s = 0, engine = engine }, 1e-9)
    assert.near(0.05, tpot_s { host_step_s = 0.05, host_sequence_s = 0, engine = engine }, 1e-9)
  end)

  it("are of a model on a cluster: a plan and a step_cost have their own", function()
    raises("invalid_argument", "host_step_s", function() ts.deployment { step_cost = cost, host_step_s = 1 } end)
    local plan = assert(ts.plan { model = "opt-1.3b", cluster = "1xA100-40G",
      workload = { batch_size = 1, prompt_tokens = 16, output_tokens = 16 } })
    raises("invalid_argument", "host_sequence_s", function() ts.deployment { plan = plan, host_sequence_s = 1 } end)
  end)
end)
