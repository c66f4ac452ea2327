-- Several models on the same GPUs: each is placed when it comes, by what it takes, what is wanted of it, and the load.
local ts = require "tessera"

-- What a model takes in each way to deploy it on up to four GPUs: our prices of the whole model (methods L1 and M1).
local function fingerprint(name)
  local model = ts.model(name)
  local function measure(run)
    local bits = run.scheme == "int8" and 8 or 16
    local engine = ts.deployment { model = model, cluster = ("%dxA6000"):format(run.tensor_parallel),
      tensor_parallel = run.tensor_parallel, bitwidths = { bits }, engine = { max_num_seqs = 1 } }
    local prompt_s = engine:step_s { num_prompts = 1, prompt_tokens = run.prompt_tokens }
    local token_s = engine:step_s { num_decodes = 1, context_tokens = run.prompt_tokens }
    local times = {}
    for i, n in ipairs(run.output_tokens) do times[i] = prompt_s + (n - 1) * token_s end
    local num_gpus = run.tensor_parallel * run.pipeline_parallel
    return { memory_bytes = run.num_layers * model:layer_bytes(bits) + num_gpus * 1.5e9, latency_s = times }
  end
  return ts.fingerprint { model = model, latency_method = "L1", memory_method = "M1", repeats = 1, measure = measure,
    configurations = ts.configurations { model = model, num_gpus = 4, schemes = { "fp16", "int8" } } }
end

-- Who comes when, and what is wanted: little memory times latency where nothing is said.
local names = { "llama-2-7b", "llama-2-13b", "opt-13b" }
local models, classes = {}, {}
for i, name in ipairs(names) do
  models[i] = { name = name, estimates = fingerprint(name), at_s = (i - 1) * 60, slo = { e2e_s = 20 } }
  classes[i] = { share = 1 / #names, model = name }
end
models[1].intent = { minimise = "memory" }
models[2].intent = { latency_s = 5, minimise = "memory" }

local traffic = ts.traffic { rate_per_s = 0.6, duration_s = 900, seed = 1, classes = classes,
  prompt_tokens = { distribution = "lognormal", mean = 500, cv = 1, max = 1024 },
  output_tokens = { distribution = "lognormal", mean = 100, cv = 0.8, max = 400 } }

local rows = {}
for _, policy in ipairs { "least_loaded", "hybrid", "packing" } do
  local deployment = ts.deployment { cluster = "4xA6000", engine = { max_num_seqs = 1 }, models = models,
    strategy = { name = "iserve", policy = policy, theta = 0.3 } }
  local served = ts.serve(deployment, traffic)
  if policy == "hybrid" then print(served) end
  for _, model in ipairs(served.models) do
    local c = model.configuration or {}
    rows[#rows + 1] = { policy = policy, model = model.name, gpus = table.concat(model.devices, " "), scheme = c.scheme,
      layers = table.concat(model.layers, " "), e2e_p50_s = model.e2e_s.p50, in_slo = model.attainment_ratio }
  end
end
print(ts.table(rows, { columns = { "policy", "model", "gpus", "layers", "scheme", "e2e_p50_s", "in_slo" } }))
