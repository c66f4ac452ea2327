-- LLM-PQ's evaluation as its Sec. 6.1 and appendix set it up: what runs on which cluster, with which kernels, memory
-- model, theta and solver. The scripts of experiments/llmpq share it; its Tables 3 and 9 are the data behind it.

local assumptions = require "tessera.desk.experiment.assumptions"
local bits_by_layers = require "tessera.planning.bits_by_layers"
local core = require "tessera.core"
local logged_runs = require "lib.papers.logged_runs"
local paper = require "tessera.desk.experiment.paper"
local plan_omega = require "tessera.planning.plan_omega"
local planners = require "tessera.planning.planners"
local solver = require "tessera.solver"

local M = {}

local time_limit_s = 60 -- LLM-PQ 6.7

--- Settings by cluster, "llmpq-1" to "llmpq-11": { model, theta, heuristic, group }.
M.settings = {}
for _, row in ipairs(paper.load("llmpq/table3.csv").rows) do
  M.settings[row.point.cluster] = { model = row.model }
end
for _, row in ipairs(paper.load("llmpq/table9.csv").rows) do
  local setting = M.settings[row.point.cluster]
  setting.theta, setting.heuristic, setting.group = row.theta, row.heuristic == "Y", row.group
end

--- The kernels that the published rows ran on: the logs behind the tables and Figs. 3 and 5 are of July and August
--- 2023, after a change of bitsandbytes.
M.kernel_set = "llmpq_2023_08"

--- What every table of the evaluation says of itself, before its own notes.
M.notes = {
  "kernel set " .. M.kernel_set .. " (July and August 2023, when the published rows were measured), memory preset "
    .. "llm-pq, the constant indicator (the same for every layer)",
  "theta of Table 9 in the paper's unit, milliseconds per raw omega",
}

--- Why FlexGen-int8 is ahead more often here than in print.
M.flexgen_reason = "FlexGen's cost model overlaps all transfers with compute, and computes at FP16's rate; what the "
  .. "paper measured does not, and is 1.4 to 6.6 times slower"

--- Why plans on A100s, and BLOOM's, do not take what is printed.
M.a100_reason = "LLM.int8 has no row for an A100, which cluster 2 is; no layer of BLOOM-176b was measured at all"

--- Why plans lose more by omega than PipeEdge's, where the paper says that LLM-PQ is the most accurate.
M.quality_reason = "with the constant indicator and the theta of Table 9 the quality term is at most 2e-5 of the "
  .. "objective, so the plan minimises latency alone and takes 3 bits where they are faster; what the paper's own "
  .. "indicator and unit made of it was not published"

--- Why prefill takes less of a V100's time in INT8 than the text of Fig. 3 says.
M.int8_share_reason = "decoding in LLM.int8 took five times as long as in FP16 on the V100 of August 2023, prefill "
  .. "hardly longer, so decoding takes three quarters; the text does not say which precision it means"

