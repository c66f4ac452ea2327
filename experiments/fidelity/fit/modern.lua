-- The profiles of current kernels, put together from what several sources measured of them: products, attention and
-- experts of TensorRT-LLM, the kernels between them, and whole FP16 layers of vLLM where no operators are measured.
--
-- local modern = require "fidelity.fit.modern"; modern.profiles()

local ts = require "tessera"
local function source(name) return require("fidelity.fit." .. name) end
local aiconfigurator, attention, collectives, elementwise, experts, helix = source "aiconfigurator",
  source "attention", source "collectives", source "elementwise", source "experts", source "helix"
local ada, parts, vllm = source "ada", source "parts", source "vllm"

local M = {}

M.kernel_sets = { "modern", "modern_w8a8", "modern_fp8" }

local origin = "aiconfigurator (Apache-2.0): products, attention, experts and collectives; "
  .. "Vidur (MIT): the kernels between them and transfers"
local helix_origin = "Helix (ASPLOS 2025, Apache-2.0): FP16 layers under vLLM"

-- A kernel set has its own dtypes of products, of experts too; MXFP4, in which gpt-oss's experts are published, is of
-- all. Queries in FP8 are of modern_fp8 alone; keys and values in 8 bits are of all.
local function belongs_to(kernel_set)
  local dtypes = { w4a16_mxfp4 = true, w4a8_mxfp4_mxfp8 = true }
  for _, dtype in ipairs(aiconfigurator.dtypes[kernel_set]) do dtypes[dtype] = true end
  return function(part)
    if part.op == "gemm" or part.op == "experts" then return dtypes[part.dtype] end
    return part.op ~= "attention" or part.dtype ~= "fp8" or kernel_set == "modern_fp8"
  end
end

-- What was measured on the donor and not here, carried over by data sheet.
local function lacking(device, found, donor)
  local function kind(part)
    return table.concat({ part.op, part.name or "", part.dtype or "", part.kv_dtype or "", part.phase or "" }, " ")
  end
  local known = {}
  for _, profile in ipairs(found) do
    for _, part in ipairs(profile.parts) do known[kind(part)] = true end
  end
  return parts.merged(device, "modern", { ts.profile { device = device, kernel_set = "modern", donor = donor } },
    function(part) return not known[kind(part)] end)
end

-- Profiles with the operators of a device, or nil and why.
local function operators_of(device, between, donor)
  local gemm, why = aiconfigurator.profile(device)
  if not gemm then return nil, why end
  local found, problem = attention.profiles(device)
  if not found then return nil, problem end
  table.insert(found, 1, gemm)
  if device ~= "A100-80G" then
    between = ts.profile { device = device, kernel_set = "modern", donor = between }
  end
  if device == "H200-141G" then between = elementwise.fused(between) end
  found[#found + 1] = between
  local runtime = aiconfigurator.folders[device]:match "^[^_]*" .. "_trtllm"
  local links, reason = collectives.profiles(runtime)
  if not links then return nil, reason end
  for _, profile in ipairs(links) do found[#found + 1] = profile end
  found[#found + 1], reason = experts.profile(runtime)
  if reason then return nil, reason end
  if donor then found[#found + 1] = lacking(device, found, donor) end
  return found
end

-- The sources of a device's profiles, which it adds, or nil and why.
local function add_operators(profiles, device, between, donor)
  local sources, why = operators_of(device, between, donor)
  if not sources then return nil, why end
  for _, kernel_set in ipairs(M.kernel_sets) do
    profiles[device .. "." .. kernel_set] = parts.documented(
      parts.merged(device, kernel_set, sources, belongs_to(kernel_set)),
      device == "A100-80G" and "Operators of TensorRT-LLM; a layer is their sum"
        or "Operators of TensorRT-LLM; a layer is their sum. The kernels between them are the A100's, by data sheet",
      origin)
  end
  return sources
end

-- The same chip with slower memory.
local function add_same_chip(profiles, kernel_set)
  local donor = profiles["A100-80G." .. kernel_set]
  profiles["A100-40G." .. kernel_set] = parts.documented(
    ts.profile { device = "A100-40G", kernel_set = kernel_set, donor = donor },
    "Nothing measured: the A100-80G's, the same chip, with this board's memory", donor.source)
end

-- L4: its FP16 layers, and for other bitwidths the operators of L40S, the same generation, by data sheet.
local function ada_layers(layers, device, donor)
  local kernel_set = donor.kernel_set
  local carried = ts.profile { device = device, kernel_set = kernel_set, donor = donor }
  return parts.documented(parts.merged(device, kernel_set, { layers, carried }),
    "FP16 layers of vLLM; other bitwidths by operators of the L40S, by data sheet",
    helix_origin .. "; " .. donor.source)
end

local function add_layers(profiles)
  for _, gpu in ipairs { "T4-16G", "V100-16G", "L4" } do
    for _, device in ipairs { gpu, helix.same_chip[gpu] } do
      local profile, why = helix.profile(gpu, "modern", device)
      if not profile then return nil, why end
      for _, kernel_set in ipairs(M.kernel_sets) do
        local donor = gpu == "L4" and profiles["L40S." .. kernel_set]
        profiles[device .. "." .. kernel_set] = donor and ada_layers(profile, device, donor)
          or parts.documented(parts.merged(device, kernel_set, { profile }),
            "FP16 layers of vLLM; other bitwidths by the kernel rules' ratios", helix_origin)
      end
    end
  end
  return true
end

-- Profiles of kernel sets `vllm` and `vllm_2024` where whole layers are measured, by file name. From compute capability
-- 8 on vLLM runs FlashAttention since: the A100's layers, with the paged attention before it, are those of `vllm_2024`,
-- and under `vllm` it is the other A100 with this board's memory.
function M.helix_profiles()
  local profiles = {}
  for _, gpu in ipairs(helix.devices) do
    for _, device in ipairs { gpu, helix.same_chip[gpu] } do
      local kernel_set = gpu == "A100-40G" and "vllm_2024" or "vllm"
      local profile, why = helix.profile(gpu, kernel_set, device)
      if not profile then return nil, why end
      profiles[device .. "." .. kernel_set] = parts.documented(profile, "FP16 layers of LLaMA-1 30B under vLLM",
        helix_origin)
    end
  end
  return profiles
end

-- And where its operators are.
function M.vllm_profiles()
  local profiles = {}
  for _, device in ipairs(vllm.fitted) do
    local profile, why = vllm.operators(device)
    if not profile then return nil, why end
    profiles[device .. ".vllm"] = profile
  end
  add_same_chip(profiles, "vllm")
  return profiles
end

-- Profiles by file name, without ".json", or nil and why.
function M.profiles()
  local profiles = {}
  local between, why = elementwise.profile()
  if not between then return nil, why end
  local hopper
  for _, device in ipairs { "A100-80G", "H200-141G", "B200-180G" } do
    -- No table of Blackwell has weight-only kernels, INT8, and attention to latents: Hopper's have.
    local donor = device == "B200-180G" and parts.merged("H200-141G", "modern", hopper) or nil
    local sources, problem = add_operators(profiles, device, between, donor)
    if not sources then return nil, problem end
    if device == "H200-141G" then hopper = sources end
  end
  for _, kernel_set in ipairs(M.kernel_sets) do add_same_chip(profiles, kernel_set) end
  for _, kernel_set in ipairs(M.kernel_sets) do
    local profile, problem = ada.profile(kernel_set, between)
    if not profile then return nil, problem end
    profiles[ada.device .. "." .. kernel_set] = profile
  end
  local done, problem = add_layers(profiles)
  if not done then return nil, problem end
  return profiles
end

return M
