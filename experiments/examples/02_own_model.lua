-- A model of your own, from its Hugging Face config.json.
local ts = require "tessera"

local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local model = ts.model { config = folder .. "/data/tiny-llama.config.json", name = "tiny-llama" }
print(model, ("%.2f GB in FP16"):format(model.num_parameters * 2 / 1e9))

local plan = assert(ts.plan {
  model = model,
  cluster = "1xT4-16G",
  workload = { prompt_tokens = 256, output_tokens = 64, batch_size = 8 },
})
print(plan)
