-- gpt-oss-120b on H100 under Ray Serve, closed loops of 4 to 64 requests, 5,000 tokens in and 250 out: two replicas of
-- TP 4, four of TP 2, and prefill and decode apart by NIXL.
--
-- Known: how many GPUs do what, lengths, requests under way. Assumed: vLLM V1 with 256 seats and 8,192 tokens a step,
-- random prompts that share nothing; weights of 4 bits throughout (the checkpoint has experts of 4 bits and 16 for the
-- rest); transfers at 25 GB/s, one GPU's share of the network, after 20 ms, what the descriptors of 5,000 tokens take
-- (vllm#50913: 105 ms for blocks of 16, 8 times fewer in blocks of 128). Over TCP: 0.2 GB/s is what the run took, no
-- prediction, so those rows are left out. Nothing is fitted to these runs.
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local engine = { scheduler = "vllm_v1", max_num_seqs = 256, max_num_batched_tokens = 8192 }
local model, bits = "gpt-oss-120b", { 4 }

local function replicas_of(count, tp)
  return {
    model = model, bitwidths = bits, kernel_set = "vllm", cluster = ("%dxH100-80G"):format(count * tp),
    tensor_parallel = tp, replicas = count, engine = engine, router = "least_requests",
  }
end

local function pools_of(prefill, prefill_tp, decode, decode_tp)
  local function pool(role, count, tp)
    return {
      role = role, model = model, bitwidths = bits, kernel_set = "vllm", cluster = ("%dxH100-80G"):format(count * tp),
      tensor_parallel = tp, replicas = count, engine = engine,
    }
  end
  return {
    pools = { pool("prefill", prefill, prefill_tp), pool("decode", decode, decode_tp) },
    transfer = { bytes_per_s = 25e9, latency_s = 0.02 },
  }
end

local function deployment_of(config)
  local count, tp = config:match "baseline_(%d+)xtp(%d+)$"
  if count then return replicas_of(tonumber(count), tonumber(tp)), "collocated" end
  local p, ptp, d, dtp = config:match "_pd_p(%d+)xtp(%d+)%-d(%d+)xtp(%d+)$"
  if p then return pools_of(tonumber(p), tonumber(ptp), tonumber(d), tonumber(dtp)), "prefill and decode apart" end
  return nil
end

local function rows()
  local table_rows, why = runs.read(measured.path "serving/ray_pd_gptoss120b.csv")
  if not table_rows then return nil, why end
  local list = {}
  for _, r in ipairs(table_rows) do
    local deployment, case = deployment_of(r.config)
    if r.group == "prefill_decode" and deployment then
      local out = tonumber(r.osl)
      local times = {
        ttft = r.mean_ttft_ms / 1e3, tpot = r.mean_tpot_ms / 1e3, request_rate = tonumber(r.request_throughput),
      }
      times.e2e = times.ttft + (out - 1) * times.tpot
      list[#list + 1] = {
        run = ("%s, %s at once"):format(r.config:match "mixed_(.*)$", r.max_concurrency), case = case,
        measured = times, deployment = deployment, below_knee = true,
        traffic = {
          arrivals = "closed", concurrency = tonumber(r.max_concurrency), num_requests = tonumber(r.completed),
          prompt_tokens = tonumber(r.isl), output_tokens = out,
        },
      }
    end
  end
  return list
end

local because = "experts in MXFP4 are priced as Marlin's, which InferenceX asks for, and vLLM runs OpenAI's Triton "
  .. "kernels on H100 where nobody asks: by these (kernel set modern's, vLLM's host) E2E is 16.5 % off, time per token "
  .. "19.8, TTFT 29.1 and rates 21.3, nearly all too fast, and Ray Serve's time is not modelled; apart, TP 4 served "
  .. "more prompts than one engine reads, as if some had been cached"

return runs.experiment {
  name = "ray_pd", doc = "gpt-oss-120b on H100, collocated or with prefill and decode apart, closed loops",
  rows = rows, quick = 5,
  groups = { { differs = {
    e2e = { why = because, here = { 0.16, 0.28 } }, tpot = { why = because, here = { 0.19, 0.34 } },
    ttft = { why = because, here = { 0.40, 0.66 } }, request_rate = { why = because, here = { 0.19, 0.33 } },
  } } },
}
