-- GPUStack's comparison of quantisations: Qwen3-8B on RTX 4090, A100 and H100 under vLLM, all requests at once. What
-- counts is the rate of tokens in and out over that in BF16 on the same GPU, as rates themselves hold a prefix cache
-- that the harness filled at the run before, and that is the larger the fewer bits the weights have.
--
-- Known: the GPUs, the checkpoints and the requests' origin, ShareGPT. Assumed: the benchmark's default of 1,000
-- requests, of 220 tokens in and 200 out, spread evenly over [0.2, 1.8] of these; 256 seats and 2,048 tokens a step, on
-- A100 and H100 1,024 seats, and 8,192 tokens on H100, as vLLM chooses them by memory. Nothing is fitted to these rows.
local core = require "tessera.core"
local ts = require "tessera"
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local requests = 1000
local devices = {
  ["RTX 4090"] = { "RTX-4090", seats = 256, tokens = 2048 },
  ["A100 80GB"] = { "A100-80G", seats = 1024, tokens = 2048 },
  ["H100 80GB"] = { "H100-80G", seats = 1024, tokens = 8192 },
}
-- Bits and kernel set of a method; the others run kernels that no set has.
local methods = {
  ["AWQ Marlin"] = { 4, "vllm" }, ["GPTQ Marlin"] = { 8, "vllm" }, ["GPTQ Marlin (Int8)"] = { 8, "vllm" },
  ["GPTQ-Marlin (Int4)"] = { 4, "vllm" }, ["Int4-W4A16"] = { 4, "vllm" }, ["FP8 Dynamic"] = { 8, "vllm_fp8" },
}

-- By GPU, the rate in BF16; and the rows to judge, or nil and why.
local function read()
  local table_rows, why = runs.read(measured.path "serving/gpustack_quantisation.csv")
  if not table_rows then return nil, why end
  local plain, rows = {}, {}
  for _, row in ipairs(table_rows) do
    if row.method == "BF16" then plain[row.gpu] = tonumber(row.total_tok_s) end
  end
  for _, row in ipairs(table_rows) do
    local method = methods[row.method]
    if method then
      rows[#rows + 1] = {
        gpu = row.gpu, method = row.method, bits = method[1], kernel_set = method[2],
        ratio = tonumber(row.total_tok_s) / plain[row.gpu],
      }
    end
  end
  return rows
end

local rows, why = read()

-- All at once, with lengths spread evenly: fractions of the golden ratio for prompts, of the root of 2 for answers.
local function trace_of(context)
  local lines = { "arrival_s,prompt_tokens,output_tokens\n" }
  for i = 1, requests do
    local prompt, answer = (i * 0.6180339887498949) % 1, (i * 0.4142135623730951) % 1
    lines[i + 1] = ("0,%d,%d\n"):format(220 * (0.2 + 1.6 * prompt), 200 * (0.2 + 1.6 * answer))
  end
  local path = ("%s/trace-%d.csv"):format(context.output_dir, context.point_index)
  core.write_file(path, table.concat(lines))
  return path
end

local rates = {} -- requests per second by GPU, bits and kernel set
local function rate_of(gpu, bits, kernel_set, context)
  local key = table.concat({ gpu, bits, kernel_set }, " ")
  if not rates[key] then
    local device = devices[gpu]
    local served = ts.serve(ts.deployment {
      model = "qwen3-8b", cluster = "1x" .. device[1], kernel_set = kernel_set, bitwidths = { bits },
      engine = {
        scheduler = "vllm_v1", max_num_seqs = device.seats, max_num_batched_tokens = device.tokens,
        max_model_len = 8192,
      },
    }, ts.traffic { trace = trace_of(context) }, { record = false })
    rates[key] = served.request_per_s
  end
  return rates[key]
end

local points = {}
for i, row in ipairs(rows or {}) do points[i] = { gpu = row.gpu, method = row.method } end

return ts.experiment {
  name = "fidelity/serving/weight_only",
  doc = "Qwen3-8B in 4 and 8 bits on RTX 4090, A100 and H100: rate over that in BF16",
  grid = #points > 0 and points or { { gpu = "RTX 4090", method = "AWQ Marlin" } },
  columns = { "measured_ratio", "predicted_ratio", "error_ratio" },

  run = function(point, context)
    if why then return { status = why.code, message = why.message } end
    for _, row in ipairs(rows) do
      if row.gpu == point.gpu and row.method == point.method then
        local plain = rate_of(row.gpu, 16, row.kernel_set, context)
        local ratio = rate_of(row.gpu, row.bits, row.kernel_set, context) / plain
        return { measured_ratio = row.ratio, predicted_ratio = ratio, error_ratio = ratio / row.ratio - 1 }
      end
    end
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    t:expect_that {
      text = "every ratio is within 20 %",
      not_reproduced = "8 bits on A100 run slower than 4 there, of which the kernel's forms know nothing; on the 4090 "
        .. "BF16 leaves memory for few requests, fewer than ours",
      here = { 0.2, 0.25 },
      holds = function(_, found)
        local worst, said = 0, {}
        for i, row in ipairs(found) do
          worst = math.max(worst, math.abs(row.error_ratio))
          said[i] = ("%s %s %.2f for %.2f"):format(row.point.gpu, row.point.method, row.predicted_ratio,
            row.measured_ratio)
        end
        return worst <= 0.2, ("worst %.0f %%: %s"):format(100 * worst, table.concat(said, ", ")), worst
      end,
    }
  end,
}
