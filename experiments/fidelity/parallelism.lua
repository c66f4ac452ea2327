-- One request on A100s under tensor parallelism: TensorRT-LLM of 2024 by lengths (LLM-Inference-Bench; the card is not
-- stated, its times are the 40 GB board's), and FasterTransformer's 20B model by degree.
--
-- What these runs have that TensorRT-LLM 1.x, which is kernel set `modern`, has not: NCCL's sums, kernels that the host
-- launches one by one, and decode attention that leaves a head's context whole, which takes as long at TP 4 as at TP 1.
-- Kernel set `modern_2024` has the three. By `modern`, the times of before, sums are 17 us too cheap each.
--
-- Read off TensorRT-LLM's runs: 4 us per device beyond the first, of Llama-2-7B at 128 tokens, and 38 GB/s per head, of
-- its times by context and of Llama-3-8B's. Nothing is read off FasterTransformer's.
local ts = require "tessera"
local csv = require "fidelity.fit.csv"
local measured = require "lib.measured"
local quantile = require "fidelity.fit.errors".quantile

local path, why = measured.path "parallelism/latency_by_shape.csv"

-- Set before looking, but for each of FasterTransformer's, which came out within 15.0.
local most_median, most_each = 0.10, { ["TensorRT-LLM"] = 0.15, FasterTransformer = 0.20 }
-- TensorRT-LLM's TP 4 by `modern`: as it was, too fast by 17 us a sum and more the longer the context.
local before_tp4 = { -0.31, -0.15 }

-- FasterTransformer's 20B has the layers of GPT-NeoX-20B, and another vocabulary.
local models = { ["Llama-2-7B"] = "llama-2-7b", ["Llama-3-8B"] = "llama-3-8b", ["GPT-20B"] = "gpt-neox-20b" }
local cards = { ["TensorRT-LLM"] = "A100-40G", FasterTransformer = "A100-80G" }

local function counts(row)
  return row.latency_s ~= "" and models[row.model] and cards[row.runtime] and row.batch_size == "1"
    and row.pipeline_parallel == "1"
end

local rows, names = {}, {}
for row in path and csv.rows(path) or function() end do
  local name = ("%s, %s, TP %s, %s in, %s out"):format(row.runtime, row.model, row.tensor_parallel, row.prompt_tokens,
    row.output_tokens)
  if counts(row) and not rows[name] then names[#names + 1], rows[name] = name, row end
end

local function predicted_s(row, kernel_set)
  local degree = tonumber(row.tensor_parallel)
  local plan = assert(ts.plan({
    model = models[row.model], cluster = ("%dx%s"):format(degree, cards[row.runtime]), kernel_set = kernel_set,
    bitwidths = { 16 }, tensor_parallel = { degree },
    workload = { batch_size = 1, prompt_tokens = tonumber(row.prompt_tokens),
      output_tokens = tonumber(row.output_tokens) },
  }, { prefill_micro_batch_size = 1, decode_micro_batch_size = 1 }))
  local run = ts.simulate(plan)
  return run.prefill_s + run.decode_s
end

local function errors_of(t, kernel_set, runtime, tensor_parallel)
  local errors = {}
  for _, row in ipairs(t:rows { kernel_set = kernel_set }) do
    local asked = row.runtime == runtime and (not tensor_parallel or row.tensor_parallel == tensor_parallel)
    if asked then errors[#errors + 1] = row.error_ratio end
  end
  return errors
end

local function sizes(errors)
  local list = {}
  for i, error_ratio in ipairs(errors) do list[i] = math.abs(error_ratio) end
  table.sort(list)
  return list
end

return ts.experiment {
  name = "fidelity/parallelism",
  doc = "Latency of one request by tensor parallelism and lengths, predicted and measured on A100",
  grid = { kernel_set = { "modern", "modern_2024" }, run = #names > 0 and names or { "none" } },
  quick = { kernel_set = { "modern_2024" }, run = { names[1] or "none" } },
  columns = { "runtime", "model", "tensor_parallel", "prompt_tokens", "output_tokens", "measured_s", "predicted_s",
    "error_ratio" },

  run = function(point)
    if why then return { status = why.code, message = why.message } end
    local row = rows[point.run]
    local seconds, took = predicted_s(row, point.kernel_set), tonumber(row.latency_s)
    return {
      runtime = row.runtime, model = row.model, tensor_parallel = tonumber(row.tensor_parallel),
      prompt_tokens = tonumber(row.prompt_tokens), output_tokens = tonumber(row.output_tokens), measured_s = took,
      predicted_s = seconds, error_ratio = seconds / took - 1,
    }
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    for _, runtime in ipairs { "TensorRT-LLM", "FasterTransformer" } do
      local list = sizes(errors_of(t, "modern_2024", runtime))
      if #list > 0 then
        local median, worst = quantile(list, 0.5), list[#list]
        t:expect(("%s: the median error is at most %g %%"):format(runtime, 100 * most_median), median <= most_median,
          ("%.1f %% of %d"):format(100 * median, #list))
        t:expect(("%s: each shape is within %g %%"):format(runtime, 100 * most_each[runtime]),
          worst <= most_each[runtime], ("%.1f %%"):format(100 * worst))
      end
    end
    local before = errors_of(t, "modern", "TensorRT-LLM", 4)
    if #before == 0 then return end
    table.sort(before)
    t:expect("by `modern`, TensorRT-LLM 1.x, the same runs at TP 4 come out 15 to 31 % too fast",
      before[1] >= before_tp4[1] and before[#before] <= before_tp4[2],
      ("%.0f to %.0f %%"):format(100 * before[1], 100 * before[#before]))
  end,
}
