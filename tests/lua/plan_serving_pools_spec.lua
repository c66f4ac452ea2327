-- ts.plan_serving: pools of prefill and decode engines, the fewest devices for a rate, and what the runtime allows.
local support = require "support"
local ts = require "tessera"

local slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.08 } }
local lengths = { prompt_tokens = 300, output_tokens = 100 }

local function search(rate_per_s, changes)
  return ts.plan_serving(support.changed({
    model = "llama-3.1-8b", cluster = "8xL4", objective = rate_per_s and "gpus" or "rate", num_requests = 200,
    traffic = support.changed(lengths, { rate_per_s = rate_per_s }), slo = slo,
  }, changes))
end

local function of(list, is_wanted)
  for _, row in ipairs(list) do
    if is_wanted(row) then return row end
  end
end

local function pools_of(list) return of(list, function(row) return row.disaggregated end) end

-- Whether pools of x prefill and y decode engines of these degrees hold a rate, over requests that come for ten stays.
local function holds(x, p, y, d, rate_per_s)
  local function pool(role, count, degree)
    return { role = role, cluster = ("%dxL4"):format(count * degree), replicas = count, tensor_parallel = degree,
      bitwidths = { 8 }, kv_bitwidth = 8, engine = { max_num_seqs = role == "decode" and 512 or 256,
        max_num_batched_tokens = 8192, enable_prefix_caching = false } }
  end
  local deployment = ts.deployment { model = "llama-3.1-8b", router = "least_requests",
    pools = { pool("prefill", x, p), pool("decode", y, d) }, transfer = { bytes_per_s = 3e10, latency_s = 1e-5 } }
  local traffic = ts.traffic(support.changed(lengths,
    { rate_per_s = rate_per_s, num_requests = math.ceil(10 * rate_per_s * 100 * slo.tpot_s.p99) }))
  return ts.max_rate(deployment, traffic,
    { slo = slo, least_rate_per_s = rate_per_s, guess_per_s = rate_per_s, max_runs = 1 }).rate_per_s > 0
end

describe("pools for a rate", function()
  it("are found where only they hold it", function()
    local list = assert(search(71))
    assert.is_true(list[1].disaggregated)
    assert.equal("whole", list[1].scope)
    assert.is_true(list[1].rate_per_s >= 71)
    assert.is_nil((search(71, { disaggregated = false })))
  end)

  it("are the smallest: none of fewer devices holds the rate", function()
    local rate_per_s = 30
    local found = assert(pools_of(assert(search(rate_per_s, { bitwidths = { 8 }, kv_bitwidths = { 8 },
      tensor_parallel = { 1, 2 } }))))
    assert.equal(found.gpus, found.parts[1].engines * found.parts[1].tensor_parallel
      + found.parts[2].engines * found.parts[2].tensor_parallel)
    local tried = 0
    for _, p in ipairs { 1, 2 } do
      for _, d in ipairs { 1, 2 } do
        for x = 1, 6 do
          for y = 1, 6 do
            -- What is smaller than these by one engine is smaller than they are, and holds no more.
            local gpus = x * p + y * d
            if gpus < found.gpus and gpus + math.max(p, d) >= found.gpus then
              tried = tried + 1
              assert.is_false(holds(x, p, y, d, rate_per_s), ("%d x TP%d + %d x TP%d"):format(x, p, y, d))
            end
          end
        end
      end
    end
    assert.is_true(tried > 0)
  end)

  it("take no more devices for a part of the rate", function()
    local last = math.huge
    for _, rate_per_s in ipairs { 60, 30, 10 } do
      local list = assert(search(rate_per_s, { bitwidths = { 8 } }))
      assert.is_true(list[1].gpus <= last, rate_per_s)
      last = list[1].gpus
    end
    assert.is_true(last <= 2) -- one L4 alone holds 5, two share more than 10
  end)

  it("hold as much as the rate that is found without one", function()
    local most = assert(search(nil))[1]
    assert.is_true(most.disaggregated)
    local list = assert(search(0.9 * most.rate_per_s))
    assert.is_true(list[1].gpus <= most.gpus)
  end)
end)

