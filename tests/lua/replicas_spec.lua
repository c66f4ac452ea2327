-- Replicas against an enumeration of every way of splitting devices and batch; what such a plan is like and refuses.
local ts = require "tessera"
local support = require "support"
local raises, declines = support.raises, support.declines

local types = { { "T4-16G", "a" }, { "T4-16G", "a" }, { "V100-32G", "b" }, { "P100-12G", "c" } }

local function cluster_of(devices)
  local list = { link_gbps = 100 }
  for _, i in ipairs(devices) do list[#list + 1] = { types[i][1], 1, node = types[i][2] } end
  return list
end

local function problem(num_devices, changes)
  local devices = {}
  for i = 1, num_devices do devices[i] = i end
  local fields = {
    model = "opt-1.3b", cluster = cluster_of(devices), bitwidths = { 4, 16 }, theta = 1,
    workload = { prompt_tokens = 64, output_tokens = 20, batch_size = 5 },
  }
  for key, value in pairs(changes or {}) do fields[key] = value end
  return ts.problem(support.settled(fields))
end

-- Every way of giving each device to one of `num` parts, none of them empty; each set of parts once.
local function partitions(num_devices, num)
  local found = {}
  local function give(i, parts)
    if i > num_devices then
      if #parts == num then
        local copy = {}
        for r, part in ipairs(parts) do copy[r] = { unpack(part) } end
        found[#found + 1] = copy
      end
      return
    end
    for r = 1, math.min(#parts + 1, num) do
      parts[r] = parts[r] or {}
      table.insert(parts[r], i)
      give(i + 1, parts)
      table.remove(parts[r])
      if #parts[r] == 0 then parts[r] = nil end
    end
  end
  give(1, {})
  return found
end

local function shares_of(batch, num)
  if num == 1 then return { { batch } } end
  local found = {}
  for first = 1, batch - num + 1 do
    for _, rest in ipairs(shares_of(batch - first, num - 1)) do
      table.insert(rest, 1, first)
      found[#found + 1] = rest
    end
  end
  return found
end

-- The least worst sum of seconds and theta omega, by planning everything.
local function enumerate(whole, num_devices, num, options)
  local memo, best = {}, math.huge
  local function objective(part, share)
    local key = table.concat(part, ",") .. ":" .. share
    if memo[key] == nil then
      local w = whole.workload
      local ok, on_part = pcall(whole.with, whole, {
        cluster = cluster_of(part),
        workload = { prompt_tokens = w.prompt_tokens, output_tokens = w.output_tokens, batch_size = share },
      })
      local plan = ok and (not options.prefill_micro_batch_size or options.prefill_micro_batch_size <= share)
        and ts.plan(on_part, options)
      memo[key] = plan and plan.objective or math.huge
    end
    return memo[key]
  end
  for _, parts in ipairs(partitions(num_devices, num)) do
    for _, shares in ipairs(shares_of(whole.batch_size, num)) do
      local worst = -math.huge
      for r, part in ipairs(parts) do worst = math.max(worst, objective(part, shares[r])) end
      best = math.min(best, worst)
    end
  end
  return best
end

local function check_against_enumeration(whole, num_devices, num, options)
  options = options or {}
  local with_replicas = { replicas = num }
  for key, value in pairs(options) do with_replicas[key] = value end
  local plan = assert(ts.plan(whole, with_replicas))
  local best = enumerate(whole, num_devices, num, options)
  assert.equal(num, #plan.replicas)
  local most, least = -math.huge, math.huge
  for _, replica in ipairs(plan.replicas) do
    most, least = math.max(most, replica.omega), math.min(least, replica.omega)
  end
  if most == least then assert.near(best, plan.objective, 1e-8 * best) end
  assert.is_true(plan.objective >= best * (1 - 1e-8))
  assert.is_true(ts.check(plan))
  return plan
end

-- Clusters of any kind with what is open by default: all splits at once by their bounds, against one after the other.
describe("replicas of any number", function()
  local names = { "T4-16G", "L4", "A100-80G", "V100-32G", "H200-141G", "RTX-3090" }
  local models = { "llama-3.1-8b", "opt-13b", "qwen2.5-7b", "llama-2-13b" }

  local function draw()
    local parts, num_devices = {}, 0
    for i = 1, math.random(1, 3) do
      local count = math.random(1, 3)
      num_devices = num_devices + count
      parts[i] = ("%dx%s"):format(count, names[math.random(#names)])
    end
    local fields = { model = models[math.random(#models)], cluster = table.concat(parts, "+"), workload = {
      batch_size = math.random(2, 16), prompt_tokens = 128 * math.random(1, 8), output_tokens = math.random(20, 200),
    } }
    if math.random(3) == 1 then fields.use_all_devices = true end
    if math.random(3) == 1 then
      fields.quality = { max_omega = math.random() }
    else
      fields.theta = ({ 0, 1, 10 })[math.random(3)]
    end
    return fields, num_devices
  end

  it("are as good as the best of each number", function()
    local seed = tonumber(os.getenv "TESSERA_SEED") or os.time()
    math.randomseed(seed)
    local with_replicas, unproven = 0, 0
    for i = 1, 16 do
      local fields, num_devices = draw()
      local at = ("seed %d, draw %d: %s on %s"):format(seed, i, fields.model, fields.cluster)
      local any, numbers = ts.problem(fields), {}
      for r = 1, math.min(num_devices, fields.workload.batch_size) do numbers[r] = r end
      local plan, why = ts.plan(any, { replicas = "all", time_limit_s = 10 })
      local other, why_not = ts.plan(any, { replicas = numbers, time_limit_s = 10 })
      if plan and other then
        assert(ts.check(plan))
        if plan.status == "optimal" and other.status == "optimal" then
          assert.near(other.objective, plan.objective, 1e-6 * math.abs(other.objective), at)
        else
          unproven = unproven + 1
        end
        if plan.replicas then with_replicas = with_replicas + 1 end
      else
        assert.equal(why_not and why_not.code, why and why.code, at)
      end
    end
    assert.is_true(with_replicas >= 3, "seed " .. seed)
    assert.is_true(unproven <= 3, "seed " .. seed)
  end)
end)

describe("replicas", function()
  after_each(support.remove_files)

  it("are as good as the best of every split", function()
    for num_devices = 2, 4 do
      for num = 2, num_devices do
        assert.equal("optimal", check_against_enumeration(problem(num_devices), num_devices, num).status)
      end
    end
  end)

  it("are so under the papers' objective, where more requests may take less time", function()
    check_against_enumeration(problem(3, { objective = "paper" }), 3, 2)
    check_against_enumeration(problem(4, { objective = "paper" }), 4, 2)
  end)

  it("are so with micro-batch sizes that are given", function()
    check_against_enumeration(problem(3), 3, 2, { prefill_micro_batch_size = 2 })
  end)

  it("are so with a heuristic, which proves nothing", function()
    local plan = check_against_enumeration(problem(3), 3, 2, { planner = "uniform" })
    assert.equal("feasible", plan.status)
    assert.is_nil(plan.bound)
  end)

  it("are so where parts are tensor-parallel", function()
    local plan = check_against_enumeration(problem(3, { tensor_parallel = { 1, 2 } }), 3, 2)
    assert.is_true(ts.check(plan))
    -- A group is never split: alone, a T4 has nothing to be in a group with.
    local pairs_only = ts.problem(support.settled {
      model = "opt-1.3b", cluster = { { "T4-16G", 4, node = "a" } }, tensor_parallel = 2,
      workload = { prompt_tokens = 64, output_tokens = 20, batch_size = 5 },
    })
    local two = assert(ts.plan(pairs_only, { replicas = 2 }))
    for _, replica in ipairs(two.replicas) do assert.same({ "2xT4-16G" }, replica.device_order) end
    declines("infeasible", "no degree is left for opt-1.3b", ts.plan(pairs_only, { replicas = 3 }))
  end)

  it("never take longer for fewer requests, which the bisection relies on", function()
    for _, changes in ipairs { {}, { theta = 0 }, { kv_bitwidth = { 16, 8 } }, { memory = "llm-pq" },
      { workload = { prompt_tokens = 300, output_tokens = 20, batch_size = 12, chunk_tokens = 128 } } } do
      local before = 0
      local whole = problem(3, changes)
      for share = 1, whole.batch_size do
        local w = whole.workload
        local plan = assert(ts.plan(whole:with { workload = {
          prompt_tokens = w.prompt_tokens, output_tokens = w.output_tokens, batch_size = share,
          chunk_tokens = w.chunk_tokens,
        } }))
        assert.is_true(plan.objective >= before * (1 - 1e-8))
        before = plan.objective
      end
    end
  end)

  it("are chosen in number", function()
    local whole = problem(4)
    local best = assert(ts.plan(whole)).objective
    for num = 2, 4 do best = math.min(best, ts.plan(whole, { replicas = num }).objective) end
    for _, numbers in ipairs { "all", { 1, 2, 3, 4 }, "4,3,2,1" } do
      local plan = assert(ts.plan(whole, { replicas = numbers }))
      assert.near(best, plan.objective, 1e-8 * best)
      assert.equal("optimal", plan.status)
      assert.truthy(plan.notes[1]:find("replicas: best of ", 1, true))
    end
    assert.is_nil(ts.plan(whole, { replicas = { 1 } }).replicas)
    assert.is_nil(ts.plan(whole, { replicas = 1 }).replicas)
  end)

  it("follow the worst and share the batch", function()
    local plan = assert(ts.plan(problem(4), { replicas = 2 }))
    local objective, latency, requests, used = 0, 0, 0, {}
    for _, replica in ipairs(plan.replicas) do
      objective, latency = math.max(objective, replica.objective), math.max(latency, replica.latency_s)
      requests = requests + replica:problem().batch_size
      for _, i in ipairs(replica.devices) do
        assert.is_nil(used[i])
        used[i] = true
      end
    end
    assert.equal(objective, plan.objective)
    assert.equal(latency, plan.latency_s)
    assert.equal(5, requests)
    assert.same({ [0] = true, true, true, true }, used)
    assert.same({}, plan.stages)
    assert.near(5 * 20 / latency, plan.throughput_tok_s, 1e-9 * plan.throughput_tok_s)
  end)

  it("print, save, load and simulate", function()
    local plan = assert(ts.plan(problem(4), { replicas = 2 }))
    assert.truthy(tostring(plan):find("2 replicas", 1, true))
    local explained = plan:explain()
    assert.truthy(explained:find("replica 2:", 1, true))
    local path = support.temporary ""
    plan:save(path)
    local again = ts.load_plan(path)
    assert.equal(plan, again)
    assert.is_true(ts.check(again))
    local run = ts.simulate(again)
    local slowest, stages = 0, 0
    for _, replica in ipairs(again.replicas) do
      slowest = math.max(slowest, ts.simulate(replica).total_s)
      stages = stages + #replica.stages
    end
    assert.equal(slowest, run.total_s)
    assert.equal(stages, #run.stages)
    assert.near(5 * 20 / slowest, run.throughput_tok_s, 1e-9 * run.throughput_tok_s)
    raises("unsupported", "replicas run side by side", function() run:save_trace(path) end)
    ts.picture(plan, path)
    assert.matches("replica 2 of 2", support.read(path))
  end)

  it("serve the requests that were planned for each, if they are unlike", function()
    local plan = assert(ts.plan(ts.problem { model = "opt-13b", theta = 1,
      cluster = ts.cluster { { "T4-16G", 1 }, { "V100-32G", 1 } },
      workload = ts.workload { prompt_tokens = 512, output_tokens = 100, batch_size = 16 } }))
    local batch = ts.traffic { arrivals = "closed", concurrency = 16, num_requests = 16, prompt_tokens = 512,
      output_tokens = 100 }
    for _, router in ipairs { "round_robin", "least_requests", "least_tokens" } do
      local made = ts.deployment { plan = plan, router = router }
      local served = ts.serve(made, batch)
      for i, pipeline in ipairs(plan.pipelines) do
        assert.equal(pipeline.batch_size / 8, made.replicas[i].share)
        assert.equal(pipeline.batch_size, served.replicas[i].num_requests, router)
      end
      assert.is_true(served.duration_s < 1.3 * plan.latency_s)
    end
    assert.equal(1, ts.deployment { plan = support.small_plan() }.replicas[1].share)
  end)

  it("are checked", function()
    local plan = assert(ts.plan(problem(4), { replicas = 2 }))
    local path = support.temporary ""
    plan:save(path)
    local text = support.read(path)
    local function broken(from, to, code, message)
      local changed, count = text:gsub(from, to, 1)
      assert.equal(1, count, from)
      local other = support.temporary(changed)
      declines(code, message, ts.check(ts.load_plan(other)))
    end
    broken('"devices": %[%s*%d+', '"devices": [ 9', "devices", "on device 9")
    broken('"devices": %[%s*%d[^%]]*%]', '"devices": []', "devices", "names no devices")
    broken('"batch_size": 5', '"batch_size": 6', "replicas", "the replicas serve 5 requests, the batch has 6")
    broken('"theta": 1', '"theta": 2', "devices", "is not the plan's on its devices")
    broken('"latency_s": [%d.]+', '"latency_s": 1000', "objective", "latency_s is 1000")
  end)

  it("fall back to equal parts of big clusters, and say so", function()
    local big = ts.problem(support.settled {
      model = "opt-125m", workload = { prompt_tokens = 16, output_tokens = 2, batch_size = 4 }, bitwidths = { 16 },
      cluster = {
        { "T4-16G", 8, node = "a" }, { "V100-32G", 8, node = "b" }, { "P100-12G", 8, node = "c" },
        { "A100-40G", 8, node = "d" },
      },
      allow_empty_stage = true,
    })
    local plan = assert(ts.plan(big, { replicas = 4, planner = "uniform", device_order = nil }))
    assert.equal(4, #plan.replicas)
    assert.truthy(plan.notes[1]:find("only equal parts were tried", 1, true))
    assert.equal("feasible", plan.status)
  end)

  it("stop in time", function()
    local plan, why = ts.plan(problem(4), { replicas = "all", time_limit_s = 0 })
    if plan then assert.equal("feasible", plan.status) else assert.equal("time_limit", why.code) end
  end)

  it("refuse what cannot be", function()
    local whole = problem(3)
    local function refused(text, value)
      raises("invalid_argument", text, function() ts.plan(whole, { replicas = value }) end)
    end
    refused("0 is not a number of replicas", 0)
    refused("1.5 is not a number of replicas", { 1, 1.5 })
    refused("the list has gaps", { nil, 2 })
    refused("many is not a number of replicas", "many")
    refused("4 replicas need as many devices and requests; there are 3 at most", 4)
    refused("give a number, a list of them, or \"all\"", {})
    refused("ts.plan.replicas", true)
    raises("invalid_argument", "leave it out", function()
      ts.plan(whole, { replicas = 2, device_order = { "T4-16G" } })
    end)
    local instance = support.temporary [==[{ "name": "two", "L": 2, "B": 1, "s": 1, "n": 2, "bits": [4, 8], "theta": 0,
      "omega": [[1, 0], [1, 0]], "mem_layer_gb": [1, 2], "mem_emb_gb": 0,
      "types": [{ "name": "a", "count": 1, "mem_gb": 10 }, { "name": "b", "count": 1, "mem_gb": 10 }],
      "link_gbs": [[0, 1], [1, 0]], "lat_pre": { "a": [[1, 2]], "b": [[1, 2]] },
      "lat_dec": { "a": [[1, 2]], "b": [[1, 2]] }, "mem_tmp_pre_gb": [0], "mem_tmp_dec_gb": [0],
      "pay_pre_gb": 0.001, "pay_dec_gb": 0.001 }]==]
    raises("unsupported", "an instance file cannot be split", function()
      ts.plan(ts.problem { instance = instance }, { replicas = 2 })
    end)
  end)

  it("may be of one kind of checkpoint, which has fewer bitwidths than the problem", function()
    local plan = assert(ts.plan(ts.problem { model = "llama-3.1-405b", cluster = "2x(8xH100-80G)", runtime = "vllm",
      quality = require("tessera.solver").default_quality(),
      workload = { prompt_tokens = 512, output_tokens = 100, batch_size = 16 } }))
    assert.equal(2, #plan.replicas)
    assert.is_true(#plan.replicas[1]:problem().bitwidths < #plan:problem().bitwidths)
    assert.is_true(ts.check(plan))
    local path = support.temporary()
    plan:save(path)
    assert.near(ts.simulate(plan).total_s, ts.simulate(ts.load_plan(path)).total_s, 1e-9)
  end)

  it("say why there is none", function()
    declines("infeasible", "",
      ts.plan(ts.problem(support.settled { model = "opt-66b", cluster = "2xT4-16G" }), { replicas = 2 }))
    declines("infeasible", "cutoff", ts.plan(problem(3), { replicas = 2, cutoff = 1e-6 }))
  end)
end)
