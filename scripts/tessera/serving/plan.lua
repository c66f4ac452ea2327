-- ts.plan_serving { ... }: which engines, on which devices, serve a stream of requests within an SLO best.
--
-- Engines of each type of device (degree, stages, bitwidth, KV cache) that the runtime can run are bounded by the
-- prices of their steps; those that could still be among the best are simulated alone, one rate after another on the
-- same requests; what fills the cluster, or is enough for the rate, is put together from the best, with pools of
-- prefill and decode engines beside it; the winners' limits on requests and tokens are tried; and what is first was
-- simulated whole.

local assemble = require "tessera.serving.assemble"
local core = require "tessera.core"
local engines = require "tessera.serving.engines"
local options = require "tessera.options"
local ranked = require "tessera.serving.ranked"
local screen = require "tessera.serving.screen"
local solver = require "tessera.solver"
local traffics = require "tessera.serving.traffics"

local path = "ts.plan_serving"
local fail = core.refuse

local read = options.card {
  name = path,
  doc = "The deployments of a model on a cluster that serve traffic within an SLO, the best first: how many engines, "
    .. "of which devices, tensor parallelism, stages, bitwidths, KV cache, limits on requests and tokens, prefill and "
    .. "decode in one engine or in pools of their own. A list of tables with rate_per_s (the largest that held), "
    .. "scope (what was simulated: whole, one engine of many, or half: half the requests, by the smallest set in the "
    .. "ratio of the pools), tok_s_per_gpu, tok_s_per_user, ttft_p99_s, tpot_p99_s, gpus, engines, layout, parts "
    .. "(role, device, engines, tensor_parallel, pipeline_parallel, bitwidth, kv_bitwidth, engine of each kind), "
    .. "bitwidth and kv_bitwidth (the least of the parts), quality (of the worst part), usd_per_h, "
    .. "usd_per_million_tokens, limited_by and deployment; :frontier() gives tokens per user against tokens per GPU, "
    .. ":export(kind, folder) writes what starts one. Or nil and why (infeasible), with the reason for each kind of "
    .. "engine in why.reasons.",
  returns = "tessera.ServingPlans?, tessera.Error?",
  options = {
    { name = "model", type = "any", lua_type = "tessera.Model|string|table", required = true,
      doc = "Model, or its name" },
    { name = "cluster", type = "any", lua_type = "tessera.Cluster|string|table", required = true,
      doc = "Cluster, or its name; devices may be left out" },
    { name = "traffic", type = "any", lua_type = "tessera.Traffic|table", required = true,
      doc = "Traffic, or a table of the options of ts.traffic; for objectives cost and gpus with its rate" },
    { name = "slo", type = "table", required = true, doc = "As for ts.max_rate" },
    { name = "objective", type = "choice", default = "rate", choices = { "rate", "cost", "gpus" },
      doc = "The largest rate, or the traffic's own rate with the least money or the fewest devices" },
    { name = "quality", type = "table",
      doc = "{ max_perplexity_increase = } or { min_accuracy_recovery = }, as for ts.problem; default: 16 and 8 bits" },
    { name = "runtime", type = "choice", default = "vllm", choices = { "vllm", "tessera" },
      doc = "What is to run it. vllm: only engines that plan:export can launch, with bitwidths and KV caches that vLLM "
        .. "has kernels for on their devices, and pools that its NixlConnector joins; tessera: all that a kernel set "
        .. "has a price for. Either way each engine has one bitwidth throughout" },
    { name = "engine", type = "any", lua_type = "tessera.Engine|table", doc = "Options of ts.engine that are settled" },
    { name = "bitwidths", type = "integers", unit = "bits",
      doc = "To choose from; default: 16 and 8, with a bound on quality 4 too, for tessera 3 too" },
    { name = "kv_bitwidths", type = "integers", unit = "bits",
      doc = "To choose from; default: 16, and 8 where the runtime's kernels read it" },
    { name = "tensor_parallel", type = "integers", doc = "Degrees to choose from; default: powers of two" },
    { name = "pipeline_parallel", type = "integers", doc = "Stages to choose from; default: as few as hold the model" },
    { name = "disaggregated", type = "boolean", default = true, doc = "Look at prefill and decode pools too" },
    { name = "router", type = "any", lua_type = "string|table", default = "least_requests",
      doc = "As for ts.deployment" },
    { name = "kernel_set", type = "string", default = "auto", doc = "As for ts.deployment" },
    { name = "limit", type = "integer", default = 8, min = 1, max = 100, doc = "Deployments listed" },
    { name = "num_requests", type = "integer", default = 2000, min = 20, max = 1e6,
      doc = "Per engine and simulated rate, where traffic is a table without it" },
  },
}

