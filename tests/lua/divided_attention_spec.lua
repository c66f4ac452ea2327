-- KV heads of a stage on another device: what a plan says of them, what it takes, what is refused.
local core = require "tessera.core"
local solver = require "tessera.solver"
local support = require "support"
local ts = require "tessera"
local raises, declines = support.raises, support.declines

local layers, heads, head_dim = 24, 32, 64 -- of opt-1.3b
local prompt_tokens, output_tokens, batch_size = 128, 16, 8

local function problem_with(changes)
  local description = { model = "opt-1.3b", cluster = { { "A10", 1 }, { "T4-16G", 1 }, link_gbps = 16 },
    workload = { prompt_tokens = prompt_tokens, output_tokens = output_tokens, batch_size = batch_size },
    bitwidths = { 8, 16 }, use_all_devices = false }
  for key, value in pairs(changes or {}) do description[key] = value end
  return ts.problem(support.settled(description))
end

local function bits(number)
  local list = {}
  for i = 1, number do list[i] = 16 end
  return list
end

local function by_hand(problem, attention, changes)
  local candidate = { planner = "manual", prefill_micro_batch_size = 4, decode_micro_batch_size = batch_size,
    stages = { { device = "A10", bitwidths = bits(layers), attention = attention } } }
  for key, value in pairs(changes or {}) do candidate[key] = value end
  return ts.plan(problem, candidate)
end

local function on_t4(ratio) return { device = "T4-16G", ratio = ratio } end

-- The roofline of kernel set "tessera": 40 % of the FP16 rate, 60 % of the memory's.
local rates = { A10 = { flop = 0.4 * 125e12, bytes = 0.6 * 600e9 },
  ["T4-16G"] = { flop = 0.4 * 65e12, bytes = 0.6 * 320e9 } }

local function attention_s(device, num_heads, requests, tokens, context)
  local pairs_of_tokens = tokens * (context + (tokens + 1) / 2)
  local flop = 4 * num_heads * head_dim * pairs_of_tokens * requests
  local bytes = requests * ((context + 2 * tokens) * 4 * num_heads * head_dim + 4 * tokens * num_heads * head_dim)
  return math.max(flop / rates[device].flop, bytes / rates[device].bytes)
end

local function sent_s(num_heads, requests, tokens, link)
  local one = requests * tokens * num_heads * head_dim * 2
  return 2 * link.latency_s + (3 * one + one) / link.bytes_per_s
end

-- What attention of a layer takes more with some heads elsewhere.
local function more_s(moved, requests, tokens, context, link)
  local kept = moved < heads and attention_s("A10", heads - moved, requests, tokens, context) or 0
  local there = sent_s(moved, requests, tokens, link) + attention_s("T4-16G", moved, requests, tokens, context)
  return math.max(kept, there) - attention_s("A10", heads, requests, tokens, context)
end

