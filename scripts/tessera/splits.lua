-- Ways of splitting a cluster's devices into parts. Devices of one type on one node are alike, and so are nodes that
-- hold the same: of ways that differ only in which of them they take, one is listed.

local sorted_keys = require "tessera.sorted_keys"

local M = {}

-- More ways than this are not listed.
M.most = 1000

-- Devices by type and node, in cluster order: { type, node, devices = 0-based indices }.
local function kinds_of(problem)
  local kinds, known = {}, {}
  for i, name in ipairs(problem:with { tensor_parallel = 1 }.devices) do
    if not known[name] then
      local device_type, node = name:match "^([^@]*)@(.*)$"
      known[name] = { type = device_type, node = node, devices = {} }
      kinds[#kinds + 1] = known[name]
    end
    local devices = known[name].devices
    devices[#devices + 1] = i - 1
  end
  return kinds
end

-- What one node of a part holds: types, how many, the links among them, host memory.
local function node_key(cluster, kinds, counts, node)
  local present, lines = {}, {}
  for k, kind in ipairs(kinds) do
    if kind.node == node and counts[k] > 0 then present[#present + 1] = k end
  end
  table.sort(present, function(a, b) return kinds[a].type < kinds[b].type end)
  for i, a in ipairs(present) do
    lines[#lines + 1] = ("%s x %d"):format(kinds[a].type, counts[a])
    for j = i, #present do
      local from, to = kinds[a].devices[1], kinds[present[j]].devices[i == j and 2 or 1]
      if to and (i ~= j or counts[a] > 1) then
        lines[#lines + 1] = ("%.17g"):format(cluster:link(from, to).bytes_per_s)
      end
    end
  end
  for _, known in ipairs(cluster.nodes) do
    if known.name == node then lines[#lines + 1] = tostring(known.host_memory_bytes) end
  end
  return table.concat(lines, " ")
end

-- The same for parts that no planner can tell apart.
local function part_key(cluster, kinds, counts)
  local nodes, keys = {}, {}
  for k, kind in ipairs(kinds) do
    if counts[k] > 0 then nodes[kind.node] = true end
  end
  for _, node in ipairs(sorted_keys(nodes)) do keys[#keys + 1] = node_key(cluster, kinds, counts, node) end
  table.sort(keys)
  return table.concat(keys, " | ")
end

local function total(counts)
  local sum = 0
  for _, count in ipairs(counts) do sum = sum + count end
  return sum
end

-- Whether counts `a` come before `b`, or are equal to them: parts are listed in this order to have each split once.
local function not_after(a, b)
  for k = 1, #a do
    if a[k] ~= b[k] then return a[k] > b[k] end
  end
  return true
end

-- Calls each(counts) for every choice of at most `left` devices of each kind that does not come before `previous`.
local function choices(left, previous, each)
  local counts = {}
  local function choose(k)
    if k > #left then
      if total(counts) > 0 and (not previous or not_after(previous, counts)) then return each(counts) end
      return true
    end
    for count = left[k], 0, -1 do
      counts[k] = count
      if not choose(k + 1) then return false end
    end
    return true
  end
  return choose(1)
end

local function minus(a, b)
  local rest = {}
  for k = 1, #a do rest[k] = a[k] - b[k] end
  return rest
end

local function copy(list) return { unpack(list) } end

-- All splits of `left` into `num_parts`, handed to take(parts), which says whether to go on.
local function all_splits(left, num_parts, parts, take)
  local previous = parts[#parts]
  if num_parts == 1 then
    if total(left) == 0 or (previous and not not_after(previous, left)) then return true end
    parts[#parts + 1] = left
    local go_on = take(parts)
    parts[#parts] = nil
    return go_on
  end
  return choices(left, previous, function(counts)
    if total(left) - total(counts) < num_parts - 1 then return true end
    parts[#parts + 1] = copy(counts)
    local go_on = all_splits(minus(left, counts), num_parts - 1, parts, take)
    parts[#parts] = nil
    return go_on
  end)
end

-- Device indices of each part: the first of a kind go to the first part that has it.
local function place(kinds, parts)
  local used, placed = {}, {}
  for r, counts in ipairs(parts) do
    local devices = {}
    for k, count in ipairs(counts) do
      for _ = 1, count do
        used[k] = (used[k] or 0) + 1
        devices[#devices + 1] = kinds[k].devices[used[k]]
      end
    end
    table.sort(devices)
    placed[r] = devices
  end
  return placed
end

local function even_split(left, num_parts)
  local counts = {}
  for k, count in ipairs(left) do
    if count % num_parts ~= 0 then return nil end
    counts[k] = count / num_parts
  end
  local parts = {}
  for r = 1, num_parts do parts[r] = counts end
  return parts
end

--- Ways of splitting the problem's cluster into `num_parts`: a list of { { key =, devices = 0-based }, ... }, and
--- whether these are all. Above `most` ways only the one into equal parts is listed, where there is one.
function M.list(problem, num_parts)
  local cluster, kinds, left = problem.cluster, kinds_of(problem), {}
  for k, kind in ipairs(kinds) do left[k] = #kind.devices end
  local found, seen, looked_at = {}, {}, 0
  local function add(parts)
    local keys = {}
    local placed = place(kinds, parts)
    local split = {}
    for r, counts in ipairs(parts) do
      keys[r] = part_key(cluster, kinds, counts)
      split[r] = { key = keys[r], devices = placed[r] }
    end
    table.sort(keys)
    local key = table.concat(keys, " || ")
    if not seen[key] then
      seen[key] = true
      found[#found + 1] = split
    end
  end
  local complete = all_splits(left, num_parts, {}, function(parts)
    looked_at = looked_at + 1
    if #found >= M.most or looked_at > 100 * M.most then return false end
    add(parts)
    return true
  end)
  if complete then return found, true end
  found, seen = {}, {}
  local even = even_split(left, num_parts)
  if even then add(even) end
  return found, false
end

return M
