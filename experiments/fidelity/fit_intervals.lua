-- How far from its prediction a server is to be expected: datasets/intervals/served.json, made again from the runs of
-- experiments/fidelity/serving, which have to be in a results file.
--
--   tessera run experiments/fidelity/serving/*.lua --results served.db
--   tessera run experiments/fidelity/fit_intervals.lua -- served.db datasets/intervals/served.json
local core = require "tessera.core"
local ts = require "tessera"
local intervals = require "fidelity.fit.intervals"

local arguments = arg or {}
local db, out = arguments[1] or "served.db", arguments[2]
local list, missing = intervals.of_results(db)
if not list then
  print(("%s has no rows of %s; run it first, as above"):format(db, missing))
  return
end

local shown = {}
for i, found in ipairs(list) do
  shown[i] = { metric = found.metric, class = found.name, groups = found.num_groups,
    runs = found.num_runs, low = found.low_ratio, high = found.high_ratio, held = found.held_ratio }
end
print(ts.table(shown, { columns = { "metric", "class", "groups", "runs", "low", "high", "held" } }))
if out then
  local lines = {}
  for i, found in ipairs(list) do lines[i] = "    " .. core.to_json(found) end
  core.write_file(out, ([[{
  "doc": "Measured over predicted of published runs, by class; of each metric the first that a run is of holds",
  "source": "experiments/fidelity/fit_intervals.lua, on the runs of experiments/fidelity/serving: %s",
  "intervals": [
%s
  ]
}
]]):format(table.concat(intervals.experiments, ", "), table.concat(lines, ",\n")))
end
