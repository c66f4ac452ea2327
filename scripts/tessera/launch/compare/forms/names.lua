-- Metrics by the names that tools print them under, "Mean TTFT (ms)" or "Time To First Token (ms)": fields of a run, in
-- seconds, tokens and rates.

local M = {}

-- A name's words, without those of a statistic, and its field. The first that is in a name counts.
local fields = {
  { "normalized" }, { "time to first token", "ttft_s" }, { "ttft", "ttft_s" }, { "time to second token" },
  { "time per output token", "tpot_s" }, { "tpot", "tpot_s" },
  { "inter token latency", "itl_s" }, { "itl", "itl_s" },
  { "request latency", "e2e_s" }, { "e2e latency", "e2e_s" }, { "end to end latency", "e2e_s" }, { "e2el", "e2e_s" },
  { "per user" }, { "per request" }, { "peak" }, { "prefill" },
  { "total token throughput" }, { "total throughput" }, { "input token throughput" }, { "accept" },
  { "output token throughput", "throughput_tok_s" }, { "output tokens per second", "throughput_tok_s" },
  { "output tok s", "throughput_tok_s" }, { "output tok sec", "throughput_tok_s" },
  { "request rate", "rate_per_s" }, { "request throughput", "request_per_s" },
  { "requests per second", "request_per_s" },
  { "requests sec", "request_per_s" }, { "req s", "request_per_s" }, { "tokens per second" },
  { "total input tokens", "total_input_tokens" }, { "total generated tokens", "total_output_tokens" },
  { "total output tokens", "total_output_tokens" }, { "total tokens" },
  { "input sequence length", "prompt_tokens" }, { "prompt token count", "prompt_tokens" },
  { "prompt tokens", "prompt_tokens" }, { "input tokens", "prompt_tokens" }, { "prompt tok", "prompt_tokens" },
  { "output sequence length", "output_tokens" }, { "output token count", "output_tokens" },
  { "output tokens", "output_tokens" }, { "output tok", "output_tokens" },
  { "failed requests", "failed" }, { "errored requests", "failed" }, { "incomplete" },
  { "successful requests", "completed" }, { "completed requests", "completed" }, { "request count", "completed" },
  { "total requests", "completed" }, { "request concurrency", "max_concurrency" },
  { "concurrency", "max_concurrency" },
}

local scales = { ms = 1e-3, milliseconds = 1e-3, us = 1e-6, ["µs"] = 1e-6, ns = 1e-9, s = 1, sec = 1, seconds = 1 }

local statistics = { mean = "mean", avg = "mean", average = "mean", std = "std", stdev = "std", stddev = "std",
  median = "other", min = "other", max = "other", sum = "other", count = "other" }

-- "Mean TTFT (ms)" -> "ttft", "ms", "mean"; without a statistic nil.
local function parts_of(name)
  local unit, statistic = name:match "%(([^()]*)%)", nil
  local words = {}
  for word in name:gsub("%b()", " "):lower():gmatch "[%wµ]+" do
    local own = statistics[word] or (word:find "^p%d+$" and "other")
    -- "request count", "max concurrency" are names of metrics
    if own and not ((word == "count" or word == "max") and (#words > 0 or name:lower():find "concurrency")) then
      statistic = own
    elseif scales[word] and word ~= "s" and not unit then
      unit = word
    else
      words[#words + 1] = word
    end
  end
  if unit and not scales[unit:lower()] then words[#words + 1] = unit:lower():gsub("[^%w]+", " ") end
  return table.concat(words, " "), unit and unit:lower(), statistic
end

--- Sets the field that a name says, if it is one: of means, and of what has no statistic; of a standard deviation
--- FIELD's std. The first of a name counts. `unit`, `statistic`: where they are not in the name.
function M.add(run, name, value, unit, statistic)
  local words, own_unit, own_statistic = parts_of(name)
  statistic = statistics[statistic] or statistic or own_statistic or "mean"
  if type(value) ~= "number" or value ~= value or math.abs(value) == math.huge then return end
  for _, entry in ipairs(fields) do
    if (" " .. words .. " "):find(" " .. entry[1] .. " ", 1, true) then
      local field = entry[2]
      if not field or statistic == "other" then return end
      if field:find "_s$" and not field:find "_per_s$" and field ~= "throughput_tok_s" then
        value = value * (scales[unit and unit:lower() or own_unit or "s"] or 1)
      end
      if statistic == "std" then field = field:gsub("_s$", "_std_s") end
      if run[field] == nil then run[field] = value end
      return
    end
  end
end

--- Why a report of a tool that loads any HTTP server is refused.
function M.knows_no_tokens(tool)
  return ("of %s, which times whole answers and knows no tokens; `vllm bench serve --save-result` does"):format(tool)
end

--- Whether a run says anything that a plan predicts.
function M.says_something(run) return run.ttft_s or run.tpot_s or run.throughput_tok_s end

return M
