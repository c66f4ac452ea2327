-- AccelMark's online runs: Poisson arrivals on twelve kinds of NVIDIA systems, median TTFT and time per token. vLLM
-- 0.7.3 is the V0 engine, 0.20.1 (one A100) is V1.
--
-- Known: rates, 300 requests (200 in suite B, 100 in D), prompts' lengths, limits of the answers (512, 256 in D and
-- F), and that there is no HTTP in between. Read off the offline runs: the mean length of the answers of each suite;
-- assumed: they are spread evenly around it up to the limit, and chat templates add what makes the offline runs'
-- totals; boxes of eight have the host of the box of one. Assumed as vLLM has it for engines without a server: under
-- V0 256 seats, no chunks and no prefix cache, under V1 128 seats and 2,048 tokens a step. Left out: what no kernel
-- set prices under that engine (W8A8; FP8 on GPUs that compute in it, under V0).
--
-- Fitted: this harness calls AsyncLLMEngine in its own process, where every token of V0 passes Python's one thread.
-- That takes 56 to 241 us per request and step, by machine, not the 40 us of kernel set vllm_v0. One number per
-- machine is fitted to its time per token in suite A at 25 per second; that run is `fitted` and left out of the
-- claims, all others are predicted, T4 is left out as it has no such run. V0 hands out the tokens of a step while the
-- next one runs, so that here, in one thread, they come a step later: a time per token is added to TTFT. Nothing is
-- fitted to V1's runs.
--
-- The knee: runs that meet the harness's own limit of TTFT, 0.5 s, in suite B 1 s and in D 5 s. Runs are shorter than
-- their answers at the higher rates, so that throughput does not say who keeps up.
local core = require "tessera.core"
local ts = require "tessera"
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local devices = {
  ["NVIDIA A100-SXM4-80GB"] = "A100-80G", ["NVIDIA A800-SXM4-80GB"] = "A800-80G",
  ["NVIDIA GeForce RTX 3090"] = "RTX-3090", ["NVIDIA GeForce RTX 4090"] = "RTX-4090",
  ["NVIDIA H100 80GB HBM3"] = "H100-80G", ["NVIDIA L4"] = "L4", ["NVIDIA RTX A6000"] = "A6000",
  ["Tesla T4"] = "T4-16G", ["Tesla V100S-PCIE-32GB"] = "V100S-32G",
}
-- Seconds per request and step, fitted to the time per token of suite A at 25 per second.
local host_sequence_s = {
  ["A100-80G"] = 144e-6, ["A800-80G"] = 94e-6, ["RTX-3090"] = 156e-6, ["RTX-4090"] = 226e-6, ["H100-80G"] = 58e-6,
  L4 = 56e-6, A6000 = 137e-6, ["V100S-32G"] = 241e-6,
}
local computes_in_fp8 = { ["H100-80G"] = true, ["RTX-4090"] = true, L4 = true }
local suites = {
  suite_A = { model = "llama-3-8b", answer = 346, limit = 512, template = 11, requests = 300 },
  suite_B = { model = "llama-3-70b", answer = 345, limit = 512, template = 11, requests = 200 },
  suite_C = { model = "llama-3.1-8b", answer = 357, limit = 512, template = 36, requests = 300 },
  suite_D = {
    model = "llama-3.1-8b", answer = 256, limit = 256, template = 0, requests = 100, prompt = 28640, length = 30208,
  },
  suite_F = {
    model = "qwen2.5-0.5b", answer = 211, limit = 256, template = 31, requests = 300, edge = true, length = 2048,
  },
  suite_G = { model = "mixtral-8x7b", answer = 349, limit = 512, template = 62, requests = 300 },
}
local bits = { BF16 = 16, FP16 = 16, FP8 = 8, W8A16 = 8, W4A16 = 4 }

local function deployment_of(r, suite, device, v0)
  local b = bits[r.precision]
  local weights_only_fp8 = r.precision ~= "FP8" or not computes_in_fp8[device]
  if not b or (v0 and not (weights_only_fp8 and host_sequence_s[device])) then return nil end
  local length = suite.length or 4096
  return {
    host_sequence_s = v0 and host_sequence_s[device] or nil, api_s = 0, -- called in the client's process
    model = suite.model, cluster = ("%dx%s"):format(tonumber(r.tp), device), tensor_parallel = tonumber(r.tp),
    kernel_set = v0 and "vllm_v0" or r.precision == "FP8" and "vllm_fp8" or "vllm", bitwidths = { b },
    engine = {
      scheduler = v0 and "vllm_v0" or "vllm_v1", max_num_seqs = v0 and 256 or 128, max_model_len = length,
      max_num_batched_tokens = v0 and math.max(length, 2048) or 2048, enable_chunked_prefill = not v0,
      enable_prefix_caching = not v0, runtime_version = r.version:match "^%d+%.%d+",
    },
  }
