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

  it("finds bridges in pairs", function()
    local text = list_of("NVIDIA RTX A6000", 49140, 4, 4, 16, "8.6")
    local node = node_of(text .. topology(4, function(a, b)
      return math.floor(a / 2) == math.floor(b / 2) and "NV4" or "NODE"
    end))
    assert.is_true(node.nvlink_bridges)
    local cluster = cluster_of(node)
    assert.equal("nvlink", cluster:link(0, 1).kind)
    assert.equal("pcie", cluster:link(1, 2).kind)
    local _, remarks = node_of(text .. topology(4, function(a, b) return a + b == 3 and "NV4" or "NODE" end))
    assert.matches("NVLink joins some GPUs, which a cluster file cannot say", remarks[1])
    _, remarks = node_of(text)
    assert.matches("nothing was said of NVLink", remarks[1])
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
