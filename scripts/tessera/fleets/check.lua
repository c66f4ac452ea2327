-- ts.check(thing): of a fleet the checker of fleets, on the columns below it, and of named models the devices of every
-- replica: those of each pool of a pair, on the nodes that it is on, and nobody else's.

local core = require "tessera.core"
local fleets = require "tessera.fleets.fleet"
local solver = require "tessera.solver"

local function gpus_of(part) return part.engines * part.tensor_parallel * part.pipeline_parallel end

-- Devices that engines of the role have, and should have.
local function counts_of(row, i, role)
  local wanted, prefills = 0, #(row.prefill_devices and row.prefill_devices[i] or {})
  for _, part in ipairs(row.parts) do
    if part.role == role then wanted = wanted + gpus_of(part) end
  end
  if role == "prefill" then return prefills, wanted end
  return #row.devices[i] - prefills, wanted
end

-- What is wrong with the replica `i` of a row; nil: nothing.
local function wrong_of(row, i, has)
  local is_pair = #row.parts > 1 or row.prefill_devices ~= nil or row.parts[1].role ~= "mixed"
  for _, role in ipairs(is_pair and { "prefill", "decode" } or { "mixed" }) do
    local count, wanted = counts_of(row, i, role)
    if wanted == 0 then return ("a pair has no %s engines"):format(role) end
    if count ~= wanted then
      return ("its %s engines have %d devices, and take %d"):format(role, count, wanted)
    end
  end
  for _, device in ipairs(row.prefill_devices and row.prefill_devices[i] or {}) do
    if not has[device] then return ("device %d computes its prompts, and is not its own"):format(device) end
  end
end

-- What is wrong with the devices of replicas of named models; nil: nothing.
local function wrong_with(fleet)
  local places, taken = fleet.cluster and fleet.cluster:places() or {}, {}
  local nodes = fleet.cluster and fleet.cluster.nodes or {}
  for _, row in ipairs(fleet.replicas) do
    local on = {}
    for _, name in ipairs(row.node_names) do on[name] = true end
    for i = 1, row.parts and row.count or 0 do
      local has = {}
      for _, device in ipairs(row.devices[i] or {}) do
        local place = places[device + 1]
        if not place or not on[nodes[place.node_index + 1].name] then
          return row, ("device %d is on no node of it"):format(device)
        end
        if taken[device] then return row, ("device %d is taken already"):format(device) end
        taken[device], has[device] = true, true
      end
      local wrong = row.devices[i] and wrong_of(row, i, has) or not row.devices[i] and "it has no devices"
      if wrong then return row, wrong end
    end
  end
end

return function(thing)
  if not fleets.is(thing) then return solver.check(thing) end
  local ok, why = solver.check(thing.solved)
  if not ok or not thing.named then return ok, why end
  local row, wrong = wrong_with(thing)
  if not row then return ok end
  return nil, core.why("infeasible", ("the replica '%s' of '%s': %s"):format(row.label, row.model, wrong))
end
