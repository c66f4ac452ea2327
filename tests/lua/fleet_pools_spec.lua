-- Pairs of prefill and decode pools as replicas of a fleet: taken where they are cheaper, and nowhere else.
local core = require "tessera.core"
local folders = require "launch_folders"
local support = require "support"
local ts = require "tessera"

folders.keep(setup, teardown)

local function chat(changes)
  return support.changed({ name = "chat", model = "llama-3.1-8b", num_requests = 200, pools = true,
    bitwidths = { 8 }, kv_bitwidths = { 8 }, tensor_parallel = { 1, 2 },
    slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.08 } },
    traffic = { rate_per_s = 5, prompt_tokens = 300, output_tokens = 100 } }, changes)
end

local function plan(model, changes)
  return ts.plan_fleet(support.changed({ cluster = "(4xL4)", models = { model }, gap = 0, time_limit_s = 300 },
    changes))
end

local function is_pair(column) return #(column.parts or {}) > 1 end

-- The most that replicas on so many devices of one node serve, of the columns that are wanted: by trying all.
local function most_on(columns, gpus, is_wanted)
  local best = {}
  for n = 0, gpus do
    best[n] = n > 0 and best[n - 1] or 0
    for _, column in ipairs(columns) do
      if is_wanted(column) and column.gpus <= n then
        best[n] = math.max(best[n], best[n - column.gpus] + column.rates_per_s[1])
      end
    end
  end
  return best
end

local function pairs_in(fleet)
  local count = 0
  for _, row in ipairs(fleet.replicas) do count = count + (row.prefill_devices and row.count or 0) end
  return count
end

describe("pairs of pools in a fleet", function()
  local whole = assert(plan(chat(), { simulate_all = true }))
  local price = whole.instance.device_types[1].usd_per_h
  local all = most_on(whole.columns, 4, function() return true end)
  local plain = most_on(whole.columns, 4, function(column) return not is_pair(column) end)
  -- The fewest devices on which pairs serve more.
  local fewest
  for n = 4, 1, -1 do
    if all[n] > 1.02 * plain[n] then fewest = n end
  end
  local between = fewest and (all[fewest] + plain[fewest]) / 2

  it("are simulated like other replicas, below their bounds", function()
    assert.truthy(fewest)
    local count = 0
    for _, column in ipairs(whole.columns) do
      if is_pair(column) then
        count = count + 1
        assert.is_true(column.simulated)
        assert.is_true(column.rates_per_s[1] <= column.bounds_per_s[1] + 1e-9, column.label)
        assert.equal(column.gpus, column.parts[1].engines * column.parts[1].tensor_parallel
          + column.parts[2].engines * column.parts[2].tensor_parallel)
      end
    end
    assert.is_true(count >= 2)
  end)

  it("are taken as enumeration takes them, whatever the demand", function()
    local with, without = 0, 0
    for _, demand in ipairs { 0.5 * plain[1], 0.99 * plain[1], 0.9 * plain[2], 0.99 * plain[3], between,
      0.99 * all[4] } do
      local least
      for n = 4, 0, -1 do
        if all[n] >= demand then least = n end
      end
      local fleet = assert(whole:replan { demand_per_s = { chat = demand }, gap = 0 })
      assert.near(least * price, fleet.usd_per_h, 1e-6, demand)
      assert.is_true(ts.check(fleet))
      local is_needed = plain[least] < demand
      if is_needed then with = with + 1 else without = without + 1 end
      if is_needed then assert.is_true(pairs_in(fleet) > 0, demand) end
      if least == 1 then assert.equal(0, pairs_in(fleet)) end
    end
    assert.is_true(with > 0 and without > 0)
  end)

  it("are found without pricing all of them, and only where that is asked", function()
    local rate = { traffic = { rate_per_s = between, prompt_tokens = 300, output_tokens = 100 } }
    local lazy = assert(plan(chat(rate)))
    assert.near(fewest * price, lazy.usd_per_h, 1e-6)
    assert.is_true(pairs_in(lazy) > 0)
    assert.is_true(lazy.pricing.simulated <= lazy.pricing.shapes)
    assert.matches("of pools of chat, on a node each: prompts by ", lazy:explain(), 1, true)
    local off = plan(chat(support.changed(rate, { pools = false })))
    assert.is_true(not off or off.usd_per_h > lazy.usd_per_h + 1e-6)
    assert.equal(0, off and pairs_in(off) or 0)
  end)

  it("stay out where prompts are short and nobody hurries", function()
    local calm = { slo = { ttft_s = { p99 = 10 }, tpot_s = { p99 = 0.5 } },
      traffic = { rate_per_s = 8, prompt_tokens = 30, output_tokens = 200 } }
    local fleet = assert(plan(chat(calm)))
    local off = assert(plan(chat(support.changed(calm, { pools = false }))))
    assert.near(off.usd_per_h, fleet.usd_per_h, 1e-6)
    assert.equal(0, pairs_in(fleet))
  end)

  it("are checked, saved, served and exported, each half on its devices", function()
    local fleet = assert(whole:replan { demand_per_s = { chat = between }, gap = 0 })
    local path = os.tmpname()
    fleet:save(path)
    local again = ts.load_plan(path)
    os.remove(path)
    assert.is_true(ts.check(again))
    local served = ts.serve(again, nil, { duration_s = 60 })
    assert.is_true(served.models[1].attainment_ratio >= 0.99)
    local written = assert(again:export("vllm", folders.fresh()))
    local gpus, proxies = 0, 0
    for _, model in ipairs(written.models) do
      for _, name in ipairs(model.files) do
        local text = core.read_file(model.folder .. "/" .. name)
        if name:find "^engine%-" then
          gpus = gpus + select(2, text:match("CUDA_VISIBLE_DEVICES=([%d,]+)"):gsub("%d+", ""))
        end
        if name == "proxy.sh" then proxies = proxies + 1 end
      end
    end
    assert.same({ fleet.gpus, true }, { gpus, proxies > 0 })
    local row
    for _, each in ipairs(again.replicas) do row = each.prefill_devices and each or row end
    local prefill, parts = row.prefill_devices[1], row.parts
    local function why_not()
      local ok, why = ts.check(again)
      assert.is_nil(ok)
      return why.message
    end
    row.prefill_devices[1] = {}
    assert.matches("its prefill engines have 0 devices", why_not(), 1, true)
    row.prefill_devices[1], row.parts = prefill, { parts[1] }
    assert.matches("a pair has no decode engines", why_not(), 1, true)
    row.parts = parts
    local devices = row.devices[1]
    row.devices[1] = prefill
    assert.matches("its decode engines have 0 devices", why_not(), 1, true)
    row.devices[1] = devices
    assert.is_true(ts.check(again))
  end)

  it("are of one class of requests", function()
    assert.error_matches(function()
      ts.plan_fleet { cluster = "(2xL4)", models = { { name = "m", model = "llama-3.1-8b", pools = true,
        slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.08 } }, classes = {
          { traffic = { rate_per_s = 1, prompt_tokens = 100, output_tokens = 10 } },
          { traffic = { rate_per_s = 1, prompt_tokens = 10, output_tokens = 100 } } } } } }
    end, "models%[1%].pools: what a pair of pools sustains is known of one class of requests")
  end)
end)
