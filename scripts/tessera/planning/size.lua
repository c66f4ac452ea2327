-- ts.size { ... }: the cheapest mix and the smallest number of devices that meet a target.
--
-- Mixes are multisets of device types, looked at in order of price (for the cheapest) and of number (for the fewest).
-- Each is refused by a bound that costs microseconds or by an exact solve, until the first that meets the target: every
-- mix before it was refused, so nothing cheaper, or smaller, exists. Every device of a mix holds layers, on its own,
-- and all mixes run the kernels that suit all the types. More devices are not always better, so no mix is refused for
-- the sake of another.

local core = require "tessera.core"
local planners = require "tessera.planning.planners"
local solver = require "tessera.solver"
local options = require "tessera.options"
local prices = require "tessera.planning.prices"
local budget = require "tessera.planning.budget"
local whose = require "tessera.planning.whose"

local path = "ts.size"
local most_mixes = 200000

local fail = core.refuse

local read = options.card {
  name = path,
  doc = "The cheapest mix and the smallest number of GPUs whose best plan meets a target. Proven: every cheaper, or "
    .. "smaller, mix was refused by a bound or by an exact solve. { cheapest, fewest, tried, refused_by_bound, "
    .. "refused_by_solve, mixes }; cheapest and fewest have cluster, plan, price_usd_per_h, num_devices and devices. "
    .. "Or nil and why: infeasible, or time_limit with what was found so far in why.best.",
  returns = "table?, tessera.Error?",
  options = {
    whose.model, whose.workload,
    { name = "devices", type = "table", required = true,
      doc = "What may be bought: { \"T4-16G\", { \"A100-40G\", 4 } }, at most 4 of the latter" },
    { name = "target", type = "table", lua_type = "{ latency_s: number?, throughput_tok_s: number? }", required = true,
      doc = "{ throughput_tok_s = } or { latency_s = } of the whole batch, or both" },
    { name = "quality", type = "table",
      doc = "As for ts.problem, but for baselines; default: 4 bits throughout, max_omega = 1" },
    { name = "max_devices", type = "integer", default = 8, min = 1, max = 64, doc = "In all" },
    { name = "devices_per_node", type = "integer", min = 1, max = 64,
      doc = "Devices of a type on one node; default: all of them" },
    { name = "link_gbps", type = "number", unit = "Gb/s", default = 100, min = 1e-3, max = 1e6,
      doc = "Network between nodes" },
    { name = "prices", type = "table", lua_type = "table<string, number>", unit = "USD/h",
      doc = "By device, over those of the device files" },
    { name = "bitwidths", type = "integers", unit = "bits", doc = "As for ts.problem" },
    { name = "indicator", type = "any", lua_type = "tessera.Indicator|string|table", doc = "As for ts.problem" },
    { name = "kernel_set", type = "string", doc = "As for ts.problem" },
    { name = "memory", type = "string", doc = "As for ts.problem" },
    { name = "kv_bitwidth", type = "integer", unit = "bits", min = 2, max = 16, doc = "Of the KV cache; default: 16" },
    { name = "time_limit_s", type = "number", unit = "s", default = 60, min = 0, max = 1e6,
      doc = "Of all solves together" },
  },
}

-- { { device =, name =, limit =, usd_per_h = }, ... } of the `devices` option.
local function types_of(opt)
  local types, names = {}, {}
  options.list(opt.devices, path .. ".devices", "a list of devices")
  for i, entry in ipairs(opt.devices) do
    local where = ("%s.devices[%d]"):format(path, i)
    local device, limit = entry, opt.max_devices
    if type(entry) == "table" then
      device, limit = entry[1], entry[2] or opt.max_devices
      if device == nil then fail(where, "write \"T4-16G\" or { \"T4-16G\", 4 }") end
      for key in pairs(entry) do
        if key ~= 1 and key ~= 2 then fail(where, ("unknown key '%s'"):format(tostring(key))) end
      end
      if type(limit) ~= "number" or limit ~= math.floor(limit) or limit < 1 then
        fail(where, ("%s is no number of devices, at least 1"):format(tostring(limit)))
      end
    end
    device = core.device(device)
    for _, name in ipairs(names) do
      if name == device.name then fail(where, name .. " is there twice") end
    end
    names[i] = device.name
    types[i] = { device = device, name = device.name, limit = math.min(limit, opt.max_devices) }
  end
  if #types == 0 then fail(path .. ".devices", "give a list with at least one device") end
  prices.check(opt.prices, names, path .. ".prices")
  for _, t in ipairs(types) do t.usd_per_h = prices.of_device(t.device, opt.prices, path .. ".prices") end
  return types
