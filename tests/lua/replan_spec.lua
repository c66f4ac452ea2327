-- ts.replan: against every plan of tiny instances, and on clusters that lose or gain devices.
local ts = require "tessera"
local support = require "support"
local enumerate = require "enumerate"
local raises, declines = support.raises, support.declines

local layer_gb, embedding_gb = { [4] = 1, [8] = 2 }, 0.5

-- What stage k of a plan made by hand loads on a device that held `old` (nil: nothing); old.first: had the embedding.
local function loads(stages, k, old)
  local first_layer = 0
  for i = 1, k - 1 do first_layer = first_layer + #stages[i].bitwidths end
  local total = 0
  for i, bitwidth in ipairs(stages[k].bitwidths) do
    local held = old and old.bitwidths[first_layer + i - old.first_layer]
    if held ~= bitwidth then total = total + layer_gb[bitwidth] end
  end
  if k == 1 and not (old and old.first_layer == 0) then total = total + embedding_gb end
  return total
end

-- The fewest GB, over every way to match stages to earlier stages on the same type.
local function moved_gb(stages, earlier)
  local used = {}
  local function match(k)
    if k > #stages then return 0 end
    local least = loads(stages, k) + match(k + 1)
    for e, old in ipairs(earlier) do
      if not used[e] and old.device == stages[k].device then
        used[e] = true
        least = math.min(least, loads(stages, k, old) + match(k + 1))
        used[e] = nil
      end
    end
    return least
  end
  return match(1)
end

local function tiny(types)
  return ts.problem { instance = support.tiny_instance(types), allow_empty_stage = false }
end

