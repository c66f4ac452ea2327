-- Files of what was measured, by what is in them: benchmarks of vLLM, SGLang, TensorRT-LLM, LMDeploy, guidellm,
-- genai-perf, aiperf, LLMPerf, inference-perf, EvalScope, InferenceMAX, llama.cpp, Ollama and MLX, and what running
-- servers say. What says too little for a comparison is refused as what it is.

local batched_bench = require "tessera.launch.compare.forms.batched_bench"
local core = require "tessera.core"
local csv = require "tessera.launch.compare.forms.csv"
local llama_bench = require "tessera.launch.compare.forms.llama_bench"
local lmdeploy = require "tessera.launch.compare.forms.lmdeploy"
local load_tools = require "tessera.launch.compare.forms.load_tools"
local names = require "tessera.launch.compare.forms.names"
local one_by_one = require "tessera.launch.compare.forms.one_by_one"
local printed = require "tessera.launch.compare.forms.printed"
local servers = require "tessera.launch.compare.forms.servers"
local trtllm = require "tessera.launch.compare.forms.trtllm"
local vllm = require "tessera.launch.compare.forms.vllm"

local M = { serve_keys = vllm.serve_keys }

-- JSON as Python writes it: NaN and Infinity are no numbers there, and say nothing here.
local function decoded(text)
  for _, word in ipairs { "NaN", "%-?Infinity" } do
    text = text:gsub("([:,%[]%s*)" .. word .. "(%s*[,}%]])", "%1null%2")
  end
  return pcall(core.from_json, text)
end

