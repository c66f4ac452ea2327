-- Writes a results file with awkward content for the browser: tessera awkward.lua FILE NUM_ROWS
local ts = require "tessera"
local store_module = require "tessera.store"

local path, num_rows = arg[1], tonumber(arg[2])
local store = store_module.open(path)

-- What would run, or end an element, if it were not escaped.
local hostile = "</script><script>window.hacked=1</script><!-- \226\128\168 ]]> "
  .. "<img src=x onerror=window.hacked=1> \"'&"

local plan = assert(ts.plan(ts.problem {
  model = "opt-13b", cluster = { { "T4-16G", 2, node = "a" }, { "V100-32G", 1, node = "b" }, link_gbps = 100 },
  workload = { prompt_tokens = 256, output_tokens = 16, batch_size = 16 }, bitwidths = { 4, 8, 16 }, theta = 1,
  preset = "splitquant", -- several stages, which make many marks
}))

local clusters, planners = { "llmpq-1", "llmpq-3" }, { "uniform", "pipeedge", "exact" }

local function published()
  local list = {}
  for i, cluster in ipairs(clusters) do
    for j, planner in ipairs(planners) do
      list[#list + 1] = { point = { cluster = cluster, planner = planner }, throughput_tok_s = 60 * j + 10 * i }
    end
  end
  return { source = "LLM-PQ, Table 4", rows = list }
end

local function row_of(i, j)
  local row = { point = { cluster = clusters[i], planner = planners[j] }, order = i * 10 + j, status = "optimal",
    started_at = 1.7e9, duration_s = 0.3 * j, provenance = "modelled" }
  if i == 2 and j == 1 then
    row.status, row.error, row.traceback = "failed", "boom " .. hostile, "stack traceback:\n\t" .. hostile
  elseif i == 2 and j == 2 then
    row.status = "infeasible"
  else
    row.columns = { throughput_tok_s = 61.234567 * j + 9 * i, latency_s = 9 / j, memory_bytes = 2 ^ 34 * j / 2.3,
      note = hostile, gain = j == 1 and -1.5 or 0 }
  end
  if j == 3 then row.provenance, row.error_ratio = "fitted", 0.042 end
  if i == 1 and j == 3 then
    row.artefacts = { { name = "plan", kind = "plan", value = plan:to_table() },
      { name = "run", kind = "timeline", value = ts.simulate(plan):to_table() } }
  end
  return row
end

local table4 = store:start_run {
  experiment = "llmpq/table4", script_path = "experiments/llmpq/table4.lua", script_hash = ("ab"):rep(32),
  script_text = "local ts = require 'tessera'\n-- " .. hostile .. "\n", git_commit = "0123abc", seed = 42,
  machine = store_module.machine(), build = { version = "1" },
  declaration = {
    name = "llmpq/table4", doc = "Serving throughput per cluster " .. hostile, keys = { "cluster", "planner" },
    points = 6, paper = published(), paper_source = "LLM-PQ, Table 4",
    plots = {
      { kind = "bars", x = "cluster", y = "throughput_tok_s", by = "planner", title = "Throughput " .. hostile },
      { kind = "pareto", x = "latency_s", y = "throughput_tok_s", by = "planner" },
      { kind = "heatmap", x = "cluster", y = "planner", value = "memory_bytes" },
      { kind = "cdf", x = "latency_s" }, { kind = "bars", x = "no_such_column", y = "latency_s" },
    },
  },
}
for i in ipairs(clusters) do
  for j in ipairs(planners) do store:add(table4, row_of(i, j)) end
end
store:set_claims(table4, {
  { text = "exact is best by throughput_tok_s", status = "pass", numbers = "in 2 of 2 groups", lines = {} },
  { text = "within 15 % of the paper " .. hostile, status = "fail", numbers = "201.7 tok/s against 200",
    lines = { "llmpq-3, exact: " .. hostile } },
  { text = "monotone in theta", status = "skipped", lines = {} },
})

local sweep = store:start_run { experiment = "sweep " .. hostile,
  declaration = { keys = { "prompt_tokens", "kind" .. hostile } } }
for i = 1, num_rows do
  local fails = i > 1000 and i % 50 == 0
  store:add(sweep, {
    point = { prompt_tokens = i, ["kind" .. hostile] = "v" .. i % 5 }, order = i, status = fails and "failed" or "done",
    error = fails and hostile or nil,
    columns = not fails and {
      throughput_tok_s = 100 + 50 * math.sin(i / 40) + i % 5, latency_s = i % 17 / 3, omega = i * 1e-5,
      mean_bitwidth = 4 + i % 12, ["mixed" .. hostile] = i % 7 == 0 and hostile or i,
    } or nil,
    provenance = i % 9 == 0 and "measured" or "modelled", started_at = 1.7e9, duration_s = 0.01,
  })
end
store:start_run { experiment = "nothing yet", declaration = { keys = { "a" }, doc = "No point has run." } }
store:close()
