-- The NVIDIA GPUs of this machine by the names of their sheets, in the order of the PCI bus: our processes number
-- CUDA's devices by it too.

local host = require "tessera.host"
local sheets = require "tessera.devices.detect.sheets"

--- names [GPU number + 1], false where no sheet fits; nil and why where the driver lists none.
return function()
  local gpus, why = host.nvml()
  if not gpus or #gpus == 0 then return nil, why or "the driver lists no GPU" end
  local names = {}
  for i, gpu in ipairs(gpus) do
    local sheet = sheets.find(gpu)
    names[i] = sheet and sheet.name or false
  end
  return names
end
