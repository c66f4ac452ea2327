-- plan:explain(): what binds a plan, what a little more hardware or a lower quality would buy, and how sure the choice
-- is. Everything but what binds is measured by solving the changed problem again, with the exact planner.

local core = require "tessera.core"
local solver = require "tessera.solver"
local options = require "tessera.options"
local budget = require "tessera.planning.budget"

local gib, gbps = 2 ^ 30, 1e9 / 8
local improvement = 1e-8 -- relative; below it two proofs say the same
local near_best = 0.01

local read = options.card {
  name = "plan:explain",
  doc = "What binds a plan, what a little more hardware or a lower quality would buy, and how sure the choice is. All "
    .. "but what binds is measured by solving again: one more GiB on each device, one more Gb/s on each link, a "
    .. "quality floor 10 % looser or half of theta, and problems whose latencies are off.",
  parameters = {}, returns = "string|table",
  options = {
    { name = "as", type = "choice", default = "text", choices = { "text", "table" },
      doc = "A text to read, or the numbers behind it" },
    { name = "what_if", type = "boolean", default = true, doc = "Solve again; false: a quick look at what binds" },
    { name = "robustness", type = "integer", default = 20, min = 0, max = 10000,
      doc = "Problems in which every latency is off, by independent factors per device type, phase and bitwidth" },
    { name = "error", type = "number", min = 0, max = 2,
      doc = "Relative error of a latency; default: the plan's held-out error, 0.1 where none is known" },
    { name = "time_limit_s", type = "number", unit = "s", default = 5, min = 0, max = 1e6,
      doc = "Of all solves together; the text says when it cut them short" },
    { name = "seed", type = "integer", default = 0, min = 0, max = 2 ^ 32, doc = "Of the latencies that are off" },
  },
}

