-- The engines that a cluster may be cut into: groups of equal devices with a degree of tensor parallelism, a number of
-- stages, a bitwidth and a KV cache; and what bounds their rates before anything is simulated.

local routers = require "tessera.routers"

local M = {}

--- Devices of a cluster by type, in the order in which they appear: { name, indices = { node = { 0-based, ... } },
--- nodes = { node, ... }, count, price_usd_per_h }.
function M.types_of(cluster)
  local types, by_name, node_of = {}, {}, cluster:node_indices()
  for i, device in ipairs(cluster.devices) do
    local entry = by_name[device.name]
    if not entry then
      entry = { name = device.name, nodes = {}, indices = {}, count = 0, price_usd_per_h = device.price_usd_per_h }
      by_name[device.name], types[#types + 1] = entry, entry
    end
    local node = node_of[i]
    if not entry.indices[node] then
      entry.indices[node], entry.nodes[#entry.nodes + 1] = {}, node
    end
    table.insert(entry.indices[node], i - 1)
    entry.count = entry.count + 1
  end
  return types
end

--- Most devices of a type on one node.
function M.widest(entry)
  local most = 0
  for _, node in ipairs(entry.nodes) do most = math.max(most, #entry.indices[node]) end
  return most
end

--- Devices for `count` engines of `degree` x `stages`, from `used` (by index: true) on left alone; nil where there is
--- no room. Groups stay on a node, pipelines on one as far as they go.
function M.devices_for(entry, degree, stages, count, used)
  local chosen, rest = {}, {}
  local function take(groups)
    for first = 1, #groups - stages + 1, stages do
      if #chosen == count * degree * stages then return end
      for k = first, first + stages - 1 do
        for _, index in ipairs(groups[k]) do chosen[#chosen + 1] = index end
      end
    end
    for k = #groups - #groups % stages + 1, #groups do rest[#rest + 1] = groups[k] end
  end
  for _, node in ipairs(entry.nodes) do
    local groups, open = {}, {}
    for _, index in ipairs(entry.indices[node]) do
      if not used or not used[index] then open[#open + 1] = index end
      if #open == degree then
        groups[#groups + 1], open = open, {}
      end
    end
    take(groups)
  end
  local across = rest
  rest = {}
  take(across)
  if #chosen < count * degree * stages then return nil end
  table.sort(chosen)
  return chosen
end

--- How many engines of a shape a type has room for.
function M.room(entry, degree, stages)
  local count = math.floor(entry.count / (degree * stages))
  while count > 0 and not M.devices_for(entry, degree, stages, count) do count = count - 1 end
  return count
end

-- What ts.deployment is told of a pool.
local function pool_options(search, kind, devices, count)
  return {
    cluster = search.cluster:part(devices), tensor_parallel = kind.degree, pipeline_parallel = kind.stages,
    replicas = count, bitwidths = { kind.bitwidth }, kv_bitwidth = kind.kv_bitwidth, engine = kind.engine,
  }
end

--- A deployment of parts { kind =, count =, role = }, or nil and why (one line).
function M.deploy(search, parts)
  local options = { model = search.model, kernel_set = search.kernel_set, router = search.router }
  local pools, used = {}, {}
  for _, part in ipairs(parts) do
    local devices = M.devices_for(part.kind.entry, part.kind.degree, part.kind.stages, part.count, used)
    if not devices then return nil, "too few devices" end
    for _, index in ipairs(devices) do used[index] = true end
    local pool = pool_options(search, part.kind, devices, part.count)
    pool.role = part.role or "mixed"
    pools[#pools + 1] = pool
  end
  if #pools == 1 then
    pools[1].role = nil
    for name, value in pairs(pools[1]) do options[name] = value end
  else
    options.pools = pools
  end
  for _, part in ipairs(parts) do
    if part.role == "prefill" then options.transfer = search.transfer(used) end
  end
  local fine, result = pcall(routers.deployment, options)
  if fine then return result end
  if type(result) == "table" and result.code == "interrupted" then error(result, 0) end
  return nil, tostring(result)
end

-- Requests come for so many times as long as they stay; below 8 max_rate notes that a longer run may sustain less.
local stays_wanted, most_requests_simulated = 10, 200000

--- ts.max_rate of a deployment under the search's traffic, `num_engines` engines' worth of it. Where its requests came
--- for too short a time to show what piles up, once more with as many as that takes.
function M.max_rate(search, deployment, num_engines, options)
  search.simulated = search.simulated + 1
  options.slo = search.slo
  local traffic = search.traffics.of(num_engines)
  local found = search.max_rate(deployment, traffic, options)
  if found.note == "" or not search.traffics.sized then return found end
  local wanted = stays_wanted * found.rate_per_s * found.served.e2e_s.mean
  local factor = math.min(wanted, most_requests_simulated) / traffic.num_requests
  if factor <= 1 then return found end
  options.guess_per_s = found.rate_per_s
  return search.max_rate(deployment, search.traffics.of(num_engines, factor), options)
end

-- Sizes of batches at which rates are bounded.
local batch_sizes = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 }

local function context_of(lengths) return math.floor(lengths.prompt_tokens + lengths.output_tokens / 2) end

-- Requests that an engine holds: seats, or what its KV cache has room for.
local function most_requests(deployment, lengths, limits)
  local per_request = lengths.prompt_tokens + lengths.output_tokens / 2
  return math.min(limits.max_num_seqs, math.max(1, math.floor(deployment.replicas[1].kv_tokens / per_request)))
end

--- What one engine does at most, from the prices of its steps: ttft_s and tpot_s of a request alone, and rate_per_s: in
--- decode steps of a batch within the limit on TPOT each request takes output_tokens steps of its share, and prompts
--- cost at least the slope of the largest step. With `batch`, where that is reached, and the same for decode steps
--- alone and prompts alone.
function M.bounds(deployment, lengths, limits, tpot_limit_s)
  local p, n, context = lengths.prompt_tokens, lengths.output_tokens, context_of(lengths)
  local bounds = {
    ttft_s = deployment:step_s { num_prompts = 1, prompt_tokens = math.max(1, math.floor(p)) },
    tpot_s = deployment:step_s { num_decodes = 1, context_tokens = context },
    decode_rate_per_s = 0,
  }
  local large = math.max(2, limits.max_num_batched_tokens)
  local half = math.floor(large / 2)
  local slope = (deployment:step_s { num_prompts = 1, prompt_tokens = large }
    - deployment:step_s { num_prompts = 1, prompt_tokens = half }) / (large - half)
  local most = most_requests(deployment, lengths, limits)
  for _, batch in ipairs(batch_sizes) do
    batch = math.min(batch, most)
    local step_s = deployment:step_s { num_decodes = batch, context_tokens = context }
    if step_s > tpot_limit_s then break end
    bounds.decode_rate_per_s = math.max(bounds.decode_rate_per_s, batch / (n * step_s))
  end
  bounds.prompt_rate_per_s = 1 / (p * math.max(slope, 1e-12))
  bounds.rate_per_s = math.min(bounds.decode_rate_per_s, bounds.prompt_rate_per_s)
  return bounds
end

-- The steady state at a rate: steps of s seconds with B = rate n s decodes and rate p s prompt tokens. nil where the
-- engine has no room for it.
local function steady_step_s(deployment, lengths, limits, most, rate)
  local p, n, context = lengths.prompt_tokens, lengths.output_tokens, context_of(lengths)
  local step_s = deployment:step_s { num_decodes = 1, context_tokens = context }
  for _ = 1, 30 do
    local batch, tokens = rate * n * step_s, rate * p * step_s
    if batch > most or batch + tokens > limits.max_num_batched_tokens then return nil end
    local load = { num_decodes = math.ceil(batch), context_tokens = context }
    if tokens >= 1 then load.num_prompts, load.prompt_tokens = 1, math.floor(tokens) end
    local next_s = deployment:step_s(load)
    if math.abs(next_s - step_s) < 1e-3 * step_s then return next_s end
    step_s = step_s + 0.7 * (next_s - step_s)
  end
  return step_s
end

--- About what one engine sustains: the largest rate whose steady state has room and keeps to the limit on TPOT.
function M.estimate(deployment, lengths, limits, tpot_limit_s, bound)
  local most = most_requests(deployment, lengths, limits)
  local low, high = 0, bound
  for _ = 1, 12 do
    local rate = (low + high) / 2
    local step_s = steady_step_s(deployment, lengths, limits, most, rate)
    if step_s and step_s <= tpot_limit_s then low = rate else high = rate end
  end
  return low
end

return M