--- Notes of one table, after those of all.
function M.notes_and(own)
  local list = {}
  for _, notes in ipairs { M.notes, own } do
    for _, note in ipairs(notes) do list[#list + 1] = note end
  end
  return list
end

--- What the tables of throughput say of their rows (Tables 4, 5 and 7), and their own notes after it.
function M.serving_notes(own)
  local list = M.notes_and {
    "llm_pq: objective paper, decoding in the batch over the stages; exact: objective steady, everything searched",
    "llm_pq_equal: the search of llm_pq with theta 0, held to the omega of PipeEdge's plan: no quality is sold "
      .. "for speed",
    "speedup is over PipeEdge; omega: of the constant indicator, 4 bits throughout are 1; it stands for quality, and "
      .. "perplexities of these plans are not known: those in print belong to other bits",
  }
  for _, note in ipairs(own) do list[#list + 1] = note end
  return list
end

--- "LLM-PQ achieves the highest inference throughput" (6.3), of the schemes that keep the weights on the GPUs: by what
--- it would run, and at PipeEdge's quality.
function M.expect_fastest(t)
  for _, scheme in ipairs { "llm_pq", "llm_pq_equal" } do
    t:expect_best {
      column = "throughput_tok_s", is = { planner = scheme }, where = { planner = { scheme, "pipeedge", "uniform" } },
    }
  end
end

local compared = { { "LLM-PQ", "llm_pq", "llm_pq" }, { "PipeEdge", "pipeedge", "pipeedge" },
  { "Uniform as published", "uniform_last", "uniform" } }

--- Says how far latencies are from print, system by system, the reproduced one first.
function M.note_differences(t)
  for _, case in ipairs(compared) do
    local list = {}
    for _, row in ipairs(t:rows { planner = case[2] }) do
      local printed = t:published({ cluster = row.point.cluster, planner = case[3] }, "latency_s")
      if row.latency_s and printed then
        list[#list + 1] = { math.abs(row.latency_s / printed - 1), row.point.cluster }
      end
    end
    table.sort(list, function(a, b) return a[1] < b[1] end)
    local worst_at = list[#list]
    if worst_at then
      local middle = (list[math.floor((#list + 1) / 2)][1] + list[math.ceil((#list + 1) / 2)][1]) / 2
      t:note(("%s's latencies against print"):format(case[1]), ("median %.1f %%, worst %.1f %% (%s), %d rows"):format(
        100 * middle, 100 * worst_at[1], worst_at[2], #list))
    end
  end
end

--- Printed speed-ups over PipeEdge, cluster by cluster, at equal quality and as the paper's method runs: within a
--- factor of 1 + speedup_tolerance to either side. `differs`: by cluster { why, llm_pq_equal = interval, llm_pq =
--- interval }, those that are farther off.
function M.expect_speedups(t, clusters, differs)
  for _, cluster in ipairs(clusters) do
    local printed = t:published({ cluster = cluster, planner = "llm_pq" }, "speedup")
    for _, scheme in ipairs { "llm_pq_equal", "llm_pq" } do
      local here = differs[cluster] and differs[cluster][scheme]
      t:expect_ratio {
        column = "throughput_tok_s", of = { planner = scheme }, over = { planner = "pipeedge" },
        where = { cluster = cluster }, to = printed, rel = M.speedup_tolerance,
        not_reproduced = here and differs[cluster].why, here = here,
      }
    end
  end
end

--- How far from print a speed-up may be to either side, as a factor less 1: a round number, chosen when an audit had
--- computed most of them already.
M.speedup_tolerance = 0.2

--- "the best model accuracy in clusters 3, 4, 6, 7, and 8" (6.3), "without any accuracy degradation" (6.6): no more
--- omega than the best of the baselines that are run here.
function M.expect_best_quality(t, clusters, options)
  local claim = { column = "omega", is = { planner = "llm_pq" }, lowest = true,
    where = { cluster = clusters, planner = { "llm_pq", "pipeedge", "uniform" } } }
  for key, value in pairs(options or {}) do claim[key] = value end
  t:expect_best(claim)
end

--- The problem of a cluster with the paper's settings; `changes` replaces some of them.
function M.problem(cluster, changes)
  local setting = M.settings[cluster]
  if not setting then
    core.raise("invalid_argument", ("LLM-PQ has no cluster '%s'"):format(tostring(cluster)), "lib.papers.llmpq")
  end
  local given = {
    preset = "llm-pq", model = setting.model, cluster = cluster, workload = "llmpq", objective = "steady",
    theta = setting.theta,
  }
  for key, value in pairs(changes or {}) do given[key] = value end
  return solver.problem(assumptions.apply(given))
end

-- The batch over the stages, which the paper's method and most of its baselines decode in.
local function batch_over_stages(problem) return math.ceil(problem.batch_size / #problem.devices) end

--- Plans a problem with eq. (4) as printed, decoding in the batch over the stages (Optimization #1). `options`: planner
--- and group.
function M.plan_printed(problem, options)
  local given = { decode_micro_batch_size = batch_over_stages(problem), time_limit_s = time_limit_s }
  for key, value in pairs(options) do given[key] = value end
  return planners.plan(problem:with { objective = "paper" }, given)
end

-- The orders in which the devices of a type stand together, as lists of names: what the published code goes through.
local function block_orders(problem)
  local count, types = {}, {}
  for _, device in ipairs(problem.devices) do
    if not count[device] then count[device], types[#types + 1] = 0, device end
    count[device] = count[device] + 1
  end
  local orders = {}
  local function extend(order, used)
    if #order == #problem.devices then orders[#orders + 1] = order end
    for _, device in ipairs(types) do
      if not used[device] then
        local longer, taken = { unpack(order) }, { [device] = true }
        for _ = 1, count[device] do longer[#longer + 1] = device end
        for name in pairs(used) do taken[name] = true end
        extend(longer, taken)
      end
    end
  end
  extend({}, {})
  return orders
end

--- Plans a problem by eqs. (4) to (16) as printed, a programme for each order by blocks of device types and each
--- prefill micro-batch that divides the decode one, as the published code enumerates them; CBC has `limit_s` for each.
--- Decides `group` layers together. The best plan, or nil and why; and what came of the programmes: { programmes,
--- proven, with_plan, solve_s }.
function M.plan_by_printed_programmes(problem, limit_s, group)
  local best, why
  local outcome = { programmes = 0, proven = 0, with_plan = 0, solve_s = 0 }
  local decode = batch_over_stages(problem)
  for _, order in ipairs(block_orders(problem)) do
    for prefill = 1, decode do
      if decode % prefill == 0 then
        local started = core.clock()
        local plan, reason = M.plan_printed(problem, {
          planner = "ilp", form = "paper", group = group, device_order = order, prefill_micro_batch_size = prefill,
          time_limit_s = limit_s,
        })
        outcome.programmes, outcome.solve_s = outcome.programmes + 1, outcome.solve_s + core.clock() - started
        local proven = plan and plan.status == "optimal" or reason and reason.code == "infeasible"
        outcome.proven, outcome.with_plan = outcome.proven + (proven and 1 or 0), outcome.with_plan + (plan and 1 or 0)
        if plan and (not best or plan.objective < best.objective) then best = plan end
        why = why or reason
      end
    end
  end
  return best, why, outcome
end

--- The solver that Table 9 names for a cluster, as options of plan_printed.
function M.solver_of(cluster)
  local setting = M.settings[cluster]
  return setting.heuristic and { planner = "bitwidth_transfer" } or { planner = "exact", group = setting.group }
end

--- The plan behind a printed row, as the published logs have it, priced by our model: `run` is its name in the
--- measured data. The plan, or nil and why (the data is not there).
function M.published_plan(problem, run)
  local runs, by_id = logged_runs.read()
  if not runs then return nil, by_id end
  local logged = by_id[run]
  return planners.plan(problem, {
    planner = "manual", stages = logged_runs.stages_of(logged), prefill_micro_batch_size = logged.prefill_mb,
    decode_micro_batch_size = logged.decode_mb,
  })
end

-- The schemes of the tables that are more than a planner's name.
local schemes = {
  -- LLM-PQ: solved to the proven optimum, also where the paper used its heuristic because Gurobi did not finish.
  llm_pq = function(problem) return M.plan_printed(problem, { planner = "exact" }) end,
  -- The published code lets the last prefill micro-batch size win, which is the largest, instead of the best.
  uniform_last = function(problem)
    local size = batch_over_stages(problem)
    return planners.plan(problem, {
      planner = "uniform", prefill_micro_batch_size = size, decode_micro_batch_size = size, time_limit_s = time_limit_s,
    })
  end,
  -- At equal quality: the fastest plan that has no more omega than PipeEdge's.
  llm_pq_equal = function(problem)
    local baseline, why = planners.plan(problem, { planner = "pipeedge", time_limit_s = time_limit_s })
    if not baseline then return nil, why end
    return M.plan_printed(problem:with { theta = 0, quality = { max_omega = baseline.omega * (1 + 1e-9) } },
      { planner = "exact" })
  end,
  -- LLM-PQ's own plan of cluster 3, under our model of what it takes.
  published = function(problem) return M.published_plan(problem, "paper.c3.llmpq") end,
  pipeedge_4bit = function(problem)
    return planners.plan(problem:with { bitwidths = { 3, 4 } }, { planner = "pipeedge", time_limit_s = time_limit_s })
  end,
}

--- Plans a cluster by a scheme: one of those above, or a planner's name; "exact" is ours, with the steady objective,
--- every order and every pair of micro-batch sizes. The plan, or nil and why.
function M.plan(cluster, scheme, changes)
  local problem = M.problem(cluster, changes)
  if schemes[scheme] then return schemes[scheme](problem) end
  return planners.plan(problem, { planner = scheme, time_limit_s = time_limit_s })
end

--- What the quality term adds to a plan's objective (s): theta, raw omega and milliseconds.
function M.quality_s(plan, theta)
  local indicator, sum = plan:problem().indicator, 0
  for _, stage in ipairs(plan.stages) do
    for i, bitwidth in ipairs(stage.bitwidths) do
      sum = sum + indicator:omega(stage.first_layer + i - 1, bitwidth)
    end
  end
  return theta * sum / 1000
end

--- End-to-end seconds of a plan: the event simulation's, or where weights are offloaded FlexGen's cost model's.
function M.latency_s(plan) return plan.offload and plan.latency_s or solver.simulate(plan).total_s end

--- The columns of Tables 4, 5 and 7 for one cluster and scheme. `speedup` is over PipeEdge, as in print.
function M.serving_row(cluster, scheme, changes)
  local model = M.settings[cluster].model
  local plan, why = M.plan(cluster, scheme, changes)
  if not plan then return { status = why.code, model = model } end
  local workload = plan:problem().workload
  local tokens = workload.batch_size * workload.output_tokens
  local latency_s = M.latency_s(plan)
  local row = {
    status = plan.status, model = model, plan = plan, latency_s = latency_s, throughput_tok_s = tokens / latency_s,
    bits = bits_by_layers(plan), omega = plan_omega.of(plan), mean_bitwidth = plan.mean_bitwidth,
    micro_batches = ("%d/%d"):format(plan.prefill_micro_batch_size, plan.decode_micro_batch_size),
  }
  local pipeedge = scheme ~= "pipeedge" and M.plan(cluster, "pipeedge", changes)
  if pipeedge then row.speedup = M.latency_s(pipeedge) / latency_s end
  return row
end

--- The clusters of a published table, in its order.
function M.clusters_of(published)
  local list, seen = {}, {}
  for _, point in ipairs(published.points) do
    if not seen[point.cluster] then seen[point.cluster], list[#list + 1] = true, point.cluster end
  end
  return list
end

--- The points of a published table, and for each of its clusters those of schemes that are not in print.
function M.points(published, more_schemes)
  local points = {}
  for i, point in ipairs(published.points) do
    points[#points + 1] = point
    local following = published.points[i + 1]
    if not following or following.cluster ~= point.cluster then
      for _, scheme in ipairs(more_schemes) do
        points[#points + 1] = { cluster = point.cluster, planner = scheme }
      end
    end
  end
  return points
end

return M
