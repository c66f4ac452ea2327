-- What a whole model takes, from runs of its fingerprints (iServe, section 5; design of the equations (1) to (3)).
-- Every figure is a sum of measured numbers with factors, so that the spread of the runs carries over.
--
-- Latency: t(n) = intercept + n TPOT at each of two output lengths, of the whole model (L1) or of two fingerprints
-- (L2), then both by the line over layers. Memory: base W + A; tensor parallelism adds (TP - 1) A, p stages p A_p (M1
-- of the whole model, M2 of fingerprints), or every shape is measured (M3). Stages cost no time, as in the paper: PP 1
-- stands for all, unless they are priced.

local M = {}

M.latency_methods = { "L2", "L1" }
M.memory_methods = { "M2", "M1", "M3" }
M.stages = { "reused", "priced" }

local function key_of(num_layers, tp, pp, scheme) return ("%d|%d|%d|%s"):format(num_layers, tp, pp, scheme) end
M.key = key_of

-- The line over layers as factors of the measured numbers of layers.
local function line(opt, num_layers, whole)
  if whole then return { { num_layers, 1 } } end
  local l1, l2 = opt.fingerprint_layers[1], opt.fingerprint_layers[2]
  local share = (num_layers - l1) / (l2 - l1)
  return { { l1, 1 - share }, { l2, share } }
end

-- The stages of the run that says how long a configuration takes.
local function timed_stages(c, opt) return opt.stages == "priced" and c.pipeline_parallel or 1 end

-- The smallest degree above one of the configurations of a scheme, or nil.
local function second(configurations, scheme, field)
  local least
  for _, c in ipairs(configurations) do
    if c.scheme == scheme and c[field] > 1 and (not least or c[field] < least) then least = c[field] end
  end
  return least
end

