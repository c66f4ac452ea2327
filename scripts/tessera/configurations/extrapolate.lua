-- What a whole model takes, from runs of its fingerprints (iServe, section 5; design of the equations (1) to (3)).
-- Every figure is a sum of measured numbers with factors, so that the spread of the runs carries over.
--
-- Latency: t(n) = intercept + n TPOT at each of two output lengths, of the whole model (L1) or of two fingerprints
-- (L2), then both by the line over layers. Memory: base W + A; tensor parallelism adds (TP - 1) A, p stages p A_p (M1
-- of the whole model, M2 of fingerprints), or every shape is measured (M3). Stages cost no time, as in the paper: PP 1
-- stands for all, unless they are priced. Where GPUs have types, each is measured by itself, and a stage takes its
-- share of the layers of what the whole model would on GPUs of its type.

local even_layers = require "tessera.configurations.even_layers"

local M = {}

M.latency_methods = { "L2", "L1" }
M.memory_methods = { "M2", "M1", "M3" }
M.stages = { "reused", "priced" }

--- Of a run: its layers, scheme, degrees and types of GPUs, stage after stage.
function M.key(num_layers, shape)
  return ("%d|%d|%d|%s|%s"):format(num_layers, shape.tensor_parallel, shape.pipeline_parallel, shape.scheme,
    shape.device_types and table.concat(shape.device_types, "+") or "")
end

-- With one stage, on GPUs of a type, `false` where they have none.
local function lone(scheme, tp, device_type)
  return { scheme = scheme, tensor_parallel = tp, pipeline_parallel = 1,
    device_types = device_type and { device_type } or nil }
end

local no_type = { { name = false, share = 1 } }

