-- Kinds of engines of each type of device, and the rate that one of them sustains alone.

local engines = require "tessera.serving.engines"
local runtimes = require "tessera.serving.runtimes"

local M = {}

-- Limits that are tried where they are not settled.
local seats = { 256, 512, 1024 }
local most_tokens, least_tokens = 8192, 256

local function name_of(kind)
  return ("%s%s%s, %d bits%s"):format(kind.degree > 1 and kind.degree .. "x" or "", kind.entry.name,
    kind.stages > 1 and (" x %d stages"):format(kind.stages) or "", kind.bitwidth,
    kind.kv_bitwidth < 16 and (", KV cache %d"):format(kind.kv_bitwidth) or "")
end

local function refuse(search, kind, reason)
  search.reasons[#search.reasons + 1] = { engine = name_of(kind), reason = reason }
end

-- Whether the quality that was asked for allows it; else what it costs.
local function allows(search, deployment)
  local bound = search.quality
  local quality = deployment.plan and deployment.plan.quality
  if not bound or not quality then return true end
  local loss = quality.perplexity_increase[bound.at == "mid" and "mid" or "high"]
  local recovery = quality.accuracy_recovery[bound.at == "mid" and "mid" or "low"]
  if bound.max_perplexity_increase and loss > bound.max_perplexity_increase then
    return false, ("perplexity may rise by %.1f %%"):format(100 * loss)
  end
  if bound.min_accuracy_recovery and recovery < bound.min_accuracy_recovery then
    return false, ("accuracy may fall to %.1f %%"):format(100 * recovery)
  end
  return true
end

local function copy(source, changes)
  local result = {}
  for name, value in pairs(source) do result[name] = value end
  for name, value in pairs(changes or {}) do result[name] = value end
  return result
end

-- What of an engine's limits the script settled.
local function settled(search, name)
  if type(search.engine) == "userdata" then return search.engine[name] end
  return search.engine and search.engine[name]
end

local function set_limits(search, kind, num_seqs, tokens)
  kind.limits = {
    max_num_seqs = settled(search, "max_num_seqs") or num_seqs,
    max_num_batched_tokens = settled(search, "max_num_batched_tokens") or tokens,
  }
  if type(search.engine) == "userdata" then
    kind.engine = search.engine
    return
  end
  kind.engine = copy(search.engine or {}, kind.limits)
  -- Where nothing is shared a prefix cache finds nothing, and only takes time to simulate.
  if kind.engine.enable_prefix_caching == nil then
    kind.engine.enable_prefix_caching = search.traffics.shares or false
  end
end

-- Tokens of a step to begin with: as many as keep a step of prompts alone within the limit on TPOT, since those that
-- decode wait for it.
local function first_tokens(search, deployment)
  local tokens = most_tokens
  while tokens > least_tokens
    and deployment:step_s { num_prompts = 1, prompt_tokens = tokens } > search.tpot_limit_s do
    tokens = tokens / 2
  end
  return tokens
end

-- The estimate of a kind by its best number of seats: more help as long as steps stay within the limit on TPOT.
local function estimate(search, kind)
  local lengths = search.traffics.lengths
  local best, decode = 0, nil
  for _, num_seqs in ipairs(settled(search, "max_num_seqs") and { 0 } or seats) do
    local trial = { max_num_seqs = settled(search, "max_num_seqs") or num_seqs,
      max_num_batched_tokens = settled(search, "max_num_batched_tokens") or most_tokens }
    local bounds = engines.bounds(kind.one, lengths, trial, search.tpot_limit_s)
    trial.max_num_batched_tokens = kind.limits.max_num_batched_tokens
    local rate, decode_s = engines.estimate(kind.one, lengths, trial, search.tpot_limit_s, bounds.rate_per_s)
    if not kind.bounds or rate > 1.02 * best then
      best, kind.bounds, kind.stay_s = rate, bounds, decode_s + bounds.ttft_s
      set_limits(search, kind, trial.max_num_seqs, trial.max_num_batched_tokens)
    end
    if not decode or bounds.decode_rate_per_s > 1.02 * decode.bounds.decode_rate_per_s then
      decode = { bounds = bounds, max_num_seqs = trial.max_num_seqs }
    end
  end
  kind.estimate_per_s, kind.decode = best, decode
end

--- The kind as an engine of a pool of prefill or decode engines, with the seats that suit that.
function M.in_pool(search, kind, role)
  local own = copy(kind)
  own.bounds = role == "decode" and kind.decode.bounds or kind.bounds
  set_limits(search, own, role == "decode" and kind.decode.max_num_seqs or seats[1], most_tokens)
  return own
end

-- Adds a kind with its bounds and its estimate, where nothing rules it out. Says whether the model fits.
local function add(search, kinds, kind)
  kind.room = engines.room(kind.entry, kind.degree, kind.stages)
  if kind.room == 0 then return false end
  local obstacle = runtimes.kernel_obstacle(search, kind)
  if obstacle then
    refuse(search, kind, obstacle)
    search.obstructed = true
    return true
  end
  set_limits(search, kind, seats[1], most_tokens)
  local deployment, why = engines.deploy(search, { { kind = kind, count = 1 } })
  if not deployment then
    refuse(search, kind, why)
    return false
  end
  local fine, loss = allows(search, deployment)
  obstacle = fine and runtimes.plan_obstacle(search, kind, deployment) or nil
  if loss or obstacle then
    refuse(search, kind, loss or obstacle)
    search.obstructed = search.obstructed or obstacle ~= nil
    return true
  end
  kind.one, kind.gpus = deployment, kind.degree * kind.stages
  set_limits(search, kind, seats[1], first_tokens(search, deployment))
  estimate(search, kind)
  kind.may_prefill = kind.bounds.ttft_s <= search.ttft_limit_s
  kind.may_decode = kind.bounds.tpot_s <= search.tpot_limit_s
  if not kind.may_prefill then
    refuse(search, kind,
      ("a prompt alone takes %.3g s, %.3g s allowed"):format(kind.bounds.ttft_s, search.ttft_limit_s))
  elseif not kind.may_decode then
    refuse(search, kind, ("a token alone takes %.3g s, %.3g s allowed"):format(kind.bounds.tpot_s, search.tpot_limit_s))
  end
  kinds[#kinds + 1] = kind
  return true
end

-- With as few stages as hold the model, unless they are given.
local function add_stages(search, kinds, base)
  if search.stages then
    for _, stages in ipairs(search.stages) do add(search, kinds, copy(base, { stages = stages })) end
    return
  end
  local stages = 1
  while stages * base.degree <= base.entry.count do
    if add(search, kinds, copy(base, { stages = stages })) then return end
    stages = stages * 2
  end
end

--- The rate that one engine of a kind sustains (kind.rate_per_s, kind.found); 0 where it misses `least_rate_per_s`.
function M.simulate(search, kind, least_rate_per_s)
  local deployment, why = engines.deploy(search, { { kind = kind, count = 1 } })
  if not deployment and kind.limits.max_num_seqs > seats[1] then
    -- The memory that sampling for more requests takes is missing.
    set_limits(search, kind, seats[1], kind.limits.max_num_batched_tokens)
    deployment, why = engines.deploy(search, { { kind = kind, count = 1 } })
  end
  if not deployment then
    kind.rate_per_s, kind.limited_by = 0, why
    return 0
  end
  kind.one = deployment
  kind.found = engines.max_rate(search, kind.one, 1, {
    least_rate_per_s = least_rate_per_s, guess_per_s = kind.estimate_per_s, tolerance = 0.06, stay_s = kind.stay_s,
  })
  kind.rate_per_s, kind.limited_by = kind.found.rate_per_s, kind.found.limited_by
  return kind.rate_per_s
end

local function total(kind) return kind.rate_per_s * kind.room end

-- By what they are estimated to do on all devices of their type; then by name, so that the order is the same each time.
local function by_estimate(a, b)
  local x, y = a.estimate_per_s * a.room, b.estimate_per_s * b.room
  if x ~= y then return x > y end
  return name_of(a) < name_of(b)
end

-- Whether a kind may still be better than the best of its type, by its bound and its estimate: on all devices, or by
-- the devices that the wanted rate takes.
local function may_win(search, kind, best)
  if not best then return true end
  if search.objective ~= "rate" then
    local function gpus(each, rate) return each.gpus * math.ceil(search.rate_per_s / math.max(rate, 1e-12)) end
    return gpus(kind, kind.bounds.rate_per_s) < gpus(best, best.rate_per_s)
      and gpus(kind, 1.25 * kind.estimate_per_s) <= gpus(best, best.rate_per_s)
  end
  return kind.bounds.rate_per_s * kind.room > total(best) and kind.estimate_per_s * kind.room >= 0.8 * total(best)
end

-- Simulates the kinds of a type that are estimated to be the best `keep`, and any other that may be better than the
-- best of them; for the largest rate only at the rate that it has to pass.
local function simulate_type(search, kinds, keep)
  table.sort(kinds, by_estimate)
  local best = {}
  local function admit(kind, bar)
    if M.simulate(search, kind, bar and bar / kind.room) > 0 then
      best[#best + 1] = kind
      table.sort(best, function(a, b) return total(a) > total(b) end)
    elseif not bar then
      refuse(search, kind, kind.limited_by)
    end
  end
  for i, kind in ipairs(kinds) do
    if i <= keep then
      admit(kind)
    elseif not may_win(search, kind, best[1]) then
      search.bounded = search.bounded + 1
    else
      admit(kind, search.objective == "rate" and best[1] and total(best[1]) or nil)
    end
  end
  return best
end

--- The kind with half and with twice the tokens of a step: a list, empty where the limit is settled.
function M.with_other_limits(search, kind)
  if settled(search, "max_num_batched_tokens") then return {} end
  local list, tokens = {}, kind.limits.max_num_batched_tokens
  for i, other in ipairs { math.max(least_tokens, tokens / 2), 2 * tokens } do
    list[i] = copy(kind)
    set_limits(search, list[i], kind.limits.max_num_seqs, other)
  end
  return list
end

-- The best kind with other limits on the tokens of a step.
local function tune(search, kind)
  for _, other in ipairs(M.with_other_limits(search, kind)) do
    if M.simulate(search, other, kind.rate_per_s * 1.02) > 0 then kind = other end
  end
  return kind
end

local function kinds_of(search, entry)
  local kinds = {}
  local widest = engines.widest(entry)
  for _, degree in ipairs(search.degrees) do
    if degree > widest then
      if search.degrees_given then
        search.reasons[#search.reasons + 1] = { engine = ("%dx%s"):format(degree, entry.name),
          reason = ("the largest node has %d"):format(widest) }
      end
    else
      for _, bitwidth in ipairs(search.bitwidths) do
        for _, kv_bitwidth in ipairs(search.kv_bitwidths) do
          add_stages(search, kinds, { entry = entry, degree = degree, bitwidth = bitwidth, kv_bitwidth = kv_bitwidth })
        end
      end
    end
  end
  return kinds
end

--- The kinds of engines that are worth putting together, by type of device, the best first: { entry, best, all }, where
--- all are those that may be in a pool of prefill or decode engines (may_prefill, may_decode), simulated or not.
function M.kinds(search)
  local by_type = {}
  for _, entry in ipairs(search.types) do
    local all, alone = kinds_of(search, entry), {}
    for _, kind in ipairs(all) do
      if kind.may_prefill and kind.may_decode then alone[#alone + 1] = kind end
    end
    local best = simulate_type(search, alone, math.max(2, math.ceil(search.limit / 2 / #search.types)))
    if best[1] then best[1] = tune(search, best[1]) end
    by_type[#by_type + 1] = { entry = entry, best = best, all = all }
  end
  return by_type
end

M.name_of = name_of

return M
