-- LLM-PQ's end-to-end runs, predicted from their plans and the single-layer latencies alone.
--
-- Each run's plan is made by hand from its `pipeline` column (which layers of a stage have which bits does not matter
-- to time), priced by profiles that were fitted to `measured` layer rows, and simulated; nothing is fitted to a run.
-- Runs logged in May and June 2023 take kernel set llmpq_2023, the paper's tables of August llmpq_2023_08. The first
-- of a run's tokens comes out of prefill. Memory preset llm-pq, under which all plans fit, as they did.
--
-- int8 = "measured": measured rows only. int8 = "figure": V100's INT8 decode of August, of which no measured row
-- exists, from the rows read off a bar chart; only runs that it concerns.
--
-- Grades (README of the data): A, plan and kernels certain; B, INT8 with random weights or an inferred plan; C,
-- inferred. What layers do not carry: T4 clocks. The runs' own chunks show it: on cluster 9 the first chunks of prefill
-- take 119 s a stage and later ones 131.5 s, where the profile, which was measured hot, says 134 s; so T4's runs of May
-- come out 7 % long, and those of August, which ran as profiled, do not.
local ts = require "tessera"
local logged_runs = require "lib.papers.logged_runs"
local llmpq = require "fidelity.fit.llmpq"

local runs, run_of = logged_runs.read()

local function kernel_set_of(run)
  return run.epoch:find "^2023%-0[78]" and "llmpq_2023_08" or "llmpq_2023"
end

local function needs_figure(run)
  if kernel_set_of(run) == "llmpq_2023" then return false end
  for _, stage in ipairs(logged_runs.stages_of(run)) do
    for _, bitwidth in ipairs(stage.bitwidths) do
      if bitwidth == 8 and stage.device == "V100-32G" then return true end
    end
  end
  return false
end

