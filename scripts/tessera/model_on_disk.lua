-- The model that experiments on indicators look at: a real one where there is one, else a tiny one that ships.
--
-- TESSERA_WEIGHTS names a folder or .gguf file: export TESSERA_WEIGHTS=$(bash scripts/fetch_smollm2.sh). Beside it,
-- where they exist:
-- NAME.statistics.safetensors (scripts/activation_statistics.py --hessian) and NAME.loss.json
-- (scripts/loss_increase.py), NAME without a final .gguf.

local exists = require "tessera.files".exists
local host = require "tessera.host"

local M = {}

--- path, statistics and loss (nil where there is none), name and is_real.
function M.find()
  local named = os.getenv "TESSERA_WEIGHTS"
  local is_real = named ~= nil and named ~= ""
  local path = is_real and named or host.installation.experiments_dir .. "/indicator/data/tiny_llama"
  local stem = path:gsub("/+$", ""):gsub("%.gguf$", "")
  local function beside(suffix)
    local file = stem .. suffix
    return exists(file) and file or nil
  end
  return {
    path = path, is_real = is_real, name = stem:match "[^/]+$",
    statistics = beside ".statistics.safetensors", loss = beside ".loss.json",
  }
end

--- Why nothing can be said of a real model here.
M.none = "no real model: TESSERA_WEIGHTS names none; try export TESSERA_WEIGHTS=$(bash scripts/fetch_smollm2.sh)"

return M
