-- LLM-PQ, Table 3: the eleven clusters, and which model runs on each.
--
-- Ours are the shipped clusters: the links of Sec. 6.1 (800 Gb/s between the nodes of clusters 3, 5, 8, 11, and 100
-- Gb/s for 4, 6, 7), one GPU type per node. The paper puts NVLink inside every node; T4 and the PCIe P100 have none,
-- and talk over PCIe here. Memory is the devices' nominal one.
local ts = require "tessera"

local paper = ts.paper "llmpq/table3.csv"
local model_of = {}
for _, row in ipairs(paper.rows) do model_of[row.point.cluster] = row.model end

-- "3xT4-16G+1xV100-32G" of a cluster's devices, in their order; and their memory together.
local function devices_text(cluster)
  local counts, order, memory_bytes = {}, {}, 0
  for _, device in ipairs(cluster.devices) do
    local name = device.name
    if not counts[name] then counts[name], order[#order + 1] = 0, name end
    counts[name], memory_bytes = counts[name] + 1, memory_bytes + device.memory_bytes
  end
  for i, name in ipairs(order) do order[i] = counts[name] .. "x" .. name end
  return table.concat(order, "+"), memory_bytes
end

return ts.experiment {
  name = "llmpq/table3",
  doc = "LLM-PQ, Table 3: the clusters, and the weights of their models against their memory",
  paper = paper,
  grid = paper.points,
  columns = { "devices", "printed_devices", "model", "model_size_b", "weight_bytes", "memory_bytes", "weight_ratio" },
  notes = {
    "weight_ratio: FP16 weights over the memory of all devices; models were chosen so that they are comparable (6.1)",
  },

  run = function(point)
    local model = ts.model(model_of[point.cluster])
    local devices, memory_bytes = devices_text(ts.cluster(point.cluster))
    local weight_bytes = 2 * model.num_parameters
    local printed
    for _, row in ipairs(paper.rows) do
      if row.point.cluster == point.cluster then printed = row.devices end
    end
    return {
      model = model.name, devices = devices, printed_devices = printed, model_size_b = model.num_parameters / 1e9,
      weight_bytes = weight_bytes, memory_bytes = memory_bytes, weight_ratio = weight_bytes / memory_bytes,
    }
  end,

  check = function(t)
    local print_only = "shipped files against print: nothing is computed"
    local function same_devices(_, rows)
      for _, row in ipairs(rows) do
        if row.devices ~= row.printed_devices then return false, row.point.cluster .. ": " .. row.devices,
          row.devices end
      end
      return true
    end
    t:expect_that {
      text = "The devices are those in print", holds = same_devices,
      where = { cluster = { "llmpq-1", "llmpq-2", "llmpq-3", "llmpq-4", "llmpq-5", "llmpq-6", "llmpq-7", "llmpq-9",
        "llmpq-10" } }, note = print_only,
    }
    t:expect_that {
      text = "The devices are those in print", holds = same_devices, where = { cluster = { "llmpq-8", "llmpq-11" } },
      not_reproduced = "A800-80G in print; every published plan and log of these clusters says A100-80GB, and so do we",
      here = "4xV100-32G+2xA100-80G",
    }
    t:expect_close { column = "model_size_b", to = "paper", rel = 0.03, note = print_only }
    -- "comparable to the overall device memory capacity in the cluster" (6.1)
    t:expect_all { column = "weight_ratio", at_least = 0.5, at_most = 1.25, note = print_only }
  end,
}
