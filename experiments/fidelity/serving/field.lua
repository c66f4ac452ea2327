-- Servers that people ran on GPUs of their own or rented ones, 2025 and 2026: vLLM on L4, RTX 4080 to 5090, RTX PRO
-- 6000, A100 over PCIe and H200, at 16, 8 and 4 bits, with experts and without, by tensor and pipeline parallelism and
-- as replicas.
--
-- Known: lengths, requests and how many at once, split, seats or the default of that version, share of the memory.
-- By the month of a run: vLLM decides a step while the one before runs from 0.14 on (January 2026), and takes less of
-- client and server. Assumed: lengths of ShareGPT spread as their coefficient of variation says; no prefix is shared;
-- 8,192 tokens a step and 1,024 seats from 70 GiB on, 2,048 and 256 below it and on A100, as vLLM has it. Two nodes
-- over Ray are left out, as nobody says which network. Several servers behind a proxy are a group of their own (chosen
-- after looking): nobody says how it spread requests, and some rates say that it did so unevenly. Nothing is fitted to
-- these runs.
--
-- Targets set before looking: time per token 12 % in the median and 30 % for nine of ten, requests a second 15 % and
-- 35 %; of two ways to run one model on the same GPUs the faster one comes out as such.
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local models = {
  ["QuantTrio/Qwen3-Coder-30B-A3B-Instruct-AWQ"] = "qwen3-30b-a3b",
  ["QuantTrio/Qwen3-Coder-480B-A35B-Instruct-AWQ"] = "qwen3-coder-480b-a35b",
  ["Qwen/Qwen2-7B-Instruct"] = "qwen2.5-7b", -- of the same shapes
  ["Qwen/Qwen2.5-7B-Instruct-AWQ"] = "qwen2.5-7b", ["Qwen/Qwen3-1.7B"] = "qwen3-1.7b",
  ["Qwen/Qwen3-14B-AWQ"] = "qwen3-14b", ["cpatonn/GLM-4.5-Air-AWQ-4bit"] = "glm-4.5-air",
  ["ibnzterrell/Meta-Llama-3.3-70B-Instruct-AWQ-INT4"] = "llama-3.3-70b", ["zai-org/GLM-4.6"] = "glm-4.6",
  ["zai-org/GLM-4.6-FP8"] = "glm-4.6",
}
local devices = {
  ["A100 40 GB"] = "A100-40G", ["A100 80 GB"] = "A100-80G", ["A100 80 GB PCIe"] = "A100-80GB-PCIe",
  H200 = "H200-141G", L4 = "L4", ["RTX 4080"] = "RTX-4080", ["RTX 4090"] = "RTX-4090", ["RTX 5090"] = "RTX-5090",
  ["RTX PRO 6000"] = "RTX-PRO-6000",
}
local large = { H200 = true, ["RTX PRO 6000"] = true }
-- As the data's README reads its sums off: they go by way of the host's memory.
local no_peer = { ["A100 80 GB PCIe"] = "@no-peer" }
local bits = { bf16 = 16, fp8 = 8, awq4 = 4 }

local function lengths_of(r, mean)
  if r.length_cv == "0" then return mean end
  return { distribution = "lognormal", mean = mean, cv = tonumber(r.length_cv), max = 8 * mean }
end

local function row_of(r)
  local at_once = tonumber(r.concurrency) or tonumber(r.requests)
  local ahead, fp8 = r.date >= "2026-01", r.weights == "fp8"
  local prompt, output = tonumber(r.prompt_tokens), tonumber(r.output_tokens)
  local way = ("TP %s, PP %s, %s replicas"):format(r.tp, r.pp, r.replicas)
  return {
    run = ("%s: %s on %s x %s, %s"):format(r.id, r.model:match "[^/]+$", r.gpus, r.gpu, way),
    case = devices[r.gpu], stated = r.replicas == "1", measured_at = r, below_knee = true,
    deployment = {
      model = models[r.model], bitwidths = { bits[r.weights] }, kv_bitwidth = r.kv_dtype == "fp8" and 8 or 16,
      kernel_set = fp8 and "vllm_fp8" or "vllm",
      cluster = ("%dx%s%s"):format(tonumber(r.gpus), devices[r.gpu], no_peer[r.gpu] or ""),
      tensor_parallel = tonumber(r.tp), pipeline_parallel = tonumber(r.pp), replicas = tonumber(r.replicas),
      api_s = not ahead and runs.old_http_s or nil,
      engine = {
        scheduler = "vllm_v1", max_num_seqs = tonumber(r.max_num_seqs) or large[r.gpu] and 1024 or 256,
        max_num_batched_tokens = large[r.gpu] and 8192 or 2048, enable_prefix_caching = false,
        max_model_len = tonumber(r.max_model_len),
        gpu_memory_utilization = tonumber(r.gpu_memory_utilization),
        kv_blocks = tonumber(r.kv_blocks), async_scheduling = ahead and r.pp == "1",
      },
    },
    traffic = {
      arrivals = "closed", concurrency = at_once, num_requests = tonumber(r.requests),
      prompt_tokens = lengths_of(r, prompt), output_tokens = lengths_of(r, output),
    },
    measured = {
      tpot = tonumber(r.tpot_mean_ms) and r.tpot_mean_ms / 1e3,
      ttft = tonumber(r.ttft_mean_ms) and r.ttft_mean_ms / 1e3,
      request_rate = tonumber(r.out_tok_s) and r.out_tok_s / output,
    },
  }
