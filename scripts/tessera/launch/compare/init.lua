-- A plan beside measurements of it: predicted and measured per metric, a correction with an error of its own, and
-- whether another plan would be better if the correction holds.
--
-- What a plan predicts is predicted again under what was measured: the run's mean lengths and its concurrency (by
-- Little's law where a rate was offered). The correction is a factor for each phase (cost.fit_ratios). Where it is
-- kept, the file is a kernel set with the ratios of all runs, and predictions are by that.

local bench = require "tessera.launch.compare.bench"
local core = require "tessera.core"
local cost = require "tessera.cost"
local left = require "tessera.launch.compare.left"
local recalibration = require "tessera.launch.compare.recalibration"
local solver = require "tessera.solver"
local under_workload = require "tessera.planning.under_workload"

local M = {}

local saturated = 0.95 -- served over offered rate, above which the offered rate was the limit, not the server

-- Requests in flight during a run.
local function concurrency_of(run)
  if run.rate_per_s and run.ttft_s and run.tpot_s and run.request_per_s >= saturated * run.rate_per_s then
    local e2e_s = run.e2e_s or run.ttft_s + run.tpot_s * (run.output_tokens - 1)
    return math.max(1, math.floor(run.request_per_s * e2e_s + 0.5)), "by Little's law"
  end
  if run.max_concurrency then return math.max(1, math.min(run.max_concurrency, run.num_prompts or math.huge)) end
  -- Of more than a server holds, most requests wait; those that are answered it has in every step.
  if run.rate_per_s and run.tpot_s and run.output_tokens then
    return math.max(1, math.floor(run.request_per_s * run.tpot_s * (run.output_tokens - 1) + 0.5)),
      "by Little's law, without those that waited"
  end
  return nil
end

local function round(value) return math.max(1, math.floor(value + 0.5)) end

local order = { "measured", "fitted", "published", "modelled" } -- surest first

local function less_sure(a, b)
  for i = #order, 1, -1 do
    if a == order[i] or b == order[i] then return order[i] end
  end
end

-- What a plan predicts for a workload, by its kernel set or the one that is named; of one with replicas, each with its
-- share of the requests. Nil and why.
local function predict_workload(plan, workload, kernel_set)
  local engines, total = plan.replicas or { plan }, 0
  for _, engine in ipairs(engines) do total = total + engine:problem().workload.batch_size end
  local sum = { ttft_s = 0, tpot_s = 0, e2e_s = 0, throughput_tok_s = 0, requests = 0, error = 0 }
  for _, engine in ipairs(engines) do
    local share = engine:problem().workload.batch_size / total
    local own = { prompt_tokens = workload.prompt_tokens, output_tokens = workload.output_tokens,
      batch_size = round(workload.batch_size * share) }
    local same, why = under_workload(engine, own, kernel_set, true)
    if not same then return nil, why end
    local run = solver.simulate(same)
    sum.ttft_s, sum.tpot_s = sum.ttft_s + run.ttft_s * own.batch_size, sum.tpot_s + run.tpot_s * own.batch_size
    sum.e2e_s = math.max(sum.e2e_s, run.total_s)
    sum.throughput_tok_s, sum.requests = sum.throughput_tok_s + run.throughput_tok_s, sum.requests + own.batch_size
    sum.provenance = less_sure(sum.provenance, same.provenance)
    sum.error = sum.error and same.error and math.max(sum.error, same.error) -- of all or of none
  end
  sum.ttft_s, sum.tpot_s = sum.ttft_s / sum.requests, sum.tpot_s / sum.requests
  return sum
end

-- What the plan predicts for a run, by its kernel set or the one that is named.
local function predict(plan, run, planned, kernel_set)
  local own = plan:problem().workload
  local workload = { prompt_tokens = own.prompt_tokens, output_tokens = own.output_tokens,
    batch_size = own.batch_size }
  local how
  if run.kind ~= "latency" and run.kind ~= "throughput" then
    local concurrency
    concurrency, how = concurrency_of(run)
    workload = { prompt_tokens = round(run.prompt_tokens or planned.prompt_tokens or own.prompt_tokens),
      output_tokens = round(run.output_tokens or planned.output_tokens or own.output_tokens),
      batch_size = concurrency or own.batch_size }
  end
  local predicted, why = predict_workload(plan, workload, kernel_set)
  if not predicted then core.refuse(run.path, "the plan cannot run what was measured: " .. why.message) end
  predicted.workload, predicted.how = workload, how
  return predicted
