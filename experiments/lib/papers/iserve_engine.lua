-- iServe's fingerprints taken for real, by the engine on this machine (Liao et al., arXiv 2501.13111, Figs. 7, 9, 19).
--
-- SmolLM2-135M's shape has random weights, which take the same time and memory; the model that ships has its own. One
-- thread, and of its time what it ran: on a machine that others use too that is what passes on a quiet one, but for
-- what they take of the caches and of the core. Runs go in rounds, so that a machine that slows down slows all alike.
local core = require "tessera.core"
local by_engine = require "tessera.configurations.engine_measure"
local extrapolate = require "tessera.configurations.extrapolate"
local host = require "tessera.host"
local lm = require "tessera.lm"

local M = {}

M.small, M.shaped = "grammar-opt-5m", "smollm2-135m"
M.output_tokens = { 16, 64 }
M.engine = { threads = 1, counted = "processor" }
-- Three bitwidths of weights with two of the KV cache.
M.schemes = { "fp16", "fp16_kv8", "int8", "int8_kv8", "int4", "int4_kv8" }

local shipped = host.installation.datasets_dir .. "/language_models/" .. M.small

--- What ts.fingerprint takes as model, its layers and the prompt that its context has room for; nil and why where this
--- build runs no models.
function M.subject(name)
  local ok, why = pcall(lm.tokenizer, shipped)
  if not ok then return nil, { code = "no_data", message = why.message } end
  local model = name == M.small and shipped or name
  return { model = model, num_layers = core.model(model).num_layers, prompt_tokens = 128 }
end

local function key_of(run) return extrapolate.key(run.num_layers, run) end

--- Runs { num_layers, pipeline_parallel, timed } of one scheme, `repeats` rounds of them: lists of results by run.
function M.rounds(subject, scheme, runs, repeats)
  local samples, most = {}, 1
  for _, run in ipairs(runs) do most = math.max(most, run.num_layers) end
  local opt = { model = subject.model, engine = M.engine, output_tokens = M.output_tokens }
  by_engine(opt, { { scheme = scheme } }, most, function(measure)
    for _ = 1, repeats do
      for _, run in ipairs(runs) do
        local whole = { num_layers = run.num_layers, tensor_parallel = 1, pipeline_parallel = run.pipeline_parallel,
          scheme = scheme, prompt_tokens = subject.prompt_tokens, output_tokens = run.timed and M.output_tokens or {} }
        local key = key_of(whole)
        samples[key] = samples[key] or {}
        table.insert(samples[key], measure(whole))
      end
    end
  end)
  return samples
end

--- The results of one of its runs.
function M.of(samples, run, scheme)
  return samples[key_of { num_layers = run.num_layers, tensor_parallel = 1, pipeline_parallel = run.pipeline_parallel,
    scheme = scheme }]
end

--- What ts.fingerprint calls in place of running again: the results of rounds, in their order.
function M.replay(samples)
  local at = {}
  return function(run)
    local key = key_of(run)
    local list = samples[key] or error("nobody ran " .. key, 0)
    at[key] = (at[key] or 0) % #list + 1
    return list[at[key]]
  end
end

--- Numbers of results: field(result) of each in list, from the first on in steps.
function M.values(list, field, first, step)
  local values = {}
  for i = first or 1, #list, step or 1 do values[#values + 1] = field(list[i]) end
  return values
end

function M.longest_s(result) return result.latency_s[2] end
function M.memory(result) return result.memory_bytes end

--- How well a straight line describes y over x: 1 less the squares that are left over, as a share.
function M.r_squared(x, y)
  local n, mx, my, sxy, sxx, syy = #x, 0, 0, 0, 0, 0
  for i = 1, n do mx, my = mx + x[i] / n, my + y[i] / n end
  for i = 1, n do
    sxy, sxx, syy = sxy + (x[i] - mx) * (y[i] - my), sxx + (x[i] - mx) ^ 2, syy + (y[i] - my) ^ 2
  end
  return sxy ^ 2 / (sxx * syy)
end

return M
