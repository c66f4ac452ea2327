-- Deployments from kinds of engines: of one type of device, of all types together, and pools of prefill and decode
-- engines.
--
-- Equal engines share a stream evenly, so many of them sustain at least so many times the rate of one that is fed by
-- chance alone: such deployments are simulated by one engine, pools by the smallest set in their ratio, and what is
-- ranked first, or mixes types, whole. The scope of a row says which.

local engines = require "tessera.serving.engines"
local screen = require "tessera.serving.screen"

local M = {}

-- Of the rate that pools reach when neither waits for the other, where their search begins.
local pool_share = 0.8
local most_pools = 1 -- that are simulated

local function gcd(a, b) return b == 0 and a or gcd(b, a % b) end

local function num_engines(parts)
  local count = 0
  for _, part in ipairs(parts) do count = count + part.count end
  return count
end

-- As many engines as the objective wants: all that there is room for, or enough for the rate.
local function count_for(search, kind)
  if search.objective == "rate" then return kind.room end
  return math.max(1, math.ceil(search.rate_per_s / kind.rate_per_s))
end

local function refuse(search, parts, reason)
  search.reasons[#search.reasons + 1] = {
    engine = parts[1].role and "pools of prefill and decode engines" or screen.name_of(parts[1].kind), reason = reason,
  }
end

-- A deployment of parts, of which `unit` was simulated, `times` over.
local function result_of(parts, found, times, scope)
  local gpus, price = 0, 0
  for _, part in ipairs(parts) do
    local own, usd = part.count * part.kind.gpus, part.kind.entry.price_usd_per_h
    gpus, price = gpus + own, price and usd and price + own * usd
  end
  return { parts = parts, found = found, times = times, scope = scope, gpus = gpus, usd_per_h = price }
end

-- One type of device, equal engines.
local function equal_engines(search, by_type)
  local list = {}
  for _, group in ipairs(by_type) do
    for _, kind in ipairs(group.best) do
      local count = count_for(search, kind)
      if count <= kind.room then
        list[#list + 1] = result_of({ { kind = kind, count = count } }, kind.found, count, "one engine")
      else
        refuse(search, { { kind = kind } }, ("%d engines sustain %.3g req/s, %.3g are wanted"):format(kind.room,
          kind.room * kind.rate_per_s, search.rate_per_s))
      end
    end
  end
  return list
end

-- Simulates parts whole; nil where they keep to the SLO at no rate.
local function simulate(search, parts, guess_per_s, least_rate_per_s, tolerance, share)
  local deployment, why = engines.deploy(search, parts)
  if not deployment then
    refuse(search, parts, why)
    return nil
  end
  local found = engines.max_rate(search, deployment, math.ceil(num_engines(parts) * (share or 1)), {
    tolerance = tolerance or 0.03, guess_per_s = guess_per_s, least_rate_per_s = least_rate_per_s,
  })
  if found.rate_per_s > 0 then return found end
  refuse(search, parts, found.limited_by)
  return nil
end

-- Of the types together, the counts that reach the rate for the least money or the fewest devices; nil for none.
local function cheapest(search, parts)
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
    local price = search.objective == "cost" and part.kind.entry.price_usd_per_h or 1
    for count = 0, part.kind.room do
      counts[i] = count
      go(i + 1, rate + count * part.kind.rate_per_s, spent + count * part.kind.gpus * price)
    end
  end
  go(1, 0, 0)
  return best
end

-- The best engines of every type beside each other.
local function all_types(search, by_type)
  local parts, rate = {}, 0
  for _, group in ipairs(by_type) do
    local kind = group.best[1]
    if kind then
      parts[#parts + 1] = { kind = kind, count = kind.room }
      rate = rate + kind.room * kind.rate_per_s
    end
  end
  if #parts < 2 then return {} end
  if search.objective ~= "rate" then parts = cheapest(search, parts) end
  if not parts or #parts < 2 then return {} end
  local wanted = search.objective ~= "rate" and search.rate_per_s or nil
  local found = simulate(search, parts, wanted or rate, wanted)
  return { found and result_of(parts, found, 1, "whole") }
end

-- Counts of prefill and decode engines that balance best on the devices there are: x, y and the rate.
local function balanced(search, p, d)
  local best, x_best, y_best = 0, nil, nil
  for x = 1, p.room do
    local room = p.entry == d.entry and math.floor((p.entry.count - x * p.gpus) / d.gpus) or d.room
    local y = math.min(room, math.max(1, math.ceil(x * p.bounds.prompt_rate_per_s / d.bounds.decode_rate_per_s)))
    local rate = y >= 1 and math.min(x * p.bounds.prompt_rate_per_s, y * d.bounds.decode_rate_per_s) or 0
    if search.objective ~= "rate" then
      if rate >= search.rate_per_s then return x, y, rate end
    elseif rate > 1.01 * best then
      best, x_best, y_best = rate, x, y
    end
  end
  return x_best, y_best, best
end

-- Pools of the best kinds, those of most promise.
local function pools(search, by_type)
  local kinds, list = {}, {}
  for _, group in ipairs(by_type) do
    for i = 1, math.min(2, #group.best) do kinds[#kinds + 1] = group.best[i] end
  end
  for _, p in ipairs(kinds) do
    for _, d in ipairs(kinds) do
      local x, y, rate = balanced(search, p, d)
      if x and d.bounds.decode_rate_per_s > 0 then list[#list + 1] = { p = p, d = d, x = x, y = y, rate = rate } end
    end
  end
  table.sort(list, function(a, b) return a.rate > b.rate end)
  return list
end

local function disaggregated(search, by_type)
  local results, list = {}, pools(search, by_type)
  for i = 1, math.min(most_pools, #list) do
    local e = list[i]
    local times = gcd(e.x, e.y)
    local function parts_of(divisor)
      return {
        { kind = e.p, count = e.x / divisor, role = "prefill" }, { kind = e.d, count = e.y / divisor, role = "decode" },
      }
    end
    local found = simulate(search, parts_of(times), pool_share * e.rate / times,
      search.objective ~= "rate" and search.rate_per_s / times or nil, 0.07, 0.5)
    if found then
      results[#results + 1] = result_of(parts_of(1), found, times, "pools, half the requests")
    end
  end
  return results
end

--- Simulates the winner whole, from the rate that it promises. Where it misses the rate that is wanted, the result is
--- one of an engine more, or has failed.
function M.confirm(search, result)
  local promised = result.found.rate_per_s * result.times
  local wanted = search.objective ~= "rate" and search.rate_per_s or nil
  local found = simulate(search, result.parts, wanted or promised, wanted, 0.07)
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
  local found = equal_engines(search, by_type)
  for _, result in ipairs(all_types(search, by_type)) do found[#found + 1] = result end
  if search.disaggregated then
    for _, result in ipairs(disaggregated(search, by_type)) do found[#found + 1] = result end
  end
  return found
end

return M
