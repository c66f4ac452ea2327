-- Tensor parallelism: what may be asked, which meshes are planned, what a plan of groups is like, what is refused.
local ts = require "tessera"
local support = require "support"
local raises, declines = support.raises, support.declines

local four = ts.cluster { { "V100-32G", 4, node = "a" } }

local function problem(changes)
  local fields = {
    model = "opt-1.3b", cluster = four, bitwidths = { 4, 16 }, theta = 1,
    workload = { prompt_tokens = 64, output_tokens = 20, batch_size = 4 },
  }
  for key, value in pairs(changes or {}) do fields[key] = value end
  return ts.problem(support.settled(fields))
end

local function names(candidates)
  local list = {}
  for i, candidate in ipairs(candidates) do list[i] = candidate.name end
  return list
end

describe("tensor_parallel", function()
  after_each(support.remove_files)

  it("is 1 unless more is asked for", function()
    assert.same({ 1 }, problem().tensor_parallel)
    assert.is_nil(ts.plan(problem()).candidates)
    assert.same({ 2 }, problem { tensor_parallel = 2 }.tensor_parallel)
    assert.same({ 1, 2, 4 }, problem { tensor_parallel = { 4, 1, 2 } }.tensor_parallel)
  end)

  it("names groups by degree, type and node", function()
    assert.same({ "2xV100-32G@a", "2xV100-32G@a" }, problem { tensor_parallel = 2 }.devices)
    assert.same({ "4xV100-32G@a" }, problem { tensor_parallel = 4 }.devices)
  end)

  it("plans each configuration of four GPUs with its own prediction", function()
    local open = problem { tensor_parallel = { 1, 2, 4 } }
    local plan = assert(ts.plan(open, { every_candidate = true }))
    assert.same({ "4 of V100-32G", "2xV100-32G + 2 of V100-32G", "2 of 2xV100-32G", "4xV100-32G" },
      names(plan.candidates))
    assert.equal("optimal", plan.status)
    local best = math.huge
    for i, candidate in ipairs(plan.candidates) do
      local alone = assert(ts.plan(open:variants()[i]))
      assert.near(alone.objective, candidate.objective, 1e-8 * alone.objective)
      assert.near(alone.latency_s, candidate.latency_s, 1e-6 * alone.latency_s)
      best = math.min(best, alone.objective)
    end
    assert.near(best, plan.objective, 1e-8 * best)
    local pruned = assert(ts.plan(open))
    assert.near(best, pruned.objective, 1e-8 * best)
    assert.equal("optimal", pruned.status)
    assert.is_true(pruned.bound <= pruned.objective and pruned.bound >= pruned.objective * (1 - 1e-8))
  end)

  it("agrees with the ILP", function()
    local open = problem { tensor_parallel = { 1, 2 }, kv_bitwidth = { 16, 8 } }
    local exact, ilp = assert(ts.plan(open)), assert(ts.plan(open, { planner = "ilp" }))
    assert.near(exact.objective, ilp.objective, 1e-6 * exact.objective)
    assert.equal("optimal", ilp.status)
  end)

  it("makes plans that can be checked, simulated, saved and planned again", function()
    local plan = assert(ts.plan(problem { tensor_parallel = 2, theta = 0 }))
    assert.same({ "2xV100-32G", "2xV100-32G" }, plan.device_order)
    assert.is_true(ts.check(plan))
    assert.near(plan.latency_s, ts.simulate(plan, { micro_batches = "full" }).total_s, 0.02 * plan.latency_s)
    local memory = plan.stages[1].memory
    assert.near(2 * ts.device("V100-32G").memory_bytes, memory.capacity_bytes, 1)
    local path = support.temporary ""
    plan:save(path)
    local again = ts.load_plan(path)
    assert.equal(plan, again)
    assert.is_true(ts.check(again))
    assert.same({ "2xV100-32G@a", "2xV100-32G@a" }, again:problem().devices)
    assert.near(plan.objective, ts.plan(again:problem()).objective, 1e-8 * plan.objective)
    assert.near(ts.simulate(plan).total_s, ts.simulate(again).total_s, 1e-12)
  end)

  it("is read from files with care", function()
    local path = support.temporary ""
    assert(ts.plan(problem { tensor_parallel = { 2, 4 } })):save(path)
    local text = support.read(path)
    local function broken(from, to, message)
      local changed, count = text:gsub(from, to, 1)
      assert.equal(1, count, from)
      local file = support.temporary(changed)
      local ok, err = pcall(function() return assert(ts.check(ts.load_plan(file))) end)
      assert.is_false(ok)
      assert.truthy(tostring(err.message or err):find(message, 1, true), tostring(err.message or err))
    end
    local mesh = '"mesh": %[%s*%[[^%]]*%]%s*%]'
    broken(mesh, '"mesh": 3', "mesh: an array belongs here")
    broken(mesh, '"mesh": [[4, 1]]', "mesh: one list of degrees, largest first")
    broken(mesh, '"mesh": [[0, 4]]', "mesh[0]")
    broken(mesh, '"mesh": [[3, 1]]', "32 heads do not divide by 3")
    broken(mesh, '"mesh": [[1, 1, 1, 1]]', "xV100-32G")
    broken('"candidates": %[', '"candidates": [ 7,', "candidates[0]")
    broken('("candidates": %[%s*{%s*"name": "[^"]*",%s*)"status"', '%1"stats"', "'status' is missing")
  end)

  it("follows device_order to the mesh that has the devices", function()
    local open = problem { tensor_parallel = { 1, 2, 4 } }
    local plan = assert(ts.plan(open, { device_order = { "2xV100-32G", "V100-32G", "V100-32G@a" } }))
    assert.same({ "2xV100-32G", "V100-32G", "V100-32G" }, plan.device_order)
    assert.is_nil(plan.candidates)
    assert.same({ "2xV100-32G", "2xV100-32G" },
      ts.plan(open, { device_order = { "2xV100-32G@a", "2xV100-32G" } }).device_order)
    raises("not_found", "8xV100-32G", function() ts.plan(open, { device_order = { "8xV100-32G" } }) end)
    raises("not_found", "2xV100-32G", function() ts.plan(problem(), { device_order = { "2xV100-32G" } }) end)
  end)

  it("prices plans made by hand on the mesh that has their devices", function()
    local bits = {}
    for i = 1, 24 do bits[i] = 16 end
    local plan = assert(ts.plan(problem { tensor_parallel = { 1, 2, 4 } }, {
      planner = "manual", stages = { { device = "4xV100-32G", bitwidths = bits } },
      prefill_micro_batch_size = 4, decode_micro_batch_size = 4,
    }))
    assert.same({ "4xV100-32G" }, plan.device_order)
    assert.is_true(ts.check(plan))
  end)

  it("works for every planner", function()
    for _, card in ipairs(ts.planners()) do
      if card.name ~= "manual" then
        local plan, why = ts.plan(problem { tensor_parallel = { 1, 4 } }, { planner = card.name })
        if plan then
          assert.equal(2, #plan.candidates, card.name)
          assert.is_true(ts.check(plan))
          for _, candidate in ipairs(plan.candidates) do
            if candidate.objective then assert.is_true(candidate.objective >= plan.objective * (1 - 1e-12)) end
          end
        else
          assert.equal("infeasible", why.code, card.name)
        end
      end
    end
  end)

  it("makes het choose among meshes", function()
    local open = problem { tensor_parallel = { 1, 2, 4 } }
    local best = math.huge
    for _, variant in ipairs(open:variants()) do
      best = math.min(best, assert(ts.plan(variant, { planner = "het" })).objective)
    end
    local plan = assert(ts.plan(open, { planner = "het" }))
    assert.near(best, plan.objective, 1e-12 * best)
    assert.equal("feasible", plan.status)
    assert.is_nil(plan.bound)
  end)

  it("stays within nodes and types, and opens up again on another cluster", function()
    local mixed = problem {
      cluster = { { "T4-16G", 2, node = "a" }, { "T4-16G", 2, node = "b" }, { "V100-32G", 1, node = "b" } },
      tensor_parallel = { 1, 2, 4 },
    }
    local variants, labels, notes = mixed:variants()
    assert.equal(4, #variants)
    assert.equal("2xT4-16G + 2 of T4-16G + V100-32G", labels[3])
    assert.equal("2 of T4-16G + 2xT4-16G + V100-32G", labels[2])
    assert.truthy(notes[1]:find("4 left out: no node has as many", 1, true))
    assert.equal(4, #variants[3]:with { cluster = four }:variants() + 1)
    local plan = assert(ts.plan(mixed))
    assert.truthy(plan.notes[1]:find("tensor parallelism of 4 left out", 1, true))
  end)

  it("shares one time limit", function()
    local started = os.time()
    local plan, why = ts.plan(problem { tensor_parallel = { 1, 2, 4 } }, { time_limit_s = 0 })
    assert.is_true(os.time() - started <= 2)
    if plan then assert.equal("feasible", plan.status) else assert.equal("time_limit", why.code) end
  end)

  it("says why no choice has a plan", function()
    local why = declines("infeasible", "no choice has a plan; 2 of T4-16G: ",
      ts.plan(ts.problem(support.settled { model = "opt-66b", cluster = "2xT4-16G", tensor_parallel = { 1, 2 } })))
    assert.truthy(why.message:find("2xT4-16G: ", 1, true))
    assert.truthy(why.constraint)
  end)

  it("finds only plans below a cutoff", function()
    local open = problem { tensor_parallel = { 1, 2 } }
    local best = assert(ts.plan(open)).objective
    assert.near(best, ts.plan(open, { cutoff = best * 1.001 }).objective, 1e-8 * best)
    for _, planner in ipairs { "exact", "ilp", "het" } do
      local why = declines("infeasible", "cutoff", ts.plan(open, { cutoff = best * 0.999, planner = planner }))
      assert.equal("cutoff", why.constraint)
    end
    raises("invalid_argument", "ts.plan.cutoff", function() ts.plan(open, { cutoff = "x", planner = "het" }) end)
  end)

  it("tells of better plans as they are found", function()
    local last = math.huge
    local plan = assert(ts.plan(problem { tensor_parallel = { 1, 2, 4 } }, {
      on_incumbent = function(incumbent)
        assert.is_true(incumbent.objective < last)
        last = incumbent.objective
      end,
    }))
    assert.near(plan.objective, last, 1e-9 * last)
  end)

  it("refuses what cannot be", function()
    raises("invalid_argument", "32 heads do not divide by 3", function() problem { tensor_parallel = 3 } end)
    raises("invalid_argument", "no node has as many devices of one type, 4 at most",
      function() problem { tensor_parallel = 8 } end)
    raises("invalid_argument", "3 x V100-32G of node 'a' cannot be cut into groups of 2; allow 1 as well",
      function() problem { tensor_parallel = 2, cluster = { { "V100-32G", 3, node = "a" } } } end)
    raises("invalid_argument", "tensor_parallel: give at least one number, each once",
      function() problem { tensor_parallel = {} } end)
    raises("invalid_argument", "each once", function() problem { tensor_parallel = { 2, 2 } } end)
    raises("out_of_range", "ts.problem.tensor_parallel", function() problem { tensor_parallel = { 0 } } end)
    raises("invalid_argument", "ts.problem.tensor_parallel", function() problem { tensor_parallel = "2" } end)
    raises("invalid_argument", "leave out tensor_parallel",
      function() ts.problem { instance = "x.json", tensor_parallel = 2 } end)
  end)
end)
