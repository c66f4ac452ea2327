-- AlpaServe's buckets of models of about one size, and the ways to split GPUs among them, as its public code has them
-- (use_separation; alpa-projects/mms).

local core = require "tessera.core"
local row_of = require("tessera.serving.fixed_shape").row

local M = {}

-- Times on one GPU that differ by less are alike.
local alike = 0.38
local most_ways, few_ways = 1e5, 100

-- The bucket of those whose first model's time this one is like, else a new one.
local function bucket_for(list, one_gpu_s)
  for _, bucket in ipairs(list) do
    if math.abs(one_gpu_s - bucket.one_gpu_s) / bucket.one_gpu_s < alike then return bucket end
  end
  list[#list + 1] = { models = {}, requests = {}, one_gpu_s = one_gpu_s }
  return list[#list]
end

--- Buckets { models, requests, one_gpu_s }, the last of a request of mean length; nil where a model has no estimate of
--- one GPU.
--- @param requests { { model = its index, num_tokens = }, ... }
function M.of(models, requests, scheme)
  local list, of_model, tokens = {}, {}, 0
  for _, request in ipairs(requests) do tokens = tokens + request.num_tokens / #requests end
  for _, model in ipairs(models) do
    local row = row_of(model, scheme, 1, 1)
    if not row then return nil end
    local bucket = bucket_for(list, row.ttft_s + (tokens - 1) * row.tpot_s)
    bucket.models[#bucket.models + 1], of_model[model.index] = model, bucket
  end
  for _, request in ipairs(requests) do
    local own = of_model[request.model].requests
    own[#own + 1] = request
  end
  return list
end

local function num_ways(count, num_buckets)
  local ways = 1
  for i = 1, num_buckets - 1 do ways = ways * (count - i) / i end
  return ways
end

-- Every way, one GPU each at least.
local function all_ways(count, num_buckets)
  if num_buckets == 1 then return { { count } } end
  local ways = {}
  for first = 1, count - num_buckets + 1 do
    for _, rest in ipairs(all_ways(count - first, num_buckets - 1)) do ways[#ways + 1] = { first, unpack(rest) } end
  end
  return ways
end

-- How far the share of a bucket in throughput is from its share in requests, at most.
local function distance(way, buckets)
  local requests, throughput, most = 0, 0, 0
  for i, bucket in ipairs(buckets) do
    requests, throughput = requests + #bucket.requests, throughput + way[i] / bucket.one_gpu_s
  end
  for i, bucket in ipairs(buckets) do
    most = math.max(most, math.abs(#bucket.requests / requests - way[i] / bucket.one_gpu_s / throughput))
  end
  return most
end

--- Ways to split so many GPUs among buckets, { GPUs of each, ... }. Of a hundred or more those whose throughputs are as
--- requests are, within 50, 30, 20 or 10 %, the first that leaves fewer.
function M.splits(count, buckets)
  if num_ways(count, #buckets) > most_ways then
    core.refuse("ts.deployment.strategy.use_separation", ("%d GPUs can be split among %d buckets of models in more "
      .. "than %d ways; take fewer GPUs, or leave it out"):format(count, #buckets, most_ways))
  end
  local ways, kept = all_ways(count, #buckets), nil
  for _, threshold in ipairs { 1, 0.5, 0.3, 0.2, 0.1 } do
    kept = {}
    for _, way in ipairs(ways) do
      if distance(way, buckets) < threshold then kept[#kept + 1] = way end
    end
    if #kept < few_ways then break end
  end
  return kept
end

return M
