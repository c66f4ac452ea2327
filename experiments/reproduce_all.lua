-- Every table and figure of both papers, and the predictions against measurements, in one report: reproduce_all.html.
--
--   tessera run experiments/reproduce_all.lua --results reproduction.db
local ts = require "tessera"

return ts.collection {
  name = "reproduce_all",
  doc = "SplitQuant, LLM-PQ, and predictions against measurements",
  scripts = { "splitquant", "llmpq", "fidelity" },
}