end

-- All prompts at once, and how many tokens a request had in all: comparable where these are the plan's.
local function take_throughput(run, own)
  local planned = own.prompt_tokens + own.output_tokens
  if math.abs(run.tokens_per_request / planned - 1) > 0.1 then
    core.refuse(run.path, ("of `vllm bench throughput`, whose requests have %.0f tokens each and not the plan's %.0f; "
      .. "plan with these lengths (--prompt-tokens, --output-tokens), or measure with `vllm bench serve`"):format(
      run.tokens_per_request, planned))
  end
  run.throughput_tok_s = run.request_per_s * own.output_tokens
end

-- Where a prediction should be found: as far off as the prices were on rows that they had not seen; nil where nothing
-- was measured.
local function interval_of(predicted, metric)
  local value, error = predicted[metric], predicted.error
  if not (value and error and error > 0) then return nil end
  return value / (1 + error), value * (1 + error)
end

-- Metrics of a run that are comparable with a prediction, and why others are not.
local function rows_of(run, predicted)
  local rows = {}
  local function add(metric, unit, note)
    if run[metric] == nil then return end
    local low, high = interval_of(predicted, metric)
    local ratio = run[metric] / predicted[metric]
    local is_outside = not note and low and (run[metric] < low or run[metric] > high)
    rows[#rows + 1] = { file = run.path, metric = metric, unit = unit, predicted = predicted[metric],
      low = low, high = high, is_outside = is_outside or nil,
      measured = run[metric],
      note = note or is_outside and ("outside of its interval, %.4g to %.4g %s"):format(low, high, unit) or "",
      ratio = not note and run[metric] > 0 and predicted[metric] > 0 and ratio or nil }
  end
  if run.kind == "latency" then
    add("e2e_s", "s")
    return rows
  elseif run.kind == "throughput" then
    add("throughput_tok_s", "tok/s")
    return rows
  end
  local below_capacity = run.rate_per_s and run.request_per_s >= saturated * run.rate_per_s
  add("tpot_s", "s")
  local queued = run.num_prompts and run.num_prompts > predicted.workload.batch_size and not below_capacity
  if run.kind == "metrics" then queued = true end -- of all the traffic that there was
  add("ttft_s", "s", (queued and "prompts waited for others; a plan knows no queue")
    or (below_capacity and "prompts came one by one; the plan takes them together") or nil)
  add("throughput_tok_s", "tok/s", below_capacity and "the offered rate, not what the server can" or nil)
  return rows
end

-- Factors of the phases: decode from TPOT, else from throughput or whole latencies; prefill from TTFT.
local function corrections_of(rows)
  local by_metric = {}
  for _, row in ipairs(rows) do
    if row.ratio then
      local ratio = row.metric == "throughput_tok_s" and 1 / row.ratio or row.ratio
      by_metric[row.metric] = by_metric[row.metric] or {}
      table.insert(by_metric[row.metric], ratio)
    end
  end
  local corrections = {}
  for _, metric in ipairs { "tpot_s", "e2e_s", "throughput_tok_s" } do
    if not corrections.decode and by_metric[metric] then
      corrections.decode = cost.fit_ratios(by_metric[metric])
      corrections.decode.from = metric
    end
  end
  if by_metric.ttft_s then
    corrections.prefill = cost.fit_ratios(by_metric.ttft_s)
    corrections.prefill.from = "ttft_s"
  elseif corrections.decode and corrections.decode.from ~= "tpot_s" then
    corrections.prefill = corrections.decode -- whole latencies are of both phases
  end
  return corrections
end

-- The best plan where latencies are as corrected: { gain_ratio, stages, status } at these factors.
local function best_at(plan, prefill, decode, time_limit_s)
  local clamp = function(factor) return math.min(1e6, math.max(1e-6, factor)) end
  return solver.perturbed(plan:problem(), plan, { error = 0, seed = 0, prefill_factor = clamp(prefill),
    decode_factor = clamp(decode), near_ratio = 0.01, time_limit_s = time_limit_s })
end

