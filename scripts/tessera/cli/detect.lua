-- `tessera detect`: the GPUs of this machine, shares of its CPU, or the GPUs of hosts whose nvidia-smi output is given,
-- as a cluster file.

local core = require "tessera.core"
local detect = require "tessera.devices.detect"
local host = require "tessera.host"
local nvidia_smi = require "tessera.devices.detect.nvidia_smi"
local terminal = require "tessera.terminal"
local this_machine = require "tessera.devices.detect.this_machine"

local M = {}

-- The nodes of a cluster that this verb wrote; nil where the text is something else.
local function written_nodes(text, path)
  local ok, cluster = pcall(core.from_json, text)
  if not ok or type(cluster) ~= "table" or type(cluster.nodes) ~= "table" then return nil end
  core.cluster_from_json(text, path)
  return cluster.nodes
end

-- Nodes of one file: a cluster that this verb wrote, or what tools printed on a host or of many.
local function add_file(nodes, remarks, path)
  local text = core.read_text(path == "-" and "/dev/stdin" or path)
  local written = written_nodes(text, path)
  for _, node in ipairs(written or {}) do nodes[#nodes + 1] = node end
  if written then return end
  local stem = path == "-" and "node" or path:match "([^/]*)$":gsub("%.%w+$", "")
  for _, each in ipairs(detect.hosts(text, path, stem)) do
    local node, said = detect.node(each)
    nodes[#nodes + 1] = node
    for _, remark in ipairs(said) do remarks[#remarks + 1] = remark end
  end
end

--- @param given table the flags; names: files of hosts
function M.main(given)
  if given.commands then
    terminal.say(nvidia_smi.commands)
    return 0
  end
  if #given.names > 0 and (given.cpu or given.cores_per_device) then
    core.raise("usage", "--cpu is of this machine; leave out the files", "tessera detect")
  end
  local nodes, remarks, links = {}, {}, nil
  for _, path in ipairs(given.names) do add_file(nodes, remarks, path) end
  if #given.names == 0 then nodes[1], remarks, links = this_machine.node(given, "tessera detect") end
  local cluster = detect.cluster(nodes, given.name or detect.title_of(nodes), given.link_gbps or 100)
  for key, value in pairs(links or {}) do cluster[key] = value end
  local object = core.cluster_from_json(core.to_json(cluster), "tessera detect") -- nothing that nothing reads
  if given.out then core.write_file(given.out, core.to_json(cluster) .. "\n") end
  if host.json then
    host.set_result(cluster)
  else
    print(object)
    for _, remark in ipairs(remarks) do terminal.say(remark .. "\n") end
    if given.out then
      print(("written to %s; --cluster %s plans on it"):format(given.out, given.out))
    end
  end
  return 0
end

return M
