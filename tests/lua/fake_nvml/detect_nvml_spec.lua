-- tessera detect by the driver's library, a fake one (fake_nvml.cpp).

local core = require "tessera.core"
local host = require "tessera.host"

local function detect(behaviour)
  local status, out, err = host.run_program({ "env", "FAKE_NVML=" .. behaviour, host.program, "detect", "--json" }, "")
  return status, status == 0 and core.from_json(out) or nil, err
end

describe("tessera detect by NVML", function()
  it("finds GPUs on a switch", function()
    local status, cluster, err = detect "switch"
    assert.equal(0, status, err)
    assert.same({ { "H200-141G", 2 } }, cluster.nodes[1].devices)
    assert.is_nil(cluster.nodes[1].nvlink)
    assert.is_number(cluster.nodes[1].host_memory_bytes)
  end)
  it("finds a bridge, and a slot with fewer lanes", function()
    local status, cluster, err = detect "bridge"
    assert.equal(0, status, err)
    local devices = cluster.nodes[1].devices
    assert.equal("RTX-3090", devices[1][1])
    assert.equal("RTX-3090", devices[2][1].name)
    assert.equal(15.75e9, devices[2][1].pcie_bytes_per_s)
    assert.is_true(cluster.nodes[1].nvlink_bridges)
  end)
  it("says where the driver fails", function()
    local status, _, err = detect "broken"
    assert.equal(1, status)
    assert.matches("NVML does not tell the name of GPU 1: GPU is lost", err)
  end)
  it("says where there is nothing", function()
    local status, _, err = detect "stopped"
    assert.equal(1, status)
    assert.matches("no NVIDIA GPU is found here", err)
    assert.matches("Driver Not Loaded", err)
    status, _, err = detect "empty"
    assert.equal(1, status)
    assert.matches("the driver lists none", err)
  end)
end)
