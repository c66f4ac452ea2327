-- What is reproduced of both papers (their pages list what is missing), and the predictions against measurements that
-- it rests on, in one report: reproduce_all.html.
--
--   tessera run experiments/reproduce_all.lua --results reproduction.db
--
-- Of experiments/fidelity only what belongs to the papers' kernels and to Helix's tables; the fits of the modern kernel
-- sets, which take long, are run one by one.
local ts = require "tessera"

return ts.collection {
  name = "reproduce_all",
  doc = "SplitQuant, LLM-PQ, and predictions against measurements",
  scripts = {
    "splitquant", "llmpq", "fidelity/llmpq_layers.lua", "fidelity/llmpq_runs.lua", "fidelity/helix.lua",
  },
}
