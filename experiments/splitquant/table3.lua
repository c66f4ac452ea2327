-- SplitQuant, Table III: the ten clusters of the evaluation, as they ship here.
--
-- Two things in print are odd. The text gives every cluster a network between nodes, the single nodes 1, 8, 9 and 10
-- included, where it carries nothing. And it connects the GPUs of every node by NVLink, which neither the T4 nor the
-- P100 on PCIe has: those nodes use PCIe here.
local ts = require "tessera"

local paper = ts.paper "splitquant/table3.csv"

-- "3xT4-16G + 1xV100-32G", in the order of the devices.
local function devices_text(cluster)
  local names, counts = {}, {}
  for _, device in ipairs(cluster.devices) do
    if not counts[device.name] then names[#names + 1] = device.name end
    counts[device.name] = (counts[device.name] or 0) + 1
  end
  for i, name in ipairs(names) do names[i] = ("%dx%s"):format(counts[name], name) end
  return table.concat(names, " + ")
end

-- What joins the first two devices of a type on one node; "" where no node has two of a type.
local function link_inside(cluster)
  for i = 2, #cluster.devices do
    if cluster.devices[i].name == cluster.devices[i - 1].name then return cluster:link(i - 2, i - 1).kind end
  end
  return ""
end

local function has_nvlink(cluster)
  for _, device in ipairs(cluster.devices) do
    if not device.nvlink_bytes_per_s then return false end
  end
  return true
end

return ts.experiment {
  name = "splitquant/table3",
  doc = "SplitQuant, Table III: the clusters",
  paper = paper,
  grid = paper.points,
  columns = { "devices", "num_nodes", "network_gbps", "link_inside", "memory_bytes" },
  notes = { "No plan is made: no kernel set, memory preset, theta or objective is in play." },

  run = function(point)
    local cluster = ts.cluster(point.cluster)
    local memory_bytes = 0
    for _, device in ipairs(cluster.devices) do memory_bytes = memory_bytes + device.memory_bytes end
    return {
      devices = devices_text(cluster), num_nodes = #cluster.nodes,
      network_gbps = cluster.network_bytes_per_s * 8 / 1e9, memory_bytes = memory_bytes,
      link_inside = link_inside(cluster), nvlink = has_nvlink(cluster),
    }
  end,

  check = function(t)
    local print_only = "shipped files against print: nothing is computed"
    t:expect_close { column = "num_nodes", to = "paper", abs = 0, note = print_only }
    t:expect_close { column = "network_gbps", to = "paper", rel = 1e-9, note = print_only }
    t:expect_that {
      text = "every cluster has the devices that the table prints", note = print_only,
      holds = function(_, rows)
        local equal = 0
        for _, row in ipairs(rows) do
          if row.devices == t:published(row.point, "devices") then equal = equal + 1 end
        end
        return equal == #rows, ("%d of %d"):format(equal, #rows)
      end,
    }
    t:expect_all {
      column = "nvlink", equals = true, where = { cluster = { "splitquant-5", "splitquant-6", "splitquant-7" } },
      not_reproduced = "the text says NVLink inside every node; the T4 and the P100 on PCIe have none", here = false,
    }
  end,
}
