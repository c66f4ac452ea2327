-- A strategy as a plan of our own, by our prices and memory: stages, replicas, or a stage with heads elsewhere.

local core = require "tessera.core"
local flexllm = require "tessera.papers.flexllm"
local kinds = require "tessera.planning.strategies.kinds"
local solver = require "tessera.solver"

local M = {}

local paper_bitwidth = 16

-- The workload with so many requests.
local function workload_of(case, batch_size)
  local own = case.workload
  if own.batch_size == batch_size then return own end
  local changed = {}
  for _, field in ipairs { "prompt_tokens", "output_tokens", "max_prompt_tokens", "max_output_tokens" } do
    changed[field] = own[field]
  end
  changed.batch_size = batch_size
  return core.workload(changed)
end

--- The problem of a pair and a batch; more: its bitwidths and what quality is worth;
--- left out: 16 bits throughout, and time alone counts.
function M.problem(case, pair, batch_size, more)
  local devices = { link_gbps = pair[2] and case.link_gbps, link_latency_s = pair[2] and case.link_latency_s }
  for i, device in ipairs(pair) do devices[i] = { device.device, 1 } end
  local given = { model = case.model, cluster = core.cluster(devices), workload = workload_of(case, batch_size),
    kernel_set = case.kernel_set, kv_bitwidth = 16, tensor_parallel = 1, use_all_devices = false }
  for key, value in pairs(more or { bitwidths = { paper_bitwidth }, theta = 0 }) do given[key] = value end
  return solver.problem(given)
end

-- Stages { device (from 0), layers } of a problem.
local function stages_of(problem, parts)
  local stages = {}
  for _, part in ipairs(parts) do
    local bitwidths = {}
    for i = 1, part[2] do bitwidths[i] = paper_bitwidth end
    stages[#stages + 1] = { device = problem.devices[part[1] + 1], bitwidths = bitwidths }
  end
  return stages
end

-- The micro-batches of least time that fit, with the times; else the times without regard to memory, where there are
-- any, and what does not fit. A phase does not hang on the other's micro-batches: memory is what the larger need.
local function best_sizes(problem, stages)
  local sizes, best, broken = problem:micro_batch_sizes(), {}, nil
  local function try(phase, size, found)
    if not found.fits then
      broken = broken or found
    elseif not best[phase] or found[phase .. "_s"] < best[phase].seconds then
      best[phase] = { size = size, seconds = found[phase .. "_s"] }
    end
  end
  local function evaluate(prefill, decode)
    return problem:evaluate { stages = stages, prefill_micro_batch_size = prefill, decode_micro_batch_size = decode }
  end
  for _, size in ipairs(sizes) do
    try("prefill", size, evaluate(size, sizes[1]))
    try("decode", size, evaluate(sizes[1], size))
  end
  if best.prefill and best.decode then return best end
  return nil, broken
end

-- One pipeline of stages { device (from 0), layers }: its plan, and the times of both phases. Without a plan `why`.
local function pipeline(problem, parts, strategy)
  local stages = stages_of(problem, parts)
  local best, broken = best_sizes(problem, stages)
  if not best then
    return { why = broken.message, constraint = broken.constraint, prefill_s = broken.prefill_s,
      decode_s = broken.decode_s }
  end
  local plan, why = solver.price(problem, { stages = stages, prefill_micro_batch_size = best.prefill.size,
    decode_micro_batch_size = best.decode.size }, strategy.name, 0)
  return { plan = plan, why = why and why.message, constraint = why and why.constraint,
    prefill_s = best.prefill.seconds, decode_s = best.decode.seconds }
end

-- By kind: pipelines that run beside each other, each with its requests, and a plan of all.
local build = {}

function build.stages(case, pair, row, strategy)
  local parts = {}
  for i, layers in ipairs(row.layers) do
    if layers > 0 then parts[#parts + 1] = { i - 1, layers } end
  end
  local one = pipeline(M.problem(case, pair, row.batch_size), parts, strategy)
  return { one }, one.plan
end

function build.attention_on(case, pair, row, strategy)
  local problem, note = M.problem(case, pair, row.batch_size), nil
  if row.attention_ratio > 0 then
    local divided, ratio, rounded = solver.with_attention(problem, 0, 1, row.attention_ratio)
    if not divided then return { { why = ratio.message, constraint = ratio.constraint } } end
    problem, row.attention_ratio, note = divided, ratio, rounded
  end
  local one = pipeline(problem, { { 0, case.num_layers } }, strategy)
  if one.plan and note then one.plan = one.plan:with_note(note) end
  row.note = note
  return { one }, one.plan
end

function build.replicas(case, pair, row, strategy)
  local whole, replicas, plans = M.problem(case, pair, row.batch_size), {}, {}
  for i, requests in ipairs(row.batch) do
    if requests == row.batch_size then -- the other device is idle
      local one = pipeline(whole, { { i - 1, case.num_layers } }, strategy)
      return { one }, one.plan
    elseif requests > 0 then
      local one = pipeline(solver.on_devices(whole, { i - 1 }, requests), { { 0, case.num_layers } }, strategy)
      replicas[#replicas + 1] = one
      plans[#plans + 1] = one.plan and { one.plan, { i - 1 } }
    end
  end
  local joined = #plans == #replicas and assert(solver.join_plans(whole, plans, strategy.name)) or nil
  return replicas, joined
end

-- Bytes on each device of the pair.
local function memory_bytes(plan, pair)
  local bytes = {}
  for i = 1, #pair do bytes[i] = 0 end
  for _, pipe in ipairs(plan.pipelines) do
    for _, stage in ipairs(pipe.stages) do
      bytes[stage.device_index + 1] = stage.memory.total_bytes
      local there = stage.attention
      if there then bytes[there.device_index + 1] = there.memory.total_bytes end
    end
  end
  return bytes
end

--- A row as of flexllm.candidate, with `plan` where one fits. case: model, workload, link_gbps, link_latency_s,
--- kernel_set beside what that one has; devices: `device` (a tessera.Device) beside what those have.
function M.candidate(case, pair, strategy, batch_size)
  local row = { strategy = strategy.name, batch_size = batch_size, fits = true, usd_per_h = 0 }
  for _, device in ipairs(pair) do row.usd_per_h = row.usd_per_h + device.usd_per_h end
  kinds.split(strategy, case, pair, row)
  if not pair[2] and not kinds.is_second_idle(strategy, row) then
    row.fits, row.reason = false, "devices"
    return row
  end
  local pipelines, plan = build[strategy.kind](case, pair, row, strategy)
  row.plan, row.provenance = plan, plan and plan.provenance or "modelled"
  local slowest = -math.huge
  for _, one in ipairs(pipelines) do
    if one.why then row.fits, row.reason, row.why = false, one.constraint, one.why end
    if one.prefill_s then
      local prefill_s = flexllm.corrected(case, row.strategy, "prefill", one.prefill_s)
      local decode_s = flexllm.corrected(case, row.strategy, "decode", one.decode_s)
      local total_s = prefill_s + (case.output_tokens - 1) * decode_s
      if total_s > slowest then slowest, row.prefill_s, row.decode_s = total_s, prefill_s, decode_s end
    end
  end
  if row.prefill_s then flexllm.set_totals(case, row) end
  if plan then row.memory_bytes = memory_bytes(plan, pair) end
  return row
end

return M
