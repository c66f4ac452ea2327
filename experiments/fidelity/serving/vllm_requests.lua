-- 300 ShareGPT requests at 10 per second, each with its own times: Llama-3.1-8B under vLLM 0.19 on an RTX 4090, which
-- is overloaded (its KV cache holds 41,408 tokens), and on an RTX PRO 6000, whose 128 seats are full most of the time.
--
-- Known: every request's arrival and lengths, seats, 2,048 tokens a step, the 4090's number of blocks. Times are the
-- engine's own, so nothing is added for client or HTTP. Nothing is fitted to these runs. LLMServingSim's errors on the
-- same runs stand in the files; its profiles were measured on the very machines for the purpose.
--
-- Both runs end far beyond the knee, where a latency measures the length of the queue; the claims are about all of them
-- all the same: the same arrivals are replayed, so the queue is the same if the server is as fast.
local core = require "tessera.core"
local ts = require "tessera"
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local systems = {
  {
    name = "RTX4090", device = "RTX-4090", max_num_seqs = 256, kv_blocks = 2588,
    path = "serving/vllm_requests/RTX4090_Llama-3.1-8B.requests.csv",
  },
  {
    name = "RTXPRO6000", device = "RTX-PRO-6000", max_num_seqs = 128,
    path = "serving/vllm_requests/RTXPRO6000_Llama-3.1-8B.requests.csv",
  },
}
local statistics = { "mean", "p50", "p90", "p99" }

local function values_of(requests)
  local values = { e2e = {}, ttft = {}, tpot = {} }
  for i, r in ipairs(requests) do
    local ends, first, arrival = tonumber(r.last_token_s), tonumber(r.first_token_s), tonumber(r.arrival_s)
    values.e2e[i], values.ttft[i] = ends - arrival, first - arrival
    if tonumber(r.output_tokens) > 1 then table.insert(values.tpot, (ends - first) / (r.output_tokens - 1)) end
  end
  return values
end

local quantile = require "fidelity.fit.errors".quantile

local function statistic_of(values, which)
  local sorted, sum = {}, 0
  for i, value in ipairs(values) do
    sorted[i], sum = value, sum + value
  end
  table.sort(sorted)
  return which == "mean" and sum / #sorted or quantile(sorted, tonumber(which:sub(2)) / 100)
end

local function rows()
  local list = {}
  for _, system in ipairs(systems) do
    local requests, why = runs.read(measured.path(system.path))
    if not requests then return nil, why end
    local values = values_of(requests)
    for _, which in ipairs(statistics) do
      local row = {
        run = ("%s, %s"):format(system.name, which), case = system.name, statistic = which, requests = requests,
        deployment = {
          model = "llama-3.1-8b", cluster = "1x" .. system.device, kernel_set = "vllm", api_s = 0,
          engine = {
            scheduler = "vllm_v1", max_num_seqs = system.max_num_seqs, max_num_batched_tokens = 2048,
            kv_blocks = system.kv_blocks, runtime_version = "0.19",
          },
        },
        measured = {}, below_knee = true,
      }
      for metric, list_of in pairs(values) do row.measured[metric] = statistic_of(list_of, which) end
      list[#list + 1] = row
    end
  end
  return list
end

-- The arrivals as the engine saw them: a request that was queued late, behind the tokenizer, comes when it was queued.
local function trace_of(requests, context)
  local sorted = {}
  for i, r in ipairs(requests) do sorted[i] = r end
  table.sort(sorted, function(a, b) return tonumber(a.arrival_s) < tonumber(b.arrival_s) end)
  local path = ("%s/requests-%d.csv"):format(context.output_dir, context.point_index)
  local lines = {}
  lines[#lines + 1] = "arrival_s,prompt_tokens,output_tokens\n"
  for _, r in ipairs(sorted) do
    lines[#lines + 1] = ("%s,%s,%s\n"):format(r.arrival_s, r.input_tokens, r.output_tokens)
  end
  core.write_file(path, table.concat(lines))
  return path
end

local function predict(row, _, context)
  local path = trace_of(row.requests, context)
  local served = ts.serve(ts.deployment(row.deployment), ts.traffic { trace = path }, { record = false })
  local which = row.statistic
  return { e2e = served.e2e_s[which], ttft = served.ttft_s[which], tpot = served.tpot_s[which] }, served
end

return runs.experiment {
  name = "vllm_requests", doc = "300 requests one by one on an overloaded RTX 4090 and an RTX PRO 6000, vLLM 0.19",
  rows = rows, quick = 8, predict = predict,
  groups = { { metrics = { e2e = true, tpot = true, ttft = true } } },
}
