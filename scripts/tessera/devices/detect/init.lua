-- From what drivers say of hosts to a cluster file: sheets instead of names, the links that are there.

local core = require "tessera.core"
local listings = require "tessera.devices.detect.listings"
local nvidia_smi = require "tessera.devices.detect.nvidia_smi"
local other_makers = require "tessera.devices.detect.other_makers"
local schedulers = require "tessera.devices.detect.schedulers"
local sheets = require "tessera.devices.detect.sheets"

local M = {}

-- Bytes a second of one lane in one direction, by generation, as the sheets' rates of x16 have it.
local lane_bytes_per_s = { 0.25e9, 0.5e9, 15.75e9 / 16, 31.5e9 / 16, 63e9 / 16, 121e9 / 16 }

-- The rate of the slot; nil where generation or lanes are not known.
local function slot_rate(gpu)
  local lane = gpu.pcie_generation and lane_bytes_per_s[gpu.pcie_generation]
  return lane and gpu.pcie_width and lane * gpu.pcie_width
end

-- Of a card that others use: below this share of its memory free, what is free is all that there is.
local least_free = 0.9

-- The sheet's name, or all its fields with what this card has less of: lanes of its slot, free memory. And that in
-- words.
local function device_of(gpu, sheet)
  local fields, words = sheet:to_table(), {}
  local rate = slot_rate(gpu)
  if rate and rate < sheet.pcie_bytes_per_s * 0.99 then
    fields.pcie_bytes_per_s = rate
    fields.source = ("%s. PCIe: generation %d with %d lanes, as detected."):format(fields.source, gpu.pcie_generation,
      gpu.pcie_width)
    words[1] = ("is in a slot of %.3g GB/s; its sheet has %.3g"):format(rate / 1e9, sheet.pcie_bytes_per_s / 1e9)
  end
  if gpu.free_bytes and gpu.free_bytes < least_free * sheet.memory_bytes then
    fields.memory_bytes = math.max(gpu.free_bytes, 2 ^ 20)
    fields.source = ("%s. Memory: what was free when it was detected."):format(fields.source)
    words[#words + 1] = ("has %s of %s free, and is planned with that"):format(core.format_bytes(gpu.free_bytes),
      core.format_bytes(sheet.memory_bytes))
  end
  return #words > 0 and fields or sheet.name, words
end

local function is_nvlink(link) return link ~= nil and link:find "^NV%d" ~= nil end

