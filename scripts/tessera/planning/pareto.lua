-- ts.pareto(problem, options): plans of which none is better in latency, quality and price at once.
--
-- Latency against omega is swept by the epsilon-constraint method (Haimes, Lasdon and Wismer, 1971): the least latency
-- under a limit on omega, with a price on omega so small that it only breaks ties, so that every answer is
-- non-dominated. Price is swept by the choice of devices: every subset of the cluster's devices is a candidate.

local core = require "tessera.core"
local solver = require "tessera.solver"
local options = require "tessera.options"
local planners = require "tessera.planning.planners"
local prices = require "tessera.planning.prices"
local budget = require "tessera.planning.budget"

local path = "ts.pareto"
local tie = 1e-6 -- price of all of omega's range, as a share of the latency: breaks ties, decides nothing
local step = 3e-6 -- below the last omega; more than the slack on a floor, 1e-6
local same = 2 * tie

local read = options.card {
  name = path,
  doc = "Plans of which none is better in latency, quality and price at once, sorted by latency. Every subset of the "
    .. "cluster's devices is a candidate; no plan on any of them dominates a point, which exact solves prove. Points "
    .. "have latency_s, throughput_tok_s, omega, mean_bitwidth, price_usd_per_h, usd_per_million_tokens, devices and "
    .. "plan; ts.table prints them. Second result: complete (the front holds every point), stopped, solves, subsets. "
    .. "Or nil and why.",
  parameters = { { "problem", "tessera.Problem", "Its theta does not matter; its quality floor holds" } },
  returns = "table[]?, table",
  options = {
    { name = "max_points", type = "integer", default = 8, min = 2, max = 10000, doc = "Of each choice of devices" },
    { name = "max_subsets", type = "integer", default = 64, min = 1, max = 100000,
      doc = "Choices of devices; more are refused" },
    { name = "price", type = "choice", default = "usd_per_h",
      choices = { "usd_per_h", "usd_per_million_tokens", "none" },
      doc = "The third axis: what the devices cost by the hour or by the token; none: the whole cluster, two axes" },
    { name = "prices", type = "table", lua_type = "table<string, number>", unit = "USD/h",
      doc = "By device, over those of the device files" },
    { name = "time_limit_s", type = "number", unit = "s", default = 60, min = 0, max = 1e6,
      doc = "Of all solves together" },
  },
}

-- The least latency of one choice of devices under limits on omega.
local Subset = {}
Subset.__index = Subset

function Subset.new(problem, counts, usd_per_h, clock)
  return setmetatable({ problem = problem, counts = counts, usd_per_h = usd_per_h, clock = clock, theta = 0,
    scale = problem.theta_unit == "ms_per_raw_omega" and 1e3 or 1, known = {}, points = {} }, Subset)
end

-- The plan of least latency with omega <= limit (nil: any), or nil where there is none.
function Subset:solve(limit)
  if self.clock.left() <= 0 or self.clock.interrupted then
    self.clock.stopped = true
    return nil
  end
  local plan, why = self.clock.solve(self.problem:with {
    quality = limit and { max_omega = limit } or { at_least = "none" }, theta = self.theta })
  if plan and plan.status ~= "optimal" or not plan and why.code ~= "infeasible" then return nil end
  self.known[#self.known + 1] = { limit = limit or math.huge, latency_s = plan and plan.latency_s or math.huge,
    plan = plan }
  return plan
end

-- Both ends of the front: the fastest plan, and the fastest of those of least omega.
function Subset:ends(floor)
  local fastest = self:solve(floor)
  if not fastest then return nil end
  local weight = 1e6 * self.scale * math.max(fastest.latency_s, 1e-9) / math.max(math.abs(fastest.omega), 1e-9)
  local least = self.clock.solve(self.problem:with { quality = { at_least = "none" }, theta = math.min(weight, 1e12) })
  if not least or least.status ~= "optimal" then return nil end
  self.least_omega = least.omega
  local range = fastest.omega - least.omega
  if range <= step * math.abs(fastest.omega) then return fastest, fastest end
  self.theta = tie * self.scale * fastest.latency_s / range
  fastest = self:solve(floor)
  return fastest, fastest and self:solve(least.omega)
