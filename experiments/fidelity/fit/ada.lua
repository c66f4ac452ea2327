-- Ada under `modern`: products of L40S as TensorRT-LLM runs them, in every dtype. Its attention is the RTX 4090's, the
-- same generation, and what lies between is the A100's, both by data sheet. Other boards of Ada take from here what was
-- not measured on them.
--
-- local ada = require "fidelity.fit.ada"; ada.profile("modern", between)

local ts = require "tessera"
local aiconfigurator, consumer = require "fidelity.fit.aiconfigurator", require "fidelity.fit.consumer"
local parts = require "fidelity.fit.parts"

local M = {}

M.device = "L40S"

-- Fitted once, or nil and why.
local fitted
local function products()
  if not fitted then
    local profile, why = aiconfigurator.profile(M.device)
    if not profile then return nil, why end
    fitted = profile
  end
  return fitted
end

local function is_of(kernel_set)
  local dtypes = {}
  for _, dtype in ipairs(aiconfigurator.dtypes[kernel_set]) do dtypes[dtype] = true end
  return function(part) return part.op ~= "gemm" or dtypes[part.dtype] end
end

-- L40S under a kernel set, or nil and why. `between`: the kernels between products, of A100.
function M.profile(kernel_set, between)
  local own, why = products()
  if not own then return nil, why end
  local of_4090, problem = consumer.fitted "RTX-4090"
  if not of_4090 then return nil, problem end
  local attention = parts.merged("RTX-4090", "modern", of_4090, function(part) return part.op == "attention" end)
  local function carried(donor) return ts.profile { device = M.device, kernel_set = "modern", donor = donor } end
  return parts.documented(
    parts.merged(M.device, kernel_set, { own, carried(attention), carried(between) }, is_of(kernel_set)),
    "Products of TensorRT-LLM; attention is the RTX 4090's and the kernels between are the A100's, by data sheet",
    aiconfigurator.source .. "; " .. consumer.source .. "; Vidur (MIT): the kernels between")
end

-- A board's profile with the products of other dtypes that a kernel set has, or nil and why.
function M.with_products(profile, device, kernel_set)
  local own, why = products()
  if not own then return nil, why end
  local carried = ts.profile { device = device, kernel_set = "modern", donor = own }
  local keep = is_of(kernel_set)
  local others = parts.merged(device, kernel_set, { carried },
    function(part) return part.dtype ~= "bfloat16" and keep(part) end)
  return parts.merged(device, kernel_set, { profile, others })
end

return M
