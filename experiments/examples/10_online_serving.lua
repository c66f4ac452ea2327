-- A stream of requests under latency targets: what becomes of it, how much of it fits, and what else would serve it.
local ts = require "tessera"

-- Four engines behind a router that prefers the one which has a prompt's beginning in its cache.
local deployment = ts.deployment {
  model = "llama-3.1-8b", cluster = "4xL4",
  engine = { max_num_seqs = 64, max_num_batched_tokens = 2048 },
  router = "prefix_aware",
}
print(deployment)

-- Chats: eight system prompts of 500 tokens, questions and answers of all lengths.
local traffic = ts.traffic {
  rate_per_s = 6, num_requests = 1500, seed = 1,
  prompt_tokens = { distribution = "lognormal", mean = 300, cv = 1, max = 4000 },
  output_tokens = { distribution = "lognormal", mean = 150, cv = 0.8, max = 1000 },
  prefix_groups = 8, prefix_tokens = 500,
}
local slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.15 } }
local served = ts.serve(deployment, traffic, { slo = slo, warm_up_requests = 100 })
print(served)

-- The slowest first token, and what its request waited for.
local slowest
for _, request in ipairs(served:requests()) do
  if not slowest or request.ttft_s > slowest.ttft_s then slowest = request end
end
print(("request %d: first token after %.3f s, of which %.3f s in the queue; %d tokens from the cache"):format(
  slowest.request, slowest.ttft_s, slowest.queue_s, slowest.cached_tokens))

-- The same requests under other rules. A lower TTFT is often bought with a higher TPOT.
local rows = {}
for _, scheduler in ipairs { "vllm_v1", "vllm_v0", "sarathi", "static" } do
  local d = ts.deployment { model = "llama-3.1-8b", cluster = "4xL4", router = "prefix_aware",
    engine = { scheduler = scheduler, max_num_seqs = 64, max_num_batched_tokens = 8192 } }
  local run = ts.serve(d, traffic, { slo = slo })
  rows[#rows + 1] = { scheduler = scheduler, ttft_p50_s = run.ttft_s.p50, ttft_p99_s = run.ttft_s.p99,
    tpot_p99_s = run.tpot_s.p99, throughput_tok_s = run.throughput_tok_s, stable = tostring(run.stable) }
end
print(ts.table(rows, {
  columns = { "scheduler", "ttft_p50_s", "ttft_p99_s", "tpot_p99_s", "throughput_tok_s", "stable" },
}))

-- How far the rate may rise.
local most = ts.max_rate(deployment, traffic, { slo = slo, tolerance = 0.1 })
print(most)
