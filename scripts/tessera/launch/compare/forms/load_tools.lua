-- What guidellm, genai-perf, aiperf, LLMPerf, inference-perf, EvalScope and InferenceMAX write, as JSON and as CSV:
-- statistics by the name of a metric.

local csv = require "tessera.launch.compare.forms.csv"
local names = require "tessera.launch.compare.forms.names"

local M = {}

-- The first value of a key anywhere below, up to so deep.
local function find(json, key, kind, depth)
  if type(json) ~= "table" or depth == 0 then return nil end
  if type(json[key]) == kind then return json[key] end
  for _, value in pairs(json) do
    local found = find(value, key, kind, depth - 1)
    if found ~= nil then return found end
  end
end

local function spaced(key) return (key:gsub("_", " ")) end

-- { successful = { mean = 1 } }, { mean = 1 }, { avg = 1 } or 1: the mean of what was successful.
local function mean_of(metric)
  if type(metric) ~= "table" then return metric, nil end
  local own = metric.successful or metric
  if type(own) ~= "table" then return own, nil end
  return own.mean or own.avg, own.std_dev or own.std
end

local function add_metrics(run, metrics)
  local keys = {}
  for key in pairs(metrics) do keys[#keys + 1] = tostring(key) end
  table.sort(keys) -- so that of two that mean the same always the same one counts
  for _, key in ipairs(keys) do
    local mean, std = mean_of(metrics[key])
    local unit = type(metrics[key]) == "table" and metrics[key].unit
    unit = type(unit) == "string" and unit or key:match "_(ms)$"
    names.add(run, spaced(key), mean, unit, "mean")
    names.add(run, spaced(key), std, unit, "std")
  end
end

-- One benchmark of guidellm, of any version since 0.1.
local function guidellm_run(benchmark, document, path)
  local run = { kind = "serve", path = path, tool = "guidellm",
    model = find(benchmark, "backend_model", "string", 6) or find(benchmark, "model", "string", 6)
      or find(document, "model", "string", 6) }
  add_metrics(run, benchmark.metrics)
  run.tpot_s = run.itl_s or run.tpot_s -- its time per output token has the first token in it
  local totals = find(benchmark, "request_totals", "table", 4) or find(benchmark, "requests_made", "table", 4)
  if totals then run.completed, run.failed = totals.successful, totals.errored end
  run.max_concurrency = run.max_concurrency and math.max(1, math.floor(run.max_concurrency + 0.5))
  return run
end

local function has_metric(json, key)
  return type(json[key]) == "table" and (json[key].avg ~= nil or json[key].mean ~= nil)
end

-- LLMPerf's summary, flat; times in seconds, whose means end in "_mean". Its "inter token latency" is the whole answer
-- over its tokens, so the time of a token is what whole and first leave.
local function llmperf_run(json, path)
  local function value(name) return tonumber(json["results_" .. name]) end
  local run = { kind = "serve", path = path, tool = "LLMPerf", model = json.model,
    ttft_s = value "ttft_s_mean", e2e_s = value "end_to_end_latency_s_mean",
    prompt_tokens = value "number_input_tokens_mean" or tonumber(json.mean_input_tokens),
    output_tokens = value "number_output_tokens_mean" or tonumber(json.mean_output_tokens),
    max_concurrency = tonumber(json.num_concurrent_requests), completed = value "num_completed_requests",
    throughput_tok_s = value "mean_output_throughput_token_per_s" }
  return run
end

-- inference-perf's summary of a load; times in seconds.
local function inference_perf_run(json, path)
  local run, done = { kind = "serve", path = path, tool = "inference-perf" }, json.successes
  add_metrics(run, done.latency)
  run.prompt_tokens, run.output_tokens = mean_of(done.prompt_len), mean_of(done.output_len)
  run.completed, run.failed = tonumber(done.count), type(json.failures) == "table" and tonumber(json.failures.count)
  local rates = type(done.throughput) == "table" and done.throughput or {}
  run.request_per_s, run.throughput_tok_s = rates.requests_per_sec, rates.output_tokens_per_sec
  run.max_concurrency = run.e2e_s and run.request_per_s and run.e2e_s * run.request_per_s or nil -- Little's law
  return run
end

-- EvalScope's summary: "Average time to first token (s)", "Average input tokens per request".
local function evalscope_run(json, path)
  local flat = {}
  for key, value in pairs(json) do
    key = key:gsub(" per request$", ""):gsub("^Succeed ", "Successful "):gsub("^Average latency", "Request latency")
    flat[key] = value
  end
  flat["Total requests"] = nil -- with those that failed
  local run = { kind = "serve", path = path, tool = "EvalScope", model = json.Model or json.model }
  add_metrics(run, flat)
  if (run.rate_per_s or 0) <= 0 then run.rate_per_s = nil end -- -1: as fast as they are answered
  return run
end

-- A row of InferenceMAX: means in seconds, rates for each GPU.
local function inferencemax_run(json, path)
  return { kind = "serve", path = path, tool = "InferenceMAX", model = json.model,
    max_concurrency = tonumber(json.conc), prompt_tokens = tonumber(json.isl),
    output_tokens = tonumber(json.osl), ttft_s = tonumber(json.mean_ttft),
    tpot_s = tonumber(json.mean_tpot), e2e_s = tonumber(json.mean_e2el) }
end

--- Runs of a decoded document; nil where it is of none of these tools, and why where it is what they cannot say it in.
function M.runs(json, path)
  if type(json.benchmarks) == "table" and type(json.benchmarks[1]) == "table" then
    local runs = {}
    for i, benchmark in ipairs(json.benchmarks) do
      if type(benchmark.metrics) ~= "table" then
        return nil, "a file of guidellm without metrics; `guidellm benchmark --output-path FILE.json` of version 0.1 "
          .. "or newer has them"
      end
      runs[i] = guidellm_run(benchmark, json, path)
    end
    return runs
  end
  if has_metric(json, "time_to_first_token") or has_metric(json, "request_latency")
    or has_metric(json, "inter_token_latency") then
    local run = { kind = "serve", path = path, tool = "genai-perf" }
    add_metrics(run, json)
    local models = find(json, "model_names", "table", 6)
    run.model = models and models[1] or find(json, "model", "string", 6)
    run.max_concurrency = find(json.input_config, "concurrency", "number", 6)
    run.rate_per_s = find(json.input_config, "request_rate", "number", 6)
    return { run }
  end
  if json["Time taken for tests (s)"] ~= nil then return { evalscope_run(json, path) } end
  if json.tput_per_gpu ~= nil and json.conc ~= nil then return { inferencemax_run(json, path) } end
  if type(json[1]) == "table" and json[1].request_output_throughput_token_per_s ~= nil then
    return nil, "LLMPerf's list of single answers; the file beside it that ends in _summary.json has the means"
  end
  if type(json.choices) == "table" and type(json.usage) == "table" then
    return nil, "an answer of an OpenAI interface, which says no times; `vllm bench serve --save-result` takes them"
  end
  if type(json.metrics) == "table" and json.metrics.http_req_duration then
    return nil, names.knows_no_tokens "k6"
  end
  if json.results_ttft_s_mean ~= nil then return { llmperf_run(json, path) } end
  if type(json.load_summary) == "table" and type(json.successes) == "table"
    and type(json.successes.latency) == "table" then
    return { inference_perf_run(json, path) }
  end
  if type(json.metadata) == "table" and json.metadata.session_num and type(json.metrics) == "table" then
    return nil, "aiperf's records of single requests; profile_export_aiperf.json beside it has the means"
  end
  if type(json.experiments) == "table" then
    return nil, "perf_analyzer's raw profile; the file beside it that ends in genai_perf.json (of genai-perf) or "
      .. "aiperf.json has the means"
  end
end

-- "1,234.50" as a number.
local function number_of(cell) return cell and tonumber((cell:gsub(",", ""))) end

-- A row for each metric: "Metric,avg,min,...", then "Metric,Value".
local function of_metric_rows(rows, path)
  local run, header = { kind = "serve", path = path, tool = "genai-perf" }, nil
  for _, row in ipairs(rows) do
    if row[1] == "Metric" then
      header = {}
      for i, cell in ipairs(row) do header[cell:lower()] = i end
    elseif header then
      names.add(run, row[1], number_of(row[header.avg or header.value or 2]), nil, "mean")
      names.add(run, row[1], number_of(row[header.std]), nil, "std")
    end
  end
  return { run }
end

local function has_number(row)
  for _, cell in ipairs(row) do
    if tonumber(cell) then return true end
  end
end

-- How many rows of names a table has: those before the first that has a number.
local function num_header_rows(rows)
  local count = 1
  while rows[count + 1] and not has_number(rows[count + 1]) do count = count + 1 end
  return math.min(count, #rows - 1)
end

local units = { ms = true, s = true, sec = true, us = true, ns = true }

-- Names of columns by their rows, where a name stands for the empty cells behind it, too; a unit in a row of its own
-- goes into parentheses.
local function header_of(rows, count)
  if count == 1 then return rows[1] end
  local header, group = {}, ""
  for i = 1, math.max(#rows[1], #rows[2]) do
    if rows[1][i] and rows[1][i] ~= "" then group = rows[1][i] end
    local words = { group }
    for k = 2, count do
      local cell = rows[k][i] or ""
      words[k] = k > 2 and units[cell:lower()] and "(" .. cell .. ")" or cell
    end
    header[i] = table.concat(words, " ")
  end
  return header
end

-- A row for each benchmark under one row of names, or under several, where the first names groups.
local function of_benchmark_rows(rows, path)
  local count, runs = num_header_rows(rows), {}
  local header = header_of(rows, count)
  for i = count + 1, #rows do
    local run = { kind = "serve", path = path, tool = "guidellm" }
    for c, name in ipairs(header) do
      names.add(run, name, tonumber(rows[i][c]))
      if name:lower():find "model%s*$" and rows[i][c] ~= "" then run.model = run.model or rows[i][c] end
    end
    run.tpot_s = run.itl_s or run.tpot_s
    runs[#runs + 1] = run
  end
  return runs
end

--- Runs of such a CSV; nil where it is none.
function M.csv_runs(text, path)
  local head = text:match "^%s*([^\r\n]*)" or ""
  if head:find "^\"?Metric\"?," then return of_metric_rows(csv(text), path) end
  local two = (text:match "^[^\r\n]*[\r\n]+[^\r\n]*" or ""):lower()
  if two:find "," and (two:find "ttft" or two:find "time to first token") then
    return of_benchmark_rows(csv(text), path)
  end
end

return M
