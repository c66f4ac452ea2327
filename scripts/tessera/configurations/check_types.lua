-- check_types(row, where, fields): that a configuration which names types of GPUs has one for each stage, and that what
-- by_type says of them has these fields.

local core = require "tessera.core"
local options = require "tessera.options"

return function(row, where, fields)
  local types, of_type = row.device_types, row.by_type
  if types == nil and of_type == nil then return end
  options.list(types, where .. ".device_types", "a list of types of GPUs", options.item_of "string")
  if #types ~= row.pipeline_parallel then
    core.refuse(where .. ".device_types", ("%d types for %d stages; give one for each"):format(#types,
      row.pipeline_parallel))
  end
  if of_type == nil then return end
  options.plain(of_type, where .. ".by_type", "a table by type")
  for _, name in ipairs(types) do
    local own = ("%s.by_type.%s"):format(where, name)
    options.plain(of_type[name], own, "what the whole model takes on this type")
    for _, field in ipairs(fields) do options.number(of_type[name][field], ("%s.%s"):format(own, field)) end
  end
end