local function distinct(names)
  local seen, list = {}, {}
  for _, name in ipairs(names) do
    if not seen[name] then list[#list + 1] = name end
    seen[name] = true
  end
  return list
end

local function map(names, value)
  local result = {}
  for _, name in ipairs(names) do result[name] = value end
  return result
end

-- One more unit of something on each of `names`. More of it never hurts, so where all of them together buy nothing,
-- none does alone.
local function each(names, field, amount, label, ask)
  local rows = {}
  if #names == 0 then return rows end
  local all = #names > 1 and ask { [field] = map(names, amount) }
  for _, name in ipairs(names) do
    local row = all and all.gain_s == 0 and { gain_s = 0, latency_s = all.latency_s, omega = all.omega, proven = true }
      or ask { [field] = { [name] = amount } }
    row.change, row.kind, row.name = label:format(name), field == "memory_bytes" and "memory" or "link", name
    rows[#rows + 1] = row
  end
  return rows
end

local function hardware(problem, best, clock)
  local function ask(upgrade)
    if clock.left() <= 0 then
      clock.stopped = true
      return { proven = false }
    end
    local plan = clock.solve(solver.upgraded(problem, upgrade))
    if not plan then return { proven = false } end
    local gain = best.objective - plan.objective
    if gain < improvement * math.abs(best.objective) then gain = 0 end
    return { gain_s = gain, latency_s = plan.latency_s, omega = plan.omega,
      proven = plan.status == "optimal" and best.status == "optimal" }
  end
  local types = {}
  for _, group in ipairs(solver.device_groups(problem)) do types[#types + 1] = group.device end
  local rows = each(distinct(types), "memory_bytes", gib, "1 GiB more on each %s", ask)
  for _, row in ipairs(each(solver.link_names(problem), "link_bytes_per_s", gbps, "1 Gb/s more: %s", ask)) do
    rows[#rows + 1] = row
  end
  return rows
end

-- A floor 10 % looser, or half of theta: what that does to latency and omega.
local function lower_quality(problem, best, clock)
  local floor = problem.max_omega
  local row, changed = { kind = "quality" }
  if floor then
    row.name, row.change = "floor", ("quality floor 10 %% looser (omega %.4g)"):format(floor + 0.1 * math.abs(floor))
    changed = problem:with { quality = { max_omega = floor + 0.1 * math.abs(floor) }, theta = problem.theta }
  elseif problem.theta > 0 then
    row.name, row.change = "theta", ("theta %g instead of %g"):format(problem.theta / 2, problem.theta)
    changed = problem:with { theta = problem.theta / 2 }
  else
    return nil
  end
  if clock.left() <= 0 then
    clock.stopped = true
    row.proven = false
    return row
  end
  local plan = clock.solve(changed)
  if not plan then
    row.proven = false
    return row
  end
  row.gain_s = best.latency_s - plan.latency_s
  if math.abs(row.gain_s) < improvement * best.latency_s then row.gain_s = 0 end
  row.latency_s, row.omega, row.proven = plan.latency_s, plan.omega, plan.status == "optimal"
  return row
end

-- How the plan does when every latency is off: independent factors exp(error z) per device type, phase and bitwidth.
-- Where no plan is better by more than 1 %, the best one is not searched for: worst_regret_ratio is 1 % or more.
local function perturb(plan, problem, opt, clock)
  local error = opt.error or plan.error or 0.1
  local result = { error = error, assumed = not (opt.error or plan.error), seed = opt.seed, asked = opt.robustness,
    problems = 0, near_best = 0, worst_regret_ratio = near_best }
  for i = 1, opt.robustness do
    if clock.left() <= 0 or clock.interrupted then break end
    local one = solver.perturbed(problem, plan,
      { error = error, seed = opt.seed * 2 ^ 20 + i, near_ratio = near_best, time_limit_s = clock.left() })
    if one.status ~= "optimal" and one.status ~= "infeasible" then break end
    local regret = one.objective
      and math.max(0, (one.plan_objective - one.objective) / math.max(math.abs(one.objective), 1e-12)) or near_best
    result.problems = result.problems + 1
    if regret <= near_best then result.near_best = result.near_best + 1 end
    result.worst_regret_ratio = math.max(result.worst_regret_ratio, regret)
  end
  if result.problems < opt.robustness then clock.stopped = true end
  if result.problems > 0 then result.near_best_ratio = result.near_best / result.problems end
  return result
end

local function bought(row, best)
  if not row.gain_s then return "not known: the time limit came first" end
  local text = "nothing"
  if row.gain_s ~= 0 then
    local what = row.kind == "quality" and "latency" or "objective"
    local whole = row.kind == "quality" and best.latency_s or best.objective
    text = ("%s %s, %.2g %%"):format(core.format_seconds(row.gain_s), what, 100 * row.gain_s / math.abs(whole))
  end
  if row.kind == "quality" and row.omega ~= best.omega then
    text = text .. (", omega %.4g instead of %.4g"):format(row.omega, best.omega)
  end
  return text .. (row.proven and "" or " (not proven)")
end

local function robustness_text(r)
  local lines = { ("Were every latency off by %g %%%s"):format(100 * r.error,
    r.assumed and " (assumed: no measurement stands behind them yet)" or "") }
  if r.problems == 0 then
    lines[2] = "  not known: the time limit came first"
    return lines
  end
  lines[2] = ("  within 1 %% of the best plan in %d of %d perturbed problems (seed %d)"):format(r.near_best, r.problems,
    r.seed)
  if r.near_best < r.problems then
    lines[2] = lines[2] .. (", at worst %.2g %% above"):format(100 * r.worst_regret_ratio)
  end
  return lines
end

local function text_of(e)
  local lines = { "What binds" }
  for _, binding in ipairs(e.binds) do lines[#lines + 1] = "  " .. binding.text end
  lines[#lines + 1] = e.brief:gsub("\n$", "")
  if e.best then
    lines[#lines + 1] = e.above_best_ratio > improvement
      and ("The best plan of the whole search takes %s, this one is %.2g %% above it"):format(
        core.format_seconds(e.best.objective), 100 * e.above_best_ratio)
      or "No plan of the whole search is better"
    if not e.best.proven then lines[#lines] = lines[#lines] .. " (not proven)" end
    lines[#lines + 1] = "What it would buy to solve again with"
    local width = 0
    for _, row in ipairs(e.what_if) do width = math.max(width, #row.change) end
    for _, row in ipairs(e.what_if) do
      lines[#lines + 1] = ("  %s%s  %s"):format(row.change, (" "):rep(width - #row.change), bought(row, e.best))
    end
  elseif e.asked then
    lines[#lines + 1] = "The best plan of the whole search is not known: the time limit came first"
  end
  if e.robustness then
    for _, line in ipairs(robustness_text(e.robustness)) do lines[#lines + 1] = line end
  end
  if e.stopped then
    lines[#lines + 1] = ("stopped by the time limit of %g s; raise time_limit_s for the rest"):format(e.time_limit_s)
  end
  return table.concat(lines, "\n") .. "\n"
end

-- Of the problem of such a plan no perturbed one knows where its heads are.
local function divides_attention(plan)
  for _, stage in ipairs(plan.stages) do
    if stage.attention then return true end
  end
  return false
end

local function explain(plan, opt)
  -- An offloading plan is priced by FlexGen's cost model, which says itself what it waits for.
  local e = { binds = plan.offload and {} or solver.bindings(plan), brief = solver.explain_briefly(plan),
    asked = opt.what_if, time_limit_s = opt.time_limit_s, stopped = false }
  if opt.what_if then
    local problem, clock = plan:problem(), budget.new(opt.time_limit_s)
    local best = clock.solve(problem)
    if best then
      e.best = { objective = best.objective, latency_s = best.latency_s, omega = best.omega,
        proven = best.status == "optimal" }
      e.above_best_ratio = math.max(0, (plan.objective - best.objective) / math.max(math.abs(best.objective), 1e-12))
      e.what_if = hardware(problem, best, clock)
      e.what_if[#e.what_if + 1] = lower_quality(problem, best, clock)
      if opt.robustness > 0 and not plan.offload and not divides_attention(plan) then
        e.robustness = perturb(plan, problem, opt, clock)
      end
    end
    e.stopped, e.solves, e.elapsed_s = clock.stopped, clock.solves, clock.elapsed_s()
  end
  return e
end

-- Replicas are pipelines of their own: each is explained, and the time is shared.
local function explain_replicas(plan, opt)
  local parts = {}
  opt.time_limit_s = opt.time_limit_s / #plan.replicas
  for r, replica in ipairs(plan.replicas) do parts[r] = explain(replica, opt) end
  if opt.as == "table" then return { replicas = parts } end
  for r, e in ipairs(parts) do parts[r] = ("replica %d:\n%s"):format(r, text_of(e)) end
  return table.concat(parts)
end

return function(plan, given)
  local opt = read(given)
  if plan.replicas then return explain_replicas(plan, opt) end
  local e = explain(plan, opt)
  return opt.as == "text" and text_of(e) or e
end
