-- ts.picture(thing, path), as an SVG, PDF or PNG file. Of a served run what waited, ran and came out over time; of a
-- simulated batch who was busy when; of a plan the pipeline: layers run from left to right, one row per stage, each
-- layer coloured by its bitwidth; below them what the stage holds in memory, beside them what a micro-batch takes.

local budget = require "tessera.planning.budget"
local core = require "tessera.core"

core.document {
  name = "ts.picture",
  doc = "Writes a picture: of a plan its pipeline, with layers by bitwidth, memory by component and stage times, "
    .. "replicas below one another; of a served run what waited and ran, used blocks of all, tokens per second and the "
    .. "latencies of requests beside their limits, over time; "
    .. "of a run of ts.simulate which stage and link was busy when; of a fleet a map of its nodes.",
  parameters = { { "thing", "tessera.Plan|tessera.Served|tessera.Run|tessera.Fleet",
    "Any plan, or what ts.serve, ts.simulate or ts.plan_fleet gave" },
    { "path", "string", "File to write: PNG or PDF where it ends in .png or .pdf (made by rsvg-convert), else SVG" } },
}

local function needs(page, what)
  return page or core.refuse("ts.picture.thing", what)
end

local function drawn(thing)
  local kind = getmetatable(thing)
  if require("tessera.fleets.fleet").is(thing) then return require("tessera.desk.picture.fleet").draw(thing) end
  if kind == "tessera.Served" then
    local served = require "tessera.desk.picture.served"
    local run = served.data(thing)
    return needs(served.draw(run, served.title(run)), "the run is too short to be drawn over time")
  end
  if kind == "tessera.Run" then
    local data = thing:to_table()
    data.timeline = thing.timeline
    return needs(require("tessera.desk.picture.timeline").draw(data, "simulated batch"),
      "the run has no timeline: its plan has several replicas, or record is false")
  end
  budget.object(thing, "tessera.Plan", "ts.picture.thing")
  return require("tessera.desk.picture.pipeline").draw(thing:to_table(), thing:problem().name)
end

return function(thing, path)
  require "tessera.desk.picture.save"("ts.picture.path", path, { any_svg = true,
    svg = function() return drawn(thing):to_string() end })
end
