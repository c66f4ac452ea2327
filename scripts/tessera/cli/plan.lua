-- `tessera plan`: for a stream of requests, or where a batch is asked for, for that.

local batch = require "tessera.cli.batch"
local stream = require "tessera.cli.stream"

local M = {}

-- Flags that a stream has, too; every other one is of an offline batch.
local of_streams = {}
for _, name in ipairs { "model", "cluster", "prompt_tokens", "output_tokens", "lengths", "bitwidths", "kv_bitwidth",
  "tensor_parallel", "kernel_set", "runtime", "max_perplexity_increase", "min_accuracy_recovery", "rate", "launch",
  "out", "runtime_version", "checkpoint", "unlike_engines", "overwrite", "as", "save", "picture", "report", "beside",
  "usd_per_hour" } do
  of_streams[name] = true
end
for _, name in ipairs(stream.limits) do of_streams[name] = true end

-- The flag that asks for servers that nothing here simulates.
local function not_simulated(given)
  for _, name in ipairs { "launch", "runtime" } do
    if given[name] == "llama.cpp" then return name end
  end
end

-- The flag that asks for a batch: --batch-size, or the first other that streams do not have.
local function asked_by(given)
  if given.batch_size then return "batch_size" end
  local of_batches = not_simulated(given)
  if of_batches then return of_batches end
  local names = {}
  for name in pairs(given) do
    if name ~= "names" and not of_streams[name] then names[#names + 1] = name end
  end
  table.sort(names)
  return names[1]
end

-- The flags that a stream has, too, as it takes them.
local function stream_flags(given)
  local flags = {}
  for name in pairs(of_streams) do flags[name] = given[name] end
  flags.kv_bitwidths, flags.kv_bitwidth = given.kv_bitwidth, nil
  return flags
end

--- Plans, prints what to start and what stands beside it (or hands both to --json); nil and why when there is nothing.
function M.main(given)
  local flag = asked_by(given)
  if not flag then return stream.main(stream_flags(given)) end
  return batch.main(given, flag, function()
    if not_simulated(given) then return "As a stream: nothing here simulates servers of llama.cpp" end
    return stream.line(stream_flags(given))
  end)
end

return M
