-- Layers as sums of operators against layers as measured, across frameworks: the shipped profile of A100-40G under
-- `modern` (TensorRT-LLM's products and attention and the kernels between them, measured on A100-80G, with this
-- board's memory) against Helix's layers of LLaMA-1 30B under vLLM.
--
-- Nothing is fitted to Helix's table here, so the gap holds what sums leave out (launch gaps, the scheduler) and what
-- differs between the frameworks. Prompts and steps above 100 requests are whole milliseconds:
-- `beyond_rounding_ratio` is the gap without the rounding.
local ts = require "tessera"
local helix = require "fidelity.fit.helix"

local device = "A100-40G"
local points, all, why = {}, {}, nil
for _, phase in ipairs(helix.phases) do
  local samples, problem = helix.samples(device, phase)
  all[phase], why = samples, why or problem
  for i = 1, #(samples or {}) do points[#points + 1] = { phase = phase, row = i } end
end

local profile = ts.profile { device = device, kernel_set = "modern" }

-- Half of the last digit that the table gives.
local function rounding_s(sample)
  return (sample.phase == "prefill" or sample.batch_size > 100) and 0.5e-3 or 0.05e-3
end

return ts.experiment {
  name = "fidelity/layers",
  doc = "A100 layers as sums of TensorRT-LLM's operators against vLLM's layers as Helix measured them",
  grid = #points > 0 and points or { { phase = "decode", row = 1 } },
  columns = { "size", "measured_s", "predicted_s", "gap_ratio", "beyond_rounding_ratio", "why" },

  run = function(point)
    if why then return { status = why.code, message = why.message } end
    local sample = all[point.phase][point.row]
    local seconds, info = profile:layer_s {
      model = sample.model, phase = sample.phase, batch_size = sample.batch_size, tokens = sample.tokens,
      context_tokens = sample.context_tokens,
    }
    local distance = math.abs(seconds - sample.latency_s)
    return {
      size = sample.batch_size * sample.tokens, measured_s = sample.latency_s, predicted_s = seconds,
      gap_ratio = seconds / sample.latency_s - 1, why = info.why,
      beyond_rounding_ratio = math.max(0, distance - rounding_s(sample)) / sample.latency_s,
    }
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    for _, phase in ipairs(helix.phases) do
      t:expect_that {
        text = ("mean gap at most 10 %%, beyond the rounding (%s)"):format(phase), where = { phase = phase },
        holds = function(_, rows)
          local gap, beyond, signed = 0, 0, 0
          for _, row in ipairs(rows) do
            gap, signed = gap + math.abs(row.gap_ratio) / #rows, signed + row.gap_ratio / #rows
            beyond = beyond + row.beyond_rounding_ratio / #rows
          end
          return beyond <= 0.1, ("mean gap %.1f %% (signed %+.1f %%), beyond the rounding %.1f %%, %d points"):format(
            100 * gap, 100 * signed, 100 * beyond, #rows)
        end,
      }
    end
  end,
  plots = { { kind = "scatter", x = "measured_s", y = "predicted_s", by = "phase", log_x = true, log_y = true } },
}
