-- The engines that a cluster may be cut into: groups of equal devices with a degree of tensor parallelism, a number of
-- stages, a bitwidth and a KV cache; and what bounds their rates before anything is simulated.

local routers = require "tessera.plugins.routers"

local M = {}

--- Devices of a cluster by type, in the order in which they appear: { name, indices = { node = { 0-based, ... } },
--- nodes = { node, ... }, count, price_usd_per_h, compute_capability }.
function M.types_of(cluster)
  local types, by_name, node_of = {}, {}, cluster:node_indices()
  for i, device in ipairs(cluster.devices) do
    local entry = by_name[device.name]
    if not entry then
      entry = { name = device.name, nodes = {}, indices = {}, count = 0, price_usd_per_h = device.price_usd_per_h,
        compute_capability = device.compute_capability }
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

M.too_few = "too few devices"

--- "prefill 2 x L4 + decode 1 x L4 TP2".
function M.layout(parts)
  local words = {}
  for i, part in ipairs(parts) do
    local kind = part.kind
    local shape = kind.degree > 1 and ("TP%d"):format(kind.degree) or ""
    if kind.stages > 1 then shape = shape .. ("PP%d"):format(kind.stages) end
    words[i] = ("%s%d x %s%s"):format(part.role and part.role .. " " or "", part.count, kind.entry.name,
      shape ~= "" and " " .. shape or "")
  end
  return table.concat(words, " + ")
end

--- Devices for each of the parts { kind =, count =, role = }, and all of them by index; nil where there are too few.
function M.place(parts)
  local placed, used = {}, {}
  for i, part in ipairs(parts) do
    placed[i] = M.devices_for(part.kind.entry, part.kind.degree, part.kind.stages, part.count, used)
    if not placed[i] then return nil end
    for _, index in ipairs(placed[i]) do used[index] = true end
  end
  return placed, used
end

--- The deployment of one part alone, on its devices.
function M.deploy_on(search, part, devices)
  local options = pool_options(search, part.kind, devices, part.count)
  options.model, options.kernel_set, options.router = search.model, search.kernel_set, search.router
  return routers.deployment(options)
end

--- A deployment of parts { kind =, count =, role = }, or nil and why (one line).
function M.deploy(search, parts)
  local options = { model = search.model, kernel_set = search.kernel_set, router = search.router }
  local placed, used = M.place(parts)
  if not placed then return nil, M.too_few end
  local pools = {}
  for i, part in ipairs(parts) do
    local pool = pool_options(search, part.kind, placed[i], part.count)
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
local stays_wanted, most_requests_simulated = 8.5, 200000

--- ts.max_rate of a deployment under the search's traffic: `num_engines` engines' worth of it, or more where requests
--- that stay `options.stay_s` would come for too short a time to show what piles up. Where that was foreseen wrongly,
--- once more with as many as it takes.
function M.max_rate(search, deployment, num_engines, options)
  search.simulated = search.simulated + 1
  options.slo = search.slo
  local foreseen, stay_s = 0, options.stay_s
  if stay_s then foreseen = stays_wanted * stay_s * math.max(options.guess_per_s, options.least_rate_per_s or 0) end
  options.stay_s = nil
  local traffic = search.traffics.of(num_engines, math.min(foreseen, most_requests_simulated))
  local found = search.max_rate(deployment, traffic, options)
  if found.note == "" or not search.traffics.sized or options.max_runs then return found end
  local wanted = stays_wanted * found.rate_per_s * found.served.e2e_s.mean
  if math.min(wanted, most_requests_simulated) <= traffic.num_requests then return found end
  options.guess_per_s = found.rate_per_s
  traffic = search.traffics.of(num_engines, math.min(wanted, most_requests_simulated))
  return search.max_rate(deployment, traffic, options)
end

--- Rates are known to so much of themselves: between the one that held and the one that was too much.
M.known_to = 0.07

--- Times a bound, what a run may hold that starts empty and ends.
M.finite_run = 1.02

-- Sizes of batches at which rates are bounded.
local batch_sizes = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 }

local function context_of(lengths) return math.floor(lengths.prompt_tokens + lengths.output_tokens / 2) end