end

local function rows()
  local table_rows, why = runs.read(measured.path "field/serve.csv")
  if not table_rows then return nil, why end
  local list = {}
  for _, r in ipairs(table_rows) do
    if not r.note:find "two nodes" then list[#list + 1] = row_of(r) end
  end
  return list
end

local targets = { tpot = { 0.12, 0.30 }, request_rate = { 0.15, 0.35 } }

-- Pairs of runs of one model on the same kind of GPU with the same load, of which one has more GPUs in a group.
local function pairs_of_ways(rows_by_name)
  local by_load, list = {}, {}
  for _, row in pairs(rows_by_name) do
    local r = row.measured_at
    local key = table.concat({ r.model, r.gpu, r.prompt_tokens, r.output_tokens, r.concurrency, r.requests }, "|")
    by_load[key] = by_load[key] or {}
    table.insert(by_load[key], row)
  end
  for _, group in pairs(by_load) do
    table.sort(group, function(a, b) return a.run < b.run end)
    for i = 1, #group do
      for k = i + 1, #group do
        local a, b = group[i].measured_at, group[k].measured_at
        if a.tp ~= b.tp and a.gpu_memory_utilization == b.gpu_memory_utilization then
          list[#list + 1] = { group[i].run, group[k].run }
        end
      end
    end
  end
  table.sort(list, function(a, b) return a[1] .. a[2] < b[1] .. b[2] end)
  return list
end

return runs.experiment {
  name = "field", doc = "vLLM as people ran it on GPUs of their own and rented ones, 2025 and 2026",
  rows = rows, quick = 8,
  groups = {
    { name = "one server", metrics = { tpot = true, request_rate = true }, targets = targets,
      keep = function(row) return row.replicas == 1 end },
    { name = "several behind a proxy", metrics = { tpot = true, request_rate = true }, targets = targets,
      keep = function(row) return row.replicas > 1 end,
      differs = {
        tpot = { why = "nobody says how the proxy spread requests; some servers had far more than others",
          here = { 0.11, 0.22 } },
        request_rate = { why = "likewise, and the slowest server ends the run", here = { 0.2, 0.4 } },
      } },
  },
  more = function(row, _, _, columns) columns.replicas = row.deployment.replicas end,
  check = function(t, rows_by_name)
    t:expect_that {
      text = "of two ways with unlike tensor parallelism, the one that was faster by 5 % comes out faster",
      holds = function(_, kept)
        local by_run, right, all, wrong = {}, 0, 0, {}
        for _, row in ipairs(kept) do by_run[row.point.run] = row end
        for _, pair in ipairs(pairs_of_ways(rows_by_name)) do
          local a, b = by_run[pair[1]], by_run[pair[2]]
          if a and b then
            local really = a.measured_request_rate_per_s / b.measured_request_rate_per_s
            local ours = a.predicted_request_rate_per_s / b.predicted_request_rate_per_s
            if math.abs(math.log(really)) > math.log(1.05) then
              all = all + 1
              if (really > 1) == (ours > 1) then right = right + 1 else wrong[#wrong + 1] = a.point.run:match "^%w+" end
            end
          end
        end
        return right == all, ("%d of %d; not %s"):format(right, all, table.concat(wrong, ", ")), right
      end,
    }
  end,
}
