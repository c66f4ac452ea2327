-- ts.select(options): a model, a cluster and an intent in; configurations, placement and GPUs out (iServe on one page:
-- enumerate, fingerprint, rank, place).

local core = require "tessera.core"
local fingerprint = require "tessera.configurations.fingerprint"
local intent = require "tessera.configurations.intent"
local options = require "tessera.options"
local place = require "tessera.configurations.place"
local space = require "tessera.configurations.space"

local path = "ts.select"

local read = options.card {
  name = path,
  doc = "Every way to deploy a model on a cluster's GPUs for one request at a time, by the cost models: ranked by an "
    .. "intent, and placed on the GPUs as if nothing else were there. Where GPUs are of several types each has a "
    .. "fingerprint, and stages may be of several. Fields: ranked, refused (rows that cannot run, "
    .. "with the reason), left_out (shapes that heads or layers forbid), placed or why, placed_of(rows), "
    .. "fingerprint, intent.",
  returns = "table",
  options = {
    { name = "model", type = "any", required = true, doc = "Name, file or tessera.Model" },
    { name = "cluster", type = "any", required = true, doc = "Cluster, its name, or as \"8xA6000@bridges\"" },
    { name = "intent", type = "table", default = {}, doc = "As of ts.intent: aim and limits" },
    { name = "schemes", type = "any", lua_type = "string[]", doc = "Of ts.schemes(); default: all" },
    { name = "kernel_set", type = "string", default = "modern", doc = "Whose kernels price the runs" },
    { name = "prompt_tokens", type = "integer", unit = "tokens", default = 512, min = 1, max = 1e6,
      doc = "Of the prompt" },
    { name = "output_tokens", type = "integer", unit = "tokens", default = 100, min = 1, max = 1e6,
      doc = "Of an answer" },
    { name = "policy", type = "any", lua_type = "string|function", default = "hybrid", doc = "As of ts.place" },
    { name = "account", type = "string", default = "base", doc = "As of ts.place" },
  },
}

-- What GPUs of each type cost (USD/h); without a type that has no price, unless somebody wants it.
local function prices_of(cluster, wanted)
  local prices = {}
  for _, device in ipairs(cluster.devices) do
    if not device.price_usd_per_h and (wanted.minimise == "usd" or wanted.limits.usd) then
      core.refuse(path .. ".intent.usd", ("nothing says what a %s costs; --usd-per-hour %s=1.29 does, or "
        .. "cluster:priced(\"%s\", 1.29)"):format(device.name, device.name, device.name))
    end
    prices[device.name] = device.price_usd_per_h
  end
  return prices
end

local function free_gpus(cluster)
  local gpus = {}
  for i, device in ipairs(cluster.devices) do
    gpus[i] = { free_bytes = device.memory_bytes, device = device.name }
  end
  return gpus
end

local most = 8 -- of the GPUs of a stage, and of stages, as in the paper

-- Powers of two, and stages.
local function degrees(num_gpus)
  local tensor, stages = {}, {}
  for i = 1, math.min(most, num_gpus) do stages[i] = i end
  local degree = 1
  while degree <= math.min(most, num_gpus) do
    tensor[#tensor + 1] = degree
    degree = 2 * degree
  end
  return tensor, stages
end

return function(given)
  local opt = read(given)
  local wanted = intent(opt.intent)
  local model, cluster = core.model(opt.model), core.cluster(opt.cluster)
  local tensor, stages = degrees(#cluster.devices)
  local configurations = space { model = model, cluster = cluster, tensor_parallel = tensor,
    pipeline_parallel = stages, schemes = opt.schemes }
  local map = fingerprint { model = model, cluster = cluster, kernel_set = opt.kernel_set,
    configurations = configurations, prompt_tokens = opt.prompt_tokens }
  local estimates = map:estimates { output_tokens = opt.output_tokens, prices = prices_of(cluster, wanted) }
  local refused = {}
  for _, row in ipairs(estimates) do
    if row.refused then refused[#refused + 1] = row end
  end
  local ranked, gpus = wanted:rank(estimates), free_gpus(cluster)
  -- Where the first of some rows goes that has room.
  local function placed_of(rows)
    return place(rows, gpus, { num_layers = model.num_layers, policy = opt.policy, account = opt.account })
  end
  local placed, why
  if #ranked > 0 then
    placed, why = placed_of(ranked)
  else
    why = { code = "infeasible", message = ("%s: no configuration of %s can run on %s%s"):format(path, model.name,
      cluster.name, refused[1] and "; the first: " .. refused[1].refused or ""), reasons = {} }
  end
  return { ranked = ranked, refused = refused, left_out = configurations.left_out, placed = placed, why = why,
    placed_of = placed_of, fingerprint = map, intent = wanted, model = model, cluster = cluster }
end
