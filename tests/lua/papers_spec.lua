-- What the scripts of a paper share: LLM-PQ's settings, and the GPTQ errors of its logs.

local ts = require "tessera"
local support = require "support"
local core = require "tessera.core"
local gptq_errors = require "lib.papers.gptq_errors"
local llmpq = require "lib.papers.llmpq"
local measured = require "lib.measured"

describe("LLM-PQ's settings", function()
  it("cover the eleven clusters", function()
    for c = 1, 11 do
      local problem = llmpq.problem("llmpq-" .. c)
      local setting = llmpq.settings["llmpq-" .. c]
      assert.same({ setting.model, setting.theta, "llm-pq", "ms_per_raw_omega" },
        { problem.model.name, problem.theta, problem.memory, problem.theta_unit })
    end
    assert.same({ planner = "bitwidth_transfer" }, llmpq.solver_of "llmpq-4")
    assert.same({ planner = "exact", group = 1 }, llmpq.solver_of "llmpq-6")
  end)
  it("change where asked", function()
    assert.equal("steady", llmpq.problem "llmpq-1".objective)
    assert.equal("paper", llmpq.problem("llmpq-1", { objective = "paper" }).objective)
    support.raises("invalid_argument", "LLM-PQ has no cluster 'llmpq-12'", function() llmpq.problem "llmpq-12" end)
  end)
  it("plan the printed method: eq. (4), decoding in the batch over the stages", function()
    local plan = llmpq.plan("llmpq-3", "llm_pq")
    assert.equal("paper", plan:problem().objective)
    assert.equal(8, plan.decode_micro_batch_size)
    assert.equal(8, llmpq.plan("llmpq-3", "uniform_last").prefill_micro_batch_size)
  end)
  it("sum the quality term as the planner does", function()
    local plan = llmpq.plan("llmpq-4", "llm_pq", { theta = 1e6 })
    local without = plan:problem():with { theta = 0 }
    local stages = {}
    for k, stage in ipairs(plan.stages) do stages[k] = { device = stage.device, bitwidths = stage.bitwidths } end
    local bare = ts.plan(without, {
      planner = "manual", stages = stages, prefill_micro_batch_size = plan.prefill_micro_batch_size,
      decode_micro_batch_size = plan.decode_micro_batch_size,
    })
    local quality_s = llmpq.quality_s(plan, 1e6)
    assert.is_true(quality_s > 0)
    assert.is_true(math.abs(plan.objective - bare.objective - quality_s) < 1e-6 * plan.objective)
  end)
  it("solve the printed programmes one by one", function()
    local problem = llmpq.problem "llmpq-2"
    local exact = llmpq.plan_printed(problem, { planner = "exact" })
    local plan, _, outcome = llmpq.plan_by_printed_programmes(problem, 60, 1)
    assert.is_true(math.abs(plan.objective / exact.objective - 1) < 1e-6)
    assert.same({ 6, 6, 6 }, { outcome.programmes, outcome.proven, outcome.with_plan }) -- one order, divisors of 32
    local none, why
    none, why, outcome = llmpq.plan_by_printed_programmes(llmpq.problem "llmpq-3", 0, 1)
    assert.same({ nil, "time_limit" }, { none, why.code })
    assert.same({ 8, 0, 0 }, { outcome.programmes, outcome.proven, outcome.with_plan }) -- two orders, divisors of 8
  end)
  it("add schemes after each cluster's published rows", function()
    local a, b = { cluster = "a", planner = "x" }, { cluster = "b", planner = "x" }
    local more_a, more_b = { cluster = "a", planner = "y" }, { cluster = "b", planner = "y" }
    assert.same({ a, more_a, b, more_b }, llmpq.points({ points = { a, b } }, { "y" }))
  end)
end)

describe("GPTQ errors", function()
  local path = measured.path
  local file = os.tmpname()
  after_each(function() measured.path = path os.remove(file) end)

  local function table_of(lines)
    core.write_file(file, "model,layer,operator,bit,gptq_error_mean\n" .. table.concat(lines, "\n") .. "\n")
    measured.path = function() return file end
  end
  -- All six operators of a layer, each a sixth of the value.
  local function layer(lines, index, bitwidth, value, count)
    for operator = 1, count or 6 do
      lines[#lines + 1] = ("opt-125m,%d,op%d,%d,%.17g,0,0,1"):format(index, operator, bitwidth, value / 6)
    end
  end

  it("sum over the operators, and lie between neighbours where a layer is missing or incomplete", function()
    local lines = {}
    for _, bitwidth in ipairs { 3, 4, 8, 16 } do
      layer(lines, 1, bitwidth, 10)
      layer(lines, 2, bitwidth, 1e6, 5)
      layer(lines, 3, bitwidth, 1000)
    end
    table_of(lines)
    local omega = gptq_errors.omega(ts.model "opt-125m")
    assert.equal(12, #omega)
    for i, wanted in ipairs { 10, 10, 100, 1000, 1000 } do
      assert.is_true(math.abs(omega[i][4] / wanted - 1) < 1e-9, ("layer %d: %g"):format(i, omega[i][4]))
    end
  end)
  it("name a bitwidth that has no complete layer", function()
    local lines = {}
    layer(lines, 0, 4, 1)
    table_of(lines)
    support.raises("not_found", "no layer of opt-125m at 3 bits", function() gptq_errors.omega(ts.model "opt-125m") end)
  end)
  it("are absent without the data", function()
    measured.path = function() return nil, { code = "no_data", message = "not here" } end
    local omega, why = gptq_errors.omega(ts.model "opt-125m")
    assert.same({ nil, "no_data" }, { omega, why.code })
  end)
end)
