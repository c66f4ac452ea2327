-- Which device sheet a GPU of a driver is: by the name that the driver gives it, and its memory.

local core = require "tessera.core"

local M = {}

local largest_memory_error = 0.06 -- sheets may say what is left after ECC

local function has_memory(device, bytes)
  return math.abs(device.memory_bytes / bytes - 1) <= largest_memory_error
end

local sheets

local function all_sheets()
  if sheets then return sheets end
  sheets = {}
  for _, name in ipairs(core.names "devices") do
    local ok, device = pcall(core.device, name)
    if ok then sheets[#sheets + 1] = device end -- a broken sheet of a user must not take the others with it
  end
  return sheets
end

-- The names of sheets that are nearest: alike in letters, then in memory.
local function nearest(gpu)
  local names, by_memory = {}, {}
  for _, device in ipairs(all_sheets()) do
    names[#names + 1] = device.name
    by_memory[#by_memory + 1] = { device.name, math.abs(math.log(device.memory_bytes / gpu.memory_bytes)) }
  end
  table.sort(by_memory, function(a, b) return a[2] == b[2] and a[1] < b[1] or a[2] < b[2] end)
  local closest = {}
  for i = 1, math.min(3, #by_memory) do closest[i] = by_memory[i][1] end
  return core.did_you_mean(core.short_driver_name(gpu.name):gsub("[%s_]+", "-"), names), table.concat(closest, ", ")
end

--- The sheet of a GPU { name, memory_bytes }, and whether its board has no NVLink although the sheet's may. Raises
--- not_found with the nearest sheets.
function M.find(gpu, where)
  for _, known in ipairs(core.devices_called(gpu.name)) do
    local device = core.device(known.device)
    if has_memory(device, gpu.memory_bytes) then return device, known.without_nvlink end
  end
  local alike, by_memory = nearest(gpu)
  core.raise("not_found", ("%s: no device sheet for '%s' with %.1f GiB%s; nearest in memory: %s. Write a sheet of it "
    .. "into the folder devices of a folder in TESSERA_PATH, with its full_name as printed here"):format(where,
    gpu.name, gpu.memory_bytes / 2 ^ 30, alike, by_memory), where)
end

return M