-- Whether another plan would be better: at the correction, and where it is off by its error either way.
local function judge(plan, corrections, time_limit_s)
  local function factor(phase, sign)
    local own = corrections[phase]
    return own and own.factor * math.exp(sign * (own.error or 0)) or 1
  end
  local points = {}
  for _, at in ipairs { { 0, 0 }, { 1, -1 }, { -1, 1 } } do
    local found = best_at(plan, factor("prefill", at[1]), factor("decode", at[2]), time_limit_s / 3)
    local gain = found.objective and 1 - found.objective / found.plan_objective or 0
    points[#points + 1] = { gain_ratio = math.max(0, gain), stages = found.stages, status = found.status }
  end
  local least = math.huge
  for _, point in ipairs(points) do least = math.min(least, point.gain_ratio) end
  return { gain_ratio = points[1].gain_ratio, least_gain_ratio = least, stages = points[1].stages,
    status = points[1].status, is_better = least > 0.01 }
end

-- Adds a run to a result: its rows, and remarks of what was assumed, failed or left the plan.
local function take(plan, run, result, state, opt)
  local problem = plan:problem()
  local function remark(text, ...) result.remarks[#result.remarks + 1] = run.path .. ": " .. text:format(...) end
  local other = bench.why_other_model(run, problem.model)
  if other then core.refuse(run.path, other) end
  if run.kind == "throughput" then take_throughput(run, problem.workload) end
  local planned = opt.planned or {}
  local predicted = predict(plan, run, planned, state and state.is_there and state.path or nil)
  if state then recalibration.add(state, rows_of(run, predict(plan, run, planned, state.base))) end
  result.runs[#result.runs + 1] = { file = run.path, kind = run.kind, workload = predicted.workload,
    provenance = predicted.provenance, error = predicted.error }
  local rows = rows_of(run, predicted)
  for _, row in ipairs(rows) do result.rows[#result.rows + 1] = row end
  if run.kind == "latency" then
    remark "such files do not say batch and lengths; the plan's are assumed"
  elseif not (run.prompt_tokens and run.output_tokens) and run.kind ~= "throughput" then
    remark("it does not say the lengths of its %s; the plan's are assumed", run.prompt_tokens and "answers" or
      run.output_tokens and "prompts" or "requests")
  end
  if not concurrency_of(run) and run.kind ~= "latency" and run.kind ~= "throughput" then
    remark("it does not say how many requests ran together; the plan's %d are assumed", predicted.workload.batch_size)
  end
  if (run.failed or 0) > 0 then remark("%d requests failed", run.failed) end
  if predicted.how then remark("%d requests in flight, %s", predicted.workload.batch_size, predicted.how) end
  if run.weights then remark("its weights are '%s'; rows differ where the plan's bits do", run.weights) end
  for _, text in ipairs(left.of(run, opt.planned or problem.workload, predicted)) do remark("%s", text) end
end

--- Compares a plan with runs of files. `opt`: replan, time_limit_s, recalibrate (a file), planned (lengths, where they
--- are others than the plan's), metrics ({ url =, text = } of a running server). Returns
--- { rows, corrections, runs, another, remarks }.
function M.compare(plan, paths, opt)
  local model = plan:problem().model
  if not model then core.refuse("tessera compare", "the plan is of an instance, which no server runs") end
  local result = { rows = {}, runs = {}, remarks = {} }
  local state = opt.recalibrate and recalibration.read(opt.recalibrate, plan)
  local function take_all(runs)
    for _, run in ipairs(runs) do take(plan, run, result, state, opt) end
  end
  for _, path in ipairs(paths) do take_all(bench.runs(path)) end
  if opt.metrics then take_all(bench.runs(opt.metrics.url, opt.metrics.text)) end
  result.corrections = corrections_of(result.rows)
  if state then
    recalibration.save(state)
    for phase, from in pairs { prefill = "ttft_s", decode = "tpot_s" } do
      local all = cost.fit_ratios(state.set.recalibration[phase .. "_ratios"] or {})
      if all then result.corrections[phase], all.from = all, from end
    end
  end
  if opt.replan and plan.replicas then
    result.remarks[#result.remarks + 1] = "whether another plan is better is looked at for one engine only"
  elseif opt.replan and (result.corrections.decode or result.corrections.prefill) then
    result.another = judge(plan, result.corrections, opt.time_limit_s)
  end
  return result
end

return M
