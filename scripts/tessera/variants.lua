-- Problems with open choices (tensor-parallel mesh, bitwidth of the KV cache): every way to settle them is planned, by
-- whatever planner was asked for, and the best plan is returned with what came of the others. Each way has to beat the
-- best before it (`cutoff`), which proves most of them hopeless at little cost, unless every candidate is asked for.

local core = require "tessera.core"
local solver = require "tessera.solver"
local timer = require "tessera.timer"

local M = {}

local function copy(options)
  local result = {}
  for key, value in pairs(options) do result[key] = value end
  return result
end

-- The variants in which the devices of `device_order` exist, with their names; all of them without an order.
local function with_devices(problem, opt)
  local all, names, notes = problem:variants()
  if not opt.device_order then return all, names, notes end
  local kept, kept_names, first_error = {}, {}, nil
  for i, variant in ipairs(all) do
    local ok, message = pcall(solver.check_options, variant, { device_order = opt.device_order })
    if ok then
      kept[#kept + 1], kept_names[#kept_names + 1] = variant, names[i]
    else
      first_error = first_error or message
    end
  end
  if #kept == 0 then error(first_error, 0) end
  return kept, kept_names, notes
end

-- Incumbents of one variant are news only below the best so far; its bound is not that of the whole search.
local function news(on_incumbent, cutoff)
  if not on_incumbent then return nil end
  return function(incumbent)
    if cutoff and incumbent.objective >= cutoff then return end
    on_incumbent { objective = incumbent.objective }
  end
end

local function outcome(name, plan, why, cutoff)
  if plan then
    return {
      name = name, status = plan.status, objective = plan.objective, latency_s = plan.latency_s, bound = plan.bound,
    }
  end
  if why.constraint == "cutoff" then
    return { name = name, status = "cutoff", bound = cutoff, message = why.message }
  end
  return { name = name, status = why.code, bound = why.bound, message = why.message }
end

-- Infeasible variants have no bound because they have no plan; others without one leave the search without one.
local function least_bound(outcomes)
  local least = math.huge
  for _, o in ipairs(outcomes) do
    if o.status ~= "infeasible" then least = math.min(least, o.bound or -math.huge) end
  end
  if math.abs(least) < math.huge then return least end
end

local function is_proven(outcomes)
  for _, o in ipairs(outcomes) do
    if o.status == "feasible" or o.status == "time_limit" or o.status == "interrupted" then return false end
  end
  return true
end

--- Why there is no plan below the cutoff that was asked for.
function M.why_cutoff(cutoff)
  return core.why("infeasible", ("no plan has an objective below the cutoff of %g s"):format(cutoff), "cutoff")
end

-- The outcome that tells most about why there is no plan: one that ran out of time, else all of them.
local function no_plan(outcomes, reasons, cutoff)
  for i, o in ipairs(outcomes) do
    if o.status == "time_limit" or o.status == "interrupted" then return nil, reasons[i] end
  end
  for _, o in ipairs(outcomes) do
    if o.status ~= "infeasible" then return nil, M.why_cutoff(cutoff) end
  end
  if #outcomes == 1 then return nil, reasons[1] end
  local lines = {}
  for i, o in ipairs(outcomes) do lines[i] = ("%s: %s"):format(o.name, o.message) end
  return nil, core.why("infeasible", "no choice has a plan; " .. table.concat(lines, "; "), reasons[1].constraint)
end

--- The first variant in which these devices exist: what a plan made by hand is priced by.
function M.holding(problem, device_order)
  return with_devices(problem, { device_order = device_order })[1]
end

--- Plans every variant of the problem by plan_one(problem, options), which returns a plan, or nil and why.
function M.plan(problem, opt, plan_one)
  local variants, names, notes = with_devices(problem, opt)
  if #variants == 1 and #notes == 0 then return plan_one(variants[1], opt) end
  local clock = timer(opt.time_limit_s)
  local best, outcomes, reasons, cutoff = nil, {}, {}, opt.cutoff
  for i, variant in ipairs(variants) do
    local options = copy(opt)
    options.cutoff = not opt.every_candidate and cutoff or opt.cutoff
    options.time_limit_s = clock.left()
    options.on_incumbent = news(opt.on_incumbent, cutoff)
    local plan, why = plan_one(variant, options)
    outcomes[i], reasons[i] = outcome(names[i], plan, why, options.cutoff), why
    if plan and not (cutoff and plan.objective >= cutoff) then best, cutoff = plan, plan.objective end
    if best and opt.gap == 1 then return best end -- objectives are not negative: any plan is within this gap
  end
  if not best then return no_plan(outcomes, reasons, opt.cutoff) end
  local combined = solver.combine(best, {
    status = is_proven(outcomes) and "optimal" or "feasible",
    bound = least_bound(outcomes),
    solve_s = clock.elapsed_s(),
    candidates = #variants > 1 and outcomes or nil,
  })
  for _, note in ipairs(notes) do combined = combined:with_note(note) end
  return combined
end

return M
