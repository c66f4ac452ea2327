-- Llama-3-8B on one H100 under inference-perf at seven rates, four ways of serving it: plain, with chunked prefill and
-- prefix caching, with a draft of another model, and by the V0 engine. Which technique is faster, and by how much.
--
-- Known: vLLM 0.11 and 0.9 (V0), 128 seats, what is on and off, 100 prompts of 204 tokens (10 system prompts of 128
-- tokens with 10 questions each), 64 out, constant gaps, 60 s a rate. Assumed: 8,192 tokens a step, vLLM's default for a
-- server on H100 (the same for V0 without chunks). Nothing is fitted to these runs: the host's time of kernel set vllm
-- to runs of inference-sim, that of vllm_v0 to A800, V100S and T4 of AccelMark.
--
-- What the draft accepts is not published. It follows from the run at one request per second, where nothing queues: a
-- step of eight requests or fewer takes what it takes, and the tokens of a step are its time over the time per token.
-- That run is left out of the claims, the six others are predicted.
local here = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local runs = dofile(here .. "/parts/runs.lua")
local read = dofile(here .. "/parts/measured_rows.lua")

local seats = 128
local techniques = {
  baseline = { kernel_set = "vllm", scheduler = "vllm_v1", enable_prefix_caching = false, enable_chunked_prefill = false },
  ["chunked+prefix"] = { kernel_set = "vllm", scheduler = "vllm_v1", cached = true },
  v0_engine = {
    kernel_set = "vllm_v0", scheduler = "vllm_v0", enable_prefix_caching = false, enable_chunked_prefill = false,
  },
  eagle3 = { kernel_set = "vllm", scheduler = "vllm_v1", cached = true,
    speculative = { method = "eagle", num_tokens = 4, acceptance = 0.0 } },
}

local function rows()
  local table_rows, why = read "serving/kubecon2025_techniques.csv"
  if not table_rows then return nil, why end
  local list = {}
  for _, r in ipairs(table_rows) do
    local technique, rate = techniques[r.config], tonumber(r.requested_rate)
    local engine = { max_num_seqs = seats, max_num_batched_tokens = 8192 }
    for key, value in pairs(technique) do
      if key ~= "kernel_set" and key ~= "cached" then engine[key] = value end
    end
    local prompt = math.floor(tonumber(r.prompt_len_mean) + 0.5)
    local duration_s = tonumber(r.send_duration_s)
    list[#list + 1] = {
      run = ("%s, %g/s"):format(r.config, rate), case = r.config, front_end_s = runs.http_s,
      deployment = { model = "llama-3-8b", cluster = "1xH100-80G", kernel_set = technique.kernel_set, engine = engine },
      traffic = {
        rate_per_s = rate, arrivals = "constant", num_requests = tonumber(r.sent), output_tokens = 64,
        prompt_tokens = technique.cached and prompt - 192 or prompt,
        prefix_groups = technique.cached and 100 or nil, prefix_tokens = technique.cached and 192 or nil,
      },
      measured = {
        e2e = tonumber(r.e2e_mean_s), ttft = tonumber(r.ttft_mean_s), tpot = tonumber(r.tpot_derived_s),
        request_rate = tonumber(r.requests_per_sec),
      },
      below_knee = runs.keeps_up(rate, tonumber(r.completed), tonumber(r.completed) / tonumber(r.requests_per_sec),
        tonumber(r.e2e_mean_s)),
      duration_s = duration_s,
    }
  end
  return list
end

return runs.experiment {
  name = "kubecon", doc = "Llama-3-8B on H100 at seven rates, with and without caching, speculation and the V0 engine",
  rows = rows, quick = 7,
}
