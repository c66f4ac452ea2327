-- ts.select and the verb: what a newcomer sees of configurations, and what is refused.
local core = require "tessera.core"
local host = require "tessera.host"
local support = require "support"
local ts = require "tessera"

local function run(...) return host.run_program({ host.program, "select", ... }, "") end

local bridges = { "--model", "llama-2-70b", "--cluster", "8xA6000@bridges", "--no-beside" }

local function with(...)
  local words = { unpack(bridges) }
  for _, word in ipairs { ... } do words[#words + 1] = word end
  return run(unpack(words))
end

describe("ts.select", function()
  it("ranks and places in one call", function()
    local found = ts.select { model = "llama-2-70b", cluster = "8xA6000@bridges", intent = { minimise = "cost" } }
    assert.equal(162, #found.ranked)
    assert.equal(18, #found.refused)
    assert.equal(1, found.placed.rank)
    assert.same({ 0, 1, 2, 3 }, found.placed.devices)
    assert.same({ 80 }, found.placed.layers)
    local row = found.placed.configuration
    assert.equal(4, row.tensor_parallel) -- as the paper's best cost, (4, 1)
    assert.equal(1, row.pipeline_parallel)
    for i = 2, #found.ranked do assert.is_true(found.ranked[i].cost_byte_s >= found.ranked[i - 1].cost_byte_s) end
  end)

  it("passes over what has no room", function()
    local found = ts.select { model = "llama-2-70b", cluster = "2xA6000@bridges", intent = { minimise = "latency" } }
    assert.equal(2, found.placed.configuration.num_gpus)
    local whole = ts.select { model = "llama-2-70b", cluster = "2xA6000@bridges", schemes = { "fp16" } }
    assert.is_nil(whole.placed)
    assert.equal("infeasible", whole.why.code)
    assert.same({ "no_room", "no_room", "no_room" }, whole.why.reasons)
  end)

  it("keeps a bound on quality", function()
    local function best(bound)
      return ts.select({ model = "llama-2-70b", cluster = "8xA6000@bridges", intent = { minimise = "memory",
        max_perplexity_increase = bound } }).ranked
    end
    local free, tight = best(nil), best(0.02)
    assert.equal("int4_kv8", free[1].scheme)
    assert.equal("int8_kv8", tight[1].scheme)
    for _, row in ipairs(tight) do
      assert.is_true(row.perplexity_increase.high <= 0.02)
      assert.is_falsy(row.scheme:find "wanda" or row.scheme:find "pruner" or row.scheme:find "4$")
    end
    support.raises("invalid_argument", "max_perplexity_increase needs", function()
      ts.intent({ max_perplexity_increase = 0.1 }):rank { { num_gpus = 1, memory_bytes = 1, latency_s = 1,
        cost_byte_s = 1 } }
    end)
  end)

  it("says what is missing of a price, an aim or a policy", function()
    local function given(options)
      return function()
        options.model, options.cluster = options.model or "llama-2-7b", options.cluster or "2xRTX-3090-Ti"
        ts.select(options)
      end
    end
    support.raises("invalid_argument", "nothing says what a RTX-3090-Ti costs", given { intent = { usd = 0.01 } })
    support.raises("invalid_argument", "'lat' is not a choice; did you mean 'latency'", given {
      intent = { minimise = "lat" } })
    support.raises("invalid_argument", "no policy is called 'packed'", given { policy = "packed" })
    support.raises("not_found", "no scheme is called", given { schemes = { "int3" } })
    support.raises("out_of_range", "latency_s", given { intent = { latency_s = -1 } })
    support.raises("invalid_argument", "latency_s", given { intent = { latency_s = 0 / 0 } })
    local none = ts.select { model = "llama-2-7b", cluster = "1xP100-12G", schemes = { "int4" } }
    assert.is_nil(none.placed)
    assert.truthy(none.why.message:find("no kernel for int4 weights of 4 bits on P100-12G", 1, true))
  end)
end)

describe("tessera select", function()
  it("prints ten rows, where the best goes, and what cannot run", function()
    local status, text, err = with("--minimise", "cost")
    assert.equal(0, status, err)
    local rows = 0
    for _ in text:gmatch "\n +%d+ [%l%d_]+ +%d +%d +[%d.]+ +[%d.]+ +[%d.]+ +[%d.]+ +0%-%d " do rows = rows + 1 end
    assert.equal(10, rows)
    assert.matches("Goes to: rank 1, int4_kv8, TP 4, PP 1: 80 layers on GPU 0%-3, 8.%d+ GiB each", text)
    assert.matches("Cannot run: 15, as wanda_4_8", text)
    assert.matches("A6000 0.49 USD/h", text)
  end)

  it("says of which types stages are", function()
    local status, text, err = run("--model", "llama-2-13b", "--cluster", "1xT4-16G+2xV100-32G", "--no-beside",
      "--minimise", "latency", "--top", "3")
    assert.equal(0, status, err)
    assert.matches("40 layers on GPU 1%-2 %(V100%-32G%)", text)
    assert.matches("%%, on 2 x V100%-32G\n", text)
  end)

  it("answers a limit that nothing keeps with the nearest", function()
    local status, text, err = with("--latency", "0.5", "--top", "1")
    assert.equal(0, status, err)
    assert.matches("Nothing keeps the limits. The nearest is the first, 4.%d+ times beyond: 2.%d+ s for 500", text)
  end)

  it("has prices of one's own, and data", function()
    local status, text, err = with("--usd", "0.002", "--usd-per-hour", "A6000=1", "--json")
    assert.equal(0, status, err)
    local data = core.from_json(text)
    assert.equal("latency", data.minimise)
    assert.equal(162, #data.ranked)
    local first = data.ranked[1]
    assert.is_true(first.meets and first.usd <= 0.002)
    assert.is_true(math.abs(first.usd - first.num_gpus * first.latency_s / 3600) < 1e-12)
    assert.equal(18, #data.refused)
    assert.is_nil(data.batching)
  end)

  it("says beside it what batching gives", function()
    local status, text, err = run("--model", "llama-3.1-8b", "--cluster", "1xL4")
    assert.equal(0, status, err)
    assert.matches("A server with continuous\n?%s?batching", (text:gsub("\n", " ")))
    assert.matches("[%d.]+ req/s", text)
  end)

  it("refuses in one line", function()
    local status, _, err = with("--policy", "packd")
    assert.equal(1, status)
    assert.matches("no policy is called 'packd'; known: hybrid, least_loaded, packing", err)
    status, _, err = with("--minimise", "costs")
    assert.equal(1, status)
    assert.matches("did you mean 'cost'", err)
    status, _, err = with("--latency", "-1")
    assert.is_true(status ~= 0)
    assert.matches("latency", err)
  end)
end)
