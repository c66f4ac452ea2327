-- Deployments from kinds of engines: of one type of device, of all types together, and pools of prefill and decode
-- engines.
--
-- Equal engines share a stream evenly, so many of them sustain about so many times the rate of one, and more where
-- chance alone limits it: for the largest rate such deployments are simulated by one engine, pools by the smallest set
-- in their ratio, and what is ranked first, or mixes types, whole. For a given rate the fewest engines that hold it are
-- looked for, and simulated whole where they may be the best. The scope of a row says which.

local engines = require "tessera.serving.engines"
local pools = require "tessera.serving.pools"
local screen = require "tessera.serving.screen"

local M = {}

-- Engines beside each other sustain more than each alone does, by at most about this factor: tried before 1.
local together = { 1.3, 1.15, 1 }

local function num_engines(parts)
  local count = 0
  for _, part in ipairs(parts) do count = count + part.count end
  return count
end

local function refuse(search, parts, reason)
  search.reasons[#search.reasons + 1] = {
    engine = parts[2] and engines.layout(parts) or screen.name_of(parts[1].kind), reason = reason,
  }
end

-- A deployment of parts, of which `times` the one that was simulated make the whole.
local function result_of(parts, found, times, scope)
  local gpus, price = 0, 0
  for _, part in ipairs(parts) do
    local own, usd = part.count * part.kind.gpus, part.kind.entry.price_usd_per_h
    gpus, price = gpus + own, price and usd and price + own * usd
  end
  return { parts = parts, found = found, times = times, scope = scope, gpus = gpus, usd_per_h = price }
end

-- What engines.max_rate finds of parts, as it is; nil and why where they cannot be deployed.
local function run(search, parts, options)
  local deployment, why = engines.deploy(search, parts)
  if not deployment then return nil, why end
  local share = options.share or 1
  options.share, options.tolerance = nil, options.tolerance or engines.known_to
  return engines.max_rate(search, deployment, math.ceil(num_engines(parts) * share), options)
end

-- Simulates parts; nil where they keep to the SLO at no rate (that is wanted).
local function simulate(search, parts, options)
  local found, why = run(search, parts, options)
  if found and found.rate_per_s > 0 then return found end
  if why ~= engines.too_few then refuse(search, parts, why or found.limited_by) end
  return nil
end

local function stay_of(parts)
  local stay_s = 0
  for _, part in ipairs(parts) do stay_s = math.max(stay_s, part.kind.stay_s or 0) end
  return stay_s
end

-- Money or devices that an engine takes; infinite without a price.
local function cost_of(search, kind)
  if search.objective ~= "cost" then return kind.gpus end
  return kind.entry.price_usd_per_h and kind.gpus * kind.entry.price_usd_per_h or math.huge
end

-- Whether `count` engines hold the rate that is wanted: one run at it.
local function holds(search, kind, count)
  local found = run(search, { { kind = kind, count = count } },
    { least_rate_per_s = search.rate_per_s, guess_per_s = search.rate_per_s, max_runs = 1, share = 0.5,
      stay_s = kind.stay_s })
  return found ~= nil and found.rate_per_s > 0
end

-- The fewest engines from `low` to `high` that hold the rate, by bisection; nil where `high` do not.
local function fewest(search, kind, low, high)
  if not holds(search, kind, high) then return nil end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if holds(search, kind, middle) then high = middle else low = middle + 1 end
  end
  return high
end

-- Simulates `count` equal engines at the wanted rate, whole; nil where they miss it.
local function whole(search, kind, count)
  local parts = { { kind = kind, count = count } }
  local found = simulate(search, parts,
    { least_rate_per_s = search.rate_per_s, guess_per_s = search.rate_per_s, stay_s = kind.stay_s })
  return found and result_of(parts, found, 1, "whole")
end

-- Equal engines for a given rate: as few as their bound allows where that may beat `bar`, else what one of them says.
local function smallest(search, kind, bar)
  local cost = cost_of(search, kind)
  local alone = math.ceil(search.rate_per_s / kind.rate_per_s)
  local low = math.max(1, math.ceil(search.rate_per_s / (engines.finite_run * kind.bounds.rate_per_s)))
  local high = math.min(alone, kind.room, bar < math.huge and math.floor(bar / cost) or alone)
  if cost < math.huge and low <= high then
    local count = fewest(search, kind, low, high)
    local result = count and whole(search, kind, count)
    if result then return result, count * cost end
    if high == kind.room then alone = math.huge end -- all of them missed it
  end
  if alone <= kind.room then
    return result_of({ { kind = kind, count = alone } }, kind.found, alone, "one engine"), math.huge
  end
  refuse(search, { { kind = kind } }, ("%d engines sustain about %.3g req/s, %.3g are wanted"):format(kind.room,
    kind.room * kind.rate_per_s, search.rate_per_s))
