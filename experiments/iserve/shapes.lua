-- The cost models against TensorRT-LLM by shape at batch 1: Llama-2-7B on A100 with TP 1, 2, 4, PP 2, 4 and TP 2 x PP 2
-- (LLM-Inference-Bench; the card is not stated, its times are the 40 GB board's). Targets: 10 % in the median, 15 % at
-- each shape, the overhead of stages within 2 points, every order of shapes right where print tells them apart.
--
-- Kernel set `modern_2024` has two constants read off rows with one stage (fidelity/parallelism); of stages nothing was
-- read off. Time of a request as ts.fingerprint has it, stages priced.
local csv = require "fidelity.fit.csv"
local measured = require "lib.measured"
local quantile = require "fidelity.fit.errors".quantile
local ts = require "tessera"

local path, why = measured.path "parallelism/latency_by_shape.csv"

local rows, names = {}, {} -- by name
for row in path and csv.rows(path) or function() end do
  local counts = row.runtime == "TensorRT-LLM" and row.model == "Llama-2-7B" and row.batch_size == "1"
    and row.latency_s ~= ""
  local name = ("%s x %s, %s in, %s out"):format(row.tensor_parallel, row.pipeline_parallel, row.prompt_tokens,
    row.output_tokens)
  if counts and not rows[name] then names[#names + 1], rows[name] = name, row end
end

local function predicted_s(row)
  local tp, pp, out = tonumber(row.tensor_parallel), tonumber(row.pipeline_parallel), tonumber(row.output_tokens)
  local map = ts.fingerprint {
    model = "llama-2-7b", cluster = "4xA100-40G", kernel_set = "modern_2024", stages = "priced", latency_method = "L1",
    prompt_tokens = tonumber(row.prompt_tokens), output_tokens = { math.floor(out / 2), out },
    configurations = ts.configurations { num_gpus = 4, tensor_parallel = { tp }, pipeline_parallel = { pp },
      schemes = { "fp16" } },
  }
  return map:estimates({ output_tokens = out })[1].latency_s
end

return ts.experiment {
  name = "iserve/shapes",
  doc = "Time of a request by tensor and pipeline parallelism, predicted and measured on A100",
  grid = { run = #names > 0 and names or { "none" } },
  quick = { run = { names[1] or "none" } },
  columns = { "tensor_parallel", "pipeline_parallel", "tokens", "measured_s", "predicted_s", "error_ratio" },

  run = function(point)
    if why then return { status = why.code, message = why.message } end
    local row = rows[point.run]
    local seconds, took = predicted_s(row), tonumber(row.latency_s)
    return { tensor_parallel = tonumber(row.tensor_parallel), pipeline_parallel = tonumber(row.pipeline_parallel),
      tokens = tonumber(row.output_tokens), measured_s = took, predicted_s = seconds, error_ratio = seconds / took - 1 }
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    local list = t:rows()
    if #list < #names then return end
    local sizes, by = {}, {}
    for i, row in ipairs(list) do
      sizes[i] = math.abs(row.error_ratio)
      by[("%d %d %d"):format(row.tensor_parallel, row.pipeline_parallel, row.tokens)] = row
    end
    table.sort(sizes)
    t:expect("the median error is at most 10 %", quantile(sizes, 0.5) <= 0.1,
      ("%.1f %% of %d"):format(100 * quantile(sizes, 0.5), #sizes))
    t:expect("each shape is within 15 %", sizes[#sizes] <= 0.15, ("%.1f %%"):format(100 * sizes[#sizes]))
    local worst, orders, right = 0, 0, 0
    for _, row in ipairs(list) do
      local one = by[("%d 1 %d"):format(row.tensor_parallel, row.tokens)]
      if row.pipeline_parallel > 1 and one then
        local overhead = row.measured_s / one.measured_s - 1
        worst = math.max(worst, math.abs(row.predicted_s / one.predicted_s - 1 - overhead))
      end
      for _, other in ipairs(list) do -- told apart: by more than 2 %
        if other.tokens == row.tokens and other.measured_s > 1.02 * row.measured_s then
          orders = orders + 1
          if other.predicted_s > row.predicted_s then right = right + 1 end
        end
      end
    end
    t:expect("the overhead of stages is within 2 points", worst <= 0.02, ("%.2f points at most"):format(100 * worst))
    t:expect("every order of shapes is right", orders > 0 and right == orders, ("%d of %d"):format(right, orders))
  end,
}
