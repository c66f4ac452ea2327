-- What llama.cpp's server says of the requests that it answered: the timings of an answer, and the lines of its log.

local M = {}

-- The mean request of { prompt_n =, prompt_ms =, predicted_n =, predicted_ms = }. How many ran together is not said.
local function run_of(requests, path, model)
  local sums = { prompt_n = 0, prompt_ms = 0, predicted_n = 0, predicted_ms = 0 }
  for _, each in ipairs(requests) do
    for name in pairs(sums) do sums[name] = sums[name] + each[name] end
  end
  local count = #requests
  return { kind = "serve", path = path, tool = "llama.cpp", model = model, completed = count,
    prompt_tokens = sums.prompt_n / count, output_tokens = sums.predicted_n / count,
    ttft_s = sums.prompt_ms / count / 1e3,
    tpot_s = sums.predicted_n > 0 and sums.predicted_ms / sums.predicted_n / 1e3 or nil,
    e2e_s = (sums.prompt_ms + sums.predicted_ms) / count / 1e3 }
end

--- Whether a decoded answer has timings.
function M.is(json)
  local timings = type(json.timings) == "table" and json.timings or {}
  for _, name in ipairs { "prompt_n", "prompt_ms", "predicted_n", "predicted_ms" } do
    if type(timings[name]) ~= "number" then return false end
  end
  return true
end

function M.run(json, path) return run_of({ json.timings }, path, type(json.model) == "string" and json.model or nil) end

--- The run that a log is, whose times are of each request; nil of another text.
function M.text_run(text, path)
  local requests = {}
  for prompt_ms, prompt_n, rest in text:gmatch "prompt eval time%s*=%s*([%d.]+) ms /%s*(%d+) tokens[^\n]*\n([^\n]*)" do
    local predicted_ms, predicted_n = rest:match "eval time%s*=%s*([%d.]+) ms /%s*(%d+) %a+"
    if predicted_ms then
      requests[#requests + 1] = { prompt_ms = tonumber(prompt_ms), prompt_n = tonumber(prompt_n),
        predicted_ms = tonumber(predicted_ms), predicted_n = tonumber(predicted_n) }
    end
  end
  return #requests > 0 and run_of(requests, path) or nil
end

return M
