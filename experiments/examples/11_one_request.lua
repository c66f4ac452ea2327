-- One request at a time: a model and what is wanted of it in; which configuration, on which GPUs, out (iServe). Then
-- the same where somebody else holds most of the GPUs.
local ts = require "tessera"

local cluster = "8xA6000@bridges"
local model = ts.model "llama-2-13b"

-- Every way to deploy it, and what each would take: by the cost models here; a function could run them for real.
local space = ts.configurations { model = model, num_gpus = 8 }
local map = ts.fingerprint { model = model, cluster = cluster, configurations = space, prompt_tokens = 512 }
local rows = map:estimates { output_tokens = 200 }

-- As cheap as can be, if an answer takes 3 s at most and the perplexity rises by 2 % at most.
local intent = ts.intent { minimise = "cost", latency_s = 3, max_perplexity_increase = 0.02 }
local ranked = intent:rank(rows)

local function place(busy)
  local gpus = {}
  for i = 1, 8 do
    local taken = i <= busy
    gpus[i] = { free_bytes = taken and 3e9 or 47e9, load = taken and 0.8 or 0 }
  end
  local placed, why = ts.place(ranked, gpus, { num_layers = model.num_layers, policy = "packing" })
  if not placed then return print(why.message) end
  local row = placed.configuration
  print(("%d GPUs are busy: rank %d, %s, TP %d, PP %d on GPUs %s: %.2f s, %.1f GB; %d passed over"):format(busy,
    placed.rank, row.scheme, row.tensor_parallel, row.pipeline_parallel, table.concat(placed.devices, " "),
    row.latency_s, row.memory_bytes / 1e9, #placed.reasons))
end

print(map)
print(ts.table({ unpack(ranked, 1, 5) }, { columns = { "rank", "scheme", "tensor_parallel", "pipeline_parallel",
  "latency_s", "memory_bytes", "cost_byte_s", "meets" } }))
place(0)
place(6)
