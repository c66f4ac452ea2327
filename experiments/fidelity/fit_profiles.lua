-- Fits every shipped profile to measured data and writes it as <out>/<device>.<kernel set>.json: coefficients, and with
-- them the source, the fitted range, the number of points and the error on points that a fit has not seen.
--
--   tessera run experiments/fidelity/fit_profiles.lua -- datasets/profiles [modern|vllm|helix|consumer|llmpq ...]
--
-- `helix` are layers, `vllm` operators, both of kernel set vllm. Without a folder it fits those of helix, prints the
-- table and writes nothing.
--
-- One file per source stands under fit/. Run twice, it writes the same bytes: the first time `vllm` takes its
-- weight-only products of Hopper from the profile of `modern` that shipped before.
local ts = require "tessera"
local modern = require "fidelity.fit.modern"
local llmpq = require "fidelity.fit.llmpq"
local consumer = require "fidelity.fit.consumer"

local families = {
  modern = modern.profiles,
  vllm = modern.vllm_profiles,
  helix = modern.helix_profiles,
  consumer = consumer.profiles,
  llmpq = function()
    local samples, why = llmpq.samples()
    if not samples then return nil, why end
    return llmpq.shipped(samples)
  end,
}

local function percent(ratio) return ratio and ("%.1f"):format(100 * ratio) or "" end

-- Saves the profiles where there is a folder, and adds a row for each of their parts.
local function add_parts(out, profiles, rows)
  local names = {}
  for name in pairs(profiles) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if out then profiles[name]:save(("%s/%s.json"):format(out, name)) end
    for _, part in ipairs(profiles[name].parts) do
      local errors = part.held_out or {}
      rows[#rows + 1] = {
        profile = name, op = part.op, phase = part.phase or "",
        dtype = part.bitwidth and part.bitwidth .. " bit"
          or (part.dtype or "") .. (part.kv_dtype and ", " .. part.kv_dtype .. " KV" or ""),
        points = part.num_points, ["median %"] = percent(errors.median), ["p90 %"] = percent(errors.p90),
        provenance = part.provenance,
      }
    end
  end
end

local arguments = arg or {}
local out = arguments[1]
local chosen = #arguments > 1 and { unpack(arguments, 2) } or { "helix" }
if out and #arguments == 1 then chosen = { "modern", "vllm", "helix", "consumer", "llmpq" } end
local rows = {}
for _, name in ipairs(chosen) do
  local make = families[name] or error(
    "no family of profiles called " .. name .. "; known: modern, vllm, helix, consumer, llmpq", 0)
  local profiles, why = make()
  if profiles then add_parts(out, profiles, rows) else print(why.message) end
end
if #rows > 0 then
  print(ts.table(rows, {
    columns = { "profile", "op", "phase", "dtype", "points", "median %", "p90 %", "provenance" },
  }))
end