describe("heads of a stage on another device", function()
  it("take what a closed form says, of one request's heads to all of them, over links fast and slow", function()
    local checked, kept_wins = 0, 0
    for _, gbps in ipairs { 1, 16, 400, 4000 } do
      local problem = problem_with { cluster = { { "A10", 1 }, { "T4-16G", 1 }, link_gbps = gbps,
        link_latency_s = 1e-6 } }
      local link = problem.cluster:link(0, 1)
      assert.equal(gbps * 1e9 / 8, link.bytes_per_s)
      local whole = ts.simulate(assert(by_hand(problem)))
      for _, moved in ipairs { 1, 2, 8, 16, 31, 32 } do
        local plan = assert(by_hand(problem, on_t4(moved / heads)))
        local expected = 2 * layers * more_s(moved, 4, prompt_tokens, 0, link)
        for round = 1, output_tokens - 1 do -- which extends the prompt and so many tokens
          local more = more_s(moved, batch_size, 1, prompt_tokens + round, link)
          if more < 0 then kept_wins = kept_wins + 1 end
          expected = expected + layers * more
        end
        local run = ts.simulate(plan)
        assert.near(expected, run.total_s - whole.total_s, 1e-9 * run.total_s + 1e-12)
        checked = checked + 1
      end
    end
    assert.equal(24, checked)
    assert.is_true(kept_wins > 15, "a fast link pays") -- so both sides of the maximum were there
  end)

  it("have their cache there, and not on the stage's device", function()
    local problem = problem_with()
    local whole, half = assert(by_hand(problem)), assert(by_hand(problem, on_t4(0.25)))
    local cache = 2 * layers * heads * head_dim * 2 * batch_size * (prompt_tokens + output_tokens)
    local stage = half.stages[1]
    assert.equal(cache, whole.stages[1].memory.kv_cache_bytes)
    assert.equal(0.75 * cache, stage.memory.kv_cache_bytes)
    assert.equal(0.25 * cache, stage.attention.memory.kv_cache_bytes)
    assert.equal(0, stage.attention.memory.weight_bytes)
    assert.equal("T4-16G", stage.attention.device)
    assert.equal(1, stage.attention.device_index)
    assert.equal(0.25, stage.attention.ratio)
    assert.same({}, half.unused_devices)
    assert.equal(1, #whole.unused_devices)
    local text = debug.getmetatable(half).__full(half)
    assert.truthy(text:find("8 of 32 KV heads of stage 0 on T4-16G", 1, true), text)
    assert.truthy(half:explain():find("attention of a layer waits for T4-16G", 1, true))
  end)

  it("are in the plan's file, and a wrong number there is found", function()
    local plan = assert(by_hand(problem_with(), on_t4(0.5)))
    local path = support.temporary ""
    plan:save(path)
    local back = ts.load_plan(path)
    assert.equal(plan, back)
    assert.is_true(ts.check(back))
    assert.equal(ts.simulate(plan).total_s, ts.simulate(back).total_s)
    local function changed(find, replace, code)
      local text, count = core.read_file(path):gsub(find, replace, 1)
      assert.equal(1, count, find)
      local other = support.temporary(text)
      return declines(code, "", ts.check(ts.load_plan(other)))
    end
    changed('"ratio": 0.5', '"ratio": 0.25', "objective")
    changed('("attention".-"node": ")[^"]*', "%1elsewhere", "devices")
    changed('("attention".-"kv_cache_bytes": )', "%11", "objective")
    assert.is_nil(plan:problem():to_table().attention) -- which is the plan's
    assert.is_true(assert(ts.plan(plan:problem())).latency_s <= plan.latency_s)
    support.remove_files()
  end)

  it("are in files that may say anything, and get an answer or a clean error", function()
    local path = support.temporary ""
    assert(by_hand(problem_with(), on_t4(0.5))):save(path)
    local text = core.read_file(path)
    local before, stages = text:match "^(.-)(\n \"stages\": %[.*)$"
    local last, loaded, refused = stages:find '"problem"', 0, 0
    for at, number in stages:sub(1, last):gmatch '": ()(%-?[%d.e+-]+)' do
      for _, other in ipairs { "0", "1", "-1", "1e300", "0.3", "999999" } do
        local file = support.temporary(before .. stages:sub(1, at - 1) .. other .. stages:sub(at + #number))
        local ok, plan = pcall(ts.load_plan, file)
        if ok then
          loaded = loaded + 1
          for _, use in ipairs { ts.check, ts.simulate, debug.getmetatable(plan).__full,
            function() return plan:explain { what_if = false } end, function() return plan.unused_devices end } do
            local fine, err = pcall(use, plan)
            if not fine then assert.is_table(err, tostring(err)) end
            if not fine then assert.not_equal("internal", err.code, err.message) end
          end
        else
          refused = refused + 1
          assert.is_table(plan, tostring(plan))
          assert.not_equal("internal", plan.code, plan.message)
        end
      end
    end
    assert.is_true(loaded > 50 and refused > 25, ("%d loaded, %d refused"):format(loaded, refused))
    support.remove_files()
  end)

  it("are whole heads: a ratio between is rounded, with a note", function()
    local problem = problem_with()
    local plan = assert(by_hand(problem, on_t4(0.3)))
    assert.equal(10 / 32, plan.stages[1].attention.ratio)
    assert.truthy(plan.notes[1]:find("a ratio of 0.3 is no number of its 32 KV heads", 1, true), plan.notes[1])
    assert.is_nil(assert(by_hand(problem, on_t4(0.01))).stages[1].attention)
    assert.equal(0, #assert(by_hand(problem, on_t4(1))).notes)
    local none = assert(by_hand(problem, on_t4(0)))
    assert.is_nil(none.stages[1].attention)
    assert.equal(by_hand(problem).latency_s, none.latency_s)
    -- Of grouped queries, KV heads count.
    local grouped = problem_with { model = "llama-3-8b",
      cluster = { { "A100-80G", 1 }, { "T4-16G", 1 }, link_gbps = 16 } }
    local quarter = assert(by_hand(grouped, on_t4(0.25), { stages = {
      { device = "A100-80G", bitwidths = bits(32), attention = on_t4(0.25) } } }))
    assert.equal(0.25, quarter.stages[1].attention.ratio)
    assert.equal(0, #quarter.notes)
  end)

  it("may be of a stage among others, and stages of another plan keep theirs", function()
    local problem = problem_with { cluster = { { "A10", 2 }, { "T4-16G", 1 }, link_gbps = 16 } }
    local two = assert(by_hand(problem, nil, { stages = { { device = "A10", bitwidths = bits(10) },
      { device = "A10", bitwidths = bits(14), attention = on_t4(0.5) } } }))
    assert.is_nil(two.stages[1].attention)
    assert.equal(1, two.stages[2].device_index)
    assert.is_true(ts.check(two))
    local again = assert(ts.plan(problem, { planner = "manual", stages = two.stages,
      prefill_micro_batch_size = 4, decode_micro_batch_size = batch_size }))
    assert.equal(two.latency_s, again.latency_s)
    assert.equal(0.5, again.stages[2].attention.ratio)
    local twins = assert(by_hand(problem, { device = "A10", ratio = 0.5 })) -- two of one name
    assert.equal(1, twins.stages[1].attention.device_index)
    assert.is_true(ts.check(twins))
  end)

  it("may be of replicas, each with a device for its heads", function()
    local problem = problem_with { cluster = { { "A10", 1 }, { "T4-16G", 1 }, { "A10", 1 }, { "T4-16G", 1 },
      link_gbps = 16 } }
    local function part(devices, requests)
      return { assert(by_hand(solver.on_devices(problem, devices, requests), on_t4(0.5),
        { decode_micro_batch_size = 2, prefill_micro_batch_size = 2 })), devices }
    end
    local plan = assert(solver.join_plans(problem, { part({ 0, 1 }, 6), part({ 2, 3 }, 2) }, "mine"))
    assert.is_true(ts.check(plan))
    assert.same({}, plan.unused_devices)
    assert.equal(3, plan.pipelines[2].stages[1].attention.device_index)
    assert.equal(1, plan.replicas[2].stages[1].attention.device_index)
    local path = support.temporary ""
    plan:save(path)
    assert.equal(plan, ts.load_plan(path))
    assert.is_true(ts.check(ts.load_plan(path)))
    declines("infeasible", "serve 6 requests, the batch has 8",
      solver.join_plans(problem, { part({ 0, 1 }, 6) }, "mine"))
    support.remove_files()
  end)

  it("are handed on by a planner that is a script", function()
    ts.register_planner { name = "divides", doc = "For the tests", plan = function(problem)
      return by_hand(problem, on_t4(0.5))
    end }
    local made = assert(ts.plan(problem_with(), { planner = "divides" }))
    assert.equal(0.5, made.stages[1].attention.ratio)
    assert.equal("divides", made.planner)
    assert.is_true(ts.check(made))
  end)

  it("are refused where they cannot be", function()
    local problem = problem_with()
    raises("not_found", "the cluster has no 'T4'", function() by_hand(problem, { device = "T4", ratio = 1 }) end)
    raises("invalid_argument", "no 'A10' left", function() by_hand(problem, { device = "A10", ratio = 1 }) end)
    raises("out_of_range", "ratio", function() by_hand(problem, on_t4(1.5)) end)
    raises("invalid_argument", "did you mean 'ratio'", function()
      by_hand(problem, { device = "T4-16G", ration = 1 })
    end)
    local own = { { device = "A10", bitwidths = bits(12), attention = on_t4(1) },
      { device = "T4-16G", bitwidths = bits(12) } }
    raises("invalid_argument", "no 'T4-16G' left", function() by_hand(problem, nil, { stages = own }) end)
    declines("infeasible", "one of them", by_hand(problem, on_t4(1), { offload = { gpu_batch_size = 1 },
      prefill_micro_batch_size = 4, decode_micro_batch_size = 4 }))
    declines("infeasible", "one of them", problem:offload { offload = { gpu_batch_size = 1 },
      stages = { { device = "A10", bitwidths = bits(layers), attention = on_t4(1) } },
      prefill_micro_batch_size = 4, decode_micro_batch_size = 4 })
    local latent = problem_with { model = "deepseek-v2-lite" }
    raises("unsupported", "latent attention", function()
      by_hand(latent, nil, { stages = { { device = "A10", bitwidths = bits(27), attention = on_t4(1) } } })
    end)
  end)

  it("need memory there", function()
    local problem = problem_with { workload = { prompt_tokens = 1024, output_tokens = 1000, batch_size = 64 } }
    declines("infeasible", "T4-16G has to hold", by_hand(problem, on_t4(1)))
    assert(by_hand(problem, on_t4(0.25)))
    declines("infeasible", "stage 1 on A10 needs", by_hand(problem))
  end)

  it("are no task of a server, a stream or a new plan", function()
    local plan = assert(by_hand(problem_with(), on_t4(0.5)))
    declines("unsupported", "KV heads of a stage on T4-16G", plan:export("vllm", os.tmpname()))
    raises("unsupported", "has all heads of a stage", function()
      ts.serve(ts.deployment { plan = plan }, ts.traffic { rate_per_s = 1, num_requests = 2 })
    end)
    raises("unsupported", "plan anew", function() ts.replan(plan, "1xA10") end)
    local picture = support.temporary ""
    ts.picture(plan, picture .. ".svg")
    local svg = core.read_file(picture .. ".svg")
    assert.truthy(svg:find("50 %% of KV heads"))
    ts.report(plan, picture .. ".html")
    assert.truthy(core.read_file(picture .. ".html"):find("50 %% of KV heads on T4%-16G"))
    os.remove(picture .. ".svg")
    support.remove_files()
  end)
end)
