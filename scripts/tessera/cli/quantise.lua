-- `tessera quantise`: a quantised copy of a model on disk, as ts.quantise_model writes it.

local core = require "tessera.core"
local group_size = require "tessera.models.group_size"
local host = require "tessera.host"
local on_disk = require "tessera.cli.on_disk"
local ts = require "tessera"

local M = {}

--- @param given table the flags; names: the model's folder
function M.main(given)
  local path = on_disk.path(given, "tessera quantise", 1)
  if (given.bitwidths == nil) == (given.plan == nil) then
    core.raise("usage", "give either --bitwidths or --plan", "--bitwidths")
  end
  local options = { model = path }
  for name, value in pairs(given) do
    if name ~= "names" then options[name] = value end
  end
  if given.bitwidths and #given.bitwidths == 1 then options.bitwidths = given.bitwidths[1] end
  if given.plan then options.plan = ts.load_plan(given.plan) end
  if not given.group_size and (given.granularity or "group") == "group" then
    local known, model = pcall(ts.model, path)
    options.group_size = known and group_size(model) or nil
  end
  local made = ts.quantise_model(options)
  if host.json then
    host.set_result(made:to_table())
  else
    print(made)
    local size = options.group_size
    if size ~= given.group_size then print(("  groups of %d input channels"):format(size)) end
  end
  return 0
end

return M