local function types_of(a, b, c)
  local types = {}
  if a > 0 then types[#types + 1] = { name = "A", count = a, mem_gb = 7, speed = 1 } end
  if b > 0 then types[#types + 1] = { name = "B", count = b, mem_gb = 5, speed = 1.5 } end
  if c > 0 then types[#types + 1] = { name = "C", count = c, mem_gb = 9, speed = 2 } end
  return types
end

local changes = { -- before, after: counts of A, B, C
  { { 1, 1, 0 }, { 1, 1, 0 } }, { { 2, 1, 0 }, { 1, 1, 0 } }, { { 1, 1, 0 }, { 2, 1, 0 } },
  { { 1, 1, 1 }, { 1, 0, 1 } }, { { 2, 0, 0 }, { 1, 1, 0 } }, { { 1, 1, 0 }, { 0, 1, 1 } },
  { { 3, 0, 0 }, { 2, 0, 0 } }, { { 1, 0, 1 }, { 1, 1, 1 } },
}

local cluster = { { "T4-16G", 2, node = "a" }, { "P100-12G", 1, node = "b" }, link_gbps = 10 }

local function serving()
  return ts.problem(support.settled { model = "opt-13b", cluster = cluster, bitwidths = { 4, 8, 16 },
    workload = { prompt_tokens = 256, output_tokens = 16, batch_size = 8 } })
end

describe("ts.replan", function()
  after_each(support.remove_files)

  it("moves as little as enumeration finds", function()
    local equal, cases = 0, 0
    for _, change in ipairs(changes) do
      local earlier = assert(ts.plan(tiny(types_of(unpack(change[1])))))
      local after_types = types_of(unpack(change[2]))
      local after = tiny(after_types)
      local optimum = assert(ts.plan(after))
      for _, tolerance in ipairs { 0, 0.02, 0.1, 0.5 } do
        local least = math.huge
        for _, order in ipairs(enumerate.orders(after_types)) do
          enumerate.plans(after, order, function(plan, priced)
            if priced.objective <= optimum.objective * (1 + tolerance + 1e-12) then
              least = math.min(least, moved_gb(plan.stages, earlier.stages))
            end
          end)
        end
        local plan, moves = ts.replan(earlier, after, { tolerance = tolerance })
        assert.is_true(ts.check(plan))
        assert.is_true(plan.objective <= optimum.objective * (1 + tolerance) + 1e-9)
        assert.near(moved_gb(plan.stages, earlier.stages) * 1e9, moves.moved_bytes, 1)
        assert.is_true(moves.moved_bytes >= least * 1e9 - 1,
          ("%g GB where enumeration finds %g"):format(moves.moved_bytes / 1e9, least))
        assert.is_true(moves.moved_bytes <= moves.optimum_moved_bytes + 1)
        assert.is_true(moves.least_moved_bytes <= moves.moved_bytes + 1)
        cases = cases + 1
        if moves.moved_bytes < least * 1e9 + 1 then equal = equal + 1 end
      end
    end
    assert.is_true(equal >= 0.9 * cases, ("%d of %d"):format(equal, cases))
  end)

  it("keeps everything when nothing changed", function()
    local earlier = ts.plan(serving())
    local plan, moves = ts.replan(earlier, cluster)
    assert.equal(0, moves.moved_bytes)
    assert.equal(0, moves.moved_layers)
    assert.equal(0, moves.transfer_s)
    assert.equal(0, moves.least_moved_bytes)
    assert.is_true(moves.kept_bytes > 0)
    assert.is_false(moves.stopped)
    for k, stage in ipairs(earlier.stages) do assert.same(stage:to_table(), plan.stages[k]:to_table()) end
    assert.equal(earlier.objective, plan.objective)
  end)

  it("loads no faster than the disk that a node says, and PCIe behind it", function()
    local earlier = ts.plan(serving())
    local function moves_with(disk_bytes_per_s, options)
      local now = { { "T4-16G", 1, node = "a" }, { "P100-12G", 1, node = "b" }, link_gbps = 10 }
      now.disk_bytes_per_s = disk_bytes_per_s
      local _, moves = assert(ts.replan(earlier, now, options))
      return moves
    end
    local function of_disk(moves) return (moves.transfer_assumes or ""):find "the disk of" end
    local assumed, slow, fast = moves_with(nil), moves_with(0.5e9), moves_with(1e12)
    assert.is_nil(of_disk(slow))
    assert.truthy(of_disk(assumed))
    local source = moves_with(nil, { source_bytes_per_s = 0.5e9 })
    assert.equal(slow.transfer_s, source.transfer_s)
    assert.is_nil(of_disk(source))
    assert.equal(fast.transfer_s, moves_with(1e12, { source_bytes_per_s = 0.5e9 }).transfer_s)
    support.raises("out_of_range", "ts.replan.source_bytes_per_s", function() moves_with(nil,
      { source_bytes_per_s = 0 }) end)
    assert.equal(assumed.moved_bytes, slow.moved_bytes)
    assert.is_true(slow.transfer_s > assumed.transfer_s and assumed.transfer_s > fast.transfer_s)
    -- A disk without end still goes through PCIe.
    assert.is_true(fast.transfer_s >= fast.moved_bytes / 2 / 15.75e9)
  end)

  it("moves no more than the best plan when a device goes or comes", function()
    local earlier = ts.plan(serving())
    for _, now in ipairs {
      { { "T4-16G", 1, node = "a" }, { "P100-12G", 1, node = "b" }, link_gbps = 10 },
      { { "T4-16G", 2, node = "a" }, link_gbps = 10 },
      { { "T4-16G", 2, node = "a" }, { "P100-12G", 1, node = "b" }, { "L4", 1, node = "c" }, link_gbps = 10 },
      { { "T4-16G", 3, node = "a" }, { "P100-12G", 1, node = "b" }, link_gbps = 10 },
      { { "T4-16G", 2, node = "other" }, { "P100-12G", 1, node = "b" }, link_gbps = 10 },
    } do
      local plan, moves = ts.replan(earlier, now)
      assert.is_true(ts.check(plan))
      assert.is_true(plan.objective <= moves.optimum.objective * 1.01 + 1e-9)
      assert.is_true(moves.moved_bytes <= moves.optimum_moved_bytes)
      assert.is_true(moves.least_moved_bytes <= moves.moved_bytes)
      assert.is_true(moves.moved_bytes > 0 and moves.transfer_s > 0)
      -- From one disk in turn, or faster; a network of 10 Gb/s is slower than any disk.
      assert.is_true(moves.transfer_s <= moves.moved_bytes / 2e9 * (1 + 1e-9))
      assert.is_true(moves.transfer_s >= moves.moved_bytes / 3 / 15.75e9)
      assert.matches("the disk of .* reads 2 GB/s; say disk_bytes_per_s", moves.transfer_assumes)
      assert.matches("replanned: .* loaded anew", plan.notes[1])
      local before, after, changed = {}, {}, 0
      for _, stage in ipairs(earlier.stages) do for _, b in ipairs(stage.bitwidths) do before[#before + 1] = b end end
      for _, stage in ipairs(plan.stages) do for _, b in ipairs(stage.bitwidths) do after[#after + 1] = b end end
      for i, bitwidth in ipairs(after) do changed = changed + (bitwidth ~= before[i] and 1 or 0) end
      assert.equal(changed, moves.requantised_layers)
      assert.equal(changed > 0, moves.transfer_assumes:find("weights of " .. changed .. " layers", 1, true) ~= nil)
    end
  end)

  it("moves less where more is allowed, and knows which device is gone", function()
    local earlier = ts.plan(serving())
    local now = { { "T4-16G", 1, node = "a" }, { "P100-12G", 1, node = "b" }, link_gbps = 10 }
    local last = math.huge
    for _, tolerance in ipairs { 0, 0.01, 0.1, 1 } do
      local _, moves = ts.replan(earlier, now, { tolerance = tolerance })
      assert.is_true(moves.moved_bytes <= last, tolerance)
      last = moves.moved_bytes
    end
    local _, any = ts.replan(earlier, now)
    for _, stage in ipairs(earlier.stages) do
      if stage.device == "T4-16G" then
        local _, moves = ts.replan(earlier, now, { lost = { stage.device_index } })
        assert.is_true(moves.moved_bytes >= any.least_moved_bytes)
        assert.is_true(moves.least_moved_bytes > 0)
      end
    end
    local _, nothing = ts.replan(earlier, now, { lost = { 0, 1, 2 } })
    assert.equal(0, nothing.kept_bytes)
  end)

  it("works for a loaded plan, and says why there is none", function()
    local path = support.temporary()
    ts.plan(serving()):save(path)
    local _, moves = ts.replan(ts.load_plan(path), cluster)
    assert.equal(0, moves.moved_bytes)
    declines("infeasible", "", ts.replan(ts.load_plan(path), { { "RTX-2080-SUPER", 1 } }))
    declines("time_limit", "", ts.replan(ts.load_plan(path), cluster, { time_limit_s = 0 }))
  end)

  it("refuses what it does not know", function()
    local plan = support.small_plan()
    local now = plan:problem().cluster
    for _, case in ipairs {
      { { tolerence = 3 }, "did you mean 'tolerance'" }, { { tolerance = -1 }, "a number in [0, 100]", "out_of_range" },
      { { lost = 3 }, "the number 3 is not a list" },
      { { lost = { 9 } }, "no stage of the plan runs on device 9" },
      { { lost = { "x" } }, "the string 'x' is not a number" },
      { { time_limit_s = support.nan }, "NaN is not a number" },
    } do
      raises(case[3] or "invalid_argument", case[2], function() ts.replan(plan, now, case[1]) end)
    end
    raises("invalid_argument", "a tessera.Plan belongs here", function() ts.replan({}, now) end)
    raises("invalid_argument", "give the cluster", function() ts.replan(plan) end)
    raises("invalid_argument", "the number 3 where a table", function() ts.replan(plan, now, 3) end)
    raises("invalid_argument", "4 layers, the plan 12", function() ts.replan(plan, tiny(types_of(1, 1, 0))) end)
    raises("not_found", "nowhere", function() ts.replan(plan, "nowhere") end)
    local instance = ts.plan(tiny(types_of(1, 1, 0)))
    raises("invalid_argument", "give a problem", function() ts.replan(instance, "llmpq-3") end)
  end)
end)
