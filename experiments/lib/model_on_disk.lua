-- The model that experiments on weights look at: a real one where there is one, else the small one that ships.
--
-- TESSERA_WEIGHTS names a folder or .gguf file: export TESSERA_WEIGHTS=$(bash scripts/fetch_smollm2.sh). Statistics
-- (`tessera man statistics`) are NAME.statistics.safetensors beside it, where that exists; NAME without a final .gguf.

local exists = require "tessera.files".exists
local host = require "tessera.host"

local M = {}

--- path, statistics (nil where there are none), name, and is_real: whether it is another than the one that ships.
function M.find()
  local named = os.getenv "TESSERA_WEIGHTS"
  local is_real = named ~= nil and named ~= ""
  local path = is_real and named or host.installation.datasets_dir .. "/language_models/grammar-opt-5m"
  local stem = path:gsub("/+$", ""):gsub("%.gguf$", "")
  local statistics = stem .. ".statistics.safetensors"
  return {
    path = path, is_real = is_real, name = stem:match "[^/]+$", statistics = exists(statistics) and statistics or nil,
  }
end

return M