-- Objects of JSON lines, as --append-result and --output-file write them, or of indented documents one after the other;
-- nil where one is none.
local function lines_of(text)
  if text:find "^%s*{%s*\n" then text = text:gsub("[\r\n]+(%s*[^%s{])", " %1"):gsub("}%s*{", "}\n{") end
  local objects = {}
  for line in text:gmatch "[^\r\n]+" do
    if line:find "%S" then
      local ok, json = decoded(line)
      if not ok or type(json) ~= "table" then return nil, #objects end
      objects[#objects + 1] = json
    end
  end
  return #objects > 0 and objects or nil, #objects
end

local function is_list(json) return type(json[1]) == "table" end

local function refuse_trace(path)
  core.refuse(path, "a trace of requests, which says no latencies; `tessera capacity --trace FILE` plans for it")
end

-- The runs of one decoded value; nil where it is of no tool that is known.
local function of_json(json, path)
  if trtllm.is(json) then return { trtllm.run(json, path) } end
  if batched_bench.is(json) then return batched_bench.runs({ json }, path) end
  if llama_bench.is(json) then return llama_bench.runs({ json }, path) end
  if is_list(json) and llama_bench.is(json[1]) then return llama_bench.runs(json, path) end
  local runs, why = one_by_one.runs(json, path)
  if not runs then runs, why = load_tools.runs(json, path) end
  if why then core.refuse(path, why) end
  if runs then return runs end
  if json.avg_latency == nil and is_list(json) then
    runs = {}
    for _, each in ipairs(json) do
      for _, run in ipairs(of_json(each, path) or {}) do runs[#runs + 1] = run end
    end
    return #runs > 0 and runs or nil
  end
  runs = { vllm.run(json, path) }
  if runs[1] then return runs end
  if json.input_length and json.output_length or json.prompt_tokens and json.output_tokens then refuse_trace(path) end
end

local function refuse_unknown(path)
  core.refuse(path, "it is neither of `vllm bench serve --save-result`, `vllm bench latency --output-json`, SGLang, "
    .. "trtllm-bench, LMDeploy, guidellm, genai-perf, aiperf, LLMPerf, inference-perf, EvalScope, InferenceMAX, "
    .. "llama-bench, llama-batched-bench, Ollama or MLX, nor metrics or a log of a server")
end

local function json_runs(text, path)
  local ok, json = decoded(text)
  if ok and type(json) == "table" then return of_json(json, path) or refuse_unknown(path) end
  if not ok then
    local objects, good = lines_of(text)
    if not objects and good > 0 then
      core.refuse(path, ("line %d of its JSON lines (one object a line) is cut off or no JSON"):format(good + 1))
    end
    if objects then
      if llama_bench.is(objects[1]) then return llama_bench.runs(objects, path) end
      local runs = {}
      for _, object in ipairs(objects) do
        for _, run in ipairs(of_json(object, path) or refuse_unknown(path)) do runs[#runs + 1] = run end
      end
      return runs
    end
    core.refuse(path, "it is no JSON (" .. core.error_text(json):gsub("^JSON text:%s*", "") .. "); is it cut off?")
  end
  refuse_unknown(path)
end

-- Tools that time whole answers of any HTTP server, by how their reports begin or what is in them.
local http_tools = { { "a table of Locust", "^\"?Type\"?,\"?Name\"?,\"?Request Count" },
  { "perf_analyzer", "^\"?Concurrency\"?,\"?Inferences/Second" }, { "wrk", "Running %d+%a+ test @ http" },
  { "ab", "This is ApacheBench" }, { "hey", "Requests/sec:.*Response time histogram:" }, { "k6", "http_req_duration" } }

local function http_tool(text)
  for _, tool in ipairs(http_tools) do
    if text:find(tool[2]) then return tool[1] end
  end
end

-- What says neither lengths nor load, by what it is.
local function refuse_by_name(text, path)
  local head = text:sub(1, 4000)
  if head:find("MLPerf", 1, true) or head:find "SUT name%s*:" then
    local rate = text:match "[Tt]okens per second%s*:?%s*([%d.]+)"
    core.refuse(path, ("a summary of MLPerf%s%s, which says neither model nor lengths nor how many requests ran "
      .. "together; measure with `vllm bench serve --save-result`"):format(
      text:match "Scenario%s*:%s*(%a+)" and ", scenario " .. text:match "Scenario%s*:%s*(%a+)" or "",
      rate and (", %s tokens a second"):format(rate) or ""))
  elseif head:find(":::MLL", 1, true) then
    core.refuse(path, "the detailed log of MLPerf; neither it nor mlperf_log_summary.txt says the lengths of requests. "
      .. "Measure with `vllm bench serve --save-result`")
  elseif head:find "^%s*benchmarks:" or head:find "\nbenchmarks:" or head:find "[gG]uide[lL][lL][mM]"
    or head:find "Benchmarks Stats:" then
    core.refuse(path, "what guidellm prints, or its YAML; `guidellm benchmark --output-path FILE.json` can be read")
  elseif head:find("<html", 1, true) or head:find("<!DOCTYPE", 1, true) then
    core.refuse(path, "a page of HTML; the file that the benchmark saved beside it (JSON, CSV) can be read")
  elseif http_tool(head) then
    core.refuse(path, names.knows_no_tokens(http_tool(head)))
  elseif head:find "input_num_turns" then
    core.refuse(path, "of vLLM's benchmark of conversations, whose prompts share what came before them; no plan "
      .. "predicts that. `vllm bench serve --save-result` measures what one does")
  elseif head:find "Avg latency: [%d.]+ seconds" then
    core.refuse(path, "what `vllm bench latency` printed; --output-json FILE writes a file that can be read")
  elseif head:find "^%s*arrival_s" or head:find "ContextTokens" or head:find "num_prefill_tokens" then
    refuse_trace(path)
  end
end

-- What is printed or logged may begin with anything.
local function printed_runs(text, path)
  if printed.is(text) then return printed.runs(text, path) end
  if servers.is_log(text) then return { servers.log_run(text, path) } end
  local run = trtllm.text_run(text, path) or vllm.throughput_text_run(text, path)
    or one_by_one.text_run(text, path)
  return run and { run } or lmdeploy.text_runs(text, path)
end

-- `vllm bench sweep` writes the keys of its JSON as a table's columns; nil where the text is none.
local function sweep_runs(text, path)
  local head = "," .. (text:match "^%s*([^\r\n]*)" or "") .. ","
  for _, key in ipairs(vllm.serve_keys) do
    if not head:find("," .. key .. ",", 1, true) then return nil end
  end
  local rows, runs = csv(text), {}
  for i = 2, #rows do
    local object = {}
    for c, name in ipairs(rows[1]) do object[name] = tonumber(rows[i][c]) or rows[i][c] end
    runs[#runs + 1] = vllm.run(object, path)
  end
  return runs
end

local function text_runs(text, path)
  if servers.is_metrics(text) then return { servers.metrics_run(text, path) } end
  local runs = llama_bench.text_runs(text, path) or batched_bench.text_runs(text, path) or sweep_runs(text, path)
    or lmdeploy.csv_runs(text, path) or load_tools.csv_runs(text, path)
  if runs then return runs end
  refuse_by_name(text, path)
  refuse_unknown(path)
end

-- Lengths of a run from its totals; its TPOT from ITL where that is all it has.
local function settle(run)
  local done = run.completed
  if done and done > 0 then
    run.prompt_tokens = run.prompt_tokens or run.total_input_tokens and run.total_input_tokens / done
    run.output_tokens = run.output_tokens or run.total_output_tokens and run.total_output_tokens / done
  end
  run.num_prompts = run.num_prompts or done
  if not run.tpot_s and run.itl_s and run.itl_s > 0 then run.tpot_s = run.itl_s end
  if not run.tpot_s and run.ttft_s and run.e2e_s and run.output_tokens and run.output_tokens > 1 then
    run.tpot_s = (run.e2e_s - run.ttft_s) / (run.output_tokens - 1)
  end
  if run.max_concurrency and run.max_concurrency < 1 then run.max_concurrency = nil end
  if run.tpot_s == 0 then run.tpot_s = nil end
  return run
end

--- The runs of a file, or of the text that is given as its: { kind = "serve" | "latency" | "throughput" | "metrics" |
--- "log", path, ... }; times in s. Raises where it is no such file.
function M.runs(path, text)
  text = (text or core.read_text(path)):gsub("\27%[[%d;]*m", "") -- colours of a terminal
  if not text:find "%S" then core.refuse(path, "it is empty") end
  local runs = printed_runs(text, path)
  if not runs then runs = (text:find "^%s*[{%[]" and json_runs or text_runs)(text, path) end
  if #runs == 0 then core.refuse(path, "there is no run in it; is it cut off?") end
  for i, run in ipairs(runs) do
    settle(run)
    if run.kind == "serve" and not names.says_something(run) then
      core.refuse(path, ("run %d of it has no TTFT, TPOT or throughput for a plan to be compared with"):format(i))
    end
  end
  return runs
end

-- Letters and digits, in lower case.
local function squeezed(name) return (name:lower():gsub("[^%w]", "")) end

-- Parameters of one model in two files: rounded there, and counted with or without the output layer.
local same_size = 0.06

--- Why a run is of another model than the plan; nil where it is not, or where a path says nothing.
function M.why_other_model(run, model)
  local size = run.num_parameters
  if size and math.abs(size / model.num_parameters - 1) > same_size then
    return ("was measured with %s of %.3g billion parameters, the plan is of %s with %.3g"):format(
      run.weights or run.model or "a model", size / 1e9, model.name, model.num_parameters / 1e9)
  end
  local id = run.model
  if type(id) ~= "string" or id:find "^[./]" or size and id:find "gguf$" == nil then return nil end
  local base = squeezed(model.name)
  local stripped = base:gsub("^meta", "")
  if squeezed(id):find(base, 1, true) or squeezed(id):find(stripped, 1, true) then return nil end
  local own = (model.source or ""):match "huggingface%.co/[^/]+/([%w%-_.]+)"
  if own and squeezed(id):find(squeezed(own), 1, true) then return nil end
  if not id:find "%d" and not id:find "/" then return nil end -- a name that a server was given: "llama", "chat"
  return ("was measured with %s, the plan is of %s"):format(id, model.name)
end

return M
