-- FlexGen with FP16 weights: what does not fit on the devices goes to host memory and disk. See offload.lua for the
-- cost model, what the papers say and what the published code does differently.

local offload = require "tessera.planning.offload"
local ts = require "tessera"

return ts.register_planner {
  name = "flexgen",
  doc = "Offloading to host memory and disk by FlexGen's linear programme, even partition, FP16 weights",
  source = "LLM-PQ 6.1, FlexGen (ICML 2023)",
  options = offload.options,
  plan = function(problem, opt) return offload.plan(problem, opt, "flexgen", 16) end,
}