describe("pools of unlike GPUs", function()
  local list = assert(search(nil, { cluster = "4xL4+2xA100-40G", bitwidths = { 16, 8 }, unlike_engines = true,
    limit = 20, slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } },
    traffic = { prompt_tokens = 1000, output_tokens = 200 } }))

  it("have a type each, with one KV cache and one checkpoint", function()
    local row = assert(of(list, function(row)
      return row.disaggregated and row.parts[1].device ~= row.parts[2].device
    end))
    for _, each in ipairs(list) do
      if each.disaggregated then
        assert.equal(each.parts[1].kv_bitwidth, each.parts[2].kv_bitwidth)
        assert.equal(each.parts[1].bitwidth, each.parts[2].bitwidth)
      end
    end
    assert.equal("prefill", row.parts[1].role)
    assert.equal("decode", row.parts[2].role)
  end)

  it("have the quality of the worst, and say which rows were not simulated whole", function()
    local mix = assert(of(list, function(row)
      return not row.disaggregated and #row.parts == 2 and row.parts[1].bitwidth ~= row.parts[2].bitwidth
    end))
    local text = tostring(list)
    assert.equal(math.min(mix.parts[1].bitwidth, mix.parts[2].bitwidth), mix.bitwidth)
    local alone = assert(of(list, function(row)
      return #row.parts == 1 and row.bitwidth == mix.bitwidth and row.kv_bitwidth == mix.kv_bitwidth
    end))
    assert.equal(alone.perplexity_increase, mix.perplexity_increase)
    assert.matches("of unlike engines: that of the worst", text)
    assert.matches("one engine of many was simulated, alone", text)
    assert.matches("16/8%-bit weights", (text:gsub("8/16%-bit", "16/8-bit")))
  end)
end)

describe("the runtime of a search", function()
  local function bits(runtime, changes)
    local list, why = search(nil, support.changed({ cluster = "2xA100-40G", runtime = runtime, limit = 50,
      traffic = { prompt_tokens = 300, output_tokens = 20 }, quality = { min_accuracy_recovery = 0.1 },
      tensor_parallel = { 1 }, disaggregated = false }, changes))
    local weights, kv = {}, {}
    for _, row in ipairs(list or {}) do weights[row.bitwidth], kv[row.kv_bitwidth] = true, true end
    return weights, kv, why or list
  end

  it("vllm has the bitwidths and KV caches that vLLM reads on the device", function()
    local weights, kv, list = bits "vllm"
    assert.same({ [4] = true, [8] = true, [16] = true }, weights)
    assert.same({ [16] = true }, kv)
    assert.truthy(of(list.reasons, function(r) return r.reason:find("needs compute capability 8.9", 1, true) end))
    local _, fp8 = bits("vllm", { cluster = "2xL4" })
    assert.same({ [8] = true, [16] = true }, fp8)
  end)

  it("tessera has all that a kernel set prices", function()
    local weights, kv = bits "tessera"
    assert.same({ [3] = true, [4] = true, [8] = true, [16] = true }, weights)
    assert.same({ [8] = true, [16] = true }, kv)
  end)

  it("says what vllm rules out, and what does not", function()
    local _, _, why = bits("vllm", { bitwidths = { 3 } })
    assert.equal("infeasible", why.code)
    assert.matches("vLLM has no kernel for 3%-bit weights", why.message)
    assert.matches('runtime = "tessera"', why.message)
    _, _, why = bits("vllm", { cluster = "1xMI100" })
    assert.matches("vllm_rocm", why.message)
    support.raises("invalid_argument", "nothing here simulates a stream on llama.cpp",
      function() search(nil, { runtime = "llama.cpp" }) end)
  end)
end)
