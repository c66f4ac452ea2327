-- ts.cluster: shipped names, texts, entries; the object; what is refused.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

describe("ts.cluster", function()
  it("has the fields of the contract", function()
    support.is_object(ts.cluster "llmpq-3", "tessera.Cluster", {
      name = "string", devices = "list", nodes = "list", network_bytes_per_s = "number", source = "string",
    })
  end)

  it("keeps the devices in the order given", function()
    local c = ts.cluster { { "T4-16G", 2, node = "a" }, { "V100-32G", 1, node = "b" }, { "T4-16G", 1, node = "a" },
      link_gbps = 800 }
    local names = {}
    for i, device in ipairs(c.devices) do names[i] = device.name end
    assert.same({ "T4-16G", "T4-16G", "V100-32G", "T4-16G" }, names)
    assert.equal("tessera.Device", getmetatable(c.devices[1]))
    assert.equal(2, #c.nodes)
    assert.equal("a", c.nodes[1].name)
    assert.equal(100e9, c.network_bytes_per_s)
    assert.matches("^cluster 2xT4%-16G %+ 1xV100%-32G %+ 1xT4%-16G: .*800 Gb/s$", tostring(c))
  end)

  it("counts links from 0", function()
    local c = ts.cluster { { "T4-16G", 2, node = "a" }, { "V100-32G", 1, node = "b" }, link_gbps = 80 }
    assert.equal("pcie", c:link(0, 1).kind)
    assert.equal("network", c:link(1, 2).kind)
    assert.equal(10e9, c:link(0, 2).bytes_per_s)
    assert.is_number(c:link(0, 2).latency_s)
    for _, bad in ipairs { -1, 3, 0.5, support.nan, support.inf, "1", {} } do
      assert.is_false((pcall(c.link, c, 0, bad)))
      assert.is_false((pcall(c.link, c, bad, 0)))
    end
    raises("out_of_range", "0-based device index", function() return c:link(0, 3) end)
    raises("invalid_argument", "0-based device index", function() return c:link(0) end)
  end)

  it("says its nodes and links", function()
    assert.equal("a: 2xT4-16G over pcie 15.75 GB/s; b: 1xL4; between nodes 10 Gb/s",
      ts.cluster { { "T4-16G", 2, node = "a" }, { "L4", 1, node = "b" }, link_gbps = 10 }:topology())
    assert.equal("h200-141g: 8xH200-141G over nvlink 450 GB/s", ts.cluster "8xH200-141G":topology())
    -- Unlike devices of a node have links of their own kinds.
    assert.equal("n: 2xA100-80G + 1xL4 over nvlink 300 GB/s and pcie 31.5 GB/s",
      ts.cluster { { "A100-80G", 2, node = "n" }, { "L4", 1, node = "n" } }:topology())
    -- NVLink bridges join two cards, and only where the cluster says so.
    assert.equal("a6000: 2xA6000 over pcie 31.5 GB/s, no NVLink bridges", ts.cluster "2xA6000":topology())
    assert.equal("a6000: 2xA6000 over nvlink 56.25 GB/s in pairs", ts.cluster "2xA6000@bridges":topology())
    assert.equal("a6000: 4xA6000 over nvlink 56.25 GB/s in pairs and pcie 31.5 GB/s",
      ts.cluster "4xA6000@bridges":topology())
    assert.equal("n: 2xA40 + 1xL4 over nvlink 56.25 GB/s in pairs and pcie 31.5 GB/s",
      ts.cluster { { "A40", 2, node = "n" }, { "L4", 1, node = "n" }, nvlink_bridges = true }:topology())
    assert.equal("node: 2xRTX-3090 + 1xRTX-4090 over pcie 31.5 GB/s by way of the host's memory, no NVLink bridges",
      ts.cluster "(2xRTX-3090+1xRTX-4090)":topology())
    -- Cards reach each other's memory as their sheets say, or as the node does.
    assert.is_false(ts.cluster "2xRTX-4090":link(0, 1).peer_access)
    assert.is_true(ts.cluster { { "RTX-4090", 2 }, peer_access = true }:link(0, 1).peer_access)
    assert.is_true(ts.cluster "2xL4":link(0, 1).peer_access)
    assert.is_false(ts.cluster "2xL4@no-peer":link(0, 1).peer_access)
    assert.equal("l4: 2xL4 over pcie 31.5 GB/s by way of the host's memory", ts.cluster "2xL4@no-peer":topology())
    local alike = {}
    for i = 1, 3 do alike[i] = { "A100-80G", 8, node = "n" .. i } end
    assert.equal("3 nodes of 8xA100-80G over nvlink 300 GB/s; between nodes 100 Gb/s", ts.cluster(alike):topology())
  end)

  it("says those of every cluster that ships", function()
    for _, name in ipairs(require("tessera.core").names "clusters") do
      local c = ts.cluster(name)
      local text = c:topology()
      assert.equal(#c.nodes > 1, text:find "between nodes" ~= nil, name)
      assert.equal(#c.devices > #c.nodes, text:find " over " ~= nil, name)
    end
    local says = {
      ["dgx-h100-x2"] = "2 nodes of 8xH100-80G over nvlink 450 GB/s; between nodes 400 Gb/s",
      ["aws-g5.48xlarge"] = "aws-g5.48xlarge: 8xA10G over pcie 31.5 GB/s",
      ["server-8xa6000"] = "server-8xa6000: 8xA6000 over pcie 31.5 GB/s, no NVLink bridges",
      ["server-8xa6000-bridges"] =
        "server-8xa6000-bridges: 8xA6000 over nvlink 56.25 GB/s in pairs and pcie 31.5 GB/s",
      ["workstation-2xrtx-4090"] =
        "workstation-2xrtx-4090: 2xRTX-4090 over pcie 31.5 GB/s by way of the host's memory",
    }
    for name, text in pairs(says) do assert.equal(text, ts.cluster(name):topology()) end
  end)

  it("reads texts, names in any case, and its own objects", function()
    assert.equal(4, #ts.cluster "3xT4-16G+1xV100-32G".devices)
    assert.equal(12.5e9 / 100, ts.cluster "2xL4@1Gbps".network_bytes_per_s)
    assert.equal("llmpq-3", ts.cluster "LLMPQ-3".name)
    local c = ts.cluster "llmpq-3"
    assert.equal(c.name, ts.cluster(c).name)
    assert.equal("T4-16G", ts.cluster { { ts.device "T4-16G" } }.devices[1].name)
  end)

  it("offers the nearest names", function()
    local err = raises("not_found", "did you mean 'llmpq-3'", function() return ts.cluster "llmpq3" end)
    assert.equal("ts.cluster", err.where)
    err = raises("not_found", "unknown device 'T4-16'; did you mean 'T4-16G'", function()
      return ts.cluster { { "V100-32G" }, { "T4-16", 3 } }
    end)
    assert.equal("ts.cluster[2][1]", err.where)
    raises("not_found", "term 2: unknown device 'T5'", function() return ts.cluster "1xT4-16G+3xT5" end)
    raises("invalid_argument", "did you mean 'link_gbps'",
      function() return ts.cluster { { "T4-16G" }, link_gpbs = 3 } end)
    raises("invalid_argument", "did you mean 'node'", function() return ts.cluster { { "T4-16G", 1, nod = "a" } } end)
  end)

  it("refuses wrong use", function()
    for _, value in ipairs { 3, true, print, ts.device "T4-16G" } do
      raises("invalid_argument", "ts.cluster", function() return ts.cluster(value) end)
    end
    raises("invalid_argument", "no devices", function() return ts.cluster() end)
    raises("invalid_argument", "no devices", function() return ts.cluster {} end)
    raises("invalid_argument", "ts.cluster[1]", function() return ts.cluster { "T4-16G" } end)
    raises("invalid_argument", "ts.cluster[1]: write", function() return ts.cluster { {} } end)
    raises("invalid_argument", "gaps", function() return ts.cluster { { "T4-16G" }, nil, { "T4-16G" } } end)
    raises("out_of_range", "0 is out of range; give an integer in [1, 4096] (devices)",
      function() return ts.cluster { { "T4-16G", 0 } } end)
    for _, count in ipairs { -1, 3.7, 1e9, 2 ^ 53 + 2, support.nan, support.inf, "3" } do
      assert.is_false((pcall(ts.cluster, { { "T4-16G", count } })))
    end
    raises("out_of_range", "more than 4096 devices",
      function() return ts.cluster { { "T4-16G", 4096 }, { "V100-32G", 1 } } end)
    for _, rate in ipairs { 0, -1, support.nan, support.inf, "100" } do
      local ok, err = pcall(ts.cluster, { { "T4-16G" }, link_gbps = rate })
      assert.is_false(ok)
      assert.matches("%(Gb/s%)", err.message)
    end
    raises("invalid_argument", "true or false", function() return ts.cluster { { "T4-16G" }, nvlink = 1 } end)
    raises("invalid_argument", "no node has two cards of one type that take an NVLink bridge",
      function() return ts.cluster { { "L4", 2 }, nvlink_bridges = true } end)
    raises("invalid_argument", "nvlink = false leaves only PCIe; keep one",
      function() return ts.cluster { { "A40", 2 }, nvlink_bridges = true, nvlink = false } end)
    raises("invalid_argument", "not UTF-8", function() return ts.cluster { { "T4-16G" }, name = "\255" } end)
    raises("invalid_argument", "not UTF-8", function() return ts.cluster { { "T4-16G", node = "\255" } } end)
  end)

  it("refuses broken texts", function()
    for _, text in ipairs {
      "", " ", "3x", "xT4-16G", "3xT4-16G+", "3xT4-16G@", "3xT4-16G@fast", "3xT4-16G@-1Gbps", "0xT4-16G",
      "(2xL4", "2xL4)", "((2xL4))", "()", "2x()", "(2xL4)x2", "2xL4@bridges",
      "99999999999999999999xT4-16G", "5000xT4-16G", ("1xT4-16G+"):rep(1e5), "3xT4-16G\0",
    } do
      local ok, err = pcall(ts.cluster, text)
      assert.is_false(ok, text:sub(1, 40))
      assert.not_matches("\n", err.message)
      assert.is_true(#err.message < 500)
    end
  end)
end)
