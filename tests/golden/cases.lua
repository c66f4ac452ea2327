-- Golden problems. Every case is a function that returns a problem, and the options of the search that solves it: the
-- micro-batch sizes are given wherever searching them would only cost time, because optimality must be proven.
local ts = require "tessera"

local function given(prefill, decode, more)
  local options = { prefill_micro_batch_size = prefill, decode_micro_batch_size = decode }
  for key, value in pairs(more or {}) do options[key] = value end
  return options
end

local function workload(batch_size, more)
  local w = { prompt_tokens = 512, output_tokens = 100, batch_size = batch_size }
  for key, value in pairs(more or {}) do w[key] = value end
  return w
end

-- What a case leaves out is settled as it was when its numbers were kept: no default that a release may improve.
local function settled(options)
  local own = { preset = "splitquant", kernel_set = "tessera", memory = "physical" }
  for key, value in pairs(options) do own[key] = value end
  return ts.problem(own)
end

local t4_v100 = { { "T4-16G", 1 }, { "V100-32G", 1 }, link_gbps = 100 }

local function opt_13b(changes)
  local options = { model = "opt-13b", cluster = t4_v100, workload = workload(16) }
  for key, value in pairs(changes or {}) do options[key] = value end
  return function() return settled(options) end
end

local function opt_30b(changes)
  local options = { model = "opt-30b", cluster = "llmpq-3", workload = workload(32) }
  for key, value in pairs(changes or {}) do options[key] = value end
  return function() return settled(options) end
end

local function random_indicator()
  return ts.indicator { model = "opt-13b", kind = "random", seed = 7 }
end

local cases = {
  ["opt-13b-theta-0"] = { opt_13b { theta = 0 }, given(4, 8) },
  ["opt-13b-theta-1"] = { opt_13b { theta = 1 }, given(4, 8) },
  ["opt-13b-theta-100"] = { opt_13b { theta = 100 }, given(4, 8) },
  ["opt-13b-paper-objective"] = { opt_13b { objective = "paper" }, given(4, 8) },
  ["opt-13b-raw-theta"] = { opt_13b { theta = 1000, theta_unit = "ms_per_raw_omega" }, given(4, 8) },
  ["opt-13b-kv-8"] = { opt_13b { kv_bitwidth = 8 }, given(4, 8) },
  ["opt-13b-chunked"] = { opt_13b { workload = workload(16, { chunk_tokens = 200 }) }, given(2, 8) },
  ["opt-13b-searched-sizes"] = { opt_13b { workload = workload(4) }, {} },
  ["opt-13b-max-omega"] = { opt_13b { theta = 0, quality = { max_omega = 0.5 } }, given(4, 8) },
  ["opt-13b-perplexity-bound"] = { opt_13b { quality = { max_perplexity_increase = 0.02 } }, given(4, 8) },
  ["opt-13b-uniform-floor"] = { opt_13b { theta = 0, quality = { at_least = "uniform" } }, given(4, 8) },
  ["opt-13b-llm-pq-memory"] = {
    opt_13b { memory = "llm-pq", kernel_set = "llmpq_2023", cluster = { { "P100-12G", 1 }, { "V100-32G", 1 } } },
    given(4, 8),
  },
  ["opt-13b-random-indicator"] = {
    function() return opt_13b { indicator = random_indicator(), theta = 10 } () end, given(4, 8),
  },
  ["opt-30b-theta-1"] = { opt_30b(), given(1, 8) },
  ["opt-30b-llm-pq"] = { opt_30b { memory = "llm-pq", kernel_set = "llmpq_2023" }, given(1, 8) },
  ["opt-30b-chunked"] = { opt_30b { workload = workload(32, { chunk_tokens = 128 }) }, given(1, 8) },
  ["opt-30b-vllm"] = { opt_30b { kernel_set = "vllm", bitwidths = { 4, 8, 16 } }, given(1, 8) },
  ["opt-66b-llm-pq"] = {
    function()
      return settled { model = "opt-66b", cluster = "llmpq-6", workload = workload(32), memory = "llm-pq",
        kernel_set = "llmpq_2023", theta = 1 }
    end,
    given(2, 8),
  },
  ["llama-3-70b-vllm"] = {
    function()
      return settled { model = "llama-3-70b", cluster = { { "A100-40G", 1 }, { "L40S", 2 }, link_gbps = 100 },
        workload = workload(16, { prompt_tokens = 1024 }), kernel_set = "vllm", bitwidths = { 4, 8, 16 } }
    end,
    given(2, 8),
  },
  ["mixtral-8x7b-vllm"] = {
    function()
      return settled { model = "mixtral-8x7b", cluster = { { "A100-40G", 1 }, { "L40S", 1 } },
        workload = workload(16), kernel_set = "vllm", bitwidths = { 4, 8, 16 } }
    end,
    given(4, 8),
  },
  ["mixtral-8x7b-tessera"] = {
    function()
      return settled { model = "mixtral-8x7b", cluster = { { "A100-80G", 1 }, { "T4-16G", 1 } },
        workload = workload(8), theta = 10 }
    end,
    given(4, 4),
  },
  ["opt-30b-uniform"] = { opt_30b(), { planner = "uniform" } },
  ["opt-30b-het"] = { opt_30b(), { planner = "het" } },
  ["opt-175b-infeasible"] = {
    function() return settled { model = "opt-175b", cluster = t4_v100, workload = workload(8) } end, given(1, 8),
  },
}

-- The examples are run as they are; the first plan that each asks for is kept.
local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local examples = {
  "01_first_plan", "02_own_model", "03_own_cluster", "04_own_device", "05_theta_sweep", "06_sizing",
}
for _, name in ipairs(examples) do
  cases["example-" .. name] = {
    function()
      local plan, kept = ts.plan, nil
      ts.plan = function(problem, options)
        if kept then error(kept, 0) end
        kept = { problem = type(problem) == "userdata" and problem or ts.problem(problem), options = options or {} }
        error(kept, 0)
      end
      local ok, stopped = pcall(dofile, here .. "/../../experiments/examples/" .. name .. ".lua")
      ts.plan = plan
      if ok or stopped ~= kept then error(stopped or (name .. " planned nothing"), 0) end
      return kept.problem, kept.options
    end,
  }
end

return cases