-- How the GPUs of a host are joined: "all", "none", "pairs" where each has one partner at most, or "some"; and the
-- pairs, numbered from 0.
local function joined(host)
  local count, pairs_of, linked, most = #host.gpus, {}, 0, 0
  for a = 1, count do
    local partners = 0
    for b = 1, count do
      if a ~= b and is_nvlink(host.links[a][b]) then
        partners, linked = partners + 1, linked + 1
        if a < b then pairs_of[#pairs_of + 1] = { a - 1, b - 1 } end
      end
    end
    most = math.max(most, partners)
  end
  if linked == 0 then return "none" end
  if count > 2 and linked == count * (count - 1) then return "all" end
  return most == 1 and "pairs" or "some", pairs_of
end

-- Whether pairs are what nvlink_bridges says: the first with the second, the third with the fourth, of one type.
local function are_neighbours(pairs_of, found)
  if #pairs_of ~= math.floor(#found.sheets / 2) then return false end
  for i, pair in ipairs(pairs_of) do
    if pair[1] ~= 2 * i - 2 or pair[2] ~= 2 * i - 1 then return false end
    if found.sheets[pair[1] + 1].name ~= found.sheets[1].name then return false end
    if not found.sheets[pair[1] + 1].nvlink_bridge_bytes_per_s then return false end
  end
  return true
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
  local how, pairs_of = joined(host)
  if how == "none" then return has_it and { nvlink = false } or {} end
  if has_it and not boards_without and (how == "all" or #host.gpus == 2) then return {} end
  if how == "pairs" then
    if are_neighbours(pairs_of, found) then return { nvlink_bridges = true } end
    for _, pair in ipairs(pairs_of) do
      for _, index in ipairs(pair) do
        local sheet = found.sheets[index + 1]
        if not (sheet.nvlink_bridge_bytes_per_s or sheet.nvlink_bytes_per_s) then
          return {}, ("NVLink joins GPU %d, whose sheet (%s) has none; it is taken to talk over PCIe"):format(index,
            sheet.name)
        end
      end
    end
    local links = { nvlink_pairs = pairs_of }
    if has_it then links.nvlink = false end -- between those that no bridge joins
    return links
  end
  if boards_without then return { nvlink = false }, "NVLink bridges between PCIe boards are left out" end
  return has_it and { nvlink = false } or {}, ("NVLink joins %s GPUs, which a cluster file cannot say of these; they "
    .. "are taken to talk over PCIe"):format(how == "all" and "all" or "some")
end

-- What the node says of memory that GPUs read over PCIe: nothing where it is as their sheets have it.
local function peer_access_of(host, found)
  if not host.peers then return nil end
  local all, as_sheets = true, true
  for a = 1, #host.gpus do
    as_sheets = as_sheets and found.sheets[a].peer_access
    for b = 1, #host.gpus do
      local by_nvlink = host.links and is_nvlink(host.links[a][b])
      if a ~= b and not by_nvlink and host.peers[a][b] ~= "OK" then all = false end
    end
  end
  if all ~= as_sheets then return all end
  return nil
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

-- The host with the GPUs that have a sheet, and { { name =, memory_bytes =, count = } } of the others. A card that
-- MIG cuts up is one of those: its slices are devices of their own, without a sheet.
local function known_part(host, found, where)
  local kept, unknown, remarks, indices = { name = host.name, gpus = {} }, {}, {}, {}
  for i, gpu in ipairs(host.gpus) do
    local sheet, without_nvlink, note = sheets.find(gpu)
    if sheet and not gpu.slices then
      kept.gpus[#kept.gpus + 1], indices[#indices + 1] = gpu, i
      found.sheets[#kept.gpus], found.without_nvlink[#kept.gpus] = sheet, without_nvlink
      if note and not remarks[note] then remarks[note], remarks[#remarks + 1] = true, where .. ": " .. note end
    else
      local words = sheets.words(gpu) .. (gpu.slices and " cut by MIG into " .. table.concat(gpu.slices, ", ") or "")
      if not unknown[words] then
        unknown[words] = { name = gpu.name, memory_bytes = gpu.memory_bytes, mig_slices = gpu.slices, count = 0,
          compute_capability = gpu.compute_capability }
        unknown[#unknown + 1] = unknown[words]
        remarks[#remarks + 1] = ("%s: no device sheet for %s; it is kept as unknown and not planned on"):format(where,
          words)
      end
      unknown[words].count = unknown[words].count + 1
    end
  end
  for _, name in ipairs { "links", "peers" } do
    if host[name] then
      kept[name] = {}
      for a, i in ipairs(indices) do
        kept[name][a] = {}
        for b, k in ipairs(indices) do kept[name][a][b] = host[name][i][k] end
      end
    end
  end
  local plain = {}
  for i, each in ipairs(unknown) do plain[i] = each end
  return kept, plain, remarks
end

--- The node of a cluster file for a host (nvidia_smi.lua says of what form), and remarks. Raises not_found where none
--- of its GPUs has a sheet.
function M.node(host)
  local where, found, devices = "host " .. host.name, { sheets = {}, without_nvlink = {} }, {}
  local kept, unknown, remarks = known_part(host, found, where)
  if #kept.gpus == 0 then
    if unknown[1].mig_slices then
      core.refuse(where, ("its GPUs are cut by MIG into %s, which no sheet describes; `nvidia-smi -mig 0` makes them "
        .. "whole"):format(table.concat(unknown[1].mig_slices, ", ")))
    end
    sheets.refuse(unknown[1], where)
  end
  for i, gpu in ipairs(kept.gpus) do
    local words
    devices[i], words = device_of(gpu, found.sheets[i])
    for _, each in ipairs(words) do
      remarks[#remarks + 1] = ("%s: GPU %d (%s) %s"):format(where, i - 1, found.sheets[i].name, each)
    end
  end
  local node = { name = host.name, devices = entries_of(devices), host_memory_bytes = host.host_memory_bytes }
  if #unknown > 0 then node.unknown_devices = unknown end
  local links, remark = nvlink_of(kept, found)
  for name, value in pairs(links) do node[name] = value end
  if #kept.gpus > 1 then node.peer_access = peer_access_of(kept, found) end
  if remark then remarks[#remarks + 1] = where .. ": " .. remark end
  return node, remarks
end

--- The hosts that a text describes: what nvidia-smi, AMD's and Apple's tools, Slurm or kubectl printed. `name`: of a
--- host that does not say its own.
function M.hosts(text, path, name)
  if text:find "^%s*[{%[]" then
    local ok, json = pcall(core.from_json, text)
    local hosts = ok and (schedulers.kubernetes(json, path) or other_makers.of_json(json, name))
    if hosts then return hosts end
    core.refuse(path, "it is JSON, but neither a cluster that `tessera detect --out` wrote nor what `kubectl get nodes "
      .. "-o json`, `rocm-smi --json` or `amd-smi static --json` print; `tessera detect --commands` prints what to run")
  end
  local hosts = schedulers.slurm(text, path)
  if hosts then return hosts end
  schedulers.refuse_others(text, path)
  return { other_makers.parse(text, name) or listings.parse(text, name) or nvidia_smi.parse(text, path, name) }
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

--- "8xH200-141G+2xL4".
function M.title_of(nodes)
  local counts, order = {}, {}
  for _, node in ipairs(nodes) do
    for _, entry in ipairs(node.devices) do
      local device = type(entry) == "table" and entry[1] or entry
      local name = type(device) == "table" and device.name or device
      if not counts[name] then order[#order + 1] = name end
      counts[name] = (counts[name] or 0) + (type(entry) == "table" and entry[2] or 1)
    end
  end
  for i, name in ipairs(order) do order[i] = counts[name] .. "x" .. name end
  return table.concat(order, "+")
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