end

-- The longest latency that meets the target.
local function latency_of(target, workload)
  local limit = math.huge
  for key, value in pairs(target) do
    if key ~= "latency_s" and key ~= "throughput_tok_s" then
      fail(path .. ".target", ("unknown target '%s'%s"):format(tostring(key),
        core.did_you_mean(tostring(key), { "latency_s", "throughput_tok_s" })))
    end
    if type(value) ~= "number" or not (value > 0 and value < 1e12) then
      fail(path .. ".target." .. key, ("%s is no target; give a number above 0"):format(tostring(value)))
    end
    limit = math.min(limit, key == "latency_s" and value or workload.batch_size * workload.output_tokens / value)
  end
  if limit == math.huge then fail(path .. ".target", "give throughput_tok_s, latency_s, or both") end
  return limit
end

-- Entries of ts.cluster for a mix.
local function cluster_of(types, counts, opt)
  local description = { link_gbps = opt.link_gbps }
  for t, item in ipairs(types) do
    local left, node, size = counts[t], 0, opt.devices_per_node or math.max(counts[t], 1)
    while left > 0 do
      description[#description + 1] = { item.device, math.min(left, size), node = ("%s-%d"):format(item.name, node) }
      left, node = left - size, node + 1
    end
  end
  return core.cluster(description)
end

local function problem_of(cluster, opt)
  local quality = opt.quality or { max_omega = 1 }
  return solver.problem { model = opt.model, cluster = cluster, workload = opt.workload, bitwidths = opt.bitwidths,
    indicator = opt.indicator, kernel_set = opt.kernel_set, memory = opt.memory, kv_bitwidth = opt.kv_bitwidth or 16,
    tensor_parallel = 1, use_all_devices = true, quality = quality, theta = 0 }
end

-- Every multiset within the limits: { counts =, number =, usd_per_h = }.
local function mixes_of(types, max_devices)
  local mixes, counts = {}, {}
  local function choose(t, number, usd_per_h)
    if t > #types then
      if number > 0 then
        if #mixes == most_mixes then
          fail(path .. ".max_devices", ("more than %d mixes of %d types; lower max_devices, or give limits such as "
            .. "{ \"%s\", 4 }"):format(most_mixes, #types, types[1].name))
        end
        mixes[#mixes + 1] = { counts = { unpack(counts, 1, #types) }, number = number, usd_per_h = usd_per_h }
      end
      return
    end
    for n = 0, math.min(types[t].limit, max_devices - number) do
      counts[t] = n
      choose(t + 1, number + n, usd_per_h + n * types[t].usd_per_h)
    end
  end
  choose(1, 0, 0)
  return mixes
end

-- Sorts by one field, then by the other, then by the counts.
local function sort(mixes, first, second)
  table.sort(mixes, function(a, b)
    if a[first] ~= b[first] then return a[first] < b[first] end
    if a[second] ~= b[second] then return a[second] < b[second] end
    for t = 1, #a.counts do
      if a.counts[t] ~= b.counts[t] then return a.counts[t] < b.counts[t] end
    end
    return false
  end)
end

-- Whether the mix meets the target; `mix.plan` then says how. Each is solved once.
local function meets(mix, search)
  if mix.answer ~= nil then return mix.answer end
  if mix.bound_s > search.latency_s then
    mix.answer, search.refused_by_bound = false, search.refused_by_bound + 1
    return false
  end
  if search.clock.left() <= 0 or search.clock.interrupted then return nil end
  local cluster = cluster_of(search.types, mix.counts, search.opt)
  local plan, why = planners.plan(problem_of(cluster, search.opt),
    { planner = "exact", time_limit_s = search.clock.left(), cutoff = search.latency_s * (1 + 1e-9) })
  search.tried = search.tried + 1
  if plan and plan.latency_s <= search.latency_s then
    mix.plan, mix.cluster, mix.answer = plan, cluster, true
  elseif plan and plan.bound > search.latency_s or not plan and why.code == "infeasible" then
    mix.answer, search.refused_by_solve = false, search.refused_by_solve + 1
  else
    search.clock.interrupted = why and why.code == "interrupted"
  end
  return mix.answer
end

-- The first mix that meets the target; nil and whether all were refused.
local function first(mixes, search)
  for _, mix in ipairs(mixes) do
    local answer = meets(mix, search)
    if answer == nil then return nil, false end
    if answer then
      local devices = {}
      for t, item in ipairs(search.types) do devices[t] = { name = item.name, count = mix.counts[t] } end
      return { cluster = mix.cluster, plan = mix.plan, price_usd_per_h = mix.usd_per_h, num_devices = mix.number,
        devices = budget.describe(devices) }
    end
  end
  return nil, true
end

local function check_quality(quality)
  if quality and quality.at_least ~= nil and quality.at_least ~= "none" then
    fail(path .. ".quality", "a baseline's omega differs from mix to mix; give max_omega = x, or at_least = \"none\"")
  end
end

local function why_not(search, result)
  local latency_s = search.latency_s
  if search.clock.interrupted then
    local why = core.why("interrupted", path .. ": interrupted")
    why.best = result
    return why
  end
  if not result.refused_all then
    local why = core.why("time_limit", ("%s: not every mix was decided within %g s (%d solved); raise time_limit_s, or "
      .. "look at why.best"):format(path, search.opt.time_limit_s, search.tried))
    why.best = result
    return why
  end
  return core.why("infeasible", ("%s: none of the %d mixes of up to %d devices meets a latency of %s: %d refused by a "
    .. "bound, %d by an exact solve; allow more devices, other types, or a lower target"):format(path, search.mixes,
    search.opt.max_devices, core.format_seconds(latency_s), search.refused_by_bound, search.refused_by_solve), "target")
end

return function(given)
  local opt = read(given)
  check_quality(opt.quality)
  local types = types_of(opt)
  opt.model, opt.workload = core.model(opt.model), core.workload(opt.workload)
  local search = { opt = opt, types = types, latency_s = latency_of(opt.target, opt.workload), tried = 0,
    refused_by_bound = 0, refused_by_solve = 0, clock = budget.new(opt.time_limit_s) }
  local mixes, ones, lists = mixes_of(types, opt.max_devices), {}, {}
  search.mixes = #mixes
  for t in ipairs(types) do ones[t] = 1 end
  for i, mix in ipairs(mixes) do lists[i] = mix.counts end
  -- One node a device: groups of the problem are the types, in order.
  local one_of_each = problem_of(cluster_of(types, ones, opt), opt)
  opt.kernel_set = one_of_each.kernel_set
  local bounds = solver.mix_bounds(one_of_each, lists)
  for i, mix in ipairs(mixes) do mix.bound_s = bounds[i] end
  local result = {}
  sort(mixes, "usd_per_h", "number")
  result.cheapest, result.refused_all = first(mixes, search)
  if result.cheapest then
    sort(mixes, "number", "usd_per_h")
    result.fewest = first(mixes, search)
  end
  if not result.fewest then return nil, why_not(search, result) end
  result.refused_all = nil
  result.tried, result.mixes = search.tried, search.mixes
  result.refused_by_bound, result.refused_by_solve = search.refused_by_bound, search.refused_by_solve
  return result
end
