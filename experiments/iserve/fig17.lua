-- Fig. 17: memory of six quantised models over FP16, on one GPU. Print has a picture, and in section 3.2 "about 75 %"
-- for 4 bits: INT8 -45 to -52 %, INT4 and GPTQ4 -66 to -76 % were chosen before any run.
--
-- Embeddings and LM head stay in FP16, and every GPU has a context of its own: of the 16 GB of a 7B model these are a
-- quarter at 4 bits, of a 70B model hardly anything.
local iserve = require "lib.papers.iserve"
local ts = require "tessera"

local models = { "gpt-j-6b", "falcon-7b", "llama-2-7b", "llama-2-13b", "falcon-40b", "llama-2-70b" }

return ts.experiment {
  name = "iserve/fig17",
  doc = "Memory of quantised models over FP16",
  grid = { model = models, scheme = { "int8", "int4", "gptq4" } },
  quick = {},
  columns = { "memory_gb", "fp16_gb", "saved_ratio", "weights_saved_ratio" },
  notes = { "weights_saved_ratio: of the part that does not grow with tensor parallelism (W of the paper)" },

  run = function(point)
    local rows = iserve.estimates(point.model)
    local fp16, own = iserve.find(rows, "fp16", 1, 1), iserve.find(rows, point.scheme, 1, 1)
    if not own then return { status = "infeasible", message = "4544 inputs are no groups of 128 weights" } end
    return { memory_gb = own.memory_bytes / 1e9, fp16_gb = fp16.memory_bytes / 1e9,
      saved_ratio = 1 - own.memory_bytes / fp16.memory_bytes,
      weights_saved_ratio = 1 - own.weight_bytes / fp16.weight_bytes }
  end,

  check = function(t)
    local function saved(model, scheme)
      return function(at) return at({ model = model, scheme = scheme }).saved_ratio end
    end
    for _, model in ipairs(models) do
      local small = model ~= "falcon-40b" and model ~= "llama-2-70b"
      for _, scheme in ipairs { "int8", "int4", "gptq4" } do
        local low, high = 0.66, 0.76
        if scheme == "int8" then low, high = 0.45, 0.52 end
        if model == "falcon-7b" and scheme == "gptq4" then break end -- no groups of 128
        iserve.within(t, ("%s, %s saves %g to %g"):format(model, scheme, low, high), saved(model, scheme), low, high,
          small and { why = "embeddings in FP16 and the GPU's own context are a larger part of a small model",
            here = scheme == "int8" and { 0.36, 0.45 } or { 0.52, 0.66 } } or nil)
      end
    end
  end,
}
