-- What a column's name says: its unit, in which one it reads well, and which way is better.
local core = require "tessera.core"
local units = require "tessera.desk.units"

describe("units", function()
  it("tell what a name means", function()
    for name, expected in pairs {
      throughput_tok_s = { "throughput (tok/s)", "higher" }, latency_s = { "latency (s)", "lower" },
      memory_bytes_per_s = { "memory (B/s)", "higher" }, weight_bytes = { "weight (bytes)", "lower" },
      price_usd_per_h = { "price (USD/h)", "lower" }, usd_per_million_tokens = { "USD per million tokens", "lower" },
      error_ratio = { "error (ratio)", "lower" }, idle_ratio = { "idle (ratio)" }, omega = { "omega", "lower" },
      requests_per_s = { "requests (1/s)", "higher" }, solve_ms = { "solve (ms)", "lower" },
      wikitext_perplexity = { "wikitext perplexity", "lower" }, speedup = { "speedup", "higher" },
      planner = { "planner" }, _s = { " s" },
    } do
      assert.equal(expected[1], units.of(name, 1).label)
      assert.equal(expected[2], units.better(name), name)
    end
  end)

  it("choose the unit by the largest value", function()
    local function shown(name, value) return units.value(value, units.of(name, value)) end
    assert.equal("3.5 GiB", shown("weight_bytes", 3.5 * 2 ^ 30))
    assert.equal("12 MiB", shown("weight_bytes", 12 * 2 ^ 20))
    assert.equal("0 GiB", shown("weight_bytes", 0))
    assert.equal("1.5 s", shown("latency_s", 1.5))
    assert.equal("20 ms", shown("latency_s", 0.02))
    assert.equal("30 us", shown("latency_s", 3e-5))
    for text, seconds in pairs { ["0.1 us"] = 1e-7, ["0.00 s"] = 4e-8, ["50.0 us"] = 5e-5 } do
      assert.equal(text, core.format_seconds(seconds))
    end
    for _, nothing in ipairs { 0, 1e-12, -1e-12 } do assert.equal("0.00 s", core.format_seconds(nothing)) end
    assert.equal("900 GB/s", shown("memory_bytes_per_s", 9e11))
    assert.equal("65 Tflop/s", shown("fp16_flop_per_s", 65e12))
  end)
end)
