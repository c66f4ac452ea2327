-- SplitQuant, Fig. 5: one OPT-30b layer by precision, batch size, phase and GPU; prompts of 512 tokens.
--
-- The figure has no printed values. What its text says is checked: FP16 beats 3 and 4 bits in prefill, whether fewer
-- bits pay in decode depends on device and shape, INT8 keeps up with FP16 on the T4, and on the V100 it depends on the
-- shape.
local ts = require "tessera"
local splitquant = require "lib.papers.splitquant"

local phases = { prefill = "prefill_layer_s", decode = "decode_layer_s" }

-- How many times as long as in FP16 a layer takes, over the points of `where`.
local function over_fp16(rows)
  local fp16, ratios = {}, {}
  local function place(p) return ("%s %s %d"):format(p.device, p.phase, p.batch_size) end
  for _, row in ipairs(rows) do
    if row.point.bitwidth == 16 then fp16[place(row.point)] = row.layer_s end
  end
  for _, row in ipairs(rows) do
    if row.point.bitwidth ~= 16 then ratios[#ratios + 1] = row.layer_s / fp16[place(row.point)] end
  end
  return math.min(unpack(ratios)), math.max(unpack(ratios))
end

return ts.experiment {
  name = "splitquant/fig5",
  doc = "SplitQuant, Fig. 5: one OPT-30b layer by precision, batch size, phase and GPU",
  grid = {
    device = { "T4-16G", "P100-12G", "V100-32G", "A100-40G" }, phase = { "prefill", "decode" },
    batch_size = { 1, 2, 4, 8, 16, 32 }, bitwidth = { 3, 4, 8, 16 },
  },
  quick = { batch_size = { 8 } },
  columns = { "layer_s", "tokens_per_s" },
  notes = {
    "Kernel set " .. splitquant.kernel_set .. "; a decode step follows the prompt of 512 tokens.",
    "No plan is made: no memory preset, theta "
      .. "or objective is in play.",
    "The text names neither the figure's GPUs nor its batch sizes; those of the clusters and powers of two are taken.",
  },

  run = function(point)
    local size = point.batch_size
    local problem = ts.problem {
      model = "opt-30b", cluster = { { point.device, 1 } }, preset = "splitquant", theta = 0,
      workload = { prompt_tokens = 512, output_tokens = 2, batch_size = size },
    }
    local facts = problem:device_facts {
      device_order = problem.devices, prefill_micro_batch_size = size, decode_micro_batch_size = size,
    }[1]
    local layer_s = facts[phases[point.phase]][point.bitwidth]
    return { layer_s = layer_s, tokens_per_s = size * (point.phase == "prefill" and 512 or 1) / layer_s }
  end,

  check = function(t)
    local function ratio(text, where, holds, note)
      t:expect_that {
        text = text, where = where, note = note,
        holds = function(_, rows)
          local least, most = over_fp16(rows)
          return holds(least, most), ("%.2f to %.2f times FP16"):format(least, most)
        end,
      }
    end
    ratio("3 and 4 bits are slower than FP16 in prefill", { phase = "prefill", bitwidth = { 3, 4, 16 } },
      function(least) return least > 1 end)
    for _, device in ipairs { "T4-16G", "V100-32G" } do
      ratio("whether 3 and 4 bits decode faster than FP16 depends on the shape",
        { phase = "decode", bitwidth = { 3, 4, 16 }, device = device },
        function(least, most) return least < 1 and most > 1 end)
    end
    -- "T4 supports fast INT8 due to its tensor core, making the execution time of the 8-bit layer comparable to FP16".
    ratio("INT8 keeps up with FP16 on the T4, within 5 %", { bitwidth = { 8, 16 }, device = "T4-16G" },
      function(_, most) return most <= 1.05 end)
    ratio("what INT8 costs depends on the shape on the V100",
      { bitwidth = { 8, 16 }, device = "V100-32G" }, function(least, most) return most > 1.5 * least end,
      "the V100's decoding in INT8 is fitted to three values read off the bars of this figure")
    -- Without the V100, whose INT8 would be the slowest of all.
    ratio("uniform low precision does not always speed decoding up",
      { phase = "decode", device = { "T4-16G", "P100-12G", "A100-40G" } },
      function(least, most) return least < 1 and most > 1 end)
  end,
  plots = {
    { kind = "lines", x = "batch_size", y = "layer_s", by = "bitwidth", log_x = true, log_y = true,
      where = { device = "V100-32G", phase = "prefill" } },
    { kind = "lines", x = "batch_size", y = "layer_s", by = "bitwidth", log_x = true, log_y = true,
      where = { device = "V100-32G", phase = "decode" } },
  },
}
