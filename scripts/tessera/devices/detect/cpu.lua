-- Shares of this machine's CPU as devices of a cluster: what each has, measured while the other cores do the same.

local core = require "tessera.core"
local measure = require "tessera.measure"

local M = {}

local small_bytes, large_bytes = 64, 2 ^ 22 -- over loopback: a latency and a rate

-- "AMD EPYC 7B13 64-Core Processor" to "AMD-EPYC-7B13"; what device names may not have goes.
local function short(name)
  local text = name:gsub("%(.-%)", ""):gsub("@.*", ""):gsub("%d+%-Core", ""):gsub("Processor", ""):gsub("CPU", "")
  text = text:gsub("[^%w%.]+", "-"):gsub("^%-+", ""):gsub("%-+$", ""):sub(1, 64)
  return text == "" and "CPU" or text
end

--- What `cores` cores of this CPU are called, and that device's number of cores by its name.
function M.name(cores) return ("%s-%dc"):format(short(measure.cpu().name), cores) end
function M.cores_of(name) return tonumber(name:match "%-(%d+)c$") end

--- The number of such shares. Raises where the CPU has fewer cores.
function M.count(cores, path)
  local cpu = measure.cpu()
  if cores > cpu.cores then
    core.raise("out_of_range", ("%s: %d cores a device, but this process may run on %d"):format(path, cores,
      cpu.cores), path)
  end
  return math.floor(cpu.cores / cores)
end

--- The device that `cores` cores are, how many of it there are, and the seconds that the shortest message takes
--- between two of them.
function M.device(cores, path)
  local count, cpu, rates = M.count(cores, path), measure.cpu(), measure.rates(cores)
  local messages = measure.loopback { small_bytes, large_bytes }
  local latency_s = messages[1].median_s
  local device = {
    name = M.name(cores), full_name = ("%s, %d of %d cores"):format(cpu.name, cores, cpu.cores), backend = "cpu",
    memory_bytes = math.floor(cpu.memory_bytes / count), memory_bytes_per_s = rates.memory_bytes_per_s,
    flop_per_s = { fp32 = rates.fp32_flop_per_s, fp16 = rates.fp32_flop_per_s, int8 = rates.int8_flop_per_s,
      int4 = rates.int4_flop_per_s },
    pcie_bytes_per_s = large_bytes / math.max(messages[2].median_s - latency_s, 1e-9),
    source = "Measured by tessera detect --cpu, all cores busy: a plain sum, products by Tessera's kernels (f32, and 8 "
      .. "and 4 bits with 8-bit activations; FP16 stands for f32); memory: an even share of what was free. The rate "
      .. "of PCIe is that of TCP over loopback.",
  }
  return device, count, latency_s
end

--- The node of a cluster file that this machine's shares are, and what the cluster says of its links.
function M.node(name, cores, host_memory_bytes, path)
  local device, count, latency_s = M.device(cores, path)
  local node = { name = name, devices = { { device, count } }, host_memory_bytes = host_memory_bytes }
  local remarks, left = {}, measure.cpu().cores - count * cores
  if left > 0 then
    remarks[1] = ("host %s: %d of %d cores are in no device of %d"):format(name, left, measure.cpu().cores, cores)
  end
  return node, remarks, { intra_node_latency_s = latency_s }
end

return M