end

-- Kinds of one type of device, equal engines, and what the best of them costs (for a given rate).
local function equal_engines(search, by_type)
  local list, kinds, bar = {}, {}, math.huge
  for _, group in ipairs(by_type) do
    for _, kind in ipairs(group.best) do kinds[#kinds + 1] = kind end
  end
  if search.objective == "rate" then
    for i, kind in ipairs(kinds) do
      list[i] = result_of({ { kind = kind, count = kind.room } }, kind.found, kind.room, "one engine")
    end
    return list, bar
  end
  local function promise(kind) return cost_of(search, kind) / kind.rate_per_s end
  table.sort(kinds, function(a, b)
    if promise(a) ~= promise(b) then return promise(a) < promise(b) end
    return screen.name_of(a) < screen.name_of(b)
  end)
  for _, kind in ipairs(kinds) do
    local result, cost = smallest(search, kind, bar)
    list[#list + 1] = result
    bar = math.min(bar, cost or math.huge)
  end
  return list, bar
end

-- Of the types together, the counts whose rates, `factor` times those of one engine alone, reach the rate for the least
-- money or the fewest devices; nil for none.
local function cheapest(search, parts, factor)
  local best, least, counts = nil, math.huge, {}
  local function go(i, rate, spent)
    if spent >= least then return end
    if rate >= search.rate_per_s then
      best, least = {}, spent
      for k = 1, i - 1 do
        if counts[k] > 0 then best[#best + 1] = { kind = parts[k].kind, count = counts[k] } end
      end
      return
    end
    local part = parts[i]
    if not part then return end
    for count = 0, part.kind.room do
      counts[i] = count
      go(i + 1, rate + factor * count * part.kind.rate_per_s, spent + count * cost_of(search, part.kind))
    end
  end
  go(1, 0, 0)
  return best, least
end

-- The best engines of every type beside each other; for a given rate where that costs less than `bar`.
local function all_types(search, by_type, bar)
  local parts, rate = {}, 0
  for _, group in ipairs(by_type) do
    local kind = group.best[1]
    if kind then
      parts[#parts + 1] = { kind = kind, count = kind.room }
      rate = rate + kind.room * kind.rate_per_s
    end
  end
  if #parts < 2 then return {} end
  if search.objective == "rate" then
    local found = simulate(search, parts, { guess_per_s = rate, stay_s = stay_of(parts) })
    return { found and result_of(parts, found, 1, "whole") }
  end
  for _, factor in ipairs(together) do
    local mix, cost = cheapest(search, parts, factor)
    if mix and #mix > 1 and cost < bar then
      local found = simulate(search, mix, { guess_per_s = search.rate_per_s, least_rate_per_s = search.rate_per_s,
        stay_s = stay_of(mix) })
      if found then return { result_of(mix, found, 1, "whole") } end
    end
  end
  return {}
end

local function disaggregated(search, by_type)
  local results = {}
  for i, each in ipairs(pools.search(search, by_type, function(parts, options)
    return simulate(search, parts, options)
  end)) do
    results[i] = result_of(each.parts, each.found, each.times, search.objective == "rate" and "half" or "whole")
  end
  return results
end

--- Simulates a result whole, from the rate that it promises. Where it misses the rate that is wanted, the result is
--- one of an engine more, or has failed.
function M.confirm(search, result)
  local promised = result.found.rate_per_s * result.times
  local wanted = search.objective ~= "rate" and search.rate_per_s or nil
  local found = simulate(search, result.parts, { guess_per_s = wanted or promised, least_rate_per_s = wanted,
    stay_s = result.found.served.e2e_s.mean })
  if found then
    result.found, result.times, result.scope = found, 1, "whole"
    return
  end
  local part = result.parts[1]
  if not wanted or result.parts[2] or part.count >= part.kind.room then
    result.failed = true
    return
  end
  local count = part.count + 1
  local larger = result_of({ { kind = part.kind, count = count } }, part.kind.found, count, "one engine")
  for name, value in pairs(larger) do result[name] = value end
end

--- What may be listed, in no order: { parts, found, times, scope, gpus, usd_per_h }.
function M.deployments(search, by_type)
  local found, bar = equal_engines(search, by_type)
  for _, result in ipairs(all_types(search, by_type, bar)) do found[#found + 1] = result end
  if search.disaggregated and search.traffics.lengths.output_tokens > 1 then
    for _, result in ipairs(disaggregated(search, by_type)) do found[#found + 1] = result end
  end
  return found
end

return M
