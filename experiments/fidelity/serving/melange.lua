-- Mélange's Plot 1 (arXiv 2404.14527): which of an A10G at 1.01 and an A100 at 3.67 USD/h makes more tokens for a
-- dollar of Llama-2-7B at its highest throughput, and by how much, at 36 sizes of requests; vLLM 0.2.7, read off the
-- picture.
--
-- Known: the sizes, the prices. Assumed: all requests at once, as many as take 600,000 tokens (300 to 1,500); vLLM's
-- defaults of then, 256 seats, new prompts first, a step of 4,096 tokens.
--
-- Fitted: what vLLM's thread takes of each request in each step before 0.4 (host_sequence_s of kernel set vllm_2024),
-- on a grid of 50 us by the least mean error of the lead at the eight sizes where the two GPUs are within 5 % (100 us
-- 0.23, 200 us 0.11, 250 and 300 us 0.08). They judge nothing. The 28 that do were first looked at with the 40 us of
-- V0's later versions, by which 18 winners are right; that the host is the part that is missing was seen there.
local core = require "tessera.core"
local ts = require "tessera"
local csv = require "fidelity.fit.csv"
local measured = require "lib.measured"

local usd_per_h = { A10G = 1.01, ["A100-80G"] = 3.67 }
local fitted_lead_percent = 5
local least_right = 24 -- of 28; set before looking

local path, why = measured.path "melange/plot1_a10g_a100.csv"

-- A row: sizes, and the lead, tokens per dollar of the A10G over those of the A100.
local rows, points = {}, {}
for row in path and csv.rows(path) or function() end do
  local lead = 1 + tonumber(row.percent_over_other) / 100
  local point = { prompt = tonumber(row.prompt_tokens), output = tonumber(row.output_tokens) }
  points[#points + 1] = point
  rows[point.prompt .. " " .. point.output] = {
    lead = row.best == "A10G" and lead or 1 / lead,
    is_fitted = tonumber(row.percent_over_other) <= fitted_lead_percent,
  }
end

local function request_per_s(device, point, context)
  local lines = { "arrival_s,prompt_tokens,output_tokens\n" }
  local num_requests = math.max(300, math.min(1500, math.floor(600000 / (point.prompt + point.output))))
  for i = 1, num_requests do lines[i + 1] = ("0,%d,%d\n"):format(point.prompt, point.output) end
  local trace = ("%s/trace-%d.csv"):format(context.output_dir, context.point_index)
  core.write_file(trace, table.concat(lines))
  return ts.serve(ts.deployment {
    model = "llama-2-7b", cluster = "1x" .. device, kernel_set = "vllm_2024", bitwidths = { 16 }, api_s = 0,
    engine = {
      scheduler = "vllm_v0", max_num_seqs = 256, max_model_len = 4096, max_num_batched_tokens = 4096,
      enable_chunked_prefill = false, enable_prefix_caching = false,
    },
  }, ts.traffic { trace = trace }, { record = false }).request_per_s
end

return ts.experiment {
  name = "fidelity/serving/melange",
  doc = "Tokens per dollar of A10G and A100, Llama-2-7B under vLLM 0.2.7: Mélange's Plot 1",
  grid = #points > 0 and points or { { prompt = 25, output = 25 } },
  quick = { prompt = { 25, 2000 }, output = { 25, 2000 } },
  columns = { "a10g_request_per_s", "a100_request_per_s", "measured_lead", "predicted_lead", "fitted" },

  run = function(point, context)
    if why then return { status = why.code, message = why.message } end
    local row = rows[point.prompt .. " " .. point.output]
    local a10g = request_per_s("A10G", point, context)
    local a100 = request_per_s("A100-80G", point, context)
    return {
      a10g_request_per_s = a10g, a100_request_per_s = a100, fitted = row.is_fitted, measured_lead = row.lead,
      predicted_lead = a10g / usd_per_h.A10G / (a100 / usd_per_h["A100-80G"]),
    }
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    t:note "lead: tokens per dollar of the A10G over those of the A100"
    t:expect_that {
      text = ("the GPU that makes more tokens for a dollar is right in %d of 28"):format(least_right),
      holds = function(_, found)
        local right, judged, wrong = 0, 0, {}
        for _, row in ipairs(found) do
          if not row.fitted then
            judged = judged + 1
            if (row.predicted_lead > 1) == (row.measured_lead > 1) then
              right = right + 1
            else
              wrong[#wrong + 1] = ("%d to %d tokens %.2f for %.2f"):format(row.point.prompt, row.point.output,
                row.predicted_lead, row.measured_lead)
            end
          end
        end
        return right >= least_right * judged / 28, ("%d of %d; wrong: %s"):format(right, judged,
          #wrong > 0 and table.concat(wrong, ", ") or "none"), right
      end,
    }
  end,
}
