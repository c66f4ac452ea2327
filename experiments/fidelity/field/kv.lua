-- Tokens of the KV cache that vLLM printed when people started its V1 engine on their own GPUs, predicted by the memory
-- account of its version. What the account takes from these starts is said in engine/cost/src/memory.cpp.
local core = require "tessera.core"
local ts = require "tessera"
local csv = require "fidelity.fit.csv"
local measured = require "lib.measured"
local quantile = require "fidelity.fit.errors".quantile

local path, why = measured.path "field/kv.csv"

-- Set before looking.
local most_median = 0.04
local most_above = 0.002 -- of what was printed at the default share
local default_since = 22 -- minor version, from which 0.92 is the share where nobody says another

local models = {
  ["Qwen/Qwen3-235B-A22B-FP8"] = "qwen3-235b-a22b", ["Qwen/Qwen3-14B-AWQ"] = "qwen3-14b",
  ["Qwen/Qwen2.5-7B-Instruct-AWQ"] = "qwen2.5-7b", ["Qwen/Qwen3-8B-FP8"] = "qwen3-8b",
  ["meta-llama/Llama-3.1-8B-Instruct + EAGLE head"] = "llama-3.1-8b",
  ["Qwen/Qwen2-7B-Instruct"] = "qwen2.5-7b", -- of the same shapes
  ["openai/gpt-oss-20b"] = "gpt-oss-20b",
}
local devices = {
  ["H100 SXM"] = "H100-80G", L4 = "L4", ["A100 80 GB PCIe"] = "A100 80GB PCIe", L40S = "L40S",
  ["RTX 4080"] = "RTX-4080", ["24 GB card (23.53 GiB seen)"] = "RTX-4090",
}
local bits = { bf16 = 16, fp8 = 8, awq4 = 4, mxfp4 = 4 }
local eagle_layers = 1 -- of KV, that the head adds

-- A hybrid of attention alone is a Llama by its shapes.
local function granite()
  local file = measured.path "field/models/granite-4.0-micro.json"
  local config = core.from_json(core.read_file(file))
  config.model_type, config.architectures, config.layer_types = "llama", { "LlamaForCausalLM" }, nil
  config.intermediate_size = config.shared_intermediate_size
  local copy = os.tmpname()
  core.write_file(copy, core.to_json(config))
  local model = ts.model { name = "granite-4.0-micro", config = copy }
  os.remove(copy)
  return model
end

local function predicted(row)
  local name = row.model:find "granite" and granite() or models[row.model]
  local model = core.model(name)
  local deployment, refused = ts.deployment {
    model = model, cluster = ("%dx%s"):format(row.gpus, devices[row.gpu]), replicas = 1,
    tensor_parallel = tonumber(row.tp), pipeline_parallel = tonumber(row.pp), bitwidths = { bits[row.weights] },
    kv_bitwidth = row.kv_dtype == "fp8" and 8 or 16, kernel_set = row.weights == "fp8" and "vllm_fp8" or "vllm",
    engine = { max_num_seqs = tonumber(row.max_num_seqs), runtime_version = row.vllm,
      max_num_batched_tokens = tonumber(row.max_num_batched_tokens),
      gpu_memory_utilization = tonumber(row.gpu_memory_utilization) },
  }
  if not deployment then error(refused, 0) end
  local tokens = deployment.replicas[1].kv_tokens
  if row.model:find "EAGLE" then tokens = tokens * model.num_layers / (model.num_layers + eagle_layers) end
  return tokens
end

local function is_default(row)
  local minor = tonumber(row.vllm:match "^0%.(%d+)")
  return tonumber(row.gpu_memory_utilization) == (minor < default_since and 0.9 or 0.92)
end

local points, rows = {}, {}
for row in path and csv.rows(path) or function() end do
  if row.left_out == "" then
    points[#points + 1], rows[row.id] = { id = row.id }, row
  end
end

return ts.experiment {
  name = "fidelity/field/kv",
  doc = "Tokens of vLLM's KV cache on GPUs of users, predicted and printed",
  grid = #points > 0 and points or { { id = "" } },
  columns = { "row", "model", "gpu", "version", "layout", "predicted_tokens", "printed_tokens", "error_ratio",
    "at_default" },

  run = function(point)
    if why then return { status = why.code, message = why.message } end
    local row = rows[point.id]
    local tokens = predicted(row)
    return {
      row = row.id, model = row.model, gpu = row.gpu, version = row.vllm,
      layout = ("TP%s PP%s"):format(row.tp, row.pp),
      predicted_tokens = tokens, printed_tokens = tonumber(row.kv_tokens),
      error_ratio = tokens / tonumber(row.kv_tokens) - 1, at_default = is_default(row),
    }
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    local errors, above = {}, {}
    for _, row in ipairs(t:rows {}) do
      if not row.error_ratio then return end
      errors[#errors + 1] = math.abs(row.error_ratio)
      if row.at_default and row.error_ratio > most_above then above[#above + 1] = row.row end
    end
    table.sort(errors)
    local median = quantile(errors, 0.5)
    t:expect(("the median error is at most %g %%"):format(100 * most_median), median <= most_median,
      ("%.1f %% of %d starts"):format(100 * median, #errors))
    t:expect("nothing is above what was printed at the default share by more than 0.2 %", #above == 0,
      table.concat(above, ", "))
  end,
}