--- The types of a configuration's GPUs, { name (false: none), share (of the layers) }, in order of the stages.
function M.types(c, num_layers)
  if not c.device_types then return no_type end
  local types, by_name = {}, {}
  for _, name in ipairs(c.device_types) do
    if not by_name[name] then
      by_name[name] = { name = name, layers = 0 }
      types[#types + 1] = by_name[name]
    end
  end
  if #types == 1 then
    types[1].share = 1
    return types
  end
  for k, layers in ipairs(even_layers(num_layers, c.pipeline_parallel)) do
    local own = by_name[c.device_types[k]]
    own.layers = own.layers + layers
  end
  for _, own in ipairs(types) do own.share = own.layers / num_layers end
  return types
end

-- The line over layers as factors of the measured numbers of layers.
local function line(opt, num_layers, whole)
  if whole then return { { num_layers, 1 } } end
  local l1, l2 = opt.fingerprint_layers[1], opt.fingerprint_layers[2]
  local share = (num_layers - l1) / (l2 - l1)
  return { { l1, 1 - share }, { l2, share } }
end

-- What says how long a configuration takes: { shape, share }.
local function timed_shapes(c, num_layers, opt)
  if opt.stages == "priced" then return { { c, 1 } } end
  local list = {}
  for i, own in ipairs(M.types(c, num_layers)) do
    list[i] = { lone(c.scheme, c.tensor_parallel, own.name), own.share }
  end
  return list
end

local function has_type(c, device_type)
  if not device_type then return true end
  for _, name in ipairs(c.device_types or {}) do
    if name == device_type then return true end
  end
  return false
end

-- Of the configurations of a scheme on GPUs of a type that of the smallest degree above one and the fewest types; nil.
local function second(configurations, scheme, device_type, field)
  local least, least_types
  for _, c in ipairs(configurations) do
    if c.scheme == scheme and c[field] > 1 and has_type(c, device_type) and (not least or c[field] <= least[field]) then
      local types = c.device_types and field == "pipeline_parallel" and #M.types(c, c.pipeline_parallel) or 1
      if not least or c[field] < least[field] or types < least_types then least, least_types = c, types end
    end
  end
  return least
end

-- The runs that tell what tensor parallelism and stages add to the memory of a scheme on GPUs of a type; nil: none.
local function second_shapes(configurations, scheme, device_type)
  local tp = second(configurations, scheme, device_type, "tensor_parallel")
  local pp = second(configurations, scheme, device_type, "pipeline_parallel")
  return tp and lone(scheme, tp.tensor_parallel, device_type), pp and { scheme = scheme, tensor_parallel = 1,
    pipeline_parallel = pp.pipeline_parallel, device_types = pp.device_types }
end

--- The runs that the methods need, each once: { num_layers, tensor_parallel, pipeline_parallel, scheme, device_types,
--- timed }.
function M.runs(configurations, num_layers, opt)
  local list, at = {}, {}
  local function add(points, shape, timed)
    for _, point in ipairs(points) do
      local key = M.key(point[1], shape)
      if not at[key] then
        at[key] = { num_layers = point[1], tensor_parallel = shape.tensor_parallel, scheme = shape.scheme,
          pipeline_parallel = shape.pipeline_parallel, device_types = shape.device_types, timed = false }
        list[#list + 1] = at[key]
      end
      at[key].timed = at[key].timed or timed
    end
  end
  local timed, sized = line(opt, num_layers, opt.latency_method == "L1"), line(opt, num_layers,
    opt.memory_method == "M1")
  local seen = {}
  for _, c in ipairs(configurations) do
    for _, shape in ipairs(timed_shapes(c, num_layers, opt)) do add(timed, shape[1], true) end
    if opt.memory_method == "M3" then add(sized, c, false) end
    local types = M.types(c, num_layers)
    for _, own in ipairs(types) do
      if #types > 1 then add(timed, lone(c.scheme, c.tensor_parallel, own.name), true) end
      local key = c.scheme .. "|" .. (own.name or "")
      if not seen[key] then
        seen[key] = true
        add(sized, lone(c.scheme, 1, own.name), false)
        local tp, pp = second_shapes(configurations, c.scheme, own.name)
        if tp and opt.memory_method ~= "M3" then add(sized, tp, false) end
        if pp and opt.memory_method ~= "M3" then add(sized, pp, false) end
      end
    end
  end
  return list
end

-- Why a shape cannot run at one of these points, or nil.
local function why_not(measured, points, shape)
  for _, point in ipairs(points) do
    local run = measured[M.key(point[1], shape)]
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
local function memory(measured, points, shape)
  local terms = {}
  for i, point in ipairs(points) do
    local run = measured[M.key(point[1], shape)]
    terms[i] = { run.memory_bytes, point[2], run.memory_error }
  end
  return sum(terms)
end

-- What one GPU would take of a whole model, the mean over the types of a shape by their layers; nil and why.
local function base_of(measured, points, shape, num_layers)
  local bytes, errors = 0, 0
  for _, own in ipairs(M.types(shape, num_layers)) do
    local one = lone(shape.scheme, 1, own.name)
    local why = why_not(measured, points, one)
    if why then return nil, why end
    local value, deviation = memory(measured, points, one)
    bytes, errors = bytes + own.share * value, errors + own.share * deviation
  end
  return bytes, errors
end

-- What each of `count` GPUs or stages adds; why not where they cannot run. M3 need not have measured it.
local function added(measured, points, shape, count, num_layers, note, notes)
  if not shape or not measured[M.key(points[1][1], shape)] then return 0 end
  local base, why = base_of(measured, points, shape, num_layers)
  why = why_not(measured, points, shape) or not base and why
  if why then return 0, why end
  local bytes = (memory(measured, points, shape) - base) / count
  if bytes >= 0 then return bytes end
  notes[#notes + 1] = note
  return 0
end

--- W, A and A_p of a scheme on GPUs of a type (false: none): base = W + A. `notes` says where one was set to nothing;
--- `refused`, `no_tp` and `no_pp` why there is no base, A or A_p.
function M.memory_parts(measured, configurations, scheme, device_type, num_layers, opt)
  local points, notes = line(opt, num_layers, opt.memory_method == "M1"), {}
  local one, one_error = base_of(measured, points, lone(scheme, 1, device_type), num_layers)
  if not one then return { refused = one_error, notes = notes } end
  local parts = { base = one, error = one > 0 and one_error / one or 0, notes = notes }
  local tp, pp = second_shapes(configurations, scheme, device_type)
  parts.a, parts.no_tp = added(measured, points, tp, tp and tp.tensor_parallel - 1, num_layers,
    tp and ("%s: %d GPUs took less memory than one; nothing is replicated"):format(scheme, tp.tensor_parallel), notes)
  parts.a_p, parts.no_pp = added(measured, points, pp, pp and pp.pipeline_parallel, num_layers,
    pp and ("%s: %d stages took less memory than one; a stage adds nothing"):format(scheme, pp.pipeline_parallel),
    notes)
  parts.w = one - parts.a
  return parts
end

--- Why a configuration has no estimate: a run that it hangs on could not be, or nil.
--- @param parts_of what memory_parts says, by type
function M.why_refused(measured, c, parts_of, num_layers, opt)
  local timed = line(opt, num_layers, opt.latency_method == "L1")
  for _, own in ipairs(M.types(c, num_layers)) do
    local parts = parts_of[own.name]
    local why = parts.refused or c.tensor_parallel > 1 and parts.no_tp or c.pipeline_parallel > 1 and parts.no_pp
      or why_not(measured, timed, lone(c.scheme, c.tensor_parallel, own.name))
    if why then return why end
  end
  for _, shape in ipairs(timed_shapes(c, num_layers, opt)) do
    local why = why_not(measured, timed, shape[1])
    if why then return why end
  end
  return opt.memory_method == "M3" and why_not(measured, line(opt, num_layers, false), c) or nil
end

--- The mean of a figure of the types of a configuration, by their layers.
function M.mean(c, num_layers, figure)
  local value = 0
  for _, own in ipairs(M.types(c, num_layers)) do value = value + own.share * figure(own.name) end
  return value
end

--- Memory of a configuration: of all its GPUs, what is replicated for tensor parallelism, and for stages.
function M.memory_of(measured, c, parts_of, num_layers, opt)
  if opt.memory_method == "M3" then return memory(measured, line(opt, num_layers, false), c) end
  return M.mean(c, num_layers, function(own) return M.memory_on(c, parts_of[own]) end),
    M.mean(c, num_layers, function(own) return parts_of[own].base * parts_of[own].error end)
end

--- The same on GPUs of one type.
function M.memory_on(c, parts)
  local stages = c.pipeline_parallel > 1 and c.pipeline_parallel * parts.a_p or 0
  return parts.w + c.tensor_parallel * parts.a + stages
end

--- The first run that the latency of a configuration hangs on.
function M.timed_run(measured, c, num_layers, opt)
  local point = line(opt, num_layers, opt.latency_method == "L1")[1]
  return measured[M.key(point[1], timed_shapes(c, num_layers, opt)[1][1])]
end

-- TPOT and intercept (s) of shapes, each with its share, and latency(n) with its error (s): of one request, or of
-- `field` batch_latency_s, of as many as a run had at once.
local function latency_of(measured, shapes, num_layers, opt, field)
  local points, n = line(opt, num_layers, opt.latency_method == "L1"), opt.output_tokens
  -- Of the times at both lengths: what each counts in t(at).
  local function at(tokens)
    local share, terms = (tokens - n[1]) / (n[2] - n[1]), {}
    for _, shape in ipairs(shapes) do
      for _, point in ipairs(points) do
        local run, weight = measured[M.key(point[1], shape[1])], shape[2] * point[2]
        terms[#terms + 1] = { run[field][1], weight * (1 - share), run.latency_error_s[1] }
        terms[#terms + 1] = { run[field][2], weight * share, run.latency_error_s[2] }
      end
    end
    return sum(terms)
  end
  return at(1) - at(0), at(0), at
end

--- TPOT and intercept (s) of a configuration, and latency(n) with its error (s).
function M.latency_of(measured, c, num_layers, opt)
  return latency_of(measured, timed_shapes(c, num_layers, opt), num_layers, opt, "latency_s")
end

--- What every further request of a step adds to it (s): the line from one to as many as a run had at once; nil: one.
function M.further_of(measured, c, num_layers, opt)
  if opt.batch_size == 1 then return nil end
  local shapes = timed_shapes(c, num_layers, opt)
  local one = latency_of(measured, shapes, num_layers, opt, "latency_s")
  local all = latency_of(measured, shapes, num_layers, opt, "batch_latency_s")
  return math.max(0, all - one) / (opt.batch_size - 1)
end

--- TPOT and TTFT (s) of the whole model in one stage on GPUs of one type, and what every further request adds.
function M.latency_on(measured, c, device_type, num_layers, opt)
  local alone = lone(c.scheme, c.tensor_parallel, device_type)
  local tpot, intercept = latency_of(measured, { { alone, 1 } }, num_layers, opt, "latency_s")
  local reused = setmetatable({ stages = "reused" }, { __index = opt })
  return tpot, intercept + tpot, M.further_of(measured, alone, num_layers, reused)
end

return M
