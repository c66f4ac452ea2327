-- A device of your own: one small JSON file, or the same fields in Lua.
local ts = require "tessera"

local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local device = ts.device { file = folder .. "/data/my-gpu.json" }
print(device)

local plan = assert(ts.plan({
  model = "llama-3-8b",
  cluster = ts.cluster { { device, 1 }, { "T4-16G", 1 } },
  workload = { prompt_tokens = 512, output_tokens = 64, batch_size = 16 },
}, { time_limit_s = 3 }))
print(plan)
assert(ts.check(plan))