end

local function rows()
  local online, why = runs.read(measured.path "accelmark/online.csv")
  local standard, why_standard = runs.read(measured.path "accelmark/requests_standard.csv")
  local edge, why_edge = runs.read(measured.path "accelmark/requests_edge.csv")
  if not online or not standard or not edge then return nil, why or why_standard or why_edge end
  local list, seen = {}, {}
  for _, r in ipairs(online) do
    local suite, device, v0 = suites[r.suite], devices[r.chip], r.version:match "^0%.7%." ~= nil
    local deployment = r.scenario == "online" and suite and device and deployment_of(r, suite, device, v0)
    if deployment then
      local rate = tonumber(r.target_qps)
      local name = ("%dx%s, vLLM %s, %s %s, %g/s"):format(tonumber(r.tp), device, r.version:match "^[%d.]+",
        r.suite:gsub("_", " "), r.precision, rate)
      seen[name] = (seen[name] or 0) + 1
      if seen[name] > 1 then name = ("%s, run %d"):format(name, seen[name]) end
      local times = {
        ttft = r.ttft_ms_p50 / 1e3, tpot = r.tpot_ms_p50 / 1e3,
        request_rate = suite.requests / tonumber(r.elapsed_seconds_median),
      }
      list[#list + 1] = {
        run = name, case = suite.edge and "0.5B" or bits[r.precision] < 16 and "fewer bits" or "16 bits", v0 = v0,
        deployment = deployment, suite = suite, rate = rate, statistic = "p50", measured = times,
        prompts = suite.edge and edge or standard, fitted = v0 and r.suite == "suite_A" and rate == 25,
        below_knee = r.sla_met == "True",
      }
    end
  end
  return list
end

-- A file of prompts in their order, with answers that are spread evenly over [2 mean - limit, limit].
local function lengths_of(row, context)
  local path, suite = ("%s/lengths-%d.csv"):format(context.output_dir, context.point_index), row.suite
  local lines = {}
  lines[#lines + 1] = "prompt_tokens,output_tokens\n"
  local half = suite.limit - suite.answer
  for i = 1, suite.requests do
    local prompt = suite.prompt or row.prompts[(i - 1) % #row.prompts + 1].input_tokens + suite.template
    -- Fractions of the golden ratio: even, in no order, and the same every time.
    local share = (i * 0.6180339887498949) % 1
    lines[#lines + 1] = ("%d,%d\n"):format(prompt, math.floor(suite.answer - half + 2 * half * share + 0.5))
  end
  core.write_file(path, table.concat(lines))
  return path
end

local function predict(row, seed, context)
  local served = ts.serve(ts.deployment(row.deployment), ts.traffic {
    rate_per_s = row.rate, arrivals = "poisson", seed = seed, num_requests = row.suite.requests, in_order = true,
    lengths = lengths_of(row, context),
  }, { record = false })
  local late_s = row.v0 and served.tpot_s.p50 or 0
  return { ttft = served.ttft_s.p50 + late_s, tpot = served.tpot_s.p50, request_rate = served.request_per_s }, served
end

return runs.experiment {
  name = "accelmark", doc = "AccelMark's online runs on twelve kinds of NVIDIA systems, V0 and V1",
  rows = rows, quick = 8, predict = predict,
  groups = {
    { name = "16 bits", metrics = { tpot = true, ttft = true, request_rate = true },
      keep = function(row) return row.case == "16 bits" end,
      differs = { tpot = { why = "one number per machine does not say how much of the host's time passes beside the "
        .. "device's; most so where several GPUs or a short step change the share", here = { 0.1, 0.18 } } } },
    { name = "fewer bits", metrics = { tpot = true, ttft = true, request_rate = true },
      keep = function(row) return row.case == "fewer bits" end,
      differs = {
        tpot = { why = "the kernels that these runs had for 8 and 4 bits are hardly faster than BF16, or "
          .. "slower; those of the kernel sets are near what bandwidth allows", here = { 0.2, 0.37 } },
        request_rate = { why = "likewise", here = { 0.05, 0.07 } },
      } },
    { name = "0.5B", metrics = { tpot = true, ttft = true, request_rate = true },
      keep = function(row) return row.case == "0.5B" end,
      differs = {
        tpot = { why = "a step of 2 ms is the host's, which takes twice what it takes per request of the 8B model",
          here = { 0.17, 0.36 } },
        ttft = { why = "likewise, and the time before a request reaches the engine is not modelled in this process",
          here = { 0.4, 0.75 } },
      } },
  },
}
