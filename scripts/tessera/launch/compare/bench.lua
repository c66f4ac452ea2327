-- What vLLM's benchmarks write, read back: `vllm bench serve --save-result` and `vllm bench latency --output-json`.
-- Keys that every version from 0.8.5 to 0.33.0 writes are required (the lists are those of the packages), later ones
-- are used where they are there.

local core = require "tessera.core"

local M = {}

--- What every `vllm bench serve` writes.
M.serve_keys = { "completed", "total_input_tokens", "total_output_tokens", "request_throughput",
  "output_throughput" }

local function number_at(json, key, path, low)
  local value = json[key]
  if type(value) ~= "number" or value ~= value or value < (low or 0) or value == math.huge then
    core.refuse(path, ("%s is %s; a number from %g on belongs there"):format(key,
      value == nil and "missing" or tostring(value), low or 0))
  end
  return value
end

local function optional_s(json, key, path)
  if json[key] == nil then return nil end
  return number_at(json, key, path) / 1e3
end

-- One run under load.
local function serve(json, path)
  for _, key in ipairs(M.serve_keys) do number_at(json, key, path) end
  local completed = number_at(json, "completed", path, 1)
  local rate = json.request_rate
  return {
    kind = "serve", path = path, model = json.model_id, completed = completed,
    failed = json.failed ~= nil and number_at(json, "failed", path) or nil,
    prompt_tokens = math.max(1, json.total_input_tokens / completed),
    output_tokens = math.max(1, json.total_output_tokens / completed),
    max_concurrency = tonumber(json.max_concurrency), num_prompts = tonumber(json.num_prompts),
    rate_per_s = tonumber(rate) and tonumber(rate) < math.huge and tonumber(rate) or nil,
    request_per_s = json.request_throughput, throughput_tok_s = json.output_throughput,
    ttft_s = optional_s(json, "mean_ttft_ms", path), tpot_s = optional_s(json, "mean_tpot_ms", path),
    ttft_std_s = optional_s(json, "std_ttft_ms", path), tpot_std_s = optional_s(json, "std_tpot_ms", path),
    e2e_s = optional_s(json, "mean_e2el_ms", path),
  }
end

-- One batch, again and again.
local function latency(json, path)
  local run = { kind = "latency", path = path, e2e_s = number_at(json, "avg_latency", path, 1e-9) }
  if type(json.latencies) == "table" and #json.latencies > 1 then
    local sum, squares = 0, 0
    for i, value in ipairs(json.latencies) do
      if type(value) ~= "number" then core.refuse(path, ("latencies[%d] is no number"):format(i)) end
      sum, squares = sum + value, squares + value * value
    end
    local n = #json.latencies
    run.e2e_std_s = math.sqrt(math.max(0, (squares - sum * sum / n) / (n - 1)))
  end
  return run
end

--- One file: { kind = "serve" | "latency", path, ... }; times in s. Raises where it is no such file.
function M.read(path)
  local text = core.read_file(path)
  local ok, json = pcall(core.from_json, text)
  if not ok then
    core.refuse(path, "it is no JSON (" .. core.error_text(json):gsub("^JSON text:%s*", "") .. "); is it cut off?")
  end
  if type(json) ~= "table" then core.refuse(path, "an object belongs there") end
  if json.avg_latency ~= nil then return latency(json, path) end
  if json.completed ~= nil or json.output_throughput ~= nil then return serve(json, path) end
  core.refuse(path, "it is neither of `vllm bench serve --save-result` nor of `vllm bench latency --output-json`")
end

-- Letters and digits, in lower case.
local function squeezed(name) return (name:lower():gsub("[^%w]", "")) end

--- Why a run is of another model than the plan; nil where it is not, or where a path says nothing.
function M.why_other_model(run, model)
  local id = run.model
  if type(id) ~= "string" or id:find "^[./]" then return nil end
  local base = squeezed(model.name)
  local stripped = base:gsub("^meta", "")
  if squeezed(id):find(base, 1, true) or squeezed(id):find(stripped, 1, true) then return nil end
  local own = (model.source or ""):match "huggingface%.co/[^/]+/([%w%-_.]+)"
  if own and squeezed(id):find(squeezed(own), 1, true) then return nil end
  return ("%s was measured with %s, the plan is of %s"):format(run.path, id, model.name)
end

return M
