-- ts.detect(options): the GPUs of this machine, or shares of its CPU, as a cluster.

local core = require "tessera.core"
local cpu = require "tessera.devices.detect.cpu"
local detect = require "tessera.devices.detect"
local host = require "tessera.host"
local nvidia_smi = require "tessera.devices.detect.nvidia_smi"
local options = require "tessera.options"

local M = {}

local path = "ts.detect"

local read = options.card {
  name = path,
  doc = "The GPUs of this machine (NVML, else nvidia-smi) as a cluster, or shares of its CPU, with rates that are "
    .. "measured now (tessera man profiles)",
  returns = "tessera.Cluster",
  options = {
    { name = "cpu", type = "boolean", default = false, doc = "Shares of the CPU in place of GPUs" },
    { name = "cores_per_device", type = "integer", unit = "cores", min = 1, max = 4096,
      doc = "Of each of these; default: 1" },
  },
}

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

-- By the driver's library, else by nvidia-smi.
local function gpus_here()
  local gpus, why = host.nvml()
  if gpus and #gpus > 0 then return detect.host_of_nvml(gpus, own_name(), own_memory_bytes()) end
  local ok, status, text = pcall(host.run_program, { "bash", "-c", (nvidia_smi.commands:gsub("; } >.*", "; }")) }, "")
  if ok and status == 0 then return nvidia_smi.parse(text, "nvidia-smi", own_name()) end
  core.raise("not_found", ("no NVIDIA GPU is found here (%s, and no nvidia-smi); give files of other hosts: `tessera "
    .. "detect --commands` prints what to run there; --cpu describes the CPU"):format(
    gpus and "the driver lists none" or why), "tessera detect")
end

--- The node of a cluster file that this machine is, remarks, and fields of the cluster. `given`: `cpu`,
--- `cores_per_device`.
function M.node(given, where)
  if given.cpu then
    return cpu.node(own_name(), given.cores_per_device or 1, own_memory_bytes(), where .. ".cores_per_device")
  end
  if given.cores_per_device then core.refuse(where .. ".cores_per_device", "of shares of the CPU; give cpu, too") end
  return detect.node(gpus_here())
end

function M.detect(given)
  local node, _, links = M.node(read(given), path)
  local cluster = detect.cluster({ node }, detect.title_of { node }, 100)
  for key, value in pairs(links or {}) do cluster[key] = value end
  return core.cluster_from_json(core.to_json(cluster), path)
end

return M
