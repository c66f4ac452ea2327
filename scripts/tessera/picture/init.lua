-- ts.picture(plan, path): the pipeline as an SVG, PDF or PNG file. Layers run from left to right, one row per stage,
-- each layer coloured by its bitwidth; below them what the stage holds in memory, beside them what a micro-batch takes.

local budget = require "tessera.budget"
local core = require "tessera.core"

core.document {
  name = "ts.picture",
  doc = "Writes the plan's pipeline as a picture: layers by bitwidth, memory by component, stage times. Replicas stand "
    .. "below one another.",
  parameters = { { "plan", "tessera.Plan", "Any plan" },
    { "path", "string", "File to write: PNG or PDF where it ends in .png or .pdf (made by rsvg-convert), else SVG" } },
}

return function(plan, path)
  budget.object(plan, "tessera.Plan", "ts.picture.plan")
  require "tessera.picture.save"("ts.picture.path", path, { any_svg = true, svg = function()
    return require("tessera.picture.pipeline").draw(plan:to_table(), plan:problem().name):to_string()
  end })
end
