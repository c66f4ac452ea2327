-- Why there is no fleet: which models lack what, and where nothing runs a model, what came nearest.

local core = require "tessera.core"

return function(found)
  local lack = found.lack or { models = {}, message = "no fleet serves the demand", kind = "devices" }
  local lines = { lack.message }
  for _, name in ipairs(lack.models) do
    local refused = found.refused[name] or ""
    if lack.kind == "column" and refused ~= "" then
      lines[#lines + 1] = ("  %s:%s"):format(name, (refused:gsub("\n", "\n  ")))
    end
  end
  local pricing = found.pricing
  if lack.least and pricing.simulated < pricing.shapes then
    lines[#lines + 1] = ("Of %d shapes %d were simulated, the others count at their bounds: it may take more."):format(
      pricing.shapes, pricing.simulated)
  end
  local why = core.why("infeasible", table.concat(lines, "\n"))
  why.constraint, why.models, why.have, why.least = lack.kind, lack.models, lack.have, lack.least
  return why
end
