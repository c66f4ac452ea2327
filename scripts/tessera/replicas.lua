-- Replicas: the cluster split into pipelines that share the batch. Every way of splitting it is tried, with the
-- requests shared out so that the worst replica's objective is least; a split has to beat the best one before it.
--
-- A plan for b requests serves b - 1 as well: with micro-batches no larger there are no more of them, and no cost
-- grows. So under the steady objective a part's best objective does not fall as its share grows, and the largest share
-- that stays below the best so far is found by bisection. It may fall under the papers' objective, which fixes the
-- decode micro-batch by batch and stages, with micro-batch sizes that are given, and for planners that do not prove
-- their plans: there every share of every part is planned.

local core = require "tessera.core"
local options = require "tessera.options"
local solver = require "tessera.solver"
local splits = require "tessera.splits"
local timer = require "tessera.timer"

local M = {}

local path = "ts.plan.replicas"

local function fail(text) core.raise("invalid_argument", path .. ": " .. text, path) end

-- The numbers of replicas to try, from 2, { 1, 2 }, "all", and "1,2" of a command line.
local function numbers_of(value, most)
  if type(value) == "string" and value ~= "all" then
    local list = {}
    for item in (value .. ","):gmatch "(.-)," do list[#list + 1] = tonumber(item) or item end
    value = list
  end
  if value == "all" then
    value = {}
    for r = 1, most do value[r] = r end
  end
  if type(value) == "number" then value = { value } end
  options.list(value, path, "a number, a list of them, or \"all\"")
  if #value == 0 then fail "give a number, a list of them, or \"all\"" end
  for _, number in ipairs(value) do
    if type(number) ~= "number" or number < 1 or number % 1 ~= 0 then
      fail(("%s is not a number of replicas; give whole numbers from 1"):format(tostring(number)))
    end
    if number > most then
      fail(("%d replicas need as many devices and requests; there are %d at most"):format(number, most))
    end
  end
  return value
end

-- Plans of parts of the cluster, by what the part holds and its share of the batch, each made once.
local function part_planner(problem, opt, plan_one)
  local self, memo = timer(opt.time_limit_s), {}
  self.proven = true

  local function make(part, share, cutoff, time_limit_s, gap)
    local own = {}
    for key, value in pairs(opt) do own[key] = value end
    own.replicas, own.on_incumbent, own.every_candidate = nil, nil, nil
    own.cutoff = cutoff < math.huge and cutoff or nil
    own.time_limit_s, own.gap = time_limit_s, gap or opt.gap
    for _, size in ipairs { "prefill_micro_batch_size", "decode_micro_batch_size" } do
      if own[size] and own[size] > share then
        return nil, core.why("infeasible", ("%d requests are fewer than %s"):format(share, size), "micro_batch")
      end
    end
    if #part.devices == #problem.cluster.devices then return plan_one(problem, own) end
    local on_part, message = solver.part(problem, part.devices, share)
    if not on_part then return nil, core.why("infeasible", message, "tensor_parallel") end
    return plan_one(on_part, own)
  end

  local function known_of(part, share)
    memo[part.key] = memo[part.key] or {}
    memo[part.key][share] = memo[part.key][share] or {}
    return memo[part.key][share]
  end

  -- A plan below the cutoff, within the gap; what is learnt is kept.
  local function ask(part, share, cutoff, gap)
    local known = known_of(part, share)
    if known.at_least and known.at_least >= cutoff then return nil end
    local plan, why = make(part, share, cutoff, self.left(), gap)
    if plan then
      if plan.status ~= "optimal" and not gap then self.proven = false end -- `serves` takes any plan
      known.at_most = math.min(known.at_most or math.huge, plan.objective)
      if plan.objective < cutoff then return plan end
      known.at_least = plan.objective -- of a heuristic, which does not know of the cutoff
      return nil
    end
    known.at_least = why.constraint == "cutoff" and cutoff or math.huge
    if why.code ~= "infeasible" then self.proven, self.stopped = false, why end
    self.why = self.why or why
    return nil
  end

  --- The plan of a share of the batch on a part of the cluster; nil where none is below the cutoff.
  function self.plan(part, share, cutoff)
    local known = known_of(part, share)
    if known.plan and known.plan.objective < cutoff then return known.plan end
    local plan = ask(part, share, cutoff)
    if not plan then return nil end
    known.plan, known.devices = plan, part.devices
    known.at_least = (opt.gap or 0) == 0 and plan.objective or nil
    return plan
  end

  --- Whether any plan of it is below the cutoff, which is soon told.
  function self.serves(part, share, cutoff)
    local known = known_of(part, share)
    return (known.at_most and known.at_most < cutoff) or ask(part, share, cutoff, 1) ~= nil
  end

  --- The plan of a share that was found, on exactly these devices: equal parts have one in common, which stands on the
  --- devices of the first.
  function self.standing_on(part, share)
    local known = memo[part.key][share]
    if table.concat(known.devices, " ") == table.concat(part.devices, " ") then return known.plan end
    return assert(make(part, share, math.huge, self.limit_s))
  end

  return self
end

-- The largest share that a part serves below the cutoff, at most `high`; its objective does not fall with the share.
local function largest_share(plans, part, high, cutoff)
  local low = 0
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if plans.serves(part, middle, cutoff) then low = middle else high = middle - 1 end
  end
  return low
end

-- Shares in proportion to what each part could serve, which sum to the batch.
local function in_proportion(most, sum, batch)
  local shares, left = {}, batch
  for r, number in ipairs(most) do
    shares[r] = math.max(1, math.floor(batch * number / sum))
    left = left - shares[r]
  end
  while left ~= 0 do
    local step = left > 0 and 1 or -1
    for r = 1, #shares do
      local next_share = shares[r] + step
      if left ~= 0 and next_share >= 1 and next_share <= most[r] then
        shares[r], left = next_share, left - step
      end
    end
  end
  return shares
end

local function worst(list)
  local objective = -math.huge
  for _, plan in ipairs(list) do objective = math.max(objective, plan.objective) end
  return objective
end

-- Best shares of a split where objectives do not fall with the share: as long as the parts together could serve the
-- batch below the best so far, some shares are better.
local function share_by_bisection(plans, split, batch, cutoff)
  local best
  local most = {}
  for r = 1, #split do most[r] = batch - #split + 1 end
  if #split == 1 then
    local plan = plans.plan(split[1], batch, cutoff)
    return plan and { split = split, shares = { batch }, plans = { plan } }
  end
  while not plans.late() do
    local sum = 0
    for r, part in ipairs(split) do
      most[r] = largest_share(plans, part, most[r], cutoff)
      if most[r] == 0 then return best end
      sum = sum + most[r]
    end
    if sum < batch then return best end
    local shares, made = in_proportion(most, sum, batch), {}
    for r, part in ipairs(split) do
      made[r] = plans.plan(part, shares[r], cutoff)
      if not made[r] then return best end
    end
    best, cutoff = { split = split, shares = shares, plans = made }, worst(made)
  end
  plans.proven = false
  return best
end

-- Best shares of a split by planning every share: least[b] is the worst objective of the parts so far on b requests.
local function share_by_enumeration(plans, split, batch, cutoff)
  local least, taken = { [0] = -math.huge }, {}
  for r, part in ipairs(split) do
    local next_least, next_taken = {}, {}
    for share = 1, batch - #split + 1 do
      local plan = plans.plan(part, share, cutoff)
      for before, objective in pairs(plan and least or {}) do
        local sum, value = before + share, plan and math.max(objective, plan.objective)
        if sum <= batch and (not next_least[sum] or value < next_least[sum]
            or (value == next_least[sum] and share < next_taken[sum])) then
          next_least[sum], next_taken[sum] = value, share
        end
      end
    end
    least, taken[r] = next_least, next_taken
  end
  if not least[batch] then return nil end
  local shares, made, left = {}, {}, batch
  for r = #split, 1, -1 do
    shares[r] = taken[r][left]
    made[r] = plans.plan(split[r], shares[r], cutoff)
    left = left - shares[r]
  end
  return { split = split, shares = shares, plans = made }
end

-- Tries every split; returns the best one, and notes.
local function search(problem, opt, numbers, plans)
  local monotone = problem.objective == "steady" and not opt.prefill_micro_batch_size
    and not opt.decode_micro_batch_size and (not opt.planner or opt.planner == "exact" or opt.planner == "ilp")
  local share_out = monotone and share_by_bisection or share_by_enumeration
  local best, cutoff, notes, tried = nil, opt.cutoff or math.huge, {}, 0
  for _, number in ipairs(numbers) do
    local list, complete = splits.list(problem, number)
    if not complete then
      plans.proven = false
      notes[#notes + 1] = ("more than %d ways of splitting the cluster into %d: %s"):format(splits.most, number,
        #list > 0 and "only equal parts were tried" or "none was tried, as there are no equal parts")
    end
    for _, split in ipairs(list) do
      if plans.late() then
        plans.proven = false
        break
      end
      tried = tried + 1
      local found = share_out(plans, split, problem.batch_size, cutoff)
      if found then
        best, cutoff = found, worst(found.plans)
        if opt.on_incumbent then opt.on_incumbent { objective = cutoff } end
      end
    end
  end
  notes[#notes + 1] = ("replicas: best of %s, %d ways of splitting the cluster"):format(
    table.concat(numbers, ", "), tried)
  return best, notes
end

-- The replicas as one plan; what no solve found below the best objective is proven not to be there.
local function finish(problem, best, plans, notes)
  local made, devices = {}, {}
  for r, part in ipairs(best.split) do
    made[r], devices[r] = plans.standing_on(part, best.shares[r]), part.devices
  end
  local outcome = { status = plans.proven and "optimal" or "feasible", solve_s = plans.elapsed_s() }
  if plans.proven then outcome.bound = worst(made) - 1e-9 * math.abs(worst(made)) end
  local plan = #made == 1 and solver.combine(made[1], outcome) or solver.join(problem, made, devices, outcome)
  for _, note in ipairs(notes) do plan = plan:with_note(note) end
  return plan
end

local function no_plan(plans)
  if plans.stopped then return nil, plans.stopped end
  if plans.late() then
    return nil, core.why("time_limit", "no plan was found within the time limit; raise time_limit_s")
  end
  return nil, plans.why or core.why("infeasible", "the cluster cannot be split into as many replicas")
end

--- Plans the problem with as many replicas as `opt.replicas` says; plan_one(problem, options) plans a part.
function M.plan(problem, opt, plan_one)
  if opt.replicas == nil or opt.replicas == 1 then return plan_one(problem, opt) end
  if not problem.cluster then
    core.raise("unsupported", path .. ": an instance file cannot be split; give a model and a cluster", path)
  end
  if opt.device_order then fail "device_order names the stages of one pipeline; leave it out" end
  local numbers = numbers_of(opt.replicas, math.min(#problem.cluster.devices, problem.batch_size))
  local plans = part_planner(problem, opt, plan_one)
  local best, notes = search(problem, opt, numbers, plans)
  if not best then return no_plan(plans) end
  return finish(problem, best, plans, notes)
end

return M
