-- GPUs that are not NVIDIA's, as their makers' tools print them: rocm-smi, amd-smi, system_profiler.

local M = {}

local unit_bytes = { B = 1, MB = 2 ^ 20, MiB = 2 ^ 20, GB = 2 ^ 30, GiB = 2 ^ 30 }

local function in_order(by_index)
  local numbers, gpus = {}, {}
  for number in pairs(by_index) do numbers[#numbers + 1] = number end
  table.sort(numbers)
  for i, number in ipairs(numbers) do gpus[i] = by_index[number] end
  return gpus
end

-- rocm-smi --showproductname --showmeminfo vram: lines "GPU[0] : Card series: AMD Instinct MI300X".
local function rocm_smi(text)
  local by_index = {}
  for index, title, value in text:gmatch "GPU%[(%d+)%]%s*:%s*([^:\n]+):%s*([^\n]+)" do
    local number = tonumber(index)
    local gpu = by_index[number] or {}
    by_index[number] = gpu
    local what = title:lower()
    value = value:match "^(.-)%s*$"
    if (what:find "^card series" or what:find "^device name") and not value:find "^0x" and value ~= "N/A" then
      gpu.name = gpu.name or value
    elseif what:find "^vram total memory" then
      gpu.memory_bytes = tonumber(value)
    end
  end
  return in_order(by_index)
end

-- amd-smi static: "GPU: 0", then "MARKET_NAME: AMD Instinct MI300X" and "SIZE: 196592 MB" below it.
local function amd_smi(text)
  local gpus = {}
  for line in text:gmatch "[^\r\n]+" do
    local name = line:match "MARKET_NAME:%s*(.-)%s*$"
    local size, unit = line:match "^%s*SIZE:%s*(%d+)%s*(%a+)"
    if line:find "^GPU:%s*%d" then
      gpus[#gpus + 1] = {}
    elseif name and gpus[#gpus] then
      gpus[#gpus].name = name
    elseif size and gpus[#gpus] and unit_bytes[unit] then
      gpus[#gpus].memory_bytes = tonumber(size) * unit_bytes[unit]
    end
  end
  return gpus
end

-- system_profiler SPHardwareDataType: the chip with its memory, which the GPU shares.
local function system_profiler(text)
  local chip = text:match "Chip:%s*(Apple[^\r\n]*)" or text:match "Chipset Model:%s*(Apple[^\r\n]*)"
  local memory = tonumber(text:match "Memory:%s*(%d+) GB")
  if not chip then return {} end
  chip = chip:match "^(.-)%s*$"
  return { { name = memory and ("%s %dGB"):format(chip, memory) or chip } }, memory and memory * 2 ^ 30
end

-- `rocm-smi --showproductname --showmeminfo vram --csv`.
local function rocm_smi_csv(text)
  local gpus, columns = {}, nil
  for line in text:gmatch "[^\r\n]+" do
    local cells = {}
    for cell in (line .. ","):gmatch "%s*([^,]-)%s*," do cells[#cells + 1] = cell end
    if cells[1] == "device" then
      columns = {}
      for i, title in ipairs(cells) do columns[title:lower()] = i end
    elseif columns and cells[1]:find "^card%d" then
      gpus[#gpus + 1] = { name = cells[columns["card series"] or columns["device name"] or 0],
        memory_bytes = tonumber(cells[columns["vram total memory (b)"] or 0]) }
    end
  end
  return gpus
end

-- A card of `rocm-smi --json`, { ["Card Series"] = "AMD Instinct MI300X", ["VRAM Total Memory (B)"] = "206141652992" }.
local function card_of(fields)
  local gpu = {}
  for title, value in pairs(fields) do
    local what = title:lower()
    if what == "card series" or what == "device name" then gpu.name = gpu.name or value end
    if what:find "^vram total memory" then gpu.memory_bytes = tonumber(value) end
  end
  return gpu
end

--- The host of decoded JSON of rocm-smi or `amd-smi static`, in a list; nil where it is neither.
function M.of_json(json, name)
  local gpus = {}
  while type(json["card" .. #gpus]) == "table" do gpus[#gpus + 1] = card_of(json["card" .. #gpus]) end
  for i, each in ipairs(type(json.gpu_data) == "table" and json.gpu_data or json) do
    local size = type(each) == "table" and type(each.vram) == "table" and each.vram.size
    if type(each) == "table" and type(each.asic) == "table" and each.asic.market_name then
      gpus[i] = { name = each.asic.market_name,
        memory_bytes = type(size) == "table" and tonumber(size.value) and size.value * (unit_bytes[size.unit] or 1) }
    end
  end
  for i, gpu in ipairs(gpus) do gpu.name = type(gpu.name) == "string" and gpu.name or "GPU " .. i - 1 end
  return #gpus > 0 and { { name = name, gpus = gpus } } or nil
end

--- The host that one of these tools describes; nil where the text is of none.
function M.parse(text, name)
  local gpus, host_memory_bytes
  if text:find "Chip:%s*Apple" or text:find "Chipset Model:%s*Apple" then
    gpus, host_memory_bytes = system_profiler(text)
  elseif text:find "GPU%[%d+%]%s*:" then
    gpus = rocm_smi(text)
  elseif text:find "^%s*device,.*VRAM Total Memory" then
    gpus = rocm_smi_csv(text)
  elseif text:find "MARKET_NAME:" then
    gpus = amd_smi(text)
  else
    return nil
  end
  for i, gpu in ipairs(gpus) do gpu.name = gpu.name or "GPU " .. i - 1 end
  local kib = text:match "MemTotal:%s*(%d+) kB"
  return {
    name = text:match "host:%s*(%S+)" or name, gpus = gpus,
    host_memory_bytes = kib and tonumber(kib) * 1024 or host_memory_bytes,
  }
end

return M
