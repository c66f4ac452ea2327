-- What a plan predicts for more prompts than a batch, and over several engines.
local predict = require "tessera.runtime.predict"
local ts = require "tessera"

local function plan_of(cluster, options)
  local problem = ts.problem { model = "opt-125m", cluster = cluster, bitwidths = { 8 }, tensor_parallel = 1,
    workload = { prompt_tokens = 64, output_tokens = 16, batch_size = 8 } }
  return assert(ts.plan(problem, options))
end

local function near(wanted, got) assert.is_true(math.abs(got - wanted) <= 1e-9 * wanted, got) end

describe("predictions of prompts", function()
  it("are the simulation of a batch", function()
    local plan = plan_of("1xT4-16G", { replicas = 1 })
    local run = predict(plan, 8, 64, 16)
    assert.equal(ts.simulate(plan).total_s, run.total_s)
    assert.is_true(#run.stages == 1)
  end)

  it("count batches one after the other", function()
    local plan = plan_of("1xT4-16G", { replicas = 1 })
    local whole, rest = predict(plan, 8, 64, 16), predict(plan, 4, 64, 16)
    local all = predict(plan, 20, 64, 16)
    near(2 * whole.total_s + rest.total_s, all.total_s)
    near((8 * whole.ttft_s + 8 * (whole.total_s + whole.ttft_s) + 4 * (2 * whole.total_s + rest.ttft_s)) / 20,
      all.ttft_s)
    near(2 * whole.total_s + rest.ttft_max_s, all.ttft_max_s)
    assert.is_true(all.decode_round_s >= math.min(whole.decode_round_s, rest.decode_round_s)
      and all.decode_round_s <= math.max(whole.decode_round_s, rest.decode_round_s))
    near(20 * 16 / all.total_s, all.throughput_tok_s)
  end)

  it("share prompts out to engines as the master does, and wait for the last", function()
    local plan = plan_of("2xT4-16G", { replicas = 2 })
    assert.equal(2, #plan.replicas)
    local function alone(count) return predict(plan.replicas[1], count, 64, 16) end
    near(alone(4).total_s, predict(plan, 8, 64, 16).total_s)
    local odd = predict(plan, 3, 64, 16)
    near(math.max(alone(2).total_s, alone(1).total_s), odd.total_s)
    near((2 * alone(2).ttft_s + alone(1).ttft_s) / 3, odd.ttft_s)
  end)
end)
