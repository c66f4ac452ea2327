-- What `vllm bench serve` and SGLang's bench_serving print: "Mean TTFT (ms):    331.20", a block for each run.

local names = require "tessera.launch.compare.forms.names"

local M = {}

--- Whether a text has such a block.
function M.is(text)
  return text:find("Serving Benchmark Result", 1, true) ~= nil
    or (text:find "Mean TTFT %(ms%)" ~= nil and text:find "Successful requests" ~= nil)
end

local function run_of(before, block, path, model)
  local run = { kind = "serve", path = path, model = model }
  for line in block:gmatch "[^\r\n]+" do
    local name, value = line:match "^%s*(.-):%s+([%d%.eE+-]+)%s*$"
    if name then names.add(run, name, tonumber(value)) end
  end
  -- Versions before 0.8 say the load as they start, before the block.
  run.max_concurrency = run.max_concurrency or tonumber(before:match "Maximum request concurrency: (%d+)")
  run.rate_per_s = run.rate_per_s or tonumber(before:match "Traffic request rate: (%d[%d.]*)")
  return run
end

--- Its runs. The model is in the program's line of arguments, where it was pasted, too.
function M.runs(text, path)
  local model = text:match "model='([^']+)'" or text:match "%-%-model[= ]+(%S+)"
  local runs, starts = {}, {}
  for at in text:gmatch "()=+ Serving Benchmark Result =+" do starts[#starts + 1] = at end
  if #starts == 0 then starts[1] = 1 end
  for i, at in ipairs(starts) do
    runs[i] = run_of(text:sub(starts[i - 1] or 1, at), text:sub(at, (starts[i + 1] or 0) - 1), path, model)
  end
  return runs
end

return M
