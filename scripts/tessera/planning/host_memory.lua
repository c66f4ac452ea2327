-- A model that is larger than the GPUs, under llama.cpp: its first layers stay in the host's memory, where its cores
-- run them at the memory's rate. The host is one more device in front, of backend "cpu", which kernel set llama_cpp
-- prices; a cluster file that has such a device says what it is, and none is assumed.

local core = require "tessera.core"
local ts = require "tessera"

local M = {}

local gib = 1024 ^ 3
-- Two channels of DDR5-5600; a desktop's.
local assumed_gib, assumed_bytes_per_s = 64, 89.6e9
-- A step of 512 tokens sends the weights of such a layer to a GPU, so they arrive at PCIe's rate: at 4.8 bits a weight
-- that is so many operations a second for each byte.
local flop_per_byte = 2 * 512 / (4.8 / 8)

local function has_host(cluster)
  for _, device in ipairs(cluster.devices) do
    if device.backend == "cpu" or device.backend == "metal" then return true end
  end
  return false
end

-- The fewest bits that are no loss that everybody sees.
local function fewest(bitwidths)
  for _, bits in ipairs(bitwidths) do
    if bits >= 4 then return bits end
  end
  return bitwidths[#bitwidths]
end

--- A plan with layers in the host's memory of a description (as ts.problem takes it) whose problem does not fit, and a
--- line that says what was assumed; nil where there is none, or another runtime is to run it.
function M.plan(description, problem, chosen)
  local cluster = problem.cluster
  if problem.runtime ~= "llama.cpp" or #cluster.nodes ~= 1 or has_host(cluster) then return nil end
  if chosen.planner or chosen.device_order or chosen.stages then return nil end
  local node, slowest = cluster.nodes[1], math.huge
  for _, device in ipairs(cluster.devices) do slowest = math.min(slowest, device.pcie_bytes_per_s) end
  local bytes = node.host_memory_bytes or assumed_gib * gib
  local rate = slowest * flop_per_byte
  local host = ts.device { name = "host-memory", memory_bytes = bytes, memory_bytes_per_s = assumed_bytes_per_s,
    flop_per_s = { fp16 = rate, fp32 = rate }, backend = "cpu" }
  local entries, order = {}, { host.name }
  for _, device in ipairs(cluster.devices) do
    entries[#entries + 1] = { device, 1, node = node.name }
    order[#order + 1] = device.name
  end
  entries[#entries + 1] = { host, 1, node = node.name } -- behind the GPUs, whose numbers stay
  local changed = {}
  for name, value in pairs(description) do changed[name] = value end
  changed.cluster, changed.bitwidths, changed.tensor_parallel = ts.cluster(entries), { fewest(problem.bitwidths) }, 1
  changed.quality = nil
  local larger = ts.problem(changed)
  local options = { device_order = order }
  for name, value in pairs(chosen) do options[name] = value end
  local plan = ts.plan(larger, options)
  if not plan then return nil end
  return plan, larger, ("The GPUs do not hold it: layers stay in the host's memory, %s at %g GB/s%s (a cluster file "
    .. "that has a device of backend \"cpu\" says another)\n"):format(core.format_bytes(bytes),
    assumed_bytes_per_s / 1e9, node.host_memory_bytes and ", the rate assumed" or ", assumed")
end

return M
