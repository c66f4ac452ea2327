-- Writes a results file of many rows, as sweeps of plans store them, to time what reads one:
--
--   tessera tests/bench/results_file.lua FILE [ROWS]        (a million, 330 MB)
--   time tessera results big --results FILE --limit 3

local store = require "tessera.store"

local path, num_rows = arg[1], tonumber(arg[2] or 1000000)
assert(path and num_rows, "give a file, and how many rows")
local block = 10000 -- rows in one transaction

local file = store.open(path)
local run = file:start_run { experiment = "big", machine = store.machine(),
  declaration = { keys = { "cluster", "planner", "index" }, columns = { "throughput_tok_s" } } }
for first = 1, num_rows, block do
  local rows = {}
  for i = first, math.min(first + block - 1, num_rows) do
    rows[#rows + 1] = {
      point = { cluster = "llmpq-1", planner = "exact", index = i }, status = "optimal", order = i,
      columns = { throughput_tok_s = i / 3, latency_s = 1 / i, omega = 0.1, mean_bitwidth = 4.2, solve_s = 0.001 },
      started_at = 1.7e9 + i, duration_s = 0.001, provenance = "modelled",
    }
  end
  file:add_all(run, rows)
end
file:close()
print(("wrote %s: %d rows of the experiment 'big'"):format(path, num_rows))