end

-- Solves between both ends until there are `max_points` or no more. A gap lies between the plan `low` and omega `from`;
-- up to `done` nothing is faster than `low`.
function Subset:sweep(max_points, floor)
  local fastest, best = self:ends(floor)
  if not fastest or not best then return end
  self.points = { fastest, best }
  local open = { { low = best, done = best.omega, from = fastest.omega, high = fastest } }
  if fastest.omega - best.omega <= step * math.abs(fastest.omega) then self.points, open = { fastest }, {} end
  while #open > 0 and #self.points < max_points and not self.clock.stopped do
    local widest, area = 1, -1
    for i, gap in ipairs(open) do
      local this = (gap.from - gap.done) * (gap.low.latency_s - gap.high.latency_s)
      if this > area then widest, area = i, this end
    end
    self:split(open, table.remove(open, widest))
  end
  self.complete = #open == 0 and not self.clock.stopped
end

function Subset:split(open, gap)
  local below = gap.from - step * math.abs(gap.from)
  if below <= gap.done then return end -- nothing fits in between
  local limit = gap.again and below or (gap.done + gap.from) / 2
  local plan = self:solve(limit)
  if not plan then return end
  local found = plan.latency_s < gap.low.latency_s * (1 - same)
  if found then
    self.points[#self.points + 1] = plan
    open[#open + 1] = { low = gap.low, done = gap.done, from = plan.omega, high = plan }
  end
  if not gap.again then
    local low = found and plan or gap.low
    open[#open + 1] = { low = low, done = limit, from = gap.from, high = gap.high, again = not found }
  end
end

-- A plan of this subset with no more omega and no more than the latency, or nil: from what is known, else solved for.
function Subset:reach(omega, latency_s)
  if self.least_omega and omega < self.least_omega - step * math.abs(self.least_omega) then return nil end
  for _, k in ipairs(self.known) do
    if k.limit >= omega and k.latency_s > latency_s * (1 + same) then return nil end
    if k.plan and k.plan.omega <= omega and k.latency_s <= latency_s then return k.plan end
  end
  local plan = self:solve(omega)
  return plan and plan.latency_s <= latency_s * (1 + same) and plan or nil
end

-- The problem on some of its devices, or nil where no tensor parallelism that it allows can use them all. Meshes are
-- chosen on what is left: devices are counted one by one.
local function on_devices(problem, single, counts)
  local part = solver.with_devices(single, counts)
  if not problem.cluster then return part end
  local ok, cut = pcall(part.with, part, { tensor_parallel = problem.tensor_parallel, theta = problem.theta })
  if ok then return cut end
  if cut.where ~= "tensor_parallel" then error(cut, 0) end
end

-- Every choice of devices, the cheapest first.
local function subsets_of(problem, single, opt, usd, clock)
  local groups = solver.device_groups(single)
  local counts, all = {}, {}
  local whole = {}
  for g, group in ipairs(groups) do whole[g] = group.count end
  local function price(choice)
    local total = 0
    for g, group in ipairs(groups) do total = total + choice[g] * (usd[group.device] or 0) end
    return total
  end
  if opt.price == "none" then return { Subset.new(problem, whole, nil, clock) }, groups end
  local number = 1
  for _, group in ipairs(groups) do number = number * (group.count + 1) end
  if number - 1 > opt.max_subsets then
    core.raise("invalid_argument", ("%s: %d choices of devices are more than max_subsets = %d; raise it, take fewer "
      .. "devices, or set price = \"none\""):format(path, number - 1, opt.max_subsets), path .. ".max_subsets")
  end
  local function choose(g)
    if g > #groups then
      local copy, devices = { unpack(counts) }, 0
      for _, n in ipairs(copy) do devices = devices + n end
      local part = devices > 0 and on_devices(problem, single, copy)
      if part then all[#all + 1] = Subset.new(part, copy, price(copy), clock) end
      return
    end
    for n = 0, groups[g].count do
      counts[g] = n
      choose(g + 1)
    end
  end
  choose(1)
  table.sort(all, function(a, b)
    if a.usd_per_h ~= b.usd_per_h then return a.usd_per_h < b.usd_per_h end
    for g = 1, #groups do
      if a.counts[g] ~= b.counts[g] then return a.counts[g] < b.counts[g] end
    end
    return false
  end)
  return all, groups
end

local function point_of(plan, subset, index, groups)
  local devices = {}
  for g, group in ipairs(groups) do devices[g] = { name = group.device, count = subset.counts[g] } end
  return {
    plan = plan, latency_s = plan.latency_s, omega = plan.omega, mean_bitwidth = plan.mean_bitwidth,
    throughput_tok_s = plan.throughput_tok_s, price_usd_per_h = subset.usd_per_h,
    usd_per_million_tokens = subset.usd_per_h and subset.usd_per_h / 3600 / plan.throughput_tok_s * 1e6,
    devices = budget.describe(devices), index = index,
  }
end

local function less(a, b) return a < b - same * math.abs(b) end

-- Whether some plan of subset `i` is as good as the point in everything and better in something; of equals the earlier
-- subset's stays. Cost per token is the price times the latency, so a dearer subset has to be that much faster.
local function dominates(subset, i, point, axis)
  if i == point.index or subset.usd_per_h == nil then return false end
  local latency_s, price, own = point.latency_s, subset.usd_per_h, point.price_usd_per_h
  if axis == "usd_per_million_tokens" then
    if price > 0 then latency_s = latency_s * math.min(1, own / price) end
  elseif price > own then
    return false
  end
  local plan = subset:reach(point.omega, latency_s)
  if not plan then return false end
  local factor, limit = price, own
  if axis == "usd_per_million_tokens" then factor, limit = price * plan.latency_s, own * point.latency_s end
  return i < point.index or less(factor, limit) or less(plan.latency_s, point.latency_s)
    or less(plan.omega, point.omega)
end

return function(problem, given)
  budget.object(problem, "tessera.Problem", path .. " problem")
  local opt = read(given)
  local clock = budget.new(opt.time_limit_s)
  problem = planners.resolve_floor(problem):with { objective = "steady" }
  local floor = problem.max_omega
  local single = problem.cluster and problem:with { tensor_parallel = 1, theta = problem.theta } or problem
  local usd = opt.price ~= "none" and prices.of_problem(single, opt.prices, path .. ".prices") or {}
  local subsets, groups = subsets_of(problem, single, opt, usd, clock)
  local points, complete = {}, true
  for i, subset in ipairs(subsets) do
    subset:sweep(opt.max_points, floor)
    for _, plan in ipairs(subset.points) do points[#points + 1] = point_of(plan, subset, i, groups) end
    complete = complete and (subset.complete or #subset.points == 0)
  end
  local front = {}
  for _, point in ipairs(points) do
    local dominated = false
    for i, subset in ipairs(subsets) do dominated = dominated or dominates(subset, i, point, opt.price) end
    if not dominated then front[#front + 1] = point end
  end
  if #front == 0 then
    if clock.stopped then return nil, core.why("time_limit", path .. ": no point was proven within the time limit") end
    return nil, core.why("infeasible", path .. ": no choice of the devices holds the model")
  end
  table.sort(front, function(a, b)
    if a.latency_s ~= b.latency_s then return a.latency_s < b.latency_s end
    if a.omega ~= b.omega then return a.omega < b.omega end
    return (a.price_usd_per_h or 0) < (b.price_usd_per_h or 0)
  end)
  for _, point in ipairs(front) do point.index = nil end
  return front, { complete = complete and not clock.stopped, stopped = clock.stopped, solves = clock.solves,
    subsets = #subsets }
end
