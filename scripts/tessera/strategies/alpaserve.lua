-- AlpaServe (arXiv 2302.11665), a baseline of iServe (arXiv 2501.13111, section 8). The paper claims more attainment
-- by pipelining models over shared groups of GPUs. The public code (alpa-projects/mms) partitions the GPUs, adds models
-- to groups by its own simulator, sends a request to the group whose last stage is free first, and drops on arrival
-- what would miss its SLO; it knows rates, SLOs and the trace (tessera/serving/parallel_groups.lua).
--
-- Assumed: 16 bits; a request's length is known on arrival (its max_tokens); of the trace it knows the requests whose
-- model is there when they come; a model has as many requests under way as its pipeline has stages, as that simulator,
-- with a clock for each stage, fills pipelines (and moves a request as a whole from stage to stage, where here its
-- tokens go, so that a prompt holds up the tokens behind it). Buckets of models by latency (use_separation) are off, as
-- in its code; iServe's paper says that it has them.

local ts = require "tessera"
local parallel_groups = require "tessera.serving.parallel_groups"

return ts.register_strategy(parallel_groups.card {
  name = "alpaserve",
  doc = "Groups of GPUs of one shape, filled by a simulator; drops what would be late",
  drops = true,
  schemes = function() return { "fp16" } end,
})
