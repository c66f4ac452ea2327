-- FlexGen with its weights compressed to 8 bits: half the bytes to keep and to move, decompressed on the device before
-- each FP16 product. FlexGen's cost model changes the bytes and leaves the computing time as it is ("support for
-- quantization is incomplete", its cost_model.py); so does this, which flatters it by what decompression takes. On the
-- device one decompressed matrix is held as well. FlexGen compresses to 4 bits; the papers call what they run 8.
-- See offload.lua for the rest.

local offload = require "tessera.planning.offload"
local ts = require "tessera"

return ts.register_planner {
  name = "flexgen_int8",
  doc = "As flexgen, with weights stored at 8 bits and decompressed on the device",
  source = "LLM-PQ 6.1, FlexGen (ICML 2023)",
  options = offload.options,
  plan = function(problem, opt) return offload.plan(problem, opt, "flexgen_int8", 8) end,
}
