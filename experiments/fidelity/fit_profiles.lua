-- Fits the shipped profiles of the modern kernel sets to measured data, with the error on matrices that a fit has not
-- seen, and writes them as <folder>/<device>.<kernel set>.json. Without a folder it fits the first one and writes none.
--
--   tessera run experiments/fidelity/fit_profiles.lua -- datasets/profiles
--
-- One file per source stands under fit/; what belongs to one device and kernel set comes from one framework.
local ts = require "tessera"
local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local aiconfigurator = dofile(folder .. "/fit/aiconfigurator.lua")

local out = arg and arg[1]

local targets = {
  { "A100-80G", "modern" }, { "A100-80G", "modern_w8a8" },
  { "H200-141G", "modern" }, { "H200-141G", "modern_w8a8" }, { "H200-141G", "modern_fp8" },
}

for _, target in ipairs(targets) do
  local device, kernel_set = target[1], target[2]
  local samples, why = aiconfigurator.gemm_of_set(device, kernel_set)
  if not samples then
    print(why.message)
    break
  end
  local profile = ts.fit_profile {
    device = device, kernel_set = kernel_set, samples = samples, method = "operator", hold_out = { "n", "k" },
  }
  print(profile)
  if not out then break end
  profile:save(("%s/%s.%s.json"):format(out, device, kernel_set))
end
