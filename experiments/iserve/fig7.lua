-- Fig. 7: time and memory are straight lines over the number of layers, which is what fingerprints rest on.
--
-- The bound, R^2 of at least 0.99, was chosen before the first run.
local ts = require "tessera"
local by_engine = require "lib.papers.iserve_engine"
local median = require "tessera.median"
local steady = require "lib.runtime.steady"

-- Of the model that ships, which has 12, and of SmolLM2's shape, which has 30.
local layers_of = { [by_engine.small] = { 1, 2, 4, 8, 12 }, [by_engine.shaped] = { 1, 2, 4, 8, 16, 30 } }

return ts.experiment {
  name = "iserve/fig7",
  doc = "Time and memory over the number of layers, measured on this machine",
  grid = { model = { by_engine.small, by_engine.shaped }, scheme = { "fp16", "int8", "int4_kv8" } },
  quick = { model = { by_engine.small }, scheme = { "fp16" } },
  columns = { "time_r_squared", "memory_r_squared", "one_layer_s", "whole_s", "layer_share", "load" },
  notes = {
    "time: of 128 tokens of prompt and 64 of answer, what one thread ran; medians of rounds",
    "layer_share: of a layer in the time of a fingerprint with one",
    "load: processes on the machine's two cores while it ran",
  },
  time_limit_s = 1800,

  run = function(point, context)
    local subject, why = by_engine.subject(point.model)
    if not subject then return nil, why end
    local runs = {}
    for i, layers in ipairs(layers_of[point.model]) do
      runs[i] = { num_layers = layers, pipeline_parallel = 1, timed = true }
    end
    local samples = by_engine.rounds(subject, point.scheme, runs, context.quick and 3 or 7)
    local x, times, bytes = {}, {}, {}
    for i, run in ipairs(runs) do
      local list = by_engine.of(samples, run, point.scheme)
      x[i], times[i] = run.num_layers, median(by_engine.values(list, by_engine.longest_s))
      bytes[i] = median(by_engine.values(list, by_engine.memory))
    end
    local layer_s = (times[#times] - times[1]) / (x[#x] - x[1])
    return { time_r_squared = by_engine.r_squared(x, times), memory_r_squared = by_engine.r_squared(x, bytes),
      one_layer_s = times[1], whole_s = times[#times], layer_share = layer_s / times[1], load = steady.load() }
  end,

  check = function(t)
    t:expect_all { column = "memory_r_squared", at_least = 0.99, at_most = 1 + 1e-9 }
    t:expect_all { column = "time_r_squared", at_least = 0.99, at_most = 1 + 1e-9,
      may_differ = "times of a machine that others use" }
  end,
  plots = { { kind = "bars", x = "scheme", y = "time_r_squared", by = "model" } },
}
