-- What of a plan runs: its stages as workers are told of them, and the model that they have parts of. ts.execute and
-- `tessera serve` start the same ones.

local bitwidths_of = require "tessera.planning.plan_bitwidths"
local core = require "tessera.core"
local gpus_here = require "tessera.devices.detect.gpus_here"
local move_layers = require "tessera.runtime.move_layers"
local no_cpu = require "tessera.devices.no_cpu"
local weights = require "tessera.weights"
local workers = require "tessera.workers"

local M = {}

local path = "ts.execute"

-- A device of the plan that is no share of a CPU; nil where all are.
function M.foreign_device(plan) return no_cpu(plan:problem().cluster) end

local on_cpu = "device = \"cpu\" (--device cpu) runs its stages on shares of this CPU, with its layers, bitwidths "
  .. "and micro-batches"

-- A GPU for each stage of a plan of GPUs, [engine][stage], as LibTorch names it, and by these the GPU that attends for
-- a stage; nil for CPUs. Of this machine, unless
-- workers are started elsewhere: those take the GPU that has the plan's number in its host.
local function gpus_of(plan, opt)
  if (opt.device or "auto") ~= "auto" or opt.emulated or not M.foreign_device(plan) then return nil end
  local elsewhere = (opt.workers or "itself") ~= "itself"
  local here, why
  if not elsewhere then here, why = gpus_here() end
  local taken, gpus, attending = {}, {}, {}
  local function take(name)
    for i, found in ipairs(here or {}) do
      if found == name and not taken[i] then
        taken[i] = true
        return "cuda:" .. i - 1
      end
    end
    core.refuse(path .. ".device", ("the plan has a stage on %s, and %s; %s"):format(name, here
      and ("this machine has no such GPU left (%d in all)"):format(#here) or why, on_cpu))
  end
  for i, engine in ipairs(plan.placement.engines) do
    gpus[i] = {}
    for k, stage in ipairs(engine.stages) do
      if #stage.gpus > 1 then
        core.refuse(path .. ".plan", ("stage %d of the plan is split over %d GPUs, and ranks of a stage share the "
          .. "memory of a host here; %s"):format(k - 1, #stage.gpus, on_cpu))
      end
      gpus[i][k] = elsewhere and "cuda:" .. stage.gpus[1] or take(stage.device)
      local attention = (plan.replicas or { plan })[i].stages[k].attention
      if attention and elsewhere then
        core.refuse(path .. ".workers", "a stage has attention on another GPU, which is taken on this machine alone")
      end
      attending[gpus[i][k]] = attention and take(attention.device)
    end
  end
  return gpus, attending
end

-- A plan that no process can be started for is refused by name.
local function check_plan(plan)
  if type(plan) ~= "userdata" or not plan.placement then
    if type(plan) == "userdata" and plan.stages then
      core.refuse(path .. ".plan", "it is of an abstract instance, which has no model that could run")
    end
    core.refuse(path .. ".plan", "a plan of ts.plan or ts.load_plan belongs here")
  end
  for _, engine in ipairs(plan.replicas or { plan }) do
    if engine.offload then
      core.refuse(path .. ".plan", "it keeps weights or caches in host memory (offload), which the runtime does not")
    end
    local split = engine:problem().split
    if split.expert_parallel > 1 or split.attention_data_parallel > 1 then
      core.refuse(path .. ".plan", "it spreads experts over devices or cuts attention into parts, which vLLM does and "
        .. "the runtime does not")
    end
  end
end

-- What a stage takes as the plan has it, beside what a runtime reserves.
local function stage_bytes(stage)
  local memory, elsewhere = stage.memory, stage.attention and stage.attention.memory.kv_cache_bytes or 0
  return elsewhere + memory.weight_bytes + memory.kv_cache_bytes + memory.activation_bytes + memory.embedding_bytes
end

local function check_memory(plan, opt, gpus)
  local total = 0
  for _, pipeline in ipairs(plan.replicas or { plan }) do
    for k, stage in ipairs(pipeline.stages) do
      local bytes = stage_bytes(stage)
      total = total + bytes
      if opt.stage_memory_gib and opt.stage_memory_gib > 0 and bytes > opt.stage_memory_gib * 2 ^ 30 then
        core.refuse(path .. ".stage_memory_gib", ("stage %d needs %s (weights %s, KV cache %s, the rest activations "
          .. "and embedding), more than %g GiB: plan with fewer bits, more stages or a smaller batch"):format(k - 1,
          core.format_bytes(bytes), core.format_bytes(stage.memory.weight_bytes),
          core.format_bytes(stage.memory.kv_cache_bytes), opt.stage_memory_gib))
      end
    end
  end
  local here = workers.machine_memory_bytes()
  if not gpus and (opt.workers or "itself") == "itself" and total > here then
    core.refuse(path .. ".plan", ("its stages need %s, and this machine has %s: plan with fewer bits or a smaller "
      .. "batch, or start stages elsewhere (workers = \"others\")"):format(core.format_bytes(total),
      core.format_bytes(here)))
  end
end

local as_stored = 0 -- in place of the bitwidth of a layer

-- What makes of the bitwidths of a plan's layers what workers are told. What a file holds in fewer bits than the plan
-- has is multiplied as it lies there, neither unpacked nor rounded a second time.
local function forms_of(model_path)
  local stored = weights.open(model_path):bitwidths()
  local is_gguf = model_path:lower():find "%.gguf$"
  return function(bitwidths)
    local forms = {}
    for i, bitwidth in ipairs(bitwidths) do
      local own = stored[i]
      if own < 16 and own > bitwidth and not is_gguf then
        core.refuse(path .. ".model", ("%s holds layer %d at %d bits, and the plan has it at %d, which would round it "
          .. "twice: plan with --bitwidths %d, or take the checkpoint that it was made from"):format(model_path, i - 1,
          own, bitwidth, own))
      end
      forms[i] = own < 16 and own <= bitwidth and as_stored or bitwidth
    end
    return forms
  end
end

local function engines_of(plan, kv_bitwidth, gpus, attending, form)
  local list = {}
  local pipelines = plan.replicas or { plan }
  for i, engine in ipairs(plan.placement.engines) do
    local pipeline, stages = pipelines[i], {}
    for k, stage in ipairs(engine.stages) do
      stages[k] = { first_layer = stage.first_layer, num_layers = stage.num_layers,
        tensor_ranks = #stage.gpus, device = gpus and gpus[i][k] or "" }
      local attention = pipeline.stages[k].attention
      stages[k].attention_elsewhere = attention and attention.ratio
      stages[k].attention_device = attention and gpus and attending[gpus[i][k]] or ""
    end
    local workload = pipeline:problem().workload
    list[i] = { stages = stages, bitwidths = form(bitwidths_of(engine)),
      kv_bitwidth = kv_bitwidth or engine.kv_bitwidth, batch_size = workload.batch_size,
      prefill_micro_batch_size = pipeline.prefill_micro_batch_size,
      decode_micro_batch_size = pipeline.decode_micro_batch_size, chunk_tokens = workload.chunk_tokens or 0,
      emulated = {} }
  end
  return list
end

-- Options of ts.language_model among those given. Its bitwidths are the fewest of any engine's layers, absent where
-- all are as stored: they say whether anything is quantised at all.
local function model_options(opt, engines, gpus)
  local model, bitwidths, any = { path = opt.model }, {}, false
  for i = 1, #engines[1].bitwidths do
    bitwidths[i] = 16
    for _, engine in ipairs(engines) do
      local own = engine.bitwidths[i]
      if own ~= as_stored then bitwidths[i], any = math.min(bitwidths[i], own), true end
    end
  end
  if any then model.bitwidths = bitwidths end
  for _, option in ipairs(core.options_of "ts.language_model") do
    local name = option.name
    if opt[name] ~= nil and name ~= "seed" and name ~= "path" and name ~= "progress" then model[name] = opt[name] end
  end
  if model.device == nil or model.device == "auto" then model.device = gpus and gpus[1][1] or "cpu" end
  if gpus and not model.dtype then model.dtype = "f16" end -- what tensor cores multiply
  return model
end

local function check_model(plan, model_path)
  local planned, found = plan:problem().model, core.model(model_path)
  for _, name in ipairs { "num_layers", "hidden_size", "num_heads", "ffn_size" } do
    if planned[name] ~= found[name] then
      core.refuse(path .. ".model", ("%s is not the model of the plan: it has %s = %s, %s has %s"):format(model_path,
        name, tostring(found[name]), planned.name, tostring(planned[name])))
    end
  end
end

--- Of a model without a plan: engines that have all of its layers, in one stage each, at the bitwidths of `opt` (one
--- for all, one for each; nil: as stored). As M.of gives them.
function M.whole(count, opt)
  local num_layers, engines = core.model(opt.model).num_layers, {}
  for i = 1, count do
    local bitwidths = {}
    for layer = 1, num_layers do
      local given = opt.bitwidths
      bitwidths[layer] = given and (#given == 1 and given[1] or given[layer]) or as_stored
    end
    engines[i] = { stages = { { first_layer = 0, num_layers = num_layers, tensor_ranks = 1, device = "",
      attention_device = "" } }, bitwidths = bitwidths, kv_bitwidth = opt.kv_bitwidth or 16, batch_size = 1,
      prefill_micro_batch_size = 1, decode_micro_batch_size = 1, chunk_tokens = 0, emulated = {} }
  end
  return { engines = engines, model = model_options(opt, engines) }
end

--- Of a plan and the options of ts.execute: { engines, model (options of ts.language_model), gpus (nil: CPUs), replan,
--- moves }.
--- @param recovers boolean whether layers move where a stage is lost for good
function M.of(plan, opt, recovers)
  check_plan(plan)
  local gpus, attending = gpus_of(plan, opt)
  check_model(plan, opt.model)
  check_memory(plan, opt, gpus)
  local form = forms_of(opt.model)
  local engines = engines_of(plan, opt.kv_bitwidth, gpus, attending, form)
  local replan, moves = nil, {}
  if recovers then replan, moves = move_layers(plan, form) end
  return { engines = engines, model = model_options(opt, engines, gpus), gpus = gpus, replan = replan, moves = moves }
end

return M
