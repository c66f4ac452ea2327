-- inference-sim's load stages of vLLM on H100, five models, TP 1 to 4: mean E2E, TTFT and time per token of each stage,
-- beside what other simulators predicted of the same stages.
--
-- Known: rates, 128 seats, tokens a step, memory share, prompts of 11 x 4 (codegen), 9 x 5 (general), 10 x 5 (roleplay)
-- or 23 users that are sent again and again, so that all but the last block of a prompt is cached; outputs of one
-- length, as ends of text were ignored. Assumed: chunked prefill and prefix caching on, as V1 has them. Two engines
-- under data parallelism are two replicas.
--
-- What is fitted on what: the host's time of kernel set vllm, two constants on the time per token of the ground truth's
-- dense models, and its server's (api_s) on their TTFT. So those rows are no test; Mixtral's and the stages of other
-- runs are. Servers of 2026 decide a step while another runs (async_scheduling), which is the kernel set's default.
--
-- The knee: stages whose measured mean TTFT is below one second; the tables give no throughput.
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local models = {
  ["meta-llama/Llama-2-7b-hf"] = "llama-2-7b", ["codellama/CodeLlama-34b-Instruct-hf"] = "codellama-34b",
  ["mistralai/Mixtral-8x7B-v0.1"] = "mixtral-8x7b", ["meta-llama/Llama-3.1-8B-Instruct"] = "llama-3.1-8b",
  ["Qwen/Qwen3-14B"] = "qwen3-14b",
}
local workloads = {
  codegen = { prompt = 591, output = 247, users = 44 }, general = { prompt = 575, output = 248, users = 45 },
  roleplay = { prompt = 786, output = 251, users = 50 }, reasoning = { prompt = 1080, output = 1448, users = 23 },
}
local block, simulated_s, warm_up_s = 16, 120, 30

local function case(r, load, rate)
  local cached = math.floor((load.prompt - 1) / block) * block
  return {
    deployment = {
      model = models[r.model], cluster = ("%dxH100-80G"):format(tonumber(r.tp) * (tonumber(r.dp) or 1)),
      tensor_parallel = tonumber(r.tp), kernel_set = "vllm",
      engine = {
        scheduler = "vllm_v1", max_num_seqs = 128, max_num_batched_tokens = tonumber(r.max_num_batched_tokens),
        max_model_len = 4096, gpu_memory_utilization = tonumber(r.gpu_mem_util) or 0.9, block_size = block,
      },
    },
    traffic = {
      rate_per_s = rate, arrivals = "constant", prompt_tokens = load.prompt - cached, prefix_tokens = cached,
      prefix_groups = load.users, output_tokens = load.output, num_requests = rate * (simulated_s + warm_up_s),
    },
    serve = { record = false, warm_up_s = warm_up_s },
  }
end

local function rows()
  local ground_truth, why = runs.read(measured.path "serving/blis_ground_truth.csv")
  local stages, why_not = runs.read(measured.path "serving/blis_vllm_stages.csv")
  if not ground_truth or not stages then return nil, why or why_not end
  local list, seen = {}, {}
  for _, r in ipairs(ground_truth) do
    local rate, load = tonumber(r.documented_rate), workloads[r.workload]
    if rate and load and r.stage ~= "-1" then
      local row = case(r, load, rate)
      row.run = ("%s, stage %s"):format(r.experiment, r.stage)
      row.case = r.model:find "Mixtral" and "ground truth, Mixtral" or "ground truth, dense"
      row.measured = { e2e = r.e2e_mean_ms / 1e3, ttft = r.ttft_mean_ms / 1e3, tpot = r.itl_mean_ms / 1e3 }
      -- Answers of Llama-2-7B were tokenised again, and gaps between tokens divided by too few of them.
      if r.model:find "Llama%-2" then row.measured.tpot = nil end
      row.below_knee = row.measured.ttft < 1
      row.experiment, row.stage = r.experiment, r.stage
      list[#list + 1] = row
      seen[("%.6f"):format(row.measured.e2e)] = true
    end
  end
  for _, r in ipairs(stages) do
    local load = workloads[r.workload]
    local e2e = tonumber(r.e2e_mean_s)
    if load and not seen[("%.6f"):format(e2e)] then -- some are in both tables
      local row = case(r, load, tonumber(r.requested_rate))
      row.run = ("%s, stage %s"):format(r.experiment, r.stage)
      row.case = "stages"
      row.measured = { e2e = e2e, ttft = tonumber(r.ttft_mean_s), tpot = tonumber(r.tpot_derived_s) }
      row.below_knee = row.measured.ttft < 1
      list[#list + 1] = row
    end
  end
  return list
end

-- Errors of other simulators on the ground truth's stages below the knee, [simulator][metric], and the stages that each
-- took for E2E, [run] = true.
local names_of = { e2e_mean = "e2e", ttft_mean = "ttft", itl_mean = "tpot" }

local function others(by_run)
  local found = {}
  for _, r in ipairs(runs.read(measured.path "serving/other_simulators.csv")) do
    local run, metric = ("%s, stage %s"):format(r.experiment, r.stage), names_of[r.metric]
    local row = by_run[run]
    if row and metric and row.below_knee and row.measured[metric] then
      local of = found[r.simulator] or { e2e = {}, ttft = {}, tpot = {}, took = {} }
      found[r.simulator] = of
      table.insert(of[metric], math.abs(r.predicted_ms / 1e3 / row.measured[metric] - 1))
      if metric == "e2e" then of.took[run] = true end
    end
  end
  for _, of in pairs(found) do
    for _, metric in ipairs { "e2e", "tpot", "ttft" } do table.sort(of[metric]) end
  end
  return found
end

local function percent(list) return #list > 0 and ("%.0f"):format(100 * runs.median(list)) or "none" end

local function expect_better(t, by_run)
  local found, names = others(by_run), {}
  for name in pairs(found) do names[#names + 1] = name end
  table.sort(names)
  t:expect_that {
    text = "E2E: the median error is below that of each other simulator on the stages that it took",
    holds = function(_, rows_of)
      local said, better = {}, true
      for i, name in ipairs(names) do
        local of = found[name]
        local ours = runs.sizes(rows_of, "e2e_error_ratio", function(row) return of.took[row.point.run] end)
        better = better and runs.median(ours) < runs.median(of.e2e)
        said[i] = ("%s %s (ours %.1f, %d stages; time per token %s, TTFT %s)"):format(name, percent(of.e2e),
          100 * runs.median(ours), #of.e2e, percent(of.tpot), percent(of.ttft))
      end
      return better, "median errors in %: " .. table.concat(said, "; ")
    end,
  }
end

return runs.experiment {
  name = "blis", doc = "inference-sim's load stages of five models on H100, and what other simulators said of them",
  rows = rows, quick = 6,
  groups = {
    { name = "Mixtral and stages", metrics = { e2e = true, tpot = true, ttft = true },
      keep = function(row) return row.case ~= "ground truth, dense" end },
    { name = "dense models of the ground truth", metrics = { e2e = true, tpot = true, ttft = true },
      keep = function(row) return row.case == "ground truth, dense" end,
      note = "the host's time is fitted to the time per token of these rows, and the server's to their TTFT" },
  },
  check = expect_better,
}
