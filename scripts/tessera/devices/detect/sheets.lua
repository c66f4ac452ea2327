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
    if gpu.memory_bytes then
      by_memory[#by_memory + 1] = { device.name, math.abs(math.log(device.memory_bytes / gpu.memory_bytes)) }
    end
  end
  table.sort(by_memory, function(a, b) return a[2] == b[2] and a[1] < b[1] or a[2] < b[2] end)
  local closest = {}
  for i = 1, math.min(3, #by_memory) do closest[i] = by_memory[i][1] end
  return core.did_you_mean(core.short_driver_name(gpu.name):gsub("[%s_]+", "-"), names), table.concat(closest, ", ")
end

-- By any spelling of its name; nil where none fits, or another memory was printed.
local function by_spelling(gpu)
  local ok, meant
  if gpu.memory_bytes then -- boards of one name: RTX 3080 with 10 and 12 GB
    ok, meant = pcall(core.device_meant, ("%s %.0fGB"):format(gpu.name, gpu.memory_bytes / 2 ^ 30))
  end
  if not ok then ok, meant = pcall(core.device_meant, gpu.name) end
  if not ok or gpu.memory_bytes and not has_memory(meant.device, gpu.memory_bytes) then return nil end
  local sheet = core.device(meant.device.name)
  local without_nvlink = sheet.nvlink_bytes_per_s ~= nil and meant.device.nvlink_bytes_per_s == nil
  return sheet, without_nvlink, not gpu.memory_bytes and meant.note or nil
end

--- The sheet of a GPU { name, memory_bytes }, whether its board has no NVLink although the sheet's may, and what was
--- taken for what where its name fits several; nil where there is none.
function M.find(gpu)
  for _, known in ipairs(gpu.memory_bytes and core.devices_called(gpu.name) or {}) do
    local device = core.device(known.device)
    if has_memory(device, gpu.memory_bytes) then return device, known.without_nvlink end
  end
  return by_spelling(gpu)
end

--- "'NVIDIA H250' with 140.4 GiB"
function M.words(gpu)
  if not gpu.memory_bytes then return ("'%s'"):format(gpu.name) end
  return ("'%s' with %.1f GiB"):format(gpu.name, gpu.memory_bytes / 2 ^ 30)
end

--- Raises not_found with the sheets that are nearest to a GPU without one.
function M.refuse(gpu, where)
  local alike, by_memory = nearest(gpu)
  core.raise("not_found", ("%s: no device sheet for %s%s%s. Write a sheet of it into the folder devices of a folder in "
    .. "TESSERA_PATH, with its full_name as printed here"):format(where, M.words(gpu), alike,
    by_memory ~= "" and "; nearest in memory: " .. by_memory or ""), where)
end

return M
