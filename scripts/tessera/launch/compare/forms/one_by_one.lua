-- What programs of one machine say of the requests that they answered, each by itself: llama.cpp's (the timings of an
-- answer of its server, and lines of its log), Ollama's (its answers, and `ollama run --verbose`) and MLX's.

local M = {}

local fields = { "prompt_n", "prompt_ms", "predicted_n", "predicted_ms" }

-- The mean request of { prompt_n =, prompt_ms =, predicted_n =, predicted_ms = }. How many ran together is not said of
-- a server; a prompt of no tokens was cached, and says nothing.
local function run_of(requests, path, tool, model)
  local sums = { prompt_n = 0, prompt_ms = 0, predicted_n = 0, predicted_ms = 0 }
  for _, each in ipairs(requests) do
    for _, name in ipairs(fields) do sums[name] = sums[name] + each[name] end
  end
  local count, has_prompts = #requests, sums.prompt_n > 0
  return { kind = "serve", path = path, tool = tool, model = type(model) == "string" and model or nil,
    completed = count, prompt_tokens = has_prompts and sums.prompt_n / count or nil,
    output_tokens = sums.predicted_n / count, ttft_s = has_prompts and sums.prompt_ms / count / 1e3 or nil,
    tpot_s = sums.predicted_n > 0 and sums.predicted_ms / sums.predicted_n / 1e3 or nil,
    e2e_s = (sums.prompt_ms + sums.predicted_ms) / count / 1e3 }
end

-- Of numbers alone.
local function request(prompt_n, prompt_ms, predicted_n, predicted_ms)
  prompt_n, prompt_ms = tonumber(prompt_n), tonumber(prompt_ms)
  predicted_n, predicted_ms = tonumber(predicted_n), tonumber(predicted_ms)
  if not (prompt_n and prompt_ms and predicted_n and predicted_ms) then return nil end
  return { prompt_n = prompt_n, prompt_ms = prompt_ms, predicted_n = predicted_n, predicted_ms = predicted_ms }
end

-- A quotient of two numbers, as numbers or text; nil of anything else, and by zero.
local function over(value, divisor)
  value, divisor = tonumber(value), tonumber(divisor)
  return value and divisor and divisor > 0 and value / divisor or nil
end

--- The runs of a decoded answer: one where it has times, none where it is a piece of Ollama's stream; nil where it is
--- of neither.
function M.runs(json, path)
  local timings = type(json.timings) == "table" and json.timings or {}
  local own = request(timings.prompt_n, timings.prompt_ms, timings.predicted_n, timings.predicted_ms)
  if own then return { run_of({ own }, path, "llama.cpp", json.model) } end
  if json.eval_duration then -- nanoseconds; a prompt that was cached is not counted
    own = request(json.prompt_eval_count or 0, over(json.prompt_eval_duration or 0, 1e6), json.eval_count,
      over(json.eval_duration, 1e6))
    return own and { run_of({ own }, path, "Ollama", json.model) } or nil
  end
  if json.done == false and json.created_at then return {} end
end

local function of_llama_cpp(text)
  local requests = {}
  for prompt_ms, prompt_n, rest in text:gmatch "prompt eval time%s*=%s*([%d.]+) ms /%s*(%d+) tokens[^\n]*\n([^\n]*)" do
    local predicted_ms, predicted_n = rest:match "eval time%s*=%s*([%d.]+) ms /%s*(%d+) %a+"
    if predicted_ms then requests[#requests + 1] = request(prompt_n, prompt_ms, predicted_n, predicted_ms) end
  end
  return requests
end

-- "1m2.5s", "203.1ms", "15µs" as Go prints it, in milliseconds.
local function go_ms(text)
  local sum, scales = 0, { h = 3.6e6, m = 6e4, s = 1e3, ms = 1, us = 1e-3, ["µs"] = 1e-3, ns = 1e-6 }
  for value, unit in text:gmatch "([%d.]+)([^%d.%s]+)" do sum = sum + (tonumber(value) or 0) * (scales[unit] or 0) end
  return sum
end

local function of_ollama(text)
  local requests = {}
  for prompt_n, prompt, rest in text:gmatch
    "prompt eval count:%s*(%d+) token[^\n]*\nprompt eval duration:%s*(%S+)([^\n]*\n[^\n]*\n[^\n]*\n[^\n]*)" do
    local predicted_n, predicted = rest:match "\neval count:%s*(%d+) token[^\n]*\neval duration:%s*(%S+)"
    if predicted then
      requests[#requests + 1] = request(prompt_n, go_ms(prompt), predicted_n, go_ms(predicted))
    end
  end
  return requests
end

-- MLX says tokens and rates.
local function of_mlx(text)
  local requests = {}
  for prompt_n, prompt_rate, predicted_n, rate in text:gmatch
    "Prompt: (%d+) tokens, ([%d.]+) tokens%-per%-sec%s*\nGeneration: (%d+) tokens, ([%d.]+) tokens%-per%-sec" do
    requests[#requests + 1] = request(prompt_n, over(prompt_n * 1e3, prompt_rate), predicted_n,
      over(predicted_n * 1e3, rate))
  end
  return requests
end

--- The run that a text is, whose times are of each request; nil of another text.
function M.text_run(text, path)
  text = text:gsub("\r\n", "\n")
  local requests = of_llama_cpp(text)
  if #requests > 0 then return run_of(requests, path, "llama.cpp") end
  for tool, read in pairs { Ollama = of_ollama, MLX = of_mlx } do -- at a prompt, one after the other
    requests = read(text)
    if #requests > 0 then
      local run = run_of(requests, path, tool)
      run.max_concurrency = 1
      return run
    end
  end
end

return M
