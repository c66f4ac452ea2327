-- tessera detect over what tools print that were not asked for the query of `--commands`.

local core = require "tessera.core"
local detect = require "tessera.devices.detect"
local support = require "support"
local raises = support.raises

-- "2xL4" of a text, the devices of all its hosts.
local function found(text)
  local nodes = {}
  for i, host in ipairs(detect.hosts(text, "file", "box")) do nodes[i] = detect.node(host) end
  return detect.title_of(nodes)
end

local function refused(text, words)
  raises("invalid_argument", words, function() found(text) end)
end

local nvidia_smi = [[
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   30C    P0             60W /  400W |       0MiB /  81920MiB |      0%      Default |
|   1  NVIDIA A100-SXM4-40GB          Off |   00000000:0F:00.0 Off |                    0 |
| N/A   29C    P0             58W /  400W |       4MiB /  40960MiB |      0%      Default |
|=========================================================================================|
|    0   N/A  N/A      1234      C   python3                                       400MiB |
]]

describe("detect reads", function()
  it("nvidia-smi without options, and with -q", function()
    assert.equal("1xA100-80G+1xA100-40G", found(nvidia_smi))
    assert.equal("2xL40S", found([[
==============NVSMI LOG==============
GPU 00000000:07:00.0
    Product Name                          : NVIDIA L40S
    FB Memory Usage
        Total                             : 46068 MiB
    BAR1 Memory Usage
        Total                             : 65536 MiB
GPU 00000000:0F:00.0
    Product Name                          : NVIDIA L40S
    FB Memory Usage
        Total                             : 46068 MiB
]]))
  end)

  it("rows of a query without its header, whatever line ends", function()
    for _, text in ipairs { "NVIDIA L4, 23034 MiB\nNVIDIA L4, 23034 MiB\n",
      "0, NVIDIA L4, 23034\r\n1, NVIDIA L4, 23034\r\n",
      "name\nNVIDIA L4\nNVIDIA L4\n", "index, name, uuid\n0, NVIDIA L4, GPU-1\n1, NVIDIA L4, GPU-2\n",
      "name, memory.total [MiB]\r\nNVIDIA L4, 23034 MiB\r\nNVIDIA L4, 23034 MiB\r\n" } do
      assert.equal("2xL4", found(text))
    end
  end)

  it("names without their maker", function()
    assert.equal("1xA100-40G", found "A100-SXM4-40GB, 40536 MiB\n")
  end)

  it("dcgmi and lspci", function()
    assert.equal("1xA100-40G", found("| GPU ID | Device Information |\n| 0      | Name: NVIDIA A100-SXM4-40GB   |\n"
      .. "|        | PCI Bus ID: 00000000:00:04.0 |\n"))
    assert.equal("1xRTX-3090+1xH100-80G", found("01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce "
      .. "RTX 3090] (rev a1)\n01:00.1 Audio device: NVIDIA Corporation GA102 High Definition Audio (rev a1)\n"
      .. "17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n"
      .. "03:00.0 Ethernet controller: Intel Corporation I210 (rev 03)\n"))
  end)

  it("AMD's tools as JSON and CSV", function()
    local card = { ["Card Series"] = "AMD Instinct MI300X", ["VRAM Total Memory (B)"] = "206141652992" }
    assert.equal("2xMI300X", found(core.to_json { card0 = card, card1 = card }))
    local gpu = { gpu = 0, asic = { market_name = "AMD Instinct MI300X" },
      vram = { size = { value = 196592, unit = "MB" } } }
    assert.equal("1xMI300X", found(core.to_json { gpu }))
    assert.equal("1xMI300X", found(core.to_json { gpu_data = { gpu } }))
    assert.equal("1xMI300X", found("device,Card Series,VRAM Total Memory (B)\ncard0,AMD Instinct MI300X,"
      .. "206141652992\n"))
  end)

  it("Slurm without a header, and labels of a cloud", function()
    assert.equal("8xA100-80G", found "gpu[01-02] gpu:a100:4 380000\n")
    assert.equal("2xL4", found(core.to_json { kind = "NodeList", items = { { metadata = { name = "n1",
      labels = { ["cloud.google.com/gke-accelerator"] = "nvidia-l4" } },
      status = { allocatable = { ["nvidia.com/gpu"] = "2" } } } } }))
  end)
end)

describe("detect refuses by what it is", function()
  it("what names no GPU, and says what does", function()
    refused("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu* up infinite 4 idle gpu[01-04]\n", "sinfo -o")
    refused("NODELIST GRES\nn[1-2] gpu:4\n", "names no type of GPU")
    refused("NAME   STATUS   ROLES    AGE   VERSION\nn1 Ready <none> 10d v1.29\n", "kubectl get nodes -o json")
    refused("apiVersion: v1\nitems:\n- kind: Node\n", "kubectl get nodes -o json")
    refused("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-31\n", "`nvidia-smi topo -m` alone")
    refused("==== ROCm System Management Interface ====\nDevice  Node\n0  2\n", "rocm-smi --showproductname")
    refused('{"a": 1}', "neither a cluster that")
    refused("", "it lists no GPUs")
  end)

  it("a Kubernetes cluster whose nodes name no type", function()
    refused(core.to_json { kind = "List", items = { { metadata = { name = "n1", labels = { a = "b" } },
      status = { allocatable = { ["nvidia.com/gpu"] = "8" } } } } }, "Kubernetes says that n1 has GPUs, and no label")
  end)
end)
