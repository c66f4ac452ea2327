-- measure = "profile" of ts.fingerprint: the cost models answer for a run, on GPUs of a cluster of the types that it
-- names, else on the first ones.

local core = require "tessera.core"
local cost = require "tessera.cost"
local device_types = require "tessera.planning.device_types"
local schemes = require "tessera.configurations.schemes"

local path = "ts.fingerprint"

-- What prices all runs.
local function pricing_of(opt, cluster, configurations)
  local bitwidths, seen = {}, {}
  for _, c in ipairs(configurations) do
    local bits = schemes.find(c.scheme, path .. ".configurations").stored_bitwidth
    if not seen[bits] then seen[bits], bitwidths[#bitwidths + 1] = true, bits end
  end
  return cost.pricing { model = opt.model, cluster = cluster, kernel_set = opt.kernel_set, bitwidths = bitwidths }
end

-- The GPUs of a run, stage after stage, the next ones of each type; nil where it names none, and why there are too few.
local function chooser(cluster)
  local by_name = {}
  for _, own in ipairs(device_types(cluster)) do by_name[own.name] = own.devices end
  return function(run)
    if not run.device_types then return nil end
    local devices, taken = {}, {}
    for _, name in ipairs(run.device_types) do
      local own = by_name[name]
      if not own then
        core.refuse(path .. ".configurations", ("'%s' is not among the GPUs of %s"):format(name, cluster.name))
      end
      for _ = 1, run.tensor_parallel do
        taken[name] = (taken[name] or 0) + 1
        if taken[name] > #own then return nil, ("the cluster has %d x %s"):format(#own, name) end
        devices[#devices + 1] = own[taken[name]]
      end
    end
    return devices
  end
end

--- use(measure) with what prices a run; what cannot run is { refused = why }. It always answers the same, so it is
--- asked once.
return function(opt, configurations, _, use)
  if opt.max_error or opt.max_gpu_s then
    core.refuse(path .. ".measure", "max_error and max_gpu_s are for what is measured; the cost models do not vary")
  end
  opt.repeats = 1
  if opt.model == nil then core.refuse(path .. ".model", "give it: the cost models price a model's shapes") end
  if opt.cluster == nil then
    core.refuse(path .. ".cluster", "the cost models price GPUs; give a cluster, as \"8xA6000@bridges\", or a measure")
  end
  local cluster = core.cluster(opt.cluster)
  local pricing, devices_of = pricing_of(opt, cluster, configurations), chooser(cluster)
  local quality = {} -- by scheme and type: of perplexity, { low, mid, high }, or false
  local function increase_of(query, card, run)
    if card.pruning then return card.pruning.perplexity_increase end
    local key = card.name .. (run.device_types and run.device_types[1] or "")
    if quality[key] == nil then quality[key] = cost.scheme_quality(pricing, query) or false end
    return quality[key] or nil
  end
  local longest = math.max(opt.output_tokens[1], opt.output_tokens[2])
  return use(function(run)
    local card = schemes.find(run.scheme, path .. ".configurations")
    local devices, too_few = devices_of(run)
    if too_few then return { refused = too_few } end
    local query = {
      num_layers = run.num_layers, tensor_parallel = run.tensor_parallel, pipeline_parallel = run.pipeline_parallel,
      devices = devices, scheme = card.kernels, bitwidth = card.stored_bitwidth, kv_bitwidth = card.kv_bitwidth,
      pruned_ratio = card.pruned_ratio, prompt_tokens = run.prompt_tokens, output_tokens = run.output_tokens,
      max_output_tokens = longest, batch_size = run.batch_size,
    }
    local ok, result = pcall(cost.lone_run, pricing, query)
    if ok then
      result.perplexity_increase = increase_of(query, card, run)
      return result
    end
    if type(result) == "table" and result.code == "unsupported" then return { refused = result.message } end
    error(result, 0)
  end)
end