-- Fitted here, not read from the shipped files, so that the data that they rest on is in sight.
local fitted
local function profiles_of(run, int8)
  fitted = fitted or llmpq.profiles(assert(llmpq.samples()))
  local list, taken = {}, {}
  for _, stage in ipairs(logged_runs.stages_of(run)) do
    local profile = fitted[stage.device .. "." .. kernel_set_of(run)]
    if profile and not taken[stage.device] then
      if int8 == "figure" and stage.device == "V100-32G" then profile = llmpq.with_figure_rows(profile) end
      list[#list + 1], taken[stage.device] = profile, true
    end
  end
  return list
end

local function planned(run, int8)
  local problem = ts.problem {
    model = run.model, cluster = "llmpq-" .. run.cluster:sub(2), preset = "splitquant",
    workload = { prompt_tokens = run.s, output_tokens = run.tokens, batch_size = run.batch },
    kernel_set = kernel_set_of(run), profiles = profiles_of(run, int8),
  }
  return ts.plan(problem, {
    planner = "manual", stages = logged_runs.stages_of(run), prefill_micro_batch_size = run.prefill_mb,
    decode_micro_batch_size = run.decode_mb,
  })
end

local function points_of()
  local points = {}
  for _, run in ipairs(runs or {}) do
    points[#points + 1] = { run = run.point.id, int8 = "measured" }
    if needs_figure(run) then points[#points + 1] = { run = run.point.id, int8 = "figure" } end
  end
  if not runs then points[1] = { run = "none", int8 = "measured" } end
  return points
end

local function errors_of(rows)
  local sum, worst = 0, 0
  for _, row in ipairs(rows) do
    sum, worst = sum + math.abs(row.error_ratio), math.max(worst, math.abs(row.error_ratio))
  end
  return sum / math.max(#rows, 1), worst
end

-- Grade A; `figure`: with the variant of that name where there is one. `only`: runs of one kernel set.
local function grade_a(t, figure, only)
  local rows = {}
  for _, row in ipairs(t:rows { int8 = "measured" }) do
    if row.grade == "A" and row.predicted_s and (not only or row.kernel_set == only) then
      rows[#rows + 1] = figure and t:rows { int8 = "figure", run = row.point.run }[1] or row
    end
  end
  local mean, worst = errors_of(rows)
  return ("mean %.1f %%, worst %.1f %%, %d runs"):format(100 * mean, 100 * worst, #rows),
    #rows > 0 and mean <= 0.06 and worst <= 0.12, mean
end

local function expect_grade_a(t)
  local target = ": mean error at most 6 %, none above 12 %"
  local numbers, holds = grade_a(t, false, "llmpq_2023")
  t:expect("grade A, May and June, measured layer rows only" .. target, holds, numbers)
  numbers, holds = grade_a(t, true)
  t:expect("grade A, all, V100's INT8 of August read off a figure" .. target, holds, numbers)
  local mean
  numbers, holds, mean = grade_a(t, false)
  t:expect("grade A, all, measured layer rows only" .. target, holds, numbers, {
    not_reproduced = "half of the time of August's V100 stages is a kernel that nobody's measured row is of",
    here = { 0.12, 0.132 }, value = mean,
  })
end

-- Pairs of runs of one cluster, workload and epoch that differ by more than 8 % come in the order measured.
local function expect_order(t, figure)
  local groups, names = {}, {}
  for _, row in ipairs(t:rows { int8 = "measured" }) do
    if not row.predicted_s then break end -- says the first claim
    local name = ("%s, %s, %d decode passes"):format(row.cluster, row.kernel_set, row.decode_passes)
    if not groups[name] then groups[name], names[#names + 1] = {}, name end
    local other = figure and t:rows { int8 = "figure", run = row.point.run }[1]
    table.insert(groups[name], other or row)
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local pairs_of, wrong = 0, {}
    for i, a in ipairs(groups[name]) do
      for k = i + 1, #groups[name] do
        local b = groups[name][k]
        if math.max(a.measured_s, b.measured_s) > 1.08 * math.min(a.measured_s, b.measured_s) then
          pairs_of = pairs_of + 1
          if (a.measured_s < b.measured_s) ~= (a.predicted_s < b.predicted_s) then
            wrong[#wrong + 1] = a.point.run .. " / " .. b.point.run
          end
        end
      end
    end
    if pairs_of > 0 then
      t:expect(("cluster %s%s: ordered as measured"):format(name, figure and ", with the figure's rows" or ""),
        #wrong == 0, ("%d pairs%s"):format(pairs_of, #wrong > 0 and ", wrong: " .. table.concat(wrong, "; ") or ""))
    end
  end
end

return ts.experiment {
  name = "fidelity/llmpq_runs",
  doc = "LLM-PQ's end-to-end runs from plan and layer profile, through the event simulation",
  grid = points_of(),
  columns = {
    "grade", "kernel_set", "measured_s", "predicted_s", "error_ratio", "prefill_error_ratio", "round_error_ratio",
  },

  run = function(point)
    if not runs then return { status = run_of.code, message = run_of.message } end
    local run = run_of[point.run]
    local plan, why = planned(run, point.int8)
    if not plan then return { status = why.code, message = why.message, grade = run.grade } end
    local simulated = ts.simulate(plan)
    local function error_of(predicted, real) return real and predicted / real - 1 end
    return {
      status = plan.status, grade = run.grade, cluster = run.cluster, decode_passes = run.decode_passes, plan = plan,
      kernel_set = kernel_set_of(run), provenance = plan.provenance,
      measured_s = run.total_s, predicted_s = simulated.total_s, error_ratio = simulated.total_s / run.total_s - 1,
      prefill_s = simulated.prefill_s, prefill_error_ratio = error_of(simulated.prefill_s, run.prefill_s),
      decode_round_s = simulated.decode_round_s,
      round_error_ratio = error_of(simulated.decode_round_s, run.decode_round_s_mean),
    }
  end,

  check = function(t)
    if not runs then return t:skip("not checked: " .. run_of.message) end
    t:expect_all { column = "status", equals = "feasible" }
    expect_grade_a(t)
    expect_order(t, false)
    expect_order(t, true)
  end,
  plots = {
    { kind = "scatter", x = "measured_s", y = "predicted_s", by = "grade", log_x = true, log_y = true },
  },
}
