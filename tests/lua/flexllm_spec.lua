-- FlexLLM's equations and its choice: against cases from an independent reference, and what they refuse.
local core = require "tessera.core"
local data_sets = require "tessera.desk.data_sets"
local support = require "support"
local ts = require "tessera"

local function load(name)
  local path, missing = data_sets.path("instances", "flexllm/" .. name)
  return path and core.from_json(core.read_file(path)), missing and missing.message
end

local function plain(value) return value ~= core.null and value or nil end

local function near(expected, found, what)
  if expected == "inf" then return assert.equal(math.huge, found, what) end
  assert.is_number(found, what)
  assert.is_true(math.abs(found - expected) <= 1e-9 * math.max(math.abs(expected), 1e-3),
    ("%s: %.12g, expected %.12g"):format(what, found, expected))
end

local function options_of(case)
  local devices = {}
  for i, pair in ipairs(case.configurations) do
    devices[i] = {}
    for j, device in ipairs(pair) do
      devices[i][j] = { name = ("gpu-%d-%d"):format(i, j), memory_bytes = device.memory_bytes,
        memory_bytes_per_s = 1e11, flop_per_s = { fp16 = device.flop_per_s }, price_usd_per_h = device.usd_per_h }
    end
  end
  return { model = case.model, devices = devices, link_gbps = case.link_bytes_per_s * 8 / 1e9,
    workload = { prompt_tokens = case.prompt_tokens, output_tokens = case.output_tokens,
      batch_size = case.batch_size },
    slo = { s_per_token = case.slo_s_per_token }, formulas = case.formulas, efficiency = plain(case.efficiency),
    correction = plain(case.correction), batch_split = plain(case.batch_split),
    layers_on_first = plain(case.layers_on_first), attention_ratio = plain(case.attention_ratio),
    strategies = plain(case.strategies), batch_sizes = plain(case.batch_sizes),
    check_memory = plain(case.check_memory) }
end

describe("ts.select_strategy", function()
  local cases, missing = load "cases.json"
  if not cases then it("agrees with the reference", function() pending(missing) end) end
  for i, item in ipairs(cases or {}) do
    it(("agrees with the reference: %d, %s"):format(i, item.case.note), function()
      local want, given = item.want, options_of(item.case)
      if want.error then return assert.is_false((pcall(ts.select_strategy, given))) end
      local found, why = ts.select_strategy(given)
      local rows = found or why.candidates
      assert.equal(#want.candidates, #rows)
      for _, row in ipairs(want.candidates) do
        local own
        for _, each in ipairs(rows) do
          if each.strategy == row.strategy and each.configuration == row.configuration then own = each end
        end
        for field, value in pairs(row) do
          if field ~= "strategy" and (type(value) == "number" or value == "inf") then
            near(value, own[field], row.strategy .. "." .. field)
          else
            assert.equal(value, own[field], row.strategy .. "." .. field)
          end
        end
        assert.equal(row.reason, own.reason)
        assert.equal(row.prefill_s == nil, own.prefill_s == nil)
      end
      if not plain(want.chosen) then
        assert.is_nil(found)
        return assert.equal("infeasible", why.code)
      end
      assert.equal(want.chosen[1], found.chosen.strategy)
      assert.equal(want.chosen[2], found.chosen.configuration)
    end)
  end

  local function given(more)
    local all = { model = "opt-1.3b", workload = { prompt_tokens = 512, output_tokens = 64, batch_size = 8 },
      devices = { "A10", "T4-16G" }, link_gbps = 16, formulas = "printed", prices = { A10 = 0, ["T4-16G"] = 0 } }
    for key, value in pairs(more) do all[key] = value end
    return function() return ts.select_strategy(all) end
  end

  it("takes the faster where nothing is paid", function()
    local found = given {}()
    assert.equal(math.huge, found.chosen.tokens_per_usd)
    for _, row in ipairs(found) do assert.is_true(found.chosen.latency_s <= row.latency_s * (1 + 1e-9)) end
  end)

  it("refuses by name", function()
    support.raises("unsupported", "do not describe llama-2-70b: 8 KV heads for 64", given { model = "llama-2-70b" })
    support.raises("unsupported", "ts.plan", given { devices = { "A10", "A10", "T4-16G" } })
    support.raises("invalid_argument", "did you mean 'data_parallel'", given { strategies = { "data_paralel" } })
    support.raises("invalid_argument", "no price", given { prices = { A10 = -1 } })
  end)
end)

describe("ts.fit_correction", function()
  local fits, missing = load "fits.json"
  it("agrees with the reference", function()
    if not fits then return pending(missing) end
    for i, item in ipairs(fits) do
      if item.want.error then
        assert.is_false((pcall(ts.fit_correction, item.points)))
      else
        local found = ts.fit_correction(item.points)
        assert.equal(item.want.band, found.band)
        for _, field in ipairs { "scale", "offset_s", "mape" } do
          near(item.want[field], found[field], ("fit %d.%s"):format(i, field))
        end
      end
    end
  end)

  it("notes a negative scale, and refuses one batch size", function()
    local found = ts.fit_correction { { predicted_s = 1, measured_s = 2 }, { predicted_s = 2, measured_s = 1 } }
    assert.equal(-1, found.scale)
    assert.truthy(found.note:find("less time", 1, true))
    support.raises("invalid_argument", "another batch size", function()
      ts.fit_correction { { predicted_s = 1, measured_s = 2 } }
    end)
  end)
end)
