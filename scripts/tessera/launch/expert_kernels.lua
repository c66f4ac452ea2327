-- Which kernels vLLM is told to run the experts of gpt-oss by, whose weights are in MXFP4: those that its kernel sets
-- are priced by (`mxfp4_dtype`). Told nothing it runs OpenAI's Triton kernels on Hopper, where that is Marlin, and
-- activations of 16 bits on data-centre Blackwell, where that is MXFP8; elsewhere it has Marlin alone. Read from the
-- packages of 0.14.0 (quantization/mxfp4.py), 0.24.0 and 0.33.0 (fused_moe/oracle/mxfp4.py, config/quantization.py).

local common = require "tessera.launch.common"
local versions = require "tessera.launch.vllm_versions"

local M = {}

local marlin = { flag = { "--moe-backend", "marlin" }, variable = { "VLLM_MXFP4_USE_MARLIN", 1 } }
local mxfp8 = {
  flag = { "--quantization-config", '{"moe":{"activation":"mxfp8"}}' },
  variable = { "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8", 1 },
}

-- Of all ranks of an engine one choice: Marlin runs on either.
local function kernels_of(engine)
  local any_hopper, all_blackwell = false, true
  for _, stage in ipairs(engine.stages) do
    local generation = common.backend(stage) == "cuda" and math.floor(stage.compute_capability)
    any_hopper, all_blackwell = any_hopper or generation == 9, all_blackwell and generation == 10
  end
  return any_hopper and marlin or all_blackwell and mxfp8 or nil
end

--- An option of `vllm serve`, else a variable where the version has no such option; both nil where vLLM's own choice is
--- what was priced.
function M.choice(layout, engine, version)
  local is_mxfp4 = layout.model.family == "gpt_oss" and not (layout.model.checkpoint_format or ""):find "^gguf"
  local kernels = is_mxfp4 and kernels_of(engine)
  if not kernels then return nil end
  if versions.has(version, kernels.flag[1]) then return kernels.flag end
  return nil, kernels.variable
end

return M
