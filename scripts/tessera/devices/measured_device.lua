-- Which device of this machine ts.measure_profile measures, and what it runs on.

local core = require "tessera.core"
local cpu = require "tessera.devices.detect.cpu"
local gpus_here = require "tessera.devices.detect.gpus_here"
local measure = require "tessera.measure"

local M = {}

--- Of Tessera's own kernels, which run here.
M.kernel_set = "tessera"

-- The first device of a cluster file, or nil.
local function of_file(name)
  if not name:find "%.json$" then return nil end
  return core.cluster_from_json(core.read_file(name), name).devices[1]
end

-- The number of the first GPU here of this sheet.
local function gpu_number(name, path)
  local here, why = gpus_here()
  for i, found in ipairs(here or {}) do
    if found == name then return i - 1 end
  end
  core.raise("not_found", ("%s: no %s is here (%s); it is measured where it is"):format(path, name,
    here and ("the driver lists %d GPUs"):format(#here) or why), path)
end

local function of_cpu(sheet, cores, path)
  cpu.count(cores, path)
  local own = cpu.name(cores)
  if sheet and sheet.name ~= own then
    core.raise("not_found", ("%s: %s is not a share of this CPU, whose shares of %d cores are called %s"):format(path,
      sheet.name, cores, own), path)
  end
  return { sheet = sheet or core.device((cpu.device(cores, path))), runs_on = "cpu", cores = cores,
    other_cores = measure.cpu().cores - cores }
end

--- `given`: nil or "cpu", a cluster file, a device or its name. The answer: `sheet`; `runs_on` (a device of
--- ts.language_model); of a CPU `cores` and `other_cores`.
function M.find(given, cores_per_device, path)
  if given == nil or given == "cpu" then return of_cpu(nil, cores_per_device, path) end
  local named = type(given) == "string" and given
  if named and named == cpu.name(cpu.cores_of(named) or cores_per_device) then
    return of_cpu(nil, cpu.cores_of(named) or cores_per_device, path)
  end
  local sheet = named and of_file(named) or core.device(given)
  if sheet.backend == "cpu" then return of_cpu(sheet, cpu.cores_of(sheet.name) or cores_per_device, path) end
  if sheet.backend then
    core.raise("unsupported", ("%s: models run here on CPUs and by CUDA, %s is driven by %s"):format(path, sheet.name,
      sheet.backend), path)
  end
  -- By LibTorch's operators and our CUDA kernels.
  return { sheet = sheet, runs_on = "cuda:" .. gpu_number(sheet.name, path), cores = 0, other_cores = 0, dtype = "f16" }
end

return M
