-- The replicas of a model as pools of engines, on the devices that they have in the fleet.

local classes = require "tessera.fleets.classes"
local copy = require "tessera.shallow_copy"
local core = require "tessera.core"

local M = {}

--- What the fleet was asked of a model, by its name.
function M.asked(fleet, name, where)
  for _, model in ipairs(fleet.options.models) do
    if model.name == name then return model end
  end
  core.refuse(where, ("no model of the fleet is called '%s'"):format(tostring(name)))
end

-- A row for the prefill engines of a pair, and one for those that decode.
local function split_pair(replica, rows)
  for _, part in ipairs(replica.parts) do
    local row = copy(replica)
    row.part, row.engines, row.devices = part, replica.count * part.engines, {}
    for i, own in ipairs(replica.devices) do
      local prefills, devices = {}, {}
      for _, device in ipairs(replica.prefill_devices[i]) do prefills[device] = true end
      for _, device in ipairs(own) do
        if (prefills[device] or false) == (part.role == "prefill") then devices[#devices + 1] = device end
      end
      row.devices[i] = devices
    end
    rows[#rows + 1] = row
  end
end

-- A row for those of its replicas that get the same of each class of requests.
local function split(replica, rows)
  local first = 0
  for _, part in ipairs(replica.shares) do
    local row = copy(replica)
    row.count, row.class_shares, row.devices = part.count, part.share, {}
    row.part, row.engines = replica.parts[1], part.count
    for i = 1, part.count do row.devices[i] = replica.devices[first + i] end
    first, rows[#rows + 1] = first + part.count, row
  end
end

--- The rows of fleet.replicas that run a model, alike in what they are sent: each with its part, engines of it, and
--- the devices of each replica; a pair has two.
function M.rows(fleet, name)
  local rows = {}
  for _, replica in ipairs(fleet.replicas) do
    if replica.model == name and not replica.parts then
      core.raise("unsupported", ("the replica '%s' of '%s' is of a column that a script gave: nobody knows which "
        .. "engine it is"):format(replica.label, name), "fleet")
    end
    if replica.model == name and replica.prefill_devices then
      split_pair(replica, rows)
    elseif replica.model == name and replica.shares then
      split(replica, rows)
    elseif replica.model == name then
      local row = copy(replica)
      row.part, row.engines = replica.parts[1], replica.count
      rows[#rows + 1] = row
    end
  end
  return rows
end

--- Devices of all replicas of a row in the order of the cluster.
function M.devices(row)
  local list = {}
  for _, own in ipairs(row.devices) do
    for _, device in ipairs(own) do list[#list + 1] = device end
  end
  table.sort(list)
  return list
end

-- Shares of routers count from 1 to 100.
local function shares_of(rows)
  local most, shares = 0, {}
  for _, row in ipairs(rows) do most = math.max(most, row.part.share) end
  for i, row in ipairs(rows) do shares[i] = math.max(1, math.floor(100 * row.part.share / most + 0.5)) end
  return shares
end

--- A pool of ts.deployment for each row.
function M.of(fleet, name, asked)
  local rows, pools = M.rows(fleet, name), {}
  local shares = shares_of(rows)
  for i, row in ipairs(rows) do
    local part = row.part
    pools[i] = { role = part.role, model = asked.model, cluster = fleet.cluster:part(M.devices(row)),
      tensor_parallel = part.tensor_parallel, pipeline_parallel = part.pipeline_parallel,
      expert_parallel = part.expert_parallel, attention_data_parallel = part.attention_data_parallel,
      stage_layers = part.stage_layers and #part.stage_layers > 0 and part.stage_layers or nil, replicas = row.engines,
      bitwidths = { part.bitwidth }, kv_bitwidth = part.kv_bitwidth, engine = part.engine,
      kernel_set = asked.kernel_set, share = shares[i] }
  end
  return pools, rows
end

--- How keys and values get from prefill to decode engines; nil of a model without pairs.
function M.transfer(fleet, name)
  local link = (fleet.named.transfers or {})[name]
  return link and { bytes_per_s = link.bytes_per_s, latency_s = link.latency_s, per_layer = link.per_layer } or nil
end

--- How requests get to them: fewest under way, or of several classes by the shares of each.
function M.router(fleet, name, asked, lost_node)
  if not classes.several(asked) then return "least_requests" end
  local rows = {}
  for _, replica in ipairs(fleet.replicas) do
    if replica.model == name then rows[#rows + 1] = replica end
  end
  return classes.router(fleet, rows, lost_node)
end

return M
