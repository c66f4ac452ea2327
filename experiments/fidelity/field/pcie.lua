-- Tensor parallelism over PCIe, on machines of others: two A100 PCIe and one of them under vLLM (dennislee22's runs,
-- all requests at once), and the boxes of RTX 3090, RTX 4090, A6000 and V100S of AccelMark: a batch at TP 1 to 8, and
-- one request of a 70B model at TP 8.
--
-- Whether cards reach each other's memory nobody printed. GeForce cards do not, as their sheets say. The two A100 do
-- not, by their times: an all-reduce of 717 kB takes 0.2 ms, four times what the kernel of cards that do takes. A6000
-- and V100S are taken as their sheets have it. What a sum by way of the host takes (engine/cost/src/collectives.cpp)
-- was chosen on the A100's time per token at up to 100 requests of 1,024 tokens, and on the RTX 4090's one request.
local ts = require "tessera"
local csv = require "fidelity.fit.csv"
local measured = require "lib.measured"
local quantile = require "fidelity.fit.errors".quantile

local serve, no_serve = measured.path "field/serve.csv"
local offline, no_offline = measured.path "accelmark/offline.csv"
local online, no_online = measured.path "accelmark/online.csv"
local why = no_serve or no_offline or no_online

-- Set before looking.
local most_median = 0.12
-- Repeats differ by less; a layout that served more by less is neither better nor worse.
local least_difference = 0.03
-- The two A100 as if they reached each other: tokens a second over measured, the middle of the runs.
local with_access = { 1.3, 1.8 }

local devices = {
  ["NVIDIA GeForce RTX 3090"] = "RTX-3090", ["NVIDIA GeForce RTX 4090"] = "RTX-4090", ["NVIDIA RTX A6000"] = "A6000",
  ["Tesla V100S-PCIE-32GB"] = "V100S-32G",
}
local answer, prompt = 346, 247 -- mean tokens of AccelMark's suites A and E, with the template

