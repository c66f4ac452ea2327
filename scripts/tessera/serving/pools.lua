-- Pools of prefill and decode engines: which kinds, and how many of each.
--
-- Prefill engines complete no more than their steps of prompts alone do, decode engines no more than their largest
-- batch within the limit on TPOT, a deployment no more than the lesser of both: its bound. What chance takes off is
-- estimated, the candidates are simulated in the order of the estimate, and each only as far as it takes to see
-- whether it beats the best so far. All see the same requests.

local engines = require "tessera.serving.engines"
local runtimes = require "tessera.serving.runtimes"
local screen = require "tessera.serving.screen"

local M = {}

-- Candidates that are simulated at most, for the largest rate; for each type of device beyond the first as many more.
-- Those that miss a given rate end soon, so for the smallest set there may be more.
local most_tries = { rate = 4, cost = 12, gpus = 12 }
local most_shapes = 3 -- of the same two kinds, for the largest rate
local more_engines = 2 -- than the bounds want in a pool
local alike = 1.08 -- times another, an estimate that is as good
local better_by = 1.02 -- of the rate so far, what is worth a run
local log_100 = math.log(100)

-- Share of a prefill pool's bound at which 99 % of prompts keep to the limit on TTFT: of one queue with Poisson
-- arrivals and equal service times s on x engines the wait's tail is about exp(-2 x (1 - share) wait / s).
local function prefill_share(search, kind, count)
  local slack_s = search.ttft_limit_s - kind.bounds.ttft_s
  return math.max(0.1, 1 - log_100 / (2 * count * kind.bounds.prefill_rate_per_s * math.max(slack_s, 1e-9)))
end

-- Share of a decode pool's bound: of batches that vary by chance the 99th percentile has to fit, half of it seen by a
-- request on its average step.
local function decode_share(kind, count)
  return math.max(0.3, 1 - log_100 / (4 * math.sqrt(count * kind.bounds.decode_batch)))
end

local function cost_of(search, p, x, d, y)
  if search.objective ~= "cost" then return x * p.gpus + y * d.gpus end
  local p_usd, d_usd = p.entry.price_usd_per_h, d.entry.price_usd_per_h
  return p_usd and d_usd and x * p.gpus * p_usd + y * d.gpus * d_usd or math.huge
end

local function candidate(search, p, x, d, y)
  local prefill, decode = x * p.bounds.prefill_rate_per_s, y * d.bounds.decode_rate_per_s
  return {
    p = p, d = d, x = x, y = y, bound = math.min(prefill, decode), cost = cost_of(search, p, x, d, y),
    estimate = math.min(prefill * prefill_share(search, p, x), decode * decode_share(d, y)),
  }
end

-- Decode engines that there is room for beside x prefill engines, by their number of devices.
local function room_beside(p, x, d)
  return p.entry == d.entry and math.min(d.room, math.floor((p.entry.count - x * p.gpus) / d.gpus)) or d.room
end

