-- plan:explain: what binds, what more would buy (against problems that really have more), and robustness.
local ts = require "tessera"
local solver = require "tessera.solver"
local support = require "support"
local raises = support.raises

local gib = 2 ^ 30

local function more_memory(device, bytes)
  local fields = ts.device(device):to_table()
  fields.memory_bytes = fields.memory_bytes + bytes
  return ts.device(fields)
end

local function cluster(changes)
  local c = { { "T4-16G", 2, node = "a" }, { "P100-12G", 1, node = "b" }, link_gbps = 0.1 }
  for key, value in pairs(changes or {}) do c[key] = value end
  return c
end

-- Memory is short and the network slow, so that more of either helps.
local function problem(changes, batch_size)
  return ts.problem(support.settled { model = "opt-13b", cluster = cluster(changes), theta = 10,
    workload = { prompt_tokens = 1072, output_tokens = 16, batch_size = batch_size or 16 }, bitwidths = { 4, 8, 16 } })
end

local function best(p) return assert(ts.plan(p)).objective end

local function row(explained, name)
  for _, r in ipairs(explained.what_if) do
    if r.name == name then return r end
  end
  error("no row called " .. name)
end

describe("plan:explain", function()
  it("agrees with hardware that is really changed", function()
    local p = problem()
    local base = best(p)
    local explained = assert(ts.plan(p)):explain { as = "table", robustness = 0, time_limit_s = 100 }
    assert.is_false(explained.stopped)
    assert.near(base, explained.best.objective, 1e-9 * base)
    local t4 = best(problem { { more_memory("T4-16G", gib), 2, node = "a" } })
    assert.near(base - t4, row(explained, "T4-16G").gain_s, 1e-8 * base)
    local v100 = best(problem { [2] = { more_memory("P100-12G", gib), 1, node = "b" } })
    assert.near(base - v100, row(explained, "P100-12G").gain_s, 1e-8 * base)
    local network = best(problem { link_gbps = 1.1 })
    assert.near(base - network, row(explained, "network").gain_s, 1e-8 * base)
    local theta = assert(ts.plan(p:with { theta = 5 }))
    assert.near(theta.latency_s, row(explained, "theta").latency_s, 1e-8 * base)
    assert.is_true(row(explained, "T4-16G").gain_s > 0) -- a test in which nothing helps would say little
    assert.is_true(row(explained, "network").gain_s > 0)
  end)

  it("changes hardware exactly as the files would", function()
    local p = problem()
    local candidate = ts.plan(p)
    local function price(changed)
      return changed:evaluate({ stages = candidate.stages, prefill_micro_batch_size = 2,
        decode_micro_batch_size = 8 }).objective
    end
    local upgraded = solver.upgraded(p,
      { memory_bytes = { ["T4-16G"] = gib }, link_bytes_per_s = { network = 1e9 / 8 } })
    local really = problem { { more_memory("T4-16G", gib), 2, node = "a" }, link_gbps = 1.1 }
    assert.equal(price(really), price(upgraded))
    for i = 0, 2 do
      for j = 0, 2 do assert.same(really.cluster:link(i, j), upgraded.cluster:link(i, j)) end
      assert.equal(really.cluster.devices[i + 1].memory_bytes, upgraded.cluster.devices[i + 1].memory_bytes)
    end
    local inside = solver.upgraded(p, { link_bytes_per_s = { ["inside a"] = 1e9 } })
    assert.equal(p.cluster:link(0, 1).bytes_per_s + 1e9, inside.cluster:link(0, 1).bytes_per_s)
    assert.equal(p.cluster:link(0, 2).bytes_per_s, inside.cluster:link(0, 2).bytes_per_s)
    assert.same({ "network", "inside a" }, solver.link_names(p))
    raises("not_found", "did you mean 'T4-16G'",
      function() solver.upgraded(p, { memory_bytes = { ["T4-16"] = 1 } }) end)
    raises("not_found", "link", function() solver.upgraded(p, { link_bytes_per_s = { netwrk = 1 } }) end)
    raises("invalid_argument", "unknown option", function() solver.upgraded(p, { memory = {} }) end)
  end)

  it("never loses by more memory, faster links or less quality", function()
    for _, theta in ipairs { 0.1, 100 } do
      local explained = assert(ts.plan(problem():with { theta = theta })):explain { as = "table", robustness = 0,
        time_limit_s = 100 }
      for _, r in ipairs(explained.what_if) do assert.is_true(r.gain_s >= 0, r.change) end
    end
  end)

  it("speaks of the floor where there is one", function()
    local p = problem():with { quality = { max_omega = 0.8 } }
    local explained = assert(ts.plan(p)):explain { as = "table", robustness = 0, time_limit_s = 100 }
    local floor = row(explained, "floor")
    assert.matches("10 %% looser %(omega 0.88%)", floor.change)
    local looser = assert(ts.plan(p:with { quality = { max_omega = 0.88 } }))
    assert.near(looser.latency_s, floor.latency_s, 1e-8)
    assert.is_true(floor.gain_s >= 0)
    local kinds = {}
    for _, b in ipairs(explained.binds) do kinds[b.kind] = b end
    assert.is_table(kinds.quality)
    assert.is_true(kinds.quality.used_ratio > 0.9)
    -- No price on omega and no floor: nothing to loosen.
    local free = assert(ts.plan(problem():with { theta = 0 })):explain { as = "table", robustness = 0 }
    for _, r in ipairs(free.what_if) do assert.not_equal("quality", r.kind) end
  end)

  it("names the straggler, the link, full stages and too few micro-batches", function()
    local function kinds(plan)
      local found = {}
      for _, b in ipairs(plan:explain { as = "table", what_if = false }.binds) do
        assert.is_string(b.text)
        found[b.kind .. (b.phase and " " .. b.phase or "")] = b
      end
      return found
    end
    local bits = {}
    for i = 1, 40 do bits[i] = 4 end
    local function by_hand(p, first, decode)
      return assert(ts.plan(p, { planner = "manual", prefill_micro_batch_size = 2, decode_micro_batch_size = decode,
        stages = { { device = "T4-16G", bitwidths = { unpack(bits, 1, first) } },
          { device = "T4-16G", bitwidths = { 4 } },
          { device = "P100-12G", bitwidths = { unpack(bits, 1, 39 - first) } } } }))
    end
    local plan = by_hand(problem({ link_gbps = 100 }, 8), 37, 2)
    local found = kinds(plan)
    assert.equal(0, found["straggler prefill"].stage)
    assert.equal(0, found["straggler decode"].stage)
    assert.matches("stage 0 %(T4%-16G%)", found["straggler decode"].text)
    assert.is_table(kinds(by_hand(problem({ link_gbps = 100 }, 8), 37, 8))["micro_batch decode"])
    local slow = kinds(by_hand(problem({ link_gbps = 0.01 }, 8), 20, 2))
    assert.equal(1, slow["link prefill"].stage)
    local full = ts.plan(problem():with { theta = 1e6 })
    assert.is_table(kinds(full).memory)
    assert.is_true(kinds(full).memory.used_ratio > 0.9)
  end)

  it("works for instances, against files that really say more", function()
    local function types(more)
      return { { name = "A", count = 2, mem_gb = 2.4 + more, link_gbs = 0.05 },
        { name = "B", count = 1, mem_gb = 2.5, speed = 3, link_gbs = 0.05 } }
    end
    local p = ts.problem { instance = support.tiny_instance(types(0)), allow_empty_stage = false, theta = 5 }
    local explained = assert(ts.plan(p)):explain { as = "table", robustness = 4, time_limit_s = 100 }
    local more = ts.problem { instance = support.tiny_instance(types(gib / 1e9)), allow_empty_stage = false, theta = 5 }
    assert.near(best(p) - best(more), row(explained, "A").gain_s, 1e-8)
    assert.is_true(row(explained, "A").gain_s > 0)
    assert.same({ "A - A", "A - B" }, solver.link_names(p)) -- one B has no link to itself
    local faster = types(0)
    for _, item in ipairs(faster) do item.link_gbs = 0.05 + 1 / 8 end
    local all = solver.upgraded(p, { link_bytes_per_s = { ["A - A"] = 1e9 / 8, ["A - B"] = 1e9 / 8 } })
    assert.near(best(ts.problem { instance = support.tiny_instance(faster), allow_empty_stage = false, theta = 5 }),
      best(all), 1e-9)
    assert.is_true(row(explained, "A - A").gain_s >= 0)
    assert.equal(4, explained.robustness.problems)
    support.remove_files()
  end)

  it("is the same for the same seed, and another for another", function()
    local plan = ts.plan(problem())
    local function ask(seed, error)
      return plan:explain { as = "table", robustness = 6, seed = seed, error = error, time_limit_s = 100 }.robustness
    end
    local a, b, c = ask(3, 0.5), ask(3, 0.5), ask(4, 0.5)
    assert.same(a, b)
    assert.equal(6, a.problems)
    assert.is_true(a.near_best < a.problems)
    assert.not_equal(a.worst_regret_ratio, c.worst_regret_ratio)
    assert.is_true(ask(3).assumed)
    assert.equal(0.1, ask(3).error)
    local exact = ask(3, 0)
    assert.equal(6, exact.near_best)
    assert.equal(0.01, exact.worst_regret_ratio) -- nothing is better by more; by how much less is not asked
    assert.is_false(exact.assumed)
  end)

  it("is a text that says what was asked", function()
    local plan = ts.plan(problem())
    local text = plan:explain { robustness = 2, time_limit_s = 100 }
    for _, words in ipairs { "What binds", "memory is tightest on stage", "1 GiB more on each T4%-16G", "network",
      "theta 5 instead of 10", "off by 10 %% %(assumed", "of 2 perturbed problems %(seed 0%)",
      "No plan of the whole search is better" } do
      assert.matches(words, text)
    end
    assert.not_matches("stopped", text)
    local quick = plan:explain { what_if = false }
    assert.matches("memory is tightest on stage", quick)
    assert.not_matches("GiB more", quick)
    local cut = plan:explain { time_limit_s = 0 }
    assert.matches("stopped by the time limit of 0 s", cut)
    local uniform = ts.plan(problem(), { planner = "uniform" })
    assert.matches("this one is [%d.]+ %% above it", uniform:explain { robustness = 0, time_limit_s = 100 })
  end)

  it("works for a loaded plan", function()
    local plan, path = ts.plan(problem()), support.temporary()
    plan:save(path)
    local options = { robustness = 2, time_limit_s = 100 }
    assert.equal(plan:explain(options), ts.load_plan(path):explain(options))
    support.remove_files()
  end)

  it("refuses what it does not know", function()
    local plan = support.small_plan()
    for _, case in ipairs {
      { { what = true }, "unknown option 'what'; did you mean 'what_if'" },
      { { as = "json" }, "'json' is not a choice" },
      { { as = 3 }, "the number 3 is not a choice" },
      { { robustness = -1 }, "an integer in [0, 10000]", "out_of_range" },
      { { robustness = 1.5 }, "not an integer" }, { { seed = -1 }, "out of range", "out_of_range" },
      { { error = -0.1 }, "a number in [0, 2]", "out_of_range" },
      { { error = support.nan }, "NaN is not a number" }, { { time_limit_s = "1" }, "the string '1' is not a number" },
      { { what_if = 1 }, "true or false" },
    } do
      raises(case[3] or "invalid_argument", case[2], function() plan:explain(case[1]) end)
    end
    raises("invalid_argument", "the number 3 where a table", function() plan:explain(3) end)
    raises("invalid_argument", "tessera.Plan", function() plan.explain {} end)
  end)
end)
