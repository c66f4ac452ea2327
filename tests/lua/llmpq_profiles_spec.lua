-- The shipped profiles of LLM-PQ's kernels: what they rest on, and that they say what was published.
local ts = require "tessera"

local function seconds(device, kernel_set, bitwidth, phase, batch_size, model)
  return ts.profile { device = device, kernel_set = kernel_set }:layer_s {
    model = model or "opt-30b", bitwidth = bitwidth, phase = phase, batch_size = batch_size,
    tokens = phase == "prefill" and 512 or 1, context_tokens = phase == "decode" and 512 or 0,
  }
end

describe("profiles of LLM-PQ's kernels", function()
  -- "OPT-30b, one layer, b=8, s=512: T4 4-bit 11.2 s against 0.26 s FP16; V100 2.24 against 0.076".
  it("hold the published layer times", function()
    assert.near(11.2, seconds("T4-16G", "llmpq_2023", 4, "prefill", 8), 0.3)
    assert.near(0.26, seconds("T4-16G", "llmpq_2023", 16, "prefill", 8), 0.013)
    assert.near(2.24, seconds("V100-32G", "llmpq_2023", 4, "prefill", 8), 0.05)
    assert.near(0.076, seconds("V100-32G", "llmpq_2023", 16, "prefill", 8), 0.004)
    assert.near(2.24, seconds("V100-16G", "llmpq_2023", 4, "prefill", 8), 0.05)
  end)

  -- LLM-PQ, Fig. 3: a P100 is 14.53 times slower in prefill and 7.29 times in decode.
  it("hold the ratio of P100 and V100", function()
    local function ratio(phase)
      return seconds("P100-12G", "llmpq_2023_08", 16, phase, 8) / seconds("V100-32G", "llmpq_2023_08", 16, phase, 8)
    end
    assert.near(14.53, ratio "prefill", 0.3)
    assert.near(7.29, ratio "decode", 0.2)
  end)

  it("scale with the matrices of a model", function()
    local small = seconds("V100-32G", "llmpq_2023", 4, "prefill", 8, "opt-13b")
    local large = seconds("V100-32G", "llmpq_2023", 4, "prefill", 8, "opt-66b")
    assert.near((9216 / 5120) ^ 2, large / small, 0.05)
  end)

  it("say where they come from and how well they predict", function()
    for _, device in ipairs { "T4-16G", "V100-32G" } do
      local parts = ts.profile { device = device, kernel_set = "llmpq_2023" }.parts
      assert.equal(8, #parts)
      for _, part in ipairs(parts) do
        assert.equal("fitted", part.provenance)
        assert.matches("^LLM%-PQ, .*2023", part.source)
        assert.is_true(part.held_out.mean < 0.16 and part.num_points >= 3)
      end
    end
  end)

  -- bitsandbytes changed in July 2023; V100's INT8 decode after that is read off a published figure.
  it("keep the two epochs apart", function()
    local before = seconds("T4-16G", "llmpq_2023", 8, "decode", 4)
    local after = seconds("T4-16G", "llmpq_2023_08", 8, "decode", 4)
    assert.near(6.6e-3, after, 0.2e-3)
    assert.is_true(before > 3 * after)
    local _, info = seconds("V100-32G", "llmpq_2023_08", 8, "decode", 8)
    assert.equal("published", info.provenance)
    _, info = seconds("V100-32G", "llmpq_2023_08", 8, "prefill", 8)
    assert.equal("modelled", info.provenance)
    assert.is_nil(info.error)
  end)

  -- The papers' tables run on these: six parts have an error, of which one is of values read off a figure.
  it("call what was never tested modelled", function()
    local with_error, without = 0, {}
    for _, device in ipairs { "T4-16G", "V100-32G", "P100-12G", "A100-40G" } do
      for _, part in ipairs(ts.profile { device = device, kernel_set = "llmpq_2023_08" }.parts) do
        if part.held_out then
          with_error = with_error + 1
        elseif part.num_points > 0 then
          assert.equal(1, part.num_points)
          assert.equal("modelled", part.provenance)
          without[#without + 1] = device
        end
      end
    end
    assert.equal(6, with_error)
    assert.same({ "V100-32G", "V100-32G", "V100-32G", "P100-12G", "P100-12G", "P100-12G", "P100-12G" }, without)
    local _, info = seconds("V100-32G", "llmpq_2023_08", 16, "decode", 8)
    assert.equal("modelled", info.provenance)
    assert.is_nil(info.error)
  end)

  it("promise nothing of an A100's layers, of which one attention block is all there is", function()
    for _, part in ipairs(ts.profile { device = "A100-40G", kernel_set = "llmpq_2023" }.parts) do
      assert.equal("modelled", part.provenance)
      assert.is_nil(part.held_out)
      assert.is_true(part.num_points > 0)
    end
    local _, info = seconds("A100-40G", "llmpq_2023", 16, "decode", 4)
    assert.equal("modelled", info.provenance)
  end)

  it("flag what leaves the fitted range", function()
    local _, info = seconds("T4-16G", "llmpq_2023", 4, "prefill", 8)
    assert.is_true(info.in_range)
    assert.is_true(info.error < 0.02)
    _, info = seconds("T4-16G", "llmpq_2023", 4, "prefill", 64)
    assert.is_false(info.in_range)
    assert.matches("batch_size 64 is above the fitted 2 .. 8", info.why)
  end)
end)

-- The claims of the papers' figures of fidelity, on rows made up here.
describe("the errors that profiles state of themselves", function()
  local shipped = require "fidelity.fit.shipped"

  local function claims_of(rows)
    local said = {}
    shipped.expect_mean({
      rows = function() return rows end,
      expect = function(_, text, holds, numbers) said.claim, said.holds, said.numbers = text, holds, numbers end,
      note = function(_, text, numbers) said.note, said.left = text, numbers end,
      skip = function(_, text) said.skipped = text end,
    }, "llmpq_2023_08", 0.06)
    return said
  end

  local function row(case, error_ratio, provenance)
    return { point = { model = "T4-16G", case = "layer " .. case }, error_ratio = error_ratio, provenance = provenance }
  end

  it("are claimed by their mean, the worst beside it, without what is read off a figure", function()
    local rows = {
      row("3 bit decode", 0.02, "fitted"), row("4 bit decode", 0.12, "fitted"), row("8 bit decode", 0.01, "fitted"),
      row("16 bit decode", 0.01, "fitted"), row("8 bit prefill", 0.9, "published"),
      row("4 bit prefill", nil, "modelled"),
    }
    local said = claims_of(rows)
    assert.is_true(said.holds)
    local numbers = "4.0 % over 4 parts; the worst: T4-16G 4 bit decode 12.0 %, T4-16G 3 bit decode 2.0 %"
    assert.equal(numbers, said.numbers:sub(1, #numbers))
    assert.equal("1 of 5: T4-16G 4 bit prefill", said.left)
    rows[3].error_ratio = 0.2
    assert.is_false(claims_of(rows).holds)
  end)

  it("hold nothing where no part was ever tested", function()
    assert.is_false(claims_of({ row("4 bit decode", nil, "modelled") }).holds)
    assert.matches("no part of llmpq_2023_08 has points", claims_of({}).skipped)
  end)

  it("are those of the shipped files", function()
    local points, part_of = shipped.parts({ "T4-16G", "P100-12G" }, { "llmpq_2023_08", "no such set" })
    assert.equal(8, #points)
    local found = {}
    for _, point in ipairs(points) do
      found[point.model .. " " .. point.case] = shipped.row(part_of(point))
    end
    assert.near(0.12, found["T4-16G layer 4 bit decode"].error_ratio, 0.001)
    assert.equal("no held-out point", found["P100-12G layer 16 bit decode"].split)
    assert.is_nil(part_of { kind = "measured", model = "opt-13b", case = "weights" })
  end)
end)
