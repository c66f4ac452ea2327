-- `tessera detect`: the GPUs of this machine, or of hosts whose nvidia-smi output is given, as a cluster file.

local core = require "tessera.core"
local detect = require "tessera.devices.detect"
local host = require "tessera.host"
local nvidia_smi = require "tessera.devices.detect.nvidia_smi"
local terminal = require "tessera.terminal"

local M = {}

local function trimmed(text) return text and text:match "^%s*(.-)%s*$" end

local function own_name()
  local ok, text = pcall(core.read_file, "/proc/sys/kernel/hostname")
  return ok and trimmed(text) ~= "" and trimmed(text) or "node"
end

local function own_memory_bytes()
  local ok, text = pcall(core.read_file, "/proc/meminfo")
  local kib = ok and text:match "MemTotal:%s*(%d+) kB"
  return kib and tonumber(kib) * 1024
end

-- This machine, by the driver's library, else by nvidia-smi.
local function this_machine()
  local gpus, why = host.nvml()
  if gpus and #gpus > 0 then return detect.host_of_nvml(gpus, own_name(), own_memory_bytes()) end
  local ok, status, text = pcall(host.run_program, { "bash", "-c", (nvidia_smi.commands:gsub("; } >.*", "; }")) }, "")
  if ok and status == 0 then return nvidia_smi.parse(text, "nvidia-smi", own_name()) end
  core.raise("not_found", ("no NVIDIA GPU is found here (%s, and no nvidia-smi); give files of other hosts: `tessera "
    .. "detect --commands` prints what to run there"):format(gpus and "the driver lists none" or why), "tessera detect")
end

-- The nodes of a cluster that this verb wrote; nil where the text is something else.
local function written_nodes(text, path)
  local ok, cluster = pcall(core.from_json, text)
  if not ok or type(cluster) ~= "table" or type(cluster.nodes) ~= "table" then return nil end
  core.cluster_from_json(text, path)
  return cluster.nodes
end

-- Nodes of one file: a cluster that this verb wrote, or what tools printed on a host or of many.
local function add_file(nodes, remarks, path)
  local text = core.read_file(path == "-" and "/dev/stdin" or path)
  local written = written_nodes(text, path)
  for _, node in ipairs(written or {}) do nodes[#nodes + 1] = node end
  if written then return end
  local stem = path == "-" and "node" or path:match "([^/]*)$":gsub("%.%w+$", "")
  for _, each in ipairs(detect.hosts(text, path, stem)) do
    local node, said = detect.node(each)
    nodes[#nodes + 1] = node
    for _, remark in ipairs(said) do remarks[#remarks + 1] = remark end
  end
end

-- "8xH200-141G+2xL4".
local function title_of(nodes)
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

--- @param given table the flags; names: files of hosts
function M.main(given)
  if given.commands then
    terminal.say(nvidia_smi.commands)
    return 0
  end
  local nodes, remarks = {}, {}
  for _, path in ipairs(given.names) do add_file(nodes, remarks, path) end
  if #given.names == 0 then nodes[1], remarks = detect.node(this_machine()) end
  local cluster = detect.cluster(nodes, given.name or title_of(nodes), given.link_gbps or 100)
  local object = core.cluster_from_json(core.to_json(cluster), "tessera detect") -- nothing that nothing reads
  if given.out then core.write_file(given.out, core.to_json(cluster) .. "\n") end
  if host.json then
    host.set_result(cluster)
  else
    print(object)
    for _, remark in ipairs(remarks) do terminal.say(remark .. "\n") end
    if given.out then
      print(("written to %s; --cluster %s plans on it"):format(given.out, given.out))
    end
  end
  return 0
end

return M
