-- measure = "profile" of ts.fingerprint: the cost models answer for a run, on the first GPUs of a cluster.

local core = require "tessera.core"
local cost = require "tessera.cost"
local schemes = require "tessera.configurations.schemes"

local path = "ts.fingerprint"

--- use(measure) with what prices a run; what cannot run is { refused = why }. It always answers the same, so it is
--- asked once.
return function(opt, _, _, use)
  if opt.max_error or opt.max_gpu_s then
    core.refuse(path .. ".measure", "max_error and max_gpu_s are for what is measured; the cost models do not vary")
  end
  opt.repeats = 1
  if opt.model == nil then core.refuse(path .. ".model", "give it: the cost models price a model's shapes") end
  if opt.cluster == nil then
    core.refuse(path .. ".cluster", "the cost models price GPUs; give a cluster, as \"8xA6000@bridges\", or a measure")
  end
  local model, cluster = core.model(opt.model), core.cluster(opt.cluster)
  local quality = {} -- by scheme: of perplexity, { low, mid, high }, or false
  local function asked(run, card)
    return {
      model = model, cluster = cluster, kernel_set = opt.kernel_set, num_layers = run.num_layers,
      tensor_parallel = run.tensor_parallel, pipeline_parallel = run.pipeline_parallel,
      scheme = card.kernels, bitwidth = card.stored_bitwidth, kv_bitwidth = card.kv_bitwidth,
      pruned_ratio = card.pruned_ratio,
    }
  end
  local function increase_of(run, card)
    local known = quality[card.name]
    if known == nil then
      known = card.pruning and (card.pruning.perplexity_increase or false) or not card.pruning
        and cost.scheme_quality(asked(run, card)) or false
      quality[card.name] = known
    end
    return known or nil
  end
  local longest = math.max(opt.output_tokens[1], opt.output_tokens[2])
  return use(function(run)
    local card = schemes.find(run.scheme, path .. ".configurations")
    local query = asked(run, card)
    query.prompt_tokens, query.output_tokens, query.max_output_tokens = run.prompt_tokens, run.output_tokens, longest
    local ok, result = pcall(cost.lone_run, query)
    if ok then
      result.perplexity_increase = increase_of(run, card)
      return result
    end
    if type(result) == "table" and result.code == "unsupported" then return { refused = result.message } end
    error(result, 0)
  end)
end
