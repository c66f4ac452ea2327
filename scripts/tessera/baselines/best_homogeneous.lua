-- "Leave the T4s out": the best plan on devices of one type only. For each type all its devices, in cluster order, and
-- the exact search over everything else; of the types, the one of least objective. What mixed clusters are measured
-- against: where this wins, the other devices were not worth having.

local core = require "tessera.core"
local budget = require "tessera.planning.budget"
local search = require "tessera.planning.baselines"
local timer = require "tessera.planning.timer"
local ts = require "tessera"

-- Types in the order in which they appear, each with its devices.
local function by_type(order)
  local types, devices = {}, {}
  for _, name in ipairs(order) do
    local device = name:match "^[^@]*"
    if not devices[device] then types[#types + 1], devices[device] = device, {} end
    table.insert(devices[device], name)
  end
  return types, devices
end

local function note_of(types, devices, best, alone)
  local others = {}
  for _, device in ipairs(types) do
    if device ~= best then
      others[#others + 1] = ("%d x %s left out (%s)"):format(#devices[device], device, alone[device])
    end
  end
  return ("%d x %s alone"):format(#devices[best], best)
    .. (#others > 0 and "; " .. table.concat(others, "; ") or "")
end

local function why_not(types, reasons, late)
  local lines = {}
  for i, device in ipairs(types) do lines[i] = device .. ": " .. reasons[device]:match "^[^;]*" end -- without advice
  local message = "no type of device holds the model alone; " .. table.concat(lines, "; ")
  return late and core.why("time_limit", message) or message
end

return ts.register_planner {
  name = "best_homogeneous",
  doc = "The best plan on devices of one type only, searched exactly: the others left out",
  source = "rule of thumb",
  plan = function(problem, opt)
    local types, devices = by_type(opt.device_order or problem.devices)
    local clock = timer(opt.time_limit_s)
    local best, best_type, alone, reasons, late = nil, nil, {}, {}, false
    for i, device in ipairs(types) do
      local plan, why = ts.plan(problem, {
        planner = budget.prover(problem), device_order = devices[device],
        time_limit_s = 0.8 * clock.left() / (#types - i + 1), -- the rest is for what a search does around its search
        prefill_micro_batch_size = opt.prefill_micro_batch_size, decode_micro_batch_size = opt.decode_micro_batch_size,
        gap = opt.gap, threads = opt.threads,
      })
      if plan then
        alone[device] = ("%.4g s alone"):format(plan.latency_s)
        if not best or plan.objective < best.objective then best, best_type = plan, device end
      else
        reasons[device] = why.message
        alone[device] = why.code == "time_limit" and "no plan alone in time" or "does not fit alone"
        late = late or why.code == "time_limit"
      end
    end
    if not best then return nil, why_not(types, reasons, late) end
    return search.add_note({
      stages = best.stages,
      prefill_micro_batch_size = best.prefill_micro_batch_size,
      decode_micro_batch_size = best.decode_micro_batch_size,
    }, note_of(types, devices, best_type, alone))
  end,
}
