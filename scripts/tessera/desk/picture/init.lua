-- ts.picture(thing, path): of a served run what waited, ran and came out over time; of a plan the pipeline, as an SVG,
-- PDF or PNG file. Layers run from left to right, one row per stage, each layer coloured by its bitwidth; below them
-- what the stage holds in memory, beside them what a micro-batch takes.

local budget = require "tessera.planning.budget"
local core = require "tessera.core"

core.document {
  name = "ts.picture",
  doc = "Writes a picture: of a plan its pipeline, with layers by bitwidth, memory by component and stage times, "
    .. "replicas below one another; of a served run what waited and ran, used blocks and tokens per second over time.",
  parameters = { { "thing", "tessera.Plan|tessera.Served", "Any plan, or what ts.serve gave" },
    { "path", "string", "File to write: PNG or PDF where it ends in .png or .pdf (made by rsvg-convert), else SVG" } },
}

local function drawn(thing)
  if getmetatable(thing) == "tessera.Served" then
    local served = require "tessera.desk.picture.served"
    local page = served.draw(served.data(thing), "served run")
    if not page then core.refuse("ts.picture.thing", "the run is too short to be drawn over time") end
    return page
  end
  budget.object(thing, "tessera.Plan", "ts.picture.thing")
  return require("tessera.desk.picture.pipeline").draw(thing:to_table(), thing:problem().name)
end

return function(thing, path)
  require "tessera.desk.picture.save"("ts.picture.path", path, { any_svg = true,
    svg = function() return drawn(thing):to_string() end })
end
