-- From what drivers say of hosts to a cluster file: sheets instead of names, the links that are there.

local core = require "tessera.core"
local sheets = require "tessera.devices.detect.sheets"

local M = {}

-- Bytes a second of one lane in one direction, by generation, as the sheets' rates of x16 have it.
local lane_bytes_per_s = { 0.25e9, 0.5e9, 15.75e9 / 16, 31.5e9 / 16, 63e9 / 16, 121e9 / 16 }

-- The rate of the slot; nil where generation or lanes are not known.
local function slot_rate(gpu)
  local lane = gpu.pcie_generation and lane_bytes_per_s[gpu.pcie_generation]
  return lane and gpu.pcie_width and lane * gpu.pcie_width
end

-- The sheet's name, or all its fields with the slower slot that the card is in.
local function device_of(gpu, sheet)
  local rate = slot_rate(gpu)
  if not rate or rate >= sheet.pcie_bytes_per_s * 0.99 then return sheet.name end
  local fields = sheet:to_table()
  fields.pcie_bytes_per_s = rate
  fields.source = ("%s. PCIe: generation %d with %d lanes, as detected."):format(fields.source, gpu.pcie_generation,
    gpu.pcie_width)
  return fields
end

local function is_nvlink(link) return link ~= nil and link:find "^NV%d" ~= nil end

-- How the GPUs of a host are joined: "all", "pairs" (1 with 2, 3 with 4, ...), "none", or "some".
local function joined(host)
  local count, all, any, pairs_only = #host.gpus, true, false, true
  for a = 1, count do
    for b = 1, count do
      if a ~= b then
        local nvlink = is_nvlink(host.links[a][b])
        local partners = math.floor((a - 1) / 2) == math.floor((b - 1) / 2)
        all, any = all and nvlink, any or nvlink
        if nvlink ~= partners then pairs_only = false end
      end
    end
  end
  return count > 1 and (all and "all" or pairs_only and any and "pairs" or any and "some") or "none"
end

-- What the node says of NVLink, and a remark where a cluster file cannot say it.
local function nvlink_of(host, found)
  if #host.gpus < 2 then return {} end
  local has_it, takes_bridges, boards_without = true, true, false
  for i, sheet in ipairs(found.sheets) do
    has_it = has_it and sheet.nvlink_bytes_per_s ~= nil
    takes_bridges = takes_bridges and sheet.nvlink_bridge_bytes_per_s ~= nil
    boards_without = boards_without or found.without_nvlink[i]
  end
  if not host.links then
    if boards_without then return { nvlink = false } end
    return {}, (has_it or takes_bridges) and "nothing was said of NVLink (`nvidia-smi topo -m`); as the sheets have it"
      or nil
  end
  local how = joined(host)
  if how == "none" then return has_it and { nvlink = false } or {} end
  if takes_bridges and (how == "pairs" or how == "all" and #host.gpus == 2) then return { nvlink_bridges = true } end
  if has_it and how == "all" then return {} end
  if boards_without then return { nvlink = false }, "NVLink bridges between PCIe boards are left out" end
  return has_it and { nvlink = false } or {}, ("NVLink joins %s GPUs, which a cluster file cannot say of these; they "
    .. "are taken to talk over PCIe"):format(how == "all" and "all" or "some")
end

-- Neighbours that are alike: { { "L4", 2 }, ... }.
local function entries_of(devices)
  local entries, keys = {}, {}
  for _, device in ipairs(devices) do
    local key = type(device) == "table" and core.to_json(device) or device
    if keys[#entries] == key then
      entries[#entries][2] = entries[#entries][2] + 1
    else
      entries[#entries + 1] = { device, 1 }
      keys[#entries] = key
    end
  end
  return entries
end

--- The node of a cluster file for a host (nvidia_smi.lua says of what form), and remarks.
function M.node(host)
  local where, found, devices, remarks = "host " .. host.name, { sheets = {}, without_nvlink = {} }, {}, {}
  for i, gpu in ipairs(host.gpus) do
    found.sheets[i], found.without_nvlink[i] = sheets.find(gpu, where)
    devices[i] = device_of(gpu, found.sheets[i])
    if type(devices[i]) == "table" then
      remarks[#remarks + 1] = ("%s: GPU %d (%s) is in a slot of %.3g GB/s; its sheet has %.3g"):format(where, i - 1,
        found.sheets[i].name, slot_rate(gpu) / 1e9, found.sheets[i].pcie_bytes_per_s / 1e9)
    end
  end
  local node = { name = host.name, devices = entries_of(devices), host_memory_bytes = host.host_memory_bytes }
  local links, remark = nvlink_of(host, found)
  for name, value in pairs(links) do node[name] = value end
  if remark then remarks[#remarks + 1] = where .. ": " .. remark end
  return node, remarks
end

--- The host of what host.nvml() lists.
function M.host_of_nvml(gpus, name, host_memory_bytes)
  local host, index = { name = name, host_memory_bytes = host_memory_bytes, gpus = gpus, links = {} }, {}
  for i, gpu in ipairs(gpus) do
    if gpu.bus_id then index[gpu.bus_id] = i end
    host.links[i] = {}
  end
  for i, gpu in ipairs(gpus) do
    for _, peer in ipairs(gpu.nvlink_peers) do
      if index[peer] then
        host.links[i][index[peer]] = "NV1"
      else -- a switch, which joins it with all that hang on one
        for k, other in ipairs(gpus) do
          if k ~= i and #other.nvlink_peers > 0 then host.links[i][k] = "NV1" end
        end
      end
    end
  end
  return host
end

--- The cluster file of some nodes. Raises where two have one name.
function M.cluster(nodes, name, link_gbps)
  local seen = {}
  for _, node in ipairs(nodes) do
    if seen[node.name] then
      core.refuse("tessera detect", ("two hosts are called '%s'; write 'host: NAME' into their files"):format(
        node.name))
    end
    seen[node.name] = true
  end
  return { name = name, nodes = nodes, link_gbps = link_gbps,
    source = "tessera detect; the network's rate is as given, no host knows it" }
end

return M
