-- `tessera bench OUTPUTSxINPUTS`: products of one shape.
local core = require "tessera.core"
local host = require "tessera.host"

local function bench(...) return host.run_program({ "env", "COLUMNS=80", host.program, "bench", ... }, "") end

describe("tessera bench of a shape", function()
  it("has a row for each bitwidth, one token and many", function()
    local status, out, err = bench("96x256", "--repeats", "2", "--prompt-tokens", "5", "--threads", "1", "--json")
    assert.same({ 0, "" }, { status, err })
    local rows = core.from_json(out)
    assert.equal(8, #rows)
    local bits, tokens = {}, {}
    for i, row in ipairs(rows) do
      bits[i], tokens[i] = row.bitwidth, row.tokens
      assert.is_true(row.product_s_low > 0 and row.product_s_low <= row.product_s)
      assert.near(2 * 96 * 256 * row.tokens / row.product_s, row.flop_per_s, 1e-6 * row.flop_per_s)
      assert.near(row.weight_bytes / row.product_s, row.weight_bytes_per_s, 1e-6 * row.weight_bytes_per_s)
    end
    assert.same({ 3, 3, 4, 4, 8, 8, 16, 16 }, bits)
    assert.same({ 1, 5, 1, 5, 1, 5, 1, 5 }, tokens)
    -- 96 x 256 numbers, two scales of 16 bits a row.
    assert.equal(96 * 256 * 2, rows[8].weight_bytes)
    assert.equal(96 * (256 / 2 + 2 * 2), rows[4].weight_bytes)
  end)

  it("is a table of at most 80 columns", function()
    local status, out = bench("64X64", "--bitwidths", "4", "--activation-bitwidth", "8", "--group-size", "32",
      "--repeats", "1", "--prompt-tokens", "2")
    assert.equal(0, status)
    assert.matches("bits  threads  tokens  product", out)
    assert.matches("64 outputs, 64 inputs; product: median and range of 1 repeats", out)
    for line in out:gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
  end)

  it("refuses what it cannot multiply", function()
    for _, case in ipairs {
      { "none of 3, 4, 8, 16", "64x64", "--bitwidths", "5" },
      { "more than 1073741824 weights", "1000000x1000000" },
      { "--method: it belongs to a model", "64x64", "--method", "gptq" },
      { "rows: 0", "0x64" },
    } do
      local status, _, err = bench(unpack(case, 2))
      assert.is_true(status == 1 or status == 2)
      assert.truthy(err:find(case[1], 1, true), err)
    end
  end)
end)
