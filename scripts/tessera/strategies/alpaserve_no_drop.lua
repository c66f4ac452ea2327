-- AlpaServe* of iServe (arXiv 2501.13111, section 8): alpaserve that drops nothing. The paper says no more of it.
-- Assumed: every model gets a place before any gets a second, the largest first, where most memory is free; partitions
-- in which one has no room are passed over.

local ts = require "tessera"
local parallel_groups = require "tessera.serving.parallel_groups"

return ts.register_strategy(parallel_groups.card {
  name = "alpaserve_no_drop",
  doc = "The same with every model placed once, and nothing dropped",
  drops = false, once = true,
  schemes = function() return { "fp16" } end,
})
