-- Fits the shipped profiles of the modern kernel sets to measured data and writes them as
-- <out>/<device>.<kernel set>.json, with the error on matrices that a fit has not seen:
--
--   tessera run experiments/fidelity/fit_profiles.lua -- [folder, default datasets/profiles]
--
-- One file per source stands under fit/; what belongs to one device and kernel set comes from one framework.
local ts = require "tessera"
local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."
local aiconfigurator = dofile(folder .. "/fit/aiconfigurator.lua")

local out = arg and arg[1] or "datasets/profiles"

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
  local path = ("%s/%s.%s.json"):format(out, device, kernel_set)
  profile:save(path)
  print(path)
  print(profile)
end