-- By name: { load =, degree =, clusters =, rate = or tpot_s = }, measured.
local runs, names = {}, {}
local function add(name, run)
  if not runs[name] then names[#names + 1] = name end
  runs[name] = run
end

-- A pair's runs, and those of one GPU with as much memory; of repeats the last.
local function add_pair()
  for row in csv.rows(serve) do
    local count = tonumber(row.requests)
    if row.gpu == "A100 80 GB PCIe" and count <= 200 and (row.tp == "2" or row.gpu_memory_utilization == "0.5") then
      local run = { box = "A100 PCIe", kind = "served", degree = tonumber(row.tp), rate = tonumber(row.out_tok_s),
        tpot_s = tonumber(row.tpot_p50_ms) / 1e3, model = "qwen2.5-7b", kernel_set = "vllm",
        load = { count, tonumber(row.prompt_tokens), tonumber(row.output_tokens) } }
      run.cluster = ("%dxA100 80GB PCIe"):format(run.degree)
      -- Those of the two layouts differ by a token here and there.
      run.question = ("%d of %.1fk to %.1fk"):format(count, run.load[2] / 1e3, run.load[3] / 1e3)
      add(row.id, run)
    end
  end
end

local function add_batches()
  for row in csv.rows(offline) do
    local device = devices[row.chip]
    if device and row.suite == "suite_E" and row.scenario == "offline" and row.client_concurrency == "32" then
      local rate, degree = tonumber(row.out_tok_s), tonumber(row.tp)
      local count = math.floor(rate * tonumber(row.elapsed_s) / answer + 0.5)
      add(("%dx%s, a batch"):format(degree, device), { box = device, kind = "batch", degree = degree, rate = rate,
        model = "llama-3-8b", kernel_set = "vllm_v0", cluster = ("%dx%s"):format(degree, device), question = "batch",
        load = { count, prompt, answer } })
    end
  end
end

local function add_single()
  for row in csv.rows(online) do
    local device = devices[row.chip]
    if device and row.suite == "suite_B" and row.scenario == "interactive" then
      add(("8x%s, one request"):format(device), { box = device, kind = "one request", degree = 8,
        tpot_s = tonumber(row.tpot_ms_p50) / 1e3, model = "llama-3-70b", kernel_set = "vllm_v0",
        cluster = "8x" .. device, load = { 1, 236, 220 } })
    end
  end
end

if not why then
  add_pair()
  add_batches()
  add_single()
end

local function engine_of(run)
  if run.kernel_set == "vllm" then return { max_num_seqs = 256 } end
  return { scheduler = "vllm_v0", max_num_seqs = 256, max_model_len = 4096, max_num_batched_tokens = 4096,
    enable_chunked_prefill = false, enable_prefix_caching = false, runtime_version = "0.7" }
end

local function predicted(run, suffix)
  local count, prompt_tokens, output_tokens = unpack(run.load)
  return ts.serve(ts.deployment {
    model = run.model, cluster = run.cluster .. (run.degree > 1 and suffix or ""), tensor_parallel = run.degree,
    kernel_set = run.kernel_set, bitwidths = { 16 }, engine = engine_of(run), api_s = 0,
  }, ts.traffic {
    arrivals = "closed", concurrency = count, num_requests = count, prompt_tokens = prompt_tokens,
    output_tokens = output_tokens, seed = 1,
  }, { record = false })
end

-- Of each question, whether more GPUs served more, where they did by more than repeats differ: right, of how many, and
-- the wrong ones.
local function signs(rows)
  local one = {}
  for _, row in ipairs(rows) do
    if row.degree == 1 and row.question then one[row.box .. row.question] = row end
  end
  local right, count, wrong = 0, 0, {}
  for _, row in ipairs(rows) do
    local alone = row.degree > 1 and row.question and one[row.box .. row.question]
    if alone and math.abs(row.measured_tok_s / alone.measured_tok_s - 1) > least_difference then
      count = count + 1
      local faster = row.measured_tok_s > alone.measured_tok_s
      if (row.predicted_tok_s > alone.predicted_tok_s) == faster then
        right = right + 1
      else
        wrong[#wrong + 1] = row.point.run
      end
    end
  end
  return right, count, wrong
end

local function middle_of(rows, keep, value)
  local list = {}
  for _, row in ipairs(rows) do
    if keep(row) then list[#list + 1] = value(row) end
  end
  table.sort(list)
  return quantile(list, 0.5), #list, list
end

return ts.experiment {
  name = "fidelity/field/pcie",
  doc = "Tensor parallelism over PCIe with and without access to each other's memory, predicted and measured",
  grid = { run = #names > 0 and names or { "none" } },
  columns = { "box", "kind", "question", "degree", "measured_tok_s", "predicted_tok_s", "with_access_tok_s",
    "measured_tpot_s", "predicted_tpot_s", "error_ratio" },

  run = function(point)
    if why then return { status = why.code, message = why.message } end
    local run = runs[point.run]
    local of_pair = run.kind == "served" and run.degree > 1
    local served = predicted(run, of_pair and "@no-peer" or "")
    return {
      box = run.box, kind = run.kind, question = run.question, degree = run.degree, measured_tok_s = run.rate,
      predicted_tok_s = served.throughput_tok_s,
      with_access_tok_s = of_pair and predicted(run, "").throughput_tok_s or nil,
      measured_tpot_s = run.tpot_s, predicted_tpot_s = served.tpot_s.p50,
      error_ratio = run.tpot_s and served.tpot_s.p50 / run.tpot_s - 1,
    }
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    local rows = t:rows {}
    local right, count, wrong = signs(rows)
    t:expect("whether more GPUs serve more than one is right wherever they differ by more than 3 %",
      right == count and count >= 12, ("%d of %d; not %s"):format(right, count, table.concat(wrong, ", ")))
    local function of_group(row) return row.error_ratio and row.degree > 1 end
    local median, number, sorted = middle_of(rows, of_group, function(row) return math.abs(row.error_ratio) end)
    if number == 0 then return end
    t:expect(("time per token of groups: the median error is at most %g %%"):format(100 * most_median),
      median <= most_median, ("%.1f %%, nine of ten within %.1f %%, of %d"):format(100 * median,
        100 * quantile(sorted, 0.9), number))
    local ratio = middle_of(rows, function(row) return row.with_access_tok_s end,
      function(row) return row.with_access_tok_s / row.measured_tok_s end)
    t:expect("as if they reached each other's memory, two A100 come out at 1.3 to 1.8 of what was measured",
      ratio >= with_access[1] and ratio <= with_access[2], ("%.2f"):format(ratio))
  end,
}
