-- ts.picture(plan, path): the pipeline as an SVG or PNG file. Layers run from left to right, one row per stage, each
-- layer coloured by its bitwidth; below them what the stage holds in memory, beside them what a micro-batch takes.

local core = require "tessera.core"
local pipeline = require "tessera.picture.pipeline"
local save = require "tessera.picture.save"

core.document {
  name = "ts.picture",
  doc = "Writes the plan's pipeline as a picture: layers by bitwidth, memory by component, stage times. Replicas stand "
    .. "below one another.",
  parameters = { { "plan", "tessera.Plan", "Any plan" },
    { "path", "string", "File to write: PNG where it ends in .png (made by rsvg-convert), else SVG" } },
}

return function(plan, path)
  if getmetatable(plan) ~= "tessera.Plan" then
    core.raise("invalid_argument", "ts.picture.plan: a plan belongs here, not a " .. type(plan), "ts.picture.plan")
  end
  save("ts.picture.path", path, { any_svg = true, svg = function()
    return pipeline.draw(plan:to_table(), plan:problem().name):to_string()
  end })
end
