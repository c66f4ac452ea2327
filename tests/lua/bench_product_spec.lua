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

  it("holds one kernel against the roofline, by its versions", function()
    local function rows(...)
      local status, out, err = bench("--repeats", "2", "--threads", "1", "--json", "--kernel", ...)
      assert.same({ 0, "" }, { status, err })
      return core.from_json(out)
    end
    for kernel, bitwidths in pairs { dense_gemm = { 16 }, dequant_gemm = { 3, 4, 8 }, dequant_gemm_a8 = { 3, 4, 8 },
      int8_gemm = { 8 } } do
      -- No side is a multiple of anything that a kernel has blocks of.
      local found = rows(kernel, "--m", "3", "--n", "37", "--k", "77")
      assert.equal(#bitwidths, #found)
      for i, row in ipairs(found) do
        assert.equal(bitwidths[i], row.bitwidth)
        assert.equal(kernel, row.kernel)
        assert.is_true(row.nmse < 1e-9 and row.nmse >= 0)
        assert.near(row.roofline_s / row.product_s, row.roofline_ratio, 1e-9)
        assert.is_true(row.roofline_ratio > 0)
        assert.near((row.product_s_high - row.product_s_low) / row.product_s, row.spread_ratio, 1e-9)
        local bytes_s = (row.weight_bytes + row.token_bytes) / row.memory_bytes_per_s
        local flop_s = 2 * 3 * 37 * 77 / row.peak_flop_per_s
        assert.near(math.max(bytes_s, flop_s), row.roofline_s, 1e-9 * row.roofline_s)
        assert.equal(bytes_s > flop_s and "memory" or "arithmetic", row.bound_by)
      end
    end
    local versions = rows("dequant_gemm", "--n", "64", "--k", "64", "--bitwidths", "4", "--isa", "all")
    assert.equal("scalar", versions[1].isa)
    assert.is_true(#versions >= 2)
  end)

  it("holds the other kernels of a decoder against the roofline, at any shape", function()
    local function rows(...)
      local status, out, err = bench("--repeats", "2", "--json", "--kernel", ...)
      assert.same({ 0, "" }, { status, err })
      return core.from_json(out)
    end
    -- Bytes that a call reads and writes, and arithmetic of products; sides that are no multiple of anything.
    for _, case in ipairs {
      { 8 * 3 * 37 + 4 * 37, 0, "rms_norm", "--m", "3", "--n", "37" },
      { 8 * 3 * 37 + 8 * 37, 0, "layer_norm", "--m", "3", "--n", "37" },
      { 12 * 3 * 37, 0, "activate", "--m", "3", "--n", "37" },
      { 4 * 3 * 37 + 4 * 3, 0, "log_sum_exp", "--m", "3", "--n", "37" },
      { 8 * 5 * 3 * 14 + 4 * 5 * 14, 0, "rotate", "--m", "5", "--heads", "3", "--head-dim", "14" },
      { 2 * 2 * 77 * 2 * 24 * 2 + 8 * 2 * 1 * 6 * 24, 4 * 77 * 2 * 6 * 24, "attention", "--heads", "6", "--kv-heads",
        "2", "--head-dim", "24", "--batch-size", "2", "--context-tokens", "77" },
      { 2 * (77 * 2 * 24 + 77 * 2 * 4) + 8 * 5 * 6 * 24, 4 * (73 + 74 + 75 + 76 + 77) * 6 * 24, "attention", "--m", "5",
        "--heads", "6", "--kv-heads", "2", "--head-dim", "24", "--context-tokens", "77", "--kv-bitwidth", "8" },
      { 2 * 19 * 24 * 2 + 8 * 19 * 24, 4 * 190 * 24, "attention", "--m", "19", "--heads", "1", "--kv-heads", "1",
        "--head-dim", "24", "--context-tokens", "19" },
    } do
      for _, threads in ipairs { "1", "2" } do
        local row = rows(case[3], "--threads", threads, unpack(case, 4))[1]
        assert.same({ case[1], case[2], case[3] }, { row.bytes, row.flop, row.kernel })
        assert.is_true(row.nmse >= 0 and row.nmse < 1e-9, case[3])
        assert.is_true(row.call_s_low > 0 and row.call_s_low <= row.call_s and row.call_s <= row.call_s_high)
        assert.near((row.call_s_high - row.call_s_low) / row.call_s, row.spread_ratio, 1e-9)
        assert.near(row.bytes / row.call_s, row.bytes_per_s, 1e-6 * row.bytes_per_s)
        local bytes_s, flop_s = row.bytes / row.memory_bytes_per_s, row.flop / row.peak_flop_per_s
        assert.near(math.max(bytes_s, flop_s), row.roofline_s, 1e-9 * row.roofline_s)
        assert.near(row.roofline_s / row.call_s, row.roofline_ratio, 1e-9)
        assert.equal(bytes_s > flop_s and "memory" or "arithmetic", row.bound_by)
      end
    end
    local versions = rows("attention", "--context-tokens", "32", "--threads", "1", "--isa", "all")
    assert.equal("scalar", versions[1].isa)
    local status, out = bench("--kernel", "rms_norm", "--m", "2", "--repeats", "1", "--threads", "1")
    assert.equal(0, status)
    assert.matches("rms_norm at %-%-m 2; call: median and range of 1 repeats", out)
    for line in out:gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
  end)

  it("refuses what it cannot multiply", function()
    for _, case in ipairs {
      { "none of 3, 4, 8, 16", "64x64", "--bitwidths", "5" },
      { "more than 1073741824 weights", "1000000x1000000" },
      { "--method: it belongs to a model or another kernel", "64x64", "--method", "gptq" },
      { "rows: 0", "0x64" },
      { "dense_gemm multiplies weights of 16 bits, not 4", "--kernel", "dense_gemm", "--bitwidths", "4" },
      { "'sse9' does not run here; these do: scalar", "--kernel", "dense_gemm", "--isa", "sse9" },
      { "--m: it belongs to --kernel", "64x64", "--m", "2" },
      { "flags as --m, --n and --k say its shape", "64x64", "--kernel", "dense_gemm" },
      { "--k: rms_norm has no such side; its shape is --m, --n", "--kernel", "rms_norm", "--k", "8" },
      { "3 heads share 2 of keys and values", "--kernel", "attention", "--heads", "3", "--kv-heads", "2" },
      { "9 tokens attend, which are among the context's 8", "--kernel", "attention", "--m", "9", "--context-tokens",
        "8" },
      { "head_dim: 7 is odd", "--kernel", "rotate", "--head-dim", "7" },
      { "more than 1073741824 numbers", "--kernel", "rms_norm", "--m", "65536", "--n", "1000000" },
      { "--heads: it belongs to --kernel", "64x64", "--heads", "2" },
      { "did you mean 'dense_gemm'", "--kernel", "gemm" },
    } do
      local status, _, err = bench(unpack(case, 2))
      assert.is_true(status == 1 or status == 2)
      assert.truthy(err:find(case[1], 1, true), err)
    end
  end)
end)
