-- tessera detect: nvidia-smi's output, as its documentation has it, to a cluster that plans.

local core = require "tessera.core"
local detect = require "tessera.devices.detect"
local nvidia_smi = require "tessera.devices.detect.nvidia_smi"
local support = require "support"
local ts = require "tessera"
local raises = support.raises

local header = "index, name, memory.total [MiB], pcie.link.gen.max, pcie.link.width.max, compute_cap\n"

local function list_of(name, mib, count, generation, width, capability)
  local lines = { "host: box\nMemTotal:       528280600 kB\n" .. header }
  for i = 1, count do
    lines[#lines + 1] = ("%d, %s, %d MiB, %s, %s, %s\n"):format(i - 1, name, mib, generation or 5, width or 16,
      capability or "9.0")
  end
  return table.concat(lines)
end

-- As `nvidia-smi topo -m` prints it; link(a, b) for GPUs from 0.
local function topology(count, link)
  local lines = { "\t" }
  for i = 0, count - 1 do lines[1] = lines[1] .. "\27[4mGPU" .. i .. "\t" end
  lines[1] = lines[1] .. "NIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\27[0m"
  for a = 0, count - 1 do
    local cells = { "GPU" .. a }
    for b = 0, count - 1 do cells[#cells + 1] = a == b and " X " or link(a, b) end
    lines[#lines + 1] = table.concat(cells, "\t") .. "\tPXB\t0-47\t0\t\tN/A"
  end
  lines[#lines + 1] = "NIC0\tPXB\tPXB\n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing NVLinks\n"
  return table.concat(lines, "\n")
end

local function node_of(text) return detect.node(nvidia_smi.parse(text, "box.txt", "box")) end

-- The cluster that a file of these nodes is.
local function cluster_of(...)
  return core.cluster_from_json(core.to_json(detect.cluster({ ... }, "found", 100)), "found.json")
end

describe("nvidia-smi's output", function()
  it("becomes a node with NVLink between all", function()
    local node, remarks = node_of(list_of("NVIDIA H200", 143771, 8) .. topology(8, function() return "NV18" end))
    assert.same({ { "H200-141G", 8 } }, node.devices)
    assert.equal(528280600 * 1024, node.host_memory_bytes)
    assert.same({}, remarks)
    local cluster = cluster_of(node)
    assert.equal(8, #cluster.devices)
    assert.equal("nvlink", cluster:link(0, 7).kind)
    assert(ts.plan(ts.problem(support.settled { model = "opt-1.3b", cluster = cluster, kernel_set = "vllm",
      bitwidths = { 8, 16 } })))
  end)

  it("says where NVLink is not there although the card has it", function()
    local node = node_of(list_of("NVIDIA A100-SXM4-80GB", 81920, 2, 4, 16, "8.0") .. topology(2, function()
      return "SYS"
    end))
    assert.is_false(node.nvlink)
    assert.equal("pcie", cluster_of(node):link(0, 1).kind)
  end)

  it("says whether cards reach each other's memory", function()
    -- As `nvidia-smi topo -p2p r` prints it.
    local function peers(count, status)
      local lines = { " \t" }
      for i = 0, count - 1 do lines[1] = lines[1] .. "GPU" .. i .. "\t" end
      for a = 0, count - 1 do
        local cells = { " GPU" .. a }
        for b = 0, count - 1 do cells[#cells + 1] = a == b and "X" or status end
        lines[#lines + 1] = table.concat(cells, "\t") .. "\t"
      end
      return table.concat(lines, "\n") .. "\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  NS   = Not supported\n"
    end
    local function topo(link) return topology(2, function() return link end) end
    local l4, geforce = list_of("NVIDIA L4", 23034, 2), list_of("NVIDIA GeForce RTX 4090", 24564, 2)
    for _, text in ipairs { l4 .. topo "PHB" .. peers(2, "NS"), l4 .. peers(2, "CNS") .. topo "PHB" } do
      local node = node_of(text)
      assert.is_false(node.peer_access)
      assert.is_false(cluster_of(node):link(0, 1).peer_access)
    end
    assert.is_false(node_of((l4 .. peers(2, "NS")):gsub("\t", " ")).peer_access) -- pasted
    assert.is_nil(node_of(l4 .. topo "PIX" .. peers(2, "OK")).peer_access) -- as the sheet has it
    assert.is_nil(node_of(geforce .. topo "PIX" .. peers(2, "NS")).peer_access)
    assert.is_true(node_of(geforce .. topo "PIX" .. peers(2, "OK")).peer_access) -- by a driver that lets them
    assert.is_nil(node_of(list_of("NVIDIA H200", 143771, 2) .. topo "NV18" .. peers(2, "OK")).peer_access)
    raises("invalid_argument", "`nvidia-smi topo -p2p r` says nothing of GPU1 and GPU0", function()
      node_of((l4 .. peers(2, "NS")):gsub("\n GPU1.*", ""))
    end)
  end)

  it("finds bridges in pairs", function()
    local text = list_of("NVIDIA RTX A6000", 49140, 4, 4, 16, "8.6")
    local node = node_of(text .. topology(4, function(a, b)
      return math.floor(a / 2) == math.floor(b / 2) and "NV4" or "NODE"
    end))
    assert.is_true(node.nvlink_bridges)
    local cluster = cluster_of(node)
    assert.equal("nvlink", cluster:link(0, 1).kind)
    assert.equal("pcie", cluster:link(1, 2).kind)
    local _, remarks = node_of(text .. topology(4, function(a, b) return a ~= b and a + b > 1 and "NV4" or "NODE" end))
    assert.matches("NVLink joins some GPUs, which a cluster file cannot say", remarks[1])
    _, remarks = node_of(text)
    assert.matches("nothing was said of NVLink", remarks[1])
  end)

  it("finds one bridge among four cards, and pairs that are no neighbours", function()
    local text = list_of("NVIDIA RTX A6000", 49140, 4, 4, 16, "8.6")
    local node, remarks = node_of(text .. topology(4, function(a, b) return a + b == 3 and a * b == 2 and "NV4" or "SYS"
    end))
    assert.same({ { 1, 2 } }, node.nvlink_pairs)
    assert.same({}, remarks)
    local cluster = cluster_of(node)
    assert.equal("nvlink", cluster:link(1, 2).kind)
    assert.equal(56.25e9, cluster:link(2, 1).bytes_per_s)
    for _, pair in ipairs { { 0, 1 }, { 0, 3 }, { 2, 3 }, { 1, 3 } } do
      assert.equal("pcie", cluster:link(pair[1], pair[2]).kind)
    end
    assert.equal("nvlink", cluster:part { 1, 2, 3 }:link(0, 1).kind) -- whatever is left out
    node = node_of(text .. topology(4, function(a, b) return a + b == 3 and "NV4" or "NODE" end))
    assert.same({ { 0, 3 }, { 1, 2 } }, node.nvlink_pairs)
    -- A bridge between two of four PCIe boards of a card that has NVLink otherwise.
    node = node_of(list_of("NVIDIA A100 80GB PCIe", 81920, 4, 4, 16, "8.0") .. topology(4, function(a, b)
      return a < 2 and b < 2 and "NV12" or "SYS"
    end))
    cluster = cluster_of(node)
    assert.equal("nvlink", cluster:link(0, 1).kind)
    assert.equal("pcie", cluster:link(2, 3).kind)
  end)

  it("is read where tabs became spaces, and where a header is missing", function()
    local text = list_of("NVIDIA H200", 143771, 4) .. topology(4, function() return "NV18" end)
    local node = node_of((text:gsub("\t", "    ")))
    assert.same({ { "H200-141G", 4 } }, node.devices)
    assert.is_nil(node.nvlink)
    assert.same(node, (node_of((text:gsub("\27%[%d*m", ""):gsub("\t", " "):gsub("\n +", "\n")))))
    node = node_of "0, NVIDIA L4, 23034, 4, 16, 8.9\n1, NVIDIA L4, 23034, 4, 16, 8.9\n"
    assert.same({ { "L4", 2 } }, node.devices)
  end)

  it("keeps unknown cards, and goes on", function()
    local text = "host: old\n" .. header
      .. "0, NVIDIA X77, 24576 MiB, 3, 16, 6.1\n1, Tesla P40, 24576 MiB, 3, 16, 6.1\n"
      .. "2, NVIDIA X77, 24576 MiB, 3, 16, 6.1\n3, Tesla P40, 24576 MiB, 3, 16, 6.1\n"
    local node, remarks = node_of(text .. topology(4, function() return "SYS" end))
    assert.same({ { "P40", 2 } }, node.devices)
    assert.equal("NVIDIA X77", node.unknown_devices[1].name)
    assert.equal(2, node.unknown_devices[1].count)
    assert.matches("host old: no device sheet for 'NVIDIA X77' with 24.0 GiB; it is kept as unknown", remarks[1])
    local cluster = cluster_of(node)
    assert.equal(2, #cluster.devices)
    assert.matches("node old: 2 x 'NVIDIA X77' left out", cluster:notes()[1])
  end)

  it("is `nvidia-smi -L`, with MIG or without", function()
    local node = node_of("GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1)\nGPU 1: NVIDIA GeForce RTX 4090 (UUID: GPU-2)\n")
    assert.same({ { "RTX-4090", 2 } }, node.devices)
    local text = list_of("NVIDIA A100-SXM4-80GB", 81920, 2, 4, 16, "8.0")
      .. "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n"
      .. "  MIG 3g.40gb     Device  1: (UUID: MIG-2)\nGPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-2)\n"
    local remarks
    node, remarks = node_of(text)
    assert.same({ { "A100-80G", 1 } }, node.devices)
    assert.same({ "3g.40gb", "3g.40gb" }, node.unknown_devices[1].mig_slices)
    assert.matches("cut by MIG into 3g.40gb, 3g.40gb; it is kept as unknown", remarks[1])
    raises("invalid_argument", "cut by MIG into", function()
      node_of((text:gsub("GPU 1: .*", "")):gsub("1, NVIDIA[^\n]*\n", ""))
    end)
  end)

  it("takes slots with fewer lanes, and cards of several kinds", function()
    local text = "host: box\n" .. header .. "0, NVIDIA GeForce RTX 4090, 24564 MiB, 4, 16, 8.9\n"
      .. "1, NVIDIA GeForce RTX 3090, 24576 MiB, 4, 4, 8.6\n2, Tesla T4, 15360 MiB, [N/A], [N/A], 7.5\n"
    local node, remarks = node_of(text)
    assert.equal("RTX-4090", node.devices[1][1])
    assert.equal(7.875e9, node.devices[2][1].pcie_bytes_per_s)
    assert.equal("T4-16G", node.devices[3][1])
    assert.matches("GPU 1 %(RTX%-3090%) is in a slot of 7.88 GB/s", remarks[1])
    assert.equal(7.875e9, cluster_of(node):link(0, 1).bytes_per_s)
  end)

  it("plans a card that others use with what is free", function()
    local free = "host: box\nindex, name, memory.total [MiB], memory.free [MiB]\n"
      .. "0, NVIDIA GeForce RTX 3090, 24576 MiB, 9216 MiB\n1, NVIDIA GeForce RTX 3090, 24576 MiB, 24240 MiB\n"
    local node, remarks = node_of(free)
    assert.equal(9216 * 2 ^ 20, node.devices[1][1].memory_bytes)
    assert.equal("RTX-3090", node.devices[2][1])
    assert.matches("GPU 0 %(RTX%-3090%) has 9.00 GiB of 24.00 GiB free, and is planned with that", remarks[1])
    assert.equal(9216 * 2 ^ 20, cluster_of(node).devices[1].memory_bytes)
    local bare = node_of "0, NVIDIA L4, 23034, 4, 16, 8.9, 2303"
    assert.equal(2303 * 2 ^ 20, bare.devices[1][1].memory_bytes)
  end)

  it("tells boards of one name by their memory", function()
    for mib, sheet in pairs { [10240] = "RTX-3080", [12288] = "RTX-3080-12G" } do
      assert.same({ { sheet, 1 } }, (node_of(list_of("NVIDIA GeForce RTX 3080", mib, 1, 4, 16, "8.6"))).devices)
    end
  end)

  it("knows PCIe boards of cards whose sheet has NVLink", function()
    local node = node_of(list_of("NVIDIA A100 80GB PCIe", 81920, 2, 4, 16, "8.0"))
    assert.same({ { "A100-80G", 2 } }, node.devices)
    assert.is_false(node.nvlink)
  end)

  it("joins hosts", function()
    local a = node_of(list_of("NVIDIA L4", 23034, 2, 4, 16, "8.9"))
    local b = node_of((list_of("NVIDIA H200", 143771, 8):gsub("host: box", "host: other")))
    local cluster = cluster_of(a, b)
    assert.equal(10, #cluster.devices)
    assert.equal("network", cluster:link(0, 2).kind)
    raises("invalid_argument", "two hosts are called 'box'", function() detect.cluster({ a, a }, "n", 100) end)
  end)

  it("is refused where it is cut off", function()
    local function refused(text, message) raises("invalid_argument", message, function() node_of(text) end) end
    local text = list_of("NVIDIA H200", 143771, 2)
    refused(text .. "2, NVIDIA H200, 1437", "line 6 has 3 values where its header names 6; is the output cut off?")
    refused(text .. "2, NVIDIA H200, , 5, 16, 9.0", "the memory '' is no number")
    refused(text .. "2", "is no row of the list of GPUs")
    refused("host: box\n" .. header, "it lists no GPUs")
    refused("", "it lists no GPUs")
    local links = topology(2, function() return "NV18" end)
    refused(text .. links:gsub("\nGPU1.*", ""), "says nothing of GPU1 and GPU0")
    refused(text .. links:gsub("GPU1\tNV18.*", "GPU1"), "says nothing of GPU1 and GPU0")
    refused(text .. links:gsub("(GPU1\tNV18)\t.*", "%1"), "GPU1 has no entry for GPU1")
  end)

  it("names the nearest sheets of a GPU without one", function()
    local err = raises("not_found", "no device sheet for 'NVIDIA H250' with 140.4 GiB",
      function() node_of(list_of("NVIDIA H250", 143771, 1)) end)
    assert.matches("nearest in memory: H200%-141G", err.message)
    raises("not_found", "no device sheet for 'NVIDIA H200' with 31", -- of that name, but not of that memory
      function() node_of(list_of("NVIDIA H200", 32000, 1)) end)
  end)

  it("is read or refused, never more, whatever is cut away or changed", function()
    math.randomseed(7)
    local text = list_of("NVIDIA H200", 143771, 3) .. topology(3, function() return "NV18" end)
    for _ = 1, 400 do
      local at = math.random(#text)
      local broken = math.random(2) == 1 and text:sub(1, at)
        or text:sub(1, at - 1) .. string.char(math.random(0, 255)) .. text:sub(at + 1)
      local ok, err = pcall(node_of, broken)
      assert.is_true(ok or type(err) == "table" and (err.code == "invalid_argument" or err.code == "not_found"),
        tostring(err))
    end
  end)
end)

describe("what other tools print", function()
  local function hosts(text) return detect.hosts(text, "box.txt", "box") end

  it("is Slurm's list of nodes", function()
    local found = hosts("NODELIST GRES MEMORY PARTITION\ngpu[01-03,07] gpu:v100:4(S:0-1) 380000 gpu\n"
      .. "login (null) 9 cpu\n")
    assert.equal(4, #found)
    assert.equal("gpu07", found[4].name)
    local node, remarks = detect.node(found[1])
    assert.same({ { "V100-16G", 4 } }, node.devices)
    assert.equal(380000 * 2 ^ 20, node.host_memory_bytes)
    assert.matches("v100 is taken for V100%-16G; others of the name: V100%-32G", remarks[1])
    found = hosts "NodeName=a Arch=x86_64\n   Gres=gpu:a100:2\n   RealMemory=515000\nNodeName=b\n   Gres=gpu:l4:1\n"
    assert.equal(2, #found)
    assert.same({ { "A100-80G", 2 } }, (detect.node(found[1])).devices)
    assert.same({ { "L4", 1 } }, (detect.node(found[2])).devices)
    raises("invalid_argument", "no type of GPU", function() hosts "NodeName=a\n Gres=gpu:4\n" end)
    raises("invalid_argument", "no node of this Slurm output has GPUs",
      function() hosts "NodeName=a\n Gres=(null)\n" end)
  end)

  it("is kubectl's list of nodes", function()
    local found = hosts [[{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n1", "labels":
      {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}}, "status": {"allocatable":
      {"nvidia.com/gpu": "8", "memory": "2000000000Ki"}}}, {"kind": "Node", "metadata": {"name": "cpu"}}]}]]
    local node = detect.node(found[1])
    assert.same({ { "H100-80G", 8 } }, node.devices)
    assert.equal(2000000000 * 1024, node.host_memory_bytes)
    raises("invalid_argument", "no node of this kubectl output", function() hosts '{"kind": "List", "items": []}' end)
    raises("invalid_argument", "it is JSON, but neither a cluster", function() hosts '{"a": 1}' end)
  end)

  it("is AMD's and Apple's", function()
    local text = ""
    for i = 0, 1 do
      text = text .. ("GPU[%d]\t\t: Card Series: \t\tAMD Instinct MI300X\nGPU[%d]\t\t: VRAM Total Memory (B): "
        .. "206141652992\n"):format(i, i)
    end
    assert.same({ { "MI300X", 2 } }, (detect.node(hosts(text)[1])).devices)
    text = "GPU: 0\n    ASIC:\n        MARKET_NAME: AMD Instinct MI325X\n    VRAM:\n        SIZE: 262128 MB\n"
    assert.same({ { "MI325X", 1 } }, (detect.node(hosts(text)[1])).devices)
    text = "Hardware:\n      Model Name: Mac Studio\n      Chip: Apple M2 Ultra\n      Memory: 192 GB\n"
    local node = detect.node(hosts(text)[1])
    assert.same({ { "M2-Ultra-192G", 1 } }, node.devices)
    assert.equal(192 * 2 ^ 30, node.host_memory_bytes)
  end)
end)
