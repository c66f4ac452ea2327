-- What nvidia-smi and a few words about the host printed, read back: the output of the commands below, in any order.

local core = require "tessera.core"

local M = {}

--- What to run on a host whose output is to be read.
M.commands = [[
{ echo "host: $(hostname)"; grep MemTotal /proc/meminfo
  nvidia-smi --query-gpu=index,name,memory.total,pcie.link.gen.max,pcie.link.width.max,compute_cap,memory.free \
    --format=csv
  nvidia-smi topo -m; nvidia-smi topo -p2p r; } > "$(hostname).txt"
]]

-- "GeForce RTX 3090, 24576 MiB" -> { "GeForce RTX 3090", "24576 MiB" }
local function split(line, separator)
  local parts = {}
  for part in (line .. separator):gmatch("(.-)" .. separator) do parts[#parts + 1] = part:match "^%s*(.-)%s*$" end
  return parts
end

-- "24576 MiB" -> 24576; nil for "[N/A]" and the like.
local function number_of(text) return tonumber((text or ""):match "^[%d.]+") end

-- Columns of the header by name: { name = 2, ["memory.total"] = 3 }; nil where it is no header of the query.
local function columns_of(line)
  local columns = {}
  for i, title in ipairs(split(line, ",")) do columns[title:gsub("%s*%[.*%]$", "")] = i end
  return columns["name"] and columns["memory.total"] and columns or nil
end

local function gpu_of(line, columns, path, number)
  local values, count = split(line, ","), 0
  for _ in pairs(columns) do count = count + 1 end
  if #values ~= count then
    core.refuse(path, ("line %d has %d values where its header names %d; is the output cut off?"):format(number,
      #values, count))
  end
  local function value(name) return columns[name] and values[columns[name]] end
  local memory_mib = number_of(value "memory.total")
  if not memory_mib then
    core.refuse(path, ("line %d: the memory '%s' is no number of MiB"):format(number, value "memory.total"))
  end
  return {
    name = value "name", memory_bytes = memory_mib * 2 ^ 20, pcie_generation = number_of(value "pcie.link.gen.max"),
    pcie_width = number_of(value "pcie.link.width.max"), compute_capability = number_of(value "compute_cap"),
    index = number_of(value "index"), free_bytes = number_of(value "memory.free") and number_of(value "memory.free")
      * 2 ^ 20,
  }
end

-- Cells of a line of `topo -m`: between tabs, or where pasting made spaces of them, between those.
local function cells_of(line)
  if line:find "\t" then return split(line, "\t") end
  local cells = {}
  for cell in line:gmatch "%S+" do cells[#cells + 1] = cell end
  if line:find "^%s" then table.insert(cells, 1, "") end
  return cells
end

-- Columns of `topo -m` and `topo -p2p` that are GPUs: { [column] = GPU (1-based) }; nil where the line is no header.
local function topology_columns(line)
  local second = line:match "^%s*GPU0%s+(%S+)"
  if not second or second == "X" or not (line:find "^%s" or second:find "^GPU%d") then return nil end
  local columns = {}
  local before = line:find "^%s" and "" or line:find "\t" and "\t" or " " -- pasting may cut the first blanks
  for i, title in ipairs(cells_of(before .. line)) do
    local gpu = title:match "^GPU(%d+)$"
    if gpu then columns[i] = tonumber(gpu) + 1 end
  end
  return columns
end

-- Adds a row "GPU1\tNV12\t X \tNV12 ..." to links[from][to] = "NV12".
local function add_links(links, line, columns, path, number)
  local cells = cells_of(line:match "^%s*(.*)")
  local from = tonumber(cells[1]:match "^GPU(%d+)$") + 1
  links[from] = {}
  for i, to in pairs(columns) do
    if not cells[i] or cells[i] == "" then
      core.refuse(path, ("line %d: GPU%d has no entry for GPU%d; is the output cut off?"):format(number, from - 1,
        to - 1))
    end
    links[from][to] = cells[i]
  end
end

-- "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-...)" and below it "  MIG 3g.40gb     Device  0: (UUID: MIG-...)", as
-- `nvidia-smi -L` has them; true where the line is one of these.
local function add_listed(host, line)
  local index, name = line:match "^GPU (%d+): (.-) %(UUID: "
  local slice = line:match "^%s+MIG (%S+)%s+Device"
  if index and not host.listed[tonumber(index)] then
    host.last = { name = name, index = tonumber(index) }
    host.listed[tonumber(index)] = host.last
  elseif slice and host.last then
    host.last.slices = host.last.slices or {}
    table.insert(host.last.slices, slice)
  end
  return index or slice
end

-- The list of `nvidia-smi -L` where there is no other, and what it says of MIG where there is.
local function join_lists(host)
  if #host.gpus == 0 then
    local index = 0
    while host.listed[index] do
      host.gpus[#host.gpus + 1] = host.listed[index]
      index = index + 1
    end
  end
  for i, gpu in ipairs(host.gpus) do
    local listed = host.listed[gpu.index or i - 1]
    gpu.slices = listed and listed.slices
  end
  host.listed, host.last = nil, nil
end

-- The columns of the query of `commands` where its header was left out, "0, NVIDIA L4, 23034, 4, 16, 8.9, 22600";
-- nil for another line. Older queries have no memory.free.
local function headless_columns(line)
  local index, name, memory, rest = line:match "^%s*(%d+),%s*([^,]+),%s*(%d+)[ MiB]*,(.+)$"
  local more = index and name and tonumber(memory) > 1000 and select(2, rest:gsub(",", ","))
  if more ~= 2 and more ~= 3 then return nil end
  return { index = 1, name = 2, ["memory.total"] = 3, ["pcie.link.gen.max"] = 4, ["pcie.link.width.max"] = 5,
    compute_cap = 6, ["memory.free"] = more == 3 and 7 or nil }
end

-- What `topo -p2p r` says of two GPUs: whether one reads the other's memory, or why not.
local is_status = { OK = true, CNS = true, GNS = true, TNS = true, NS = true, DR = true, U = true }

local function is_of_peers(matrix)
  for _, row in pairs(matrix) do
    for _, cell in pairs(row) do
      if is_status[cell] then return true end
    end
  end
  return false
end

-- The matrices that were read, by what they say: host.links of `topo -m`, host.peers of `topo -p2p`.
local function join_matrices(host, path)
  local count = #host.gpus
  for _, matrix in ipairs(host.matrices) do
    local of_peers = is_of_peers(matrix)
    for from = 1, count do
      for to = 1, count do
        if not (matrix[from] and matrix[from][to]) then
          core.refuse(path, ("`nvidia-smi topo %s` says nothing of GPU%d and GPU%d, and the list has %d GPUs; is the "
            .. "output cut off?"):format(of_peers and "-p2p r" or "-m", from - 1, to - 1, count))
        end
      end
    end
    host[of_peers and "peers" or "links"] = matrix
  end
  host.matrices = nil
end

--- The host that `text` describes: { name, host_memory_bytes, gpus = { { name, memory_bytes, pcie_generation,
--- pcie_width, compute_capability, slices } }, links = { [from] = { [to] = "NV18" | "PIX" | ... } }, peers = { [from] =
--- { [to] = "OK" | "NS" | ... } } }; what it does not say is absent. Raises where it lists no GPUs or is cut off.
--- `name`: of a host that does not say its own.
function M.parse(text, path, name)
  local host, columns, links_columns, number = { name = name, gpus = {}, listed = {}, matrices = {} }, nil, nil, 0
  for raw in (text .. "\n"):gmatch "(.-)\r?\n" do
    number = number + 1
    local line = raw:gsub("\27%[[%d;]*m", "") -- topo underlines its header
    local kib = line:match "^MemTotal:%s*(%d+) kB"
    local new_columns, new_links = columns_of(line), topology_columns(line)
    if line:match "^host:%s*%S" then
      host.name = line:match "^host:%s*(%S+)"
    elseif kib then
      host.host_memory_bytes = tonumber(kib) * 1024
    elseif new_columns then
      columns = new_columns
    elseif new_links then
      links_columns, columns = new_links, nil
      host.matrices[#host.matrices + 1] = {}
    elseif links_columns and line:find "^%s*GPU%d+%s" then
      add_links(host.matrices[#host.matrices], line, links_columns, path, number)
    elseif add_listed(host, line) then
      columns = nil
    elseif columns and line:find "%S" and line:find(",", 1, true) then
      host.gpus[#host.gpus + 1] = gpu_of(line, columns, path, number)
    elseif not columns and headless_columns(line) then
      host.gpus[#host.gpus + 1] = gpu_of(line, headless_columns(line), path, number)
    elseif columns and line:find "%S" then
      core.refuse(path, ("line %d, '%s', is no row of the list of GPUs; is the output cut off?"):format(number, line))
    end
  end
  join_lists(host)
  if #host.gpus == 0 then
    core.refuse(path, "it lists no GPUs; `tessera detect --commands` prints what to run on the host")
  end
  join_matrices(host, path)
  return host
end

return M
