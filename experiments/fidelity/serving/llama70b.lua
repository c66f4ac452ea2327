-- Llama-3.3-70B on Azure's ND96asr_v4, eight A100 of 40 GB a node: TP 8 on one node, TP 4 x PP 2 on two, over
-- InfiniBand or Ethernet. vLLM's own benchmark, 200 requests of ShareGPT at 1, 4, 16 per second and all at once.
--
-- Known: vLLM 0.8.3, started with prefix caching: V1 on one node, V0 under pipeline parallelism, as V1 wanted Ray to
-- be named for it and fell back otherwise; rates (Poisson, the last arrival at its time); 213 tokens in and out in the
-- mean. The benchmark sends the same 200 prompts at every rate, and the KV cache holds them all: at 1 per second they
-- are new, at the others cached but for their last block, which is why TTFT is lower there. Assumed: 256 seats, 2,048
-- tokens a step under V1, vLLM's default on A100, no chunks under V0; lengths lognormal with cv 1.1 in and 1 out, 4 to
-- 1,024; without InfiniBand 40 Gb/s between nodes. Nothing is fitted to these runs.
--
-- The knee: runs whose 99th percentile of TTFT is below one second; all at once is beyond it.
local core = require "tessera.core"
local ts = require "tessera"
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local clusters = {
  ["single node"] = "8xA100-40G", InfiniBand = "2x(4xA100-40G)@200Gbps", ["none/ethernet"] = "2x(4xA100-40G)@40Gbps",
}
local block, first_pass_s = 16, 2000

local function rows()
  local table_rows, why = runs.read(measured.path "serving/llama70b_tp_pp_vllm.csv")
  if not table_rows then return nil, why end
  local list = {}
  for _, r in ipairs(table_rows) do
    local completed, rate = tonumber(r.completed), tonumber(r.request_rate)
    local tokens_out = r.total_output_tokens / completed
    local times = {
      ttft = r.mean_ttft_ms / 1e3, tpot = r.mean_tpot_ms / 1e3, request_rate = tonumber(r.request_throughput),
    }
    times.e2e = times.ttft + (tokens_out - 1) * times.tpot
    local at_once, v0 = r.qps == "inf", r.pp ~= "1"
    list[#list + 1] = {
      run = ("%s, %s/s"):format(r.config, r.qps), case = r.interconnect, measured = times,
      rate = not at_once and rate or nil, count = completed, cached = r.qps ~= "01",
      tokens_in = r.total_input_tokens / completed, tokens_out = tokens_out,
      deployment = {
        model = "llama-3.3-70b", cluster = clusters[r.interconnect], tensor_parallel = tonumber(r.tp),
        pipeline_parallel = tonumber(r.pp), kernel_set = v0 and "vllm_v0" or "vllm", api_s = runs.old_http_s,
        engine = {
          scheduler = v0 and "vllm_v0" or "vllm_v1", max_num_seqs = 256, max_num_batched_tokens = v0 and 8192 or 2048,
          max_model_len = 8192, block_size = block, enable_chunked_prefill = not v0, enable_prefix_caching = true,
          async_scheduling = false, runtime_version = "0.8.3",
        },
      },
      below_knee = tonumber(r.p99_ttft_ms) < 1000 and not at_once,
    }
  end
  return list
end

-- Whole numbers of a lognormal distribution within [4, 1024].
local function length(normal, mean, cv)
  local variance = math.log(1 + cv * cv)
  local value = math.exp(math.log(mean) - variance / 2 + math.sqrt(variance) * normal())
  return math.max(4, math.min(1024, math.floor(value + 0.5)))
end

-- The run's requests as a trace. Where prompts are cached, each comes once before and is not counted.
local function trace_of(row, context)
  local state = 12345
  local function uniform() -- Park and Miller's generator
    state = state * 48271 % 2147483647
    return state / 2147483647
  end
  local function normal() return math.sqrt(-2 * math.log(uniform())) * math.cos(2 * math.pi * uniform()) end
  local requests, sum = {}, 0
  for i = 1, row.count do
    requests[i] = { length(normal, row.tokens_in, 1.1), length(normal, row.tokens_out, 1), sum }
    sum = sum - math.log(uniform())
  end
  local path = ("%s/trace-%d.csv"):format(context.output_dir, context.point_index)
  local lines = {}
  lines[#lines + 1] = "arrival_s,prompt_tokens,output_tokens,prefix_group,prefix_tokens\n"
  local function send(arrival_s, i, output_tokens)
    local shared = math.floor((requests[i][1] - 1) / block) * block
    lines[#lines + 1] = ("%.6f,%d,%d,%d,%d\n"):format(arrival_s, requests[i][1], output_tokens, i, shared)
  end
  if row.cached then
    for i = 1, row.count do send(i, i, 1) end
  end
  for i = 1, row.count do
    local share = requests[i][3] / requests[row.count][3]
    send(first_pass_s + (row.rate and share * row.count / row.rate or 0), i, requests[i][2])
  end
  core.write_file(path, table.concat(lines))
  return path
end

local function predict(row, _, context)
  local served = ts.serve(ts.deployment(row.deployment), ts.traffic { trace = trace_of(row, context) },
    { record = false, warm_up_requests = row.cached and row.count or 0 })
  local last_s = 0
  for _, request in ipairs(served:requests()) do
    last_s = math.max(last_s, request.arrival_s + request.e2e_s)
  end
  return {
    e2e = served.e2e_s.mean, ttft = served.ttft_s.mean, tpot = served.tpot_s.mean,
    request_rate = row.count / (last_s - first_pass_s),
  }, served
end

local because = "the host's time of the kernel sets is that of one GPU; in vLLM 0.8 every step of several is sent to a "
  .. "process per GPU and, under pipeline parallelism, through Ray"

return runs.experiment {
  name = "llama70b", doc = "Llama-3.3-70B on A100 of 40 GB: TP 8 on one node, TP 4 x PP 2 on two",
  rows = rows, quick = 4, predict = predict,
  groups = { { differs = { ttft = { why = because, here = { 0.15, 0.3 } } } } },
}