-- Requests that an engine holds: seats, or what its KV cache has room for.
local function most_requests(deployment, lengths, limits)
  local per_request = lengths.prompt_tokens + lengths.output_tokens / 2
  return math.min(limits.max_num_seqs, math.max(1, math.floor(deployment.replicas[1].kv_tokens / per_request)))
end

-- Seconds that prompts take in the largest step: of each all that is in it, and of each beyond the half of them, when
-- what a step takes anyway is shared with others. Prompts longer than a step come in chunks with half of the others
-- before them.
local function prompt_times(deployment, lengths, limits)
  local p, large = math.max(1, math.floor(lengths.prompt_tokens)), math.max(2, limits.max_num_batched_tokens)
  local function step_s(count, tokens)
    return deployment:step_s { num_prompts = count, prompt_tokens = tokens,
      prompt_context_tokens = math.floor(math.max(0, p - large) / 2) }
  end
  local count = math.floor(large / p)
  if count < 2 then
    local tokens = math.min(p, large)
    local half = math.max(1, math.floor(tokens / 2))
    local all_s = step_s(1, tokens)
    local alone_s, more_s = all_s * p / tokens, (all_s - step_s(1, half)) * p / math.max(1, tokens - half)
    return alone_s, math.min(alone_s, more_s) -- the later half attends to more
  end
  local half = math.floor(count / 2)
  local all_s = step_s(count, p)
  local more_s = (all_s - step_s(half, p)) / (count - half)
  local full = large / p -- the last of them in part
  return (all_s + (full - count) * more_s) / full, more_s
end

-- The largest batch, up to `most`, whose decode steps keep to the limit on TPOT, and their time; nil where none does.
local function largest_batch(deployment, context, most, tpot_limit_s)
  local function step_s(batch) return deployment:step_s { num_decodes = batch, context_tokens = context } end
  local low, high = 0, nil
  for _, batch in ipairs(batch_sizes) do
    batch = math.min(batch, most)
    if step_s(batch) > tpot_limit_s then
      high = batch
      break
    end
    low = batch
  end
  while high and high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if step_s(middle) <= tpot_limit_s then low = middle else high = middle end
  end
  if low > 0 then return low, step_s(low) end
end

--- What one engine does at most, from the prices of its steps: ttft_s and tpot_s of a request alone, and rate_per_s:
--- in decode steps of a batch within the limit on TPOT each request takes its share of output_tokens - 1 steps, and
--- prompts cost at least what one more costs in a large step. The same for decode steps alone (decode_rate_per_s, at
--- decode_batch and decode_step_s) and for steps of prompts alone (prefill_rate_per_s).
function M.bounds(deployment, lengths, limits, tpot_limit_s)
  local n, context = math.max(1, lengths.output_tokens - 1), context_of(lengths)
  local bounds = {
    ttft_s = deployment:step_s { num_prompts = 1, prompt_tokens = math.max(1, math.floor(lengths.prompt_tokens)) },
    tpot_s = deployment:step_s { num_decodes = 1, context_tokens = context },
    decode_rate_per_s = 0, decode_batch = 0,
  }
  local batch, step_s = largest_batch(deployment, context, most_requests(deployment, lengths, limits), tpot_limit_s)
  if batch then
    bounds.decode_batch, bounds.decode_step_s, bounds.decode_rate_per_s = batch, step_s, batch / (n * step_s)
  end
  local alone_s, shared_s = prompt_times(deployment, lengths, limits)
  bounds.prefill_rate_per_s = 1 / math.max(alone_s, 1e-12)
  bounds.rate_per_s = math.min(bounds.decode_rate_per_s, 1 / math.max(shared_s, 1e-12))
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

--- About what one engine sustains: the largest rate whose steady state has room and keeps to the limit on TPOT; and
--- how long a request decodes then.
function M.estimate(deployment, lengths, limits, tpot_limit_s, bound)
  local most = most_requests(deployment, lengths, limits)
  local low, high, decode_s = 0, bound, 0
  for _ = 1, 12 do
    local rate = (low + high) / 2
    local step_s = steady_step_s(deployment, lengths, limits, most, rate)
    if step_s and step_s <= tpot_limit_s then
      low, decode_s = rate, step_s * lengths.output_tokens
    else
      high = rate
    end
  end
  return low, decode_s
end

return M