--- The runs that the methods need, each once: { num_layers, tensor_parallel, pipeline_parallel, scheme, timed }.
function M.runs(configurations, num_layers, opt)
  local list, at = {}, {}
  local function add(points, tp, pp, scheme, timed)
    for _, point in ipairs(points) do
      local key = key_of(point[1], tp, pp, scheme)
      if not at[key] then
        at[key] = { num_layers = point[1], tensor_parallel = tp, pipeline_parallel = pp, scheme = scheme,
          timed = false }
        list[#list + 1] = at[key]
      end
      at[key].timed = at[key].timed or timed
    end
  end
  local timed, sized = line(opt, num_layers, opt.latency_method == "L1"), line(opt, num_layers,
    opt.memory_method == "M1")
  local seen = {}
  for _, c in ipairs(configurations) do
    add(timed, c.tensor_parallel, timed_stages(c, opt), c.scheme, true)
    if opt.memory_method == "M3" then
      add(sized, c.tensor_parallel, c.pipeline_parallel, c.scheme, false)
      add(sized, 1, 1, c.scheme, false)
    elseif not seen[c.scheme] then
      seen[c.scheme] = true
      add(sized, 1, 1, c.scheme, false)
      local tp, pp = second(configurations, c.scheme, "tensor_parallel"), second(configurations, c.scheme,
        "pipeline_parallel")
      if tp then add(sized, tp, 1, c.scheme, false) end
      if pp then add(sized, 1, pp, c.scheme, false) end
    end
  end
  return list
end

-- Why a shape cannot run at one of these points, or nil.
local function why_not(measured, points, tp, pp, scheme)
  for _, point in ipairs(points) do
    local run = measured[key_of(point[1], tp, pp, scheme)]
    if run and run.refused then return run.refused end
  end
  return nil
end

-- A sum: its value, and the variance that the spread of the runs gives it.
local function sum(terms)
  local value, variance = 0, 0
  for _, term in ipairs(terms) do
    value = value + term[1] * term[2]
    variance = variance + (term[2] * (term[3] or 0)) ^ 2
  end
  return value, math.sqrt(variance)
end

-- Memory of a shape over the line of layers.
local function memory(measured, points, tp, pp, scheme)
  local terms = {}
  for i, point in ipairs(points) do
    local run = measured[key_of(point[1], tp, pp, scheme)]
    terms[i] = { run.memory_bytes, point[2], run.memory_error }
  end
  return sum(terms)
end

--- W, A and A_p of a scheme: base = W + A. `notes` says where one was set to nothing; `refused`, `no_tp` and `no_pp`
--- why there is no base, A or A_p.
function M.memory_parts(measured, configurations, scheme, num_layers, opt)
  local points, notes = line(opt, num_layers, opt.memory_method == "M1"), {}
  local refused = why_not(measured, points, 1, 1, scheme)
  if refused then return { refused = refused, notes = notes } end
  local one, one_error = memory(measured, points, 1, 1, scheme)
  local parts = { base = one, error = one > 0 and one_error / one or 0, a = 0, a_p = 0, notes = notes }
  local tp, pp = second(configurations, scheme, "tensor_parallel"), second(configurations, scheme, "pipeline_parallel")
  parts.no_tp = tp and why_not(measured, points, tp, 1, scheme)
  parts.no_pp = pp and why_not(measured, points, 1, pp, scheme)
  if tp and not parts.no_tp then
    parts.a = (memory(measured, points, tp, 1, scheme) - one) / (tp - 1)
    if parts.a < 0 then
      notes[#notes + 1] = ("%s: %d GPUs took less memory than one; nothing is replicated"):format(scheme, tp)
      parts.a = 0
    end
  end
  if pp and not parts.no_pp then
    parts.a_p = (memory(measured, points, 1, pp, scheme) - one) / pp
    if parts.a_p < 0 then
      notes[#notes + 1] = ("%s: %d stages took less memory than one; a stage adds nothing"):format(scheme, pp)
      parts.a_p = 0
    end
  end
  parts.w = one - parts.a
  return parts
end

--- Why a configuration has no estimate: a run that it hangs on could not be, or nil.
function M.why_refused(measured, c, parts, num_layers, opt)
  local timed = line(opt, num_layers, opt.latency_method == "L1")
  return parts.refused or why_not(measured, timed, c.tensor_parallel, timed_stages(c, opt), c.scheme)
    or c.tensor_parallel > 1 and parts.no_tp or c.pipeline_parallel > 1 and parts.no_pp
    or opt.memory_method == "M3"
      and why_not(measured, line(opt, num_layers, false), c.tensor_parallel, c.pipeline_parallel, c.scheme) or nil
end

--- Memory of a configuration: of all its GPUs, what is replicated for tensor parallelism, and for stages.
function M.memory_of(measured, c, parts, num_layers, opt)
  if opt.memory_method == "M3" then
    return memory(measured, line(opt, num_layers, false), c.tensor_parallel, c.pipeline_parallel, c.scheme)
  end
  local stages = c.pipeline_parallel > 1 and c.pipeline_parallel * parts.a_p or 0
  return parts.w + c.tensor_parallel * parts.a + stages, parts.base * parts.error
end

--- The first run that the latency of a configuration hangs on.
function M.timed_run(measured, c, num_layers, opt)
  local point = line(opt, num_layers, opt.latency_method == "L1")[1]
  return measured[key_of(point[1], c.tensor_parallel, timed_stages(c, opt), c.scheme)]
end

--- TPOT and intercept (s) of a configuration, and latency(n) with its error (s).
function M.latency_of(measured, c, num_layers, opt)
  local points, n = line(opt, num_layers, opt.latency_method == "L1"), opt.output_tokens
  -- Of the times at both lengths: what each counts in t(at).
  local function at(tokens)
    local share, terms = (tokens - n[1]) / (n[2] - n[1]), {}
    for _, point in ipairs(points) do
      local run = measured[key_of(point[1], c.tensor_parallel, timed_stages(c, opt), c.scheme)]
      terms[#terms + 1] = { run.latency_s[1], point[2] * (1 - share), run.latency_error_s[1] }
      terms[#terms + 1] = { run.latency_s[2], point[2] * share, run.latency_error_s[2] }
    end
    return sum(terms)
  end
  return at(1) - at(0), at(0), at
end

return M