local read_quality = options.reader(path .. ".quality", {
  { name = "max_perplexity_increase", type = "number", min = 0, max = 10 },
  { name = "min_accuracy_recovery", type = "number", min = 0, max = 1 },
  { name = "at", type = "choice", choices = { "high", "mid" }, default = "high" },
})

local function quality_of(given)
  if not given then return nil end
  local quality = read_quality(given)
  if not (quality.max_perplexity_increase or quality.min_accuracy_recovery) then
    fail(path .. ".quality", "give max_perplexity_increase = 0.01, or min_accuracy_recovery = 0.99")
  end
  return quality
end

local function check_degrees(degrees, name)
  for _, degree in ipairs(degrees or {}) do
    if degree < 1 then fail(path .. "." .. name, ("%d; 1 is the least"):format(degree)) end
  end
end

-- The strictest limit that an SLO, or any of a list by class, has on a metric: on each request, or on a statistic.
local function limit_of(slo, metric)
  local least = math.huge
  for _, class in ipairs(slo[1] and slo or { slo }) do
    local target = type(class) == "table" and class[metric] or nil
    for _, value in pairs(type(target) == "table" and target or { target }) do
      least = math.min(least, tonumber(value) or math.huge)
    end
  end
  return least
end

-- Without a bound on quality those that hardly cost any; with one all that the runtime may have kernels for.
local function default_bitwidths(opt)
  if not opt.quality then return { 16, 8 } end
  return opt.runtime == "tessera" and { 16, 8, 4, 3 } or { 16, 8, 4 }
end

local function default_degrees(types)
  local degrees, degree, widest = {}, 1, 0
  for _, entry in ipairs(types) do widest = math.max(widest, engines.widest(entry)) end
  while degree <= widest do degrees[#degrees + 1], degree = degree, degree * 2 end
  return degrees
end

-- The link that keys and values take: the slowest among the devices that are used. vLLM's decode
-- engines read them when a prompt is done, Tessera's get them layer by layer while it runs.
local function transfer_over(cluster, runtime)
  return function(used)
    local indices, slowest = {}, nil
    for index in pairs(used) do indices[#indices + 1] = index end
    table.sort(indices)
    for k = 2, #indices do
      local link = cluster:link(indices[1], indices[k])
      if not slowest or link.bytes_per_s < slowest.bytes_per_s then slowest = link end
    end
    return slowest and { bytes_per_s = slowest.bytes_per_s, latency_s = slowest.latency_s,
      per_layer = runtime ~= "vllm" }
  end
end

local function check_slo(slo)
  if next(slo) == nil then
    fail(path .. ".slo", "give limits, such as { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.05 } }")
  end
end

local function search_of(opt)
  local cluster = core.cluster(opt.cluster)
  local search = {
    model = core.model(opt.model), cluster = cluster, slo = opt.slo, kernel_set = opt.kernel_set, router = opt.router,
    objective = opt.objective, limit = opt.limit, quality = quality_of(opt.quality), runtime = opt.runtime,
    disaggregated = opt.disaggregated, types = engines.types_of(cluster),
    transfer = transfer_over(cluster, opt.runtime),
    ttft_limit_s = limit_of(opt.slo, "ttft_s"), tpot_limit_s = limit_of(opt.slo, "tpot_s"), reasons = {},
    simulated = 0, bounded = 0, max_rate = solver.max_rate, looked_at = {},
  }
  search.traffics = traffics.new(opt.traffic, opt.num_requests, path .. ".traffic")
  search.rate_per_s = search.traffics.rate_per_s
  if opt.objective ~= "rate" and not search.rate_per_s then
    fail(path .. ".traffic",
      ("objective = \"%s\" serves the traffic's own rate; give it rate_per_s"):format(opt.objective))
  end
  check_degrees(opt.tensor_parallel, "tensor_parallel")
  check_degrees(opt.pipeline_parallel, "pipeline_parallel")
  search.degrees_given = opt.tensor_parallel ~= nil
  search.degrees = opt.tensor_parallel or default_degrees(search.types)
  search.stages = opt.pipeline_parallel
  search.bitwidths = opt.bitwidths or default_bitwidths(opt)
  search.kv_bitwidths = opt.kv_bitwidths or { 16, 8 }
  search.engine = opt.engine
  return search
end

return function(given)
  local opt = read(given)
  check_slo(opt.slo)
  local search = search_of(opt)
  local kinds = screen.kinds(search)
  local found = assemble.deployments(search, kinds)
  local list = #found > 0 and ranked.list(search, found, function(result) assemble.confirm(search, result) end)
  if not list then return nil, ranked.why(search) end
  return list
end
