-- Profiles put together from parts that several sources were fitted to.
--
-- local parts = require "fidelity.fit.parts"; parts.merged("A100-80G", "modern", { gemm, attention })

local ts = require "tessera"
local core = require "tessera.core"

local M = {}

local function json_of(profile)
  local path = os.tmpname()
  profile:save(path)
  local json = core.from_json(core.read_file(path))
  os.remove(path)
  return json
end

local function profile_of(json)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(core.to_json(json))
  file:close()
  local profile = ts.profile { file = path }
  os.remove(path)
  return profile
end

-- A profile after `change` of what its file says.
function M.edited(profile, change)
  local json = json_of(profile)
  change(json)
  return profile_of(json)
end

-- The parts of all `profiles` that `keep` (default: every part) says yes to, as one of this device and kernel set.
function M.merged(device, kernel_set, profiles, keep)
  local merged = { device = device, kernel_set = kernel_set, parts = {} }
  for _, profile in ipairs(profiles) do
    for _, part in ipairs(json_of(profile).parts) do
      if not keep or keep(part) then table.insert(merged.parts, part) end
    end
  end
  return profile_of(merged)
end

-- Six digits: what a fit says beyond them differs between processors.
local function round(values)
  for key, value in pairs(values) do
    if type(value) == "table" then
      round(value)
    elseif type(value) == "number" then
      values[key] = tonumber(("%.6g"):format(value))
    end
  end
end

-- The profile as it ships: with what it is and where it is from.
function M.documented(profile, doc, source)
  return M.edited(profile, function(json)
    json.doc, json.source = doc, source
    for _, part in ipairs(json.parts) do
      round(part.coefficients)
      if part.held_out then round(part.held_out) end
      if part.beyond then round(part.beyond) end
    end
  end)
end

return M
