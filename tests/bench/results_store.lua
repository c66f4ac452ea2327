-- How fast results are stored and listed: medians of several runs with their spread.
--
--   tessera tests/bench/results_store.lua [--quick] [--folder DIR]

package.path = arg[0]:match "^(.*)[/\\]" .. "/?.lua;" .. package.path
local core = require "tessera.core"
local report = require "report"
local store = require "tessera.store"

local quick = report.argument "--quick"
local folder = report.argument("--folder", true) or "/tmp"
local num_rows, repeats = quick and 1000 or 10000, quick and 1 or 5
local path = ("%s/tessera_bench_%d.db"):format(folder, math.floor(core.clock() * 1e6) % 1000000)

local function remove()
  for _, suffix in ipairs { "", "-wal", "-shm" } do os.remove(path .. suffix) end
end

local times, cpu = {}, {}

local function timed(name, work)
  local start, cpu_start = core.clock(), os.clock()
  work()
  times[name], cpu[name] = times[name] or {}, cpu[name] or {}
  table.insert(times[name], core.clock() - start)
  table.insert(cpu[name], os.clock() - cpu_start)
end

local machine = store.machine()

-- What a sweep of plans stores per point.
local function add_rows(db, run, first)
  for i = first, first + num_rows - 1 do
    db:add(run, {
      point = { cluster = "llmpq-1", planner = "exact", index = i }, status = "optimal", order = i,
      columns = { throughput_tok_s = i / 3, latency_s = 1 / i, omega = 0.1, mean_bitwidth = 4.2, solve_s = 0.001 },
      started_at = os.time(), duration_s = 0.001, machine = machine, provenance = "modelled",
    })
  end
end

local size_bytes
for _ = 1, repeats do
  remove()
  local db = store.open(path)
  local run = db:start_run { experiment = "bench", machine = machine }
  timed("add", function() add_rows(db, run, 1) end)
  db:close()
  local file = io.open(path, "rb")
  size_bytes = file:seek "end"
  file:close()
  db = store.open(path, { read_only = true })
  local rows
  timed("rows", function() rows = db:rows(run) end)
  assert(#rows == num_rows and rows[num_rows].throughput_tok_s == num_rows / 3, "rows were lost")
  timed("meta", function() db:rows(run, { meta = true }) end)
  timed("keys", function() db:keys(run) end)
  timed("runs", function() db:runs() end)
  timed("json", function() store.json(rows) end)
  db:close()
  local other = path .. ".merged"
  local into = store.open(other)
  timed("merge", function() assert(into:merge({ path }).num_rows == num_rows) end)
  into:close()
  os.remove(other)
end
remove()

print(report.machine())
print(("%d rows, %.0f bytes each in the file; median of %d"):format(num_rows, size_bytes / num_rows, repeats))
report.header { "what", "seconds", "us per row", "CPU us per row" }
for _, line in ipairs {
  { "add, one transaction each", "add" }, { "list", "rows" }, { "list with where they come from", "meta" },
  { "keys, to resume", "keys" }, { "list the runs", "runs" }, { "write as JSON", "json" },
  { "merge into a new file", "merge" },
} do
  local function per_row(list) return ("%.1f"):format(report.median(list) / num_rows * 1e6) end
  report.row(line[1], report.spread(times[line[2]]), per_row(times[line[2]]), per_row(cpu[line[2]]))
end
