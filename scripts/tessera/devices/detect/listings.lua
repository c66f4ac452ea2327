-- GPUs as tools list them that were asked for something else than `tessera detect --commands` asks: nvidia-smi without
-- options and with -q, dcgmi, lspci, and columns of a query whose header was left out. They say names, mostly memory,
-- and nothing of links.

local M = {}

local mib = 2 ^ 20

-- "|   0  NVIDIA A100-SXM4-80GB          On  |", and below it "|  4MiB /  81920MiB |".
local function table_of_nvidia_smi(text)
  local gpus = {}
  for line in text:gmatch "[^\r\n]+" do
    local name = line:match "^|%s+%d+%s%s(%S.-)%s+O[nf]f?%s+|" or line:match "^|%s+%d+%s%s(%S.-)%s%s+|%s+%x+:"
    local memory = line:match "MiB%s*/%s*(%d+)MiB"
    if name then
      gpus[#gpus + 1] = { name = name, index = #gpus }
    elseif memory and gpus[#gpus] and not gpus[#gpus].memory_bytes then
      gpus[#gpus].memory_bytes = tonumber(memory) * mib
    end
  end
  return gpus
end

-- `nvidia-smi -q`: "Product Name : NVIDIA L40S", "FB Memory Usage" and below it "Total : 46068 MiB".
local function details_of_nvidia_smi(text)
  local gpus, section = {}, nil
  for line in text:gmatch "[^\r\n]+" do
    local key, value = line:match "^%s*(.-)%s*:%s*(.-)%s*$"
    if not key then section = line:match "^%s*(.-)%s*$" end
    local gpu = gpus[#gpus]
    if key == "Product Name" then
      gpus[#gpus + 1] = { name = value, index = #gpus }
    elseif gpu and key == "Total" and section == "FB Memory Usage" and not gpu.memory_bytes then
      gpu.memory_bytes = value:find "^%d+ MiB" and tonumber(value:match "^%d+") * mib
    end
  end
  return gpus
end

-- `dcgmi discovery -l`: "| 0      | Name: NVIDIA A100-SXM4-40GB |".
local function of_dcgmi(text)
  local gpus = {}
  for name in text:gmatch "|%s*%d+%s*|%s*Name:%s*([^|\r\n]-)%s*|" do gpus[#gpus + 1] = { name = name } end
  return gpus
end

-- "... controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)": the last name in brackets that is no number
-- of a vendor.
local function of_lspci(text)
  local gpus = {}
  for line in text:gmatch "[^\r\n]+" do
    local maker = line:match "NVIDIA Corporation" or line:match "Advanced Micro Devices"
    local name
    for part in line:gmatch "%[([^%[%]]+)%]" do
      if not part:find "^%x%x%x%x$" and not part:find "^%x%x%x%x:%x%x%x%x$" and part ~= "AMD/ATI" then name = part end
    end
    if maker and name and (line:find "VGA compatible" or line:find "3D controller" or line:find "Display controller"
      or line:find "Processing accelerators") then
      gpus[#gpus + 1] = { name = name:match "^[^/]*[^/%s]" }
    end
  end
  return gpus
end

-- Rows of a query without its header, or with a name alone: a name of a maker, and a number of MiB where one stands.
local function of_rows(text)
  local gpus = {}
  for line in text:gmatch "[^\r\n]+" do
    local name, memory
    for cell in (line .. ","):gmatch "%s*([^,]-)%s*," do
      if cell:find "^NVIDIA %w" or cell:find "^Tesla %w" or cell:find "^GeForce %w" or cell:find "^Quadro %w"
        or cell:find "^[AHLTV]%d+[%s-]%w" then -- older drivers leave the maker out
        name = name or cell
      elseif cell:find "^%d+ MiB$" or (cell:find "^%d%d%d%d+$" and tonumber(cell) < 1e6) then
        memory = memory or tonumber(cell:match "^%d+")
      end
    end
    if name then
      gpus[#gpus + 1] = { name = name, memory_bytes = memory and memory * mib }
    elseif not ("," .. line .. ","):find ",%s*name%s*," then
      return {} -- something else
    end
  end
  return gpus
end

local forms = { { "| NVIDIA-SMI ", table_of_nvidia_smi }, { "NVSMI LOG", details_of_nvidia_smi },
  { "| Device Information", of_dcgmi }, { " controller", of_lspci }, { "Processing accelerators", of_lspci },
  { "", of_rows } }

--- The host that a text lists, { name, gpus }; nil where it is in none of these forms, or has the query's own header.
function M.parse(text, name)
  if text:find "memory%.total" and text:find "pcie%.link" or text:find "%(UUID: " then return nil end
  for _, form in ipairs(forms) do
    if text:find(form[1], 1, true) then
      local gpus = form[2](text)
      if #gpus > 0 then
        local kib = text:match "MemTotal:%s*(%d+) kB"
        return { name = text:match "host:%s*(%S+)" or name, gpus = gpus,
          host_memory_bytes = kib and tonumber(kib) * 1024 }
      end
    end
  end
end

return M