-- The best ratios about the balance of the bounds, or with all that is left where the balance has no room.
local function add_largest(search, p, d, list)
  local own = {}
  for x = 1, p.room do
    local balance = math.floor(x * p.bounds.prefill_rate_per_s / d.bounds.decode_rate_per_s)
    local room = room_beside(p, x, d)
    for y = math.max(1, math.min(balance, room)), math.min(balance + more_engines, room) do
      own[#own + 1] = candidate(search, p, x, d, y)
    end
  end
  table.sort(own, function(a, b)
    if a.estimate ~= b.estimate then return a.estimate > b.estimate end
    if a.x ~= b.x then return a.x < b.x end
    return a.y < b.y
  end)
  for i = 1, math.min(most_shapes, #own) do list[#list + 1] = own[i] end
end

-- Counts from what the bounds want for the rate on.
local function add_smallest(search, p, d, list)
  local first_x = math.ceil(search.rate_per_s / (engines.finite_run * p.bounds.prefill_rate_per_s))
  local first_y = math.ceil(search.rate_per_s / (engines.finite_run * d.bounds.decode_rate_per_s))
  for x = first_x, math.min(p.room, first_x + more_engines) do
    for y = first_y, math.min(first_y + more_engines, room_beside(p, x, d)) do
      list[#list + 1] = candidate(search, p, x, d, y)
    end
  end
end

local function words_of(e)
  return ("%d x %s + %d x %s"):format(e.x, screen.name_of(e.p), e.y, screen.name_of(e.d))
end

local function gcd(a, b) return b == 0 and a or gcd(b, a % b) end

-- The order in which candidates are tried: for a given rate the smallest first; for the largest, of those whose
-- estimates hardly differ, the one that takes the fewest engines to simulate, so that it is what others have to beat.
local function order_of(search, list)
  local is_rate, most = search.objective == "rate", 0
  for _, e in ipairs(list) do most = math.max(most, e.estimate) end
  local function class(e) return math.floor(math.log(most / e.estimate) / math.log(alike)) end
  local function simulated(e) return (e.x + e.y) / gcd(e.x, e.y) end
  return function(a, b)
    if not is_rate and a.cost ~= b.cost then return a.cost < b.cost end
    if is_rate and class(a) ~= class(b) then return class(a) < class(b) end
    if is_rate and simulated(a) ~= simulated(b) then return simulated(a) < simulated(b) end
    if a.estimate ~= b.estimate then return a.estimate > b.estimate end
    if a.cost ~= b.cost then return a.cost < b.cost end
    return words_of(a) < words_of(b)
  end
end

local function candidates(search, by_type)
  local prefill, decode, list = {}, {}, {}
  for _, group in ipairs(by_type) do
    for _, kind in ipairs(group.all) do
      if kind.may_prefill then prefill[#prefill + 1] = screen.in_pool(search, kind, "prefill") end
      if kind.may_decode then
        local own = screen.in_pool(search, kind, "decode")
        if own.bounds.decode_rate_per_s > 0 then decode[#decode + 1] = own end
      end
    end
  end
  local add = search.objective == "rate" and add_largest or add_smallest
  for _, p in ipairs(prefill) do
    for _, d in ipairs(decode) do
      if not runtimes.transfer_obstacle(search, p, d) then add(search, p, d, list) end
    end
  end
  table.sort(list, order_of(search, list))
  return list
end

-- Whether a candidate may still be what is looked for.
local function may_win(search, e, best, failed)
  if search.objective == "rate" then return not best or engines.finite_run * e.bound > better_by * best.rate end
  if e.cost == math.huge or e.estimate < 0.7 * search.rate_per_s then return false end
  for _, other in ipairs(failed) do
    if other.p == e.p and other.d == e.d and e.x <= other.x and e.y <= other.y then return false end
  end
  return true
end

-- Parts of a candidate, `divisor` of which make it whole.
local function parts_of(e, divisor)
  return {
    { kind = e.p, count = e.x / divisor, role = "prefill" }, { kind = e.d, count = e.y / divisor, role = "decode" },
  }
end

-- What to simulate of a candidate, `times` of which make it whole, from a guess on; where it misses `least` no further.
local function options_of(search, e, times, guess_per_s, least_per_s)
  return {
    guess_per_s = guess_per_s / times, least_rate_per_s = least_per_s and least_per_s / times,
    share = search.objective == "rate" and 0.5 or 1,
    stay_s = e.p.bounds.ttft_s + search.traffics.lengths.output_tokens * e.d.bounds.decode_step_s,
  }
end

-- The best for the largest rate, `result` of candidate `e`, or what is better with another limit on the tokens of a
-- prefill step.
local function tuned(search, e, result, simulate)
  local times = result.times
  for _, p in ipairs(screen.with_other_limits(search, e.p)) do
    local other, rate = { p = p, d = e.d, x = e.x, y = e.y }, result.found.rate_per_s * times
    local found = simulate(parts_of(other, times), options_of(search, e, times, rate, better_by * rate))
    if found then result = { parts = parts_of(other, 1), found = found, times = times } end
  end
  return result
end

--- The deployments that were found, each { parts, found, times }: for the largest rate each better than the one before
--- it, `times` the set that was simulated; for a given rate the smallest that holds it, simulated whole.
--- `simulate(parts, options)`: what engines.max_rate finds, or nil.
function M.search(search, by_type, simulate)
  local is_rate = search.objective == "rate"
  local results, failed, best, tries = {}, {}, nil, 0
  local allowed = most_tries[search.objective] * #by_type
  for _, e in ipairs(candidates(search, by_type)) do
    if tries == allowed then break end
    if may_win(search, e, best, failed) and engines.place(parts_of(e, 1)) then
      tries = tries + 1
      local times = is_rate and gcd(e.x, e.y) or 1
      local found = simulate(parts_of(e, times), options_of(search, e, times, is_rate and e.estimate
        or search.rate_per_s, not is_rate and search.rate_per_s or best and better_by * best.rate or nil))
      if found then
        best = { rate = found.rate_per_s * times, candidate = e }
        results[#results + 1] = { parts = parts_of(e, 1), found = found, times = times }
        if not is_rate then break end
      else
        failed[#failed + 1] = e
      end
    else
      search.bounded = search.bounded + 1
    end
  end
  if is_rate and best then results[#results] = tuned(search, best.candidate, results[#results], simulate) end
  return results
end

return M
