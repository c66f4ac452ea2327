-- Hosts as what runs jobs on them lists them: Slurm's sinfo and scontrol, kubectl's nodes. They name a type and how
-- many, and nothing of links.

local core = require "tessera.core"

local M = {}

local mib, kib = 2 ^ 20, 2 ^ 10

local function gpus_of(kind, count, memory_bytes)
  local gpus = {}
  for i = 1, count do gpus[i] = { name = kind, memory_bytes = memory_bytes } end
  return gpus
end

-- "gpu[01-03,07],login" -> { "gpu01", "gpu02", "gpu03", "gpu07", "login" }
local function expand(list, path)
  local names = {}
  for prefix, ranges in (list .. ","):gmatch "([^,%[]+)(%b[]),?" do
    for range in (ranges:sub(2, -2) .. ","):gmatch "([^,]+)," do
      local first, last = range:match "^(%d+)%-(%d+)$"
      first, last = first or range:match "^%d+$", last or range
      if not first or tonumber(last) - tonumber(first) > 4096 then
        core.refuse(path, ("'%s' is no list of hosts"):format(list))
      end
      for number = tonumber(first), tonumber(last) do
        names[#names + 1] = ("%s%0" .. #first .. "d"):format(prefix, number)
      end
    end
  end
  for name in (list:gsub("[^,%[]+%b[]", "") .. ","):gmatch "([^,]+)," do names[#names + 1] = name end
  return names
end

-- Types and counts of "gpu:v100:4(S:0-1),gpu:a100:2": GRES of Slurm. A type may be left out.
local function gres_of(text, path)
  local gpus = {}
  for kind, count in text:gmatch "gpu:([^:,()%s]+):(%d+)" do
    for _, gpu in ipairs(gpus_of(kind, math.min(tonumber(count), 4096))) do gpus[#gpus + 1] = gpu end
  end
  if #gpus == 0 and text:find "gpu:%d" then
    core.refuse(path, ("Slurm says '%s', which names no type of GPU; `tessera detect --commands` prints what to run on "
      .. "the host"):format(text))
  end
  return gpus
end

local function sinfo(text, path)
  local hosts, columns, seen = {}, nil, {}
  for line in text:gmatch "[^\r\n]+" do
    local words = {}
    for word in line:gmatch "%S+" do words[#words + 1] = word end
    if line:find "NODELIST" and line:find "GRES" then
      columns = {}
      for i, word in ipairs(words) do columns[word] = i end
    elseif columns and words[columns.GRES] then
      local gpus = gres_of(words[columns.GRES], path)
      local memory = columns.MEMORY and tonumber((words[columns.MEMORY] or ""):match "^%d+")
      for _, name in ipairs(#gpus > 0 and expand(words[columns.NODELIST], path) or {}) do
        -- a node stands there once for each partition
        if not seen[name] then
          hosts[#hosts + 1] = { name = name, gpus = gpus, host_memory_bytes = memory and memory * mib }
        end
        seen[name] = true
      end
    end
  end
  return hosts
end

local function scontrol(text, path)
  local nodes = {}
  for block in text:gsub("NodeName=", "\0"):gmatch "%z([^%z]+)" do
    local gpus = gres_of(block:match "Gres=(%S+)" or "", path)
    local memory = tonumber(block:match "RealMemory=(%d+)")
    if #gpus > 0 then
      nodes[#nodes + 1] = { name = block:match "^%S+", gpus = gpus, host_memory_bytes = memory and memory * mib }
    end
  end
  return nodes
end

local function bytes_of(quantity)
  local units = { Ki = kib, Mi = mib, Gi = 2 ^ 30, k = 1e3, M = 1e6, G = 1e9, [""] = 1 }
  local number, unit = tostring(quantity or ""):match "^(%d+)(%a*)$"
  return number and units[unit] and tonumber(number) * units[unit]
end

-- What a cloud's own label calls a GPU: "nvidia-l4", "nvidia-h100-80gb".
local cloud_labels = { "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name",
  "k8s.amazonaws.com/accelerator", "accelerator" }

local makers = { { label = "nvidia.com/gpu.product", resource = "nvidia.com/gpu", memory = "nvidia.com/gpu.memory" },
  { label = "amd.com/gpu.product-name", resource = "amd.com/gpu" } }

local function table_of(value) return type(value) == "table" and value or {} end

local function kubernetes_node(item)
  local labels = table_of(table_of(item.metadata).labels)
  local room = table_of(table_of(item.status).allocatable)
  for _, maker in ipairs(makers) do
    local product, count = labels[maker.label], tonumber(room[maker.resource])
    for _, label in ipairs(cloud_labels) do product = product or labels[label] end
    if type(product) == "string" and count and count > 0 then
      local memory = maker.memory and tonumber(labels[maker.memory])
      return {
        name = tostring(table_of(item.metadata).name or "node"), host_memory_bytes = bytes_of(room.memory),
        gpus = gpus_of(product:gsub("%-SHARED$", ""), math.min(count, 4096), memory and memory * mib),
      }
    end
  end
end

local function has_gpus(item)
  local room = table_of(table_of(item.status).allocatable)
  for _, maker in ipairs(makers) do
    if (tonumber(room[maker.resource]) or 0) > 0 then return true end
  end
  return false
end

-- The first node whose GPUs are MIG slices.
local function sliced_node(json)
  for _, item in ipairs(json.kind == "Node" and { json } or table_of(json.items)) do
    for resource in pairs(table_of(table_of(table_of(item).status).allocatable)) do
      if resource:find "^nvidia%.com/mig%-" then return tostring(table_of(item.metadata).name or "node") end
    end
  end
end

--- Hosts of `kubectl get nodes -o json`, decoded; nil where it is something else.
function M.kubernetes(json, path)
  if type(json) ~= "table" or not (json.kind == "List" or json.kind == "NodeList" or json.kind == "Node") then
    return nil
  end
  local hosts, without = {}, {}
  for _, item in ipairs(json.kind == "Node" and { json } or table_of(json.items)) do
    local host = type(item) == "table" and kubernetes_node(item) or nil
    hosts[#hosts + 1] = host
    if not host and type(item) == "table" and has_gpus(item) then
      without[#without + 1] = tostring(table_of(item.metadata).name or "node")
    end
  end
  local sliced = #hosts == 0 and sliced_node(json)
  if sliced then
    core.refuse(path, ("the GPUs of node %s are cut into MIG slices, which are no devices here; nodes with whole GPUs "
      .. "(nvidia.com/mig.config=all-disabled) can be read"):format(sliced))
  elseif #hosts == 0 and #without > 0 then
    core.refuse(path, ("Kubernetes says that %s has GPUs, and no label (nvidia.com/gpu.product, "
      .. "amd.com/gpu.product-name) says of which type; NVIDIA's GPU feature discovery sets it, or `kubectl label node "
      .. "%s nvidia.com/gpu.product=NVIDIA-L4`"):format(table.concat(without, ", "), without[1]))
  elseif #hosts == 0 then
    core.refuse(path, "no node of this kubectl output has a label nvidia.com/gpu.product or amd.com/gpu.product-name "
      .. "with GPUs; `tessera detect --commands` prints what to run on the hosts")
  end
  return hosts
end

--- Raises for other things that Slurm and kubectl print, with what to ask them for.
function M.refuse_others(text, path)
  if text:find "^%s*PARTITION%s+AVAIL" or text:find "^%s*JOBID%s" then
    core.refuse(path, "what Slurm prints of partitions or jobs; `sinfo -o \"%N %G %m\"` names the GPUs of nodes")
  elseif text:find "^%s*NAME%s+STATUS%s+ROLES" or text:find "^%s*apiVersion:%s" or text:find "\nAllocatable:" then
    core.refuse(path, "what kubectl prints for people or as YAML; `kubectl get nodes -o json` can be read")
  elseif text:find "ROCm System Management Interface" and not text:find "GPU%[%d+%]" then
    core.refuse(path, "the table of rocm-smi, which names no GPU; `rocm-smi --showproductname --showmeminfo vram` does")
  elseif text:find "^%s*GPU:%s*%d+%s*[\r\n]+%s*BDF:" then
    core.refuse(path, "`amd-smi list`, which names no type of GPU; `amd-smi static` does")
  elseif text:find "NVIDIA Corporation Device %x%x%x%x" then
    core.refuse(path, ("this lspci knows no name of NVIDIA's device %s; `update-pciids` brings it names, `nvidia-smi "
      .. "-L` says them"):format(text:match "NVIDIA Corporation Device (%x%x%x%x)"))
  elseif text:find "^%s*GPU0%s+GPU1" or (text:find "^%s+GPU0" and not text:find "MemTotal") then
    core.refuse(path, "`nvidia-smi topo -m` alone, which names no GPU; `tessera detect --commands` prints what to run")
  end
end

--- Hosts of Slurm's `sinfo -o "%N %G %m"` or `scontrol show node`; nil where it is something else.
function M.slurm(text, path)
  local hosts
  if text:find "NODELIST[^\n]*GRES" then
    hosts = sinfo(text, path)
  elseif text:find "^%s*%S+%s+gpu:[%w_.:-]+" then -- sinfo -h, which leaves out the header
    hosts = sinfo("NODELIST GRES MEMORY\n" .. text, path)
  end
  if text:find "NodeName=%S+" then hosts = scontrol(text, path) end
  if hosts and #hosts == 0 then core.refuse(path, "no node of this Slurm output has GPUs (GRES gpu:TYPE:COUNT)") end
  return hosts
end

return M
