-- ts.report(thing, path): an answer as one HTML file that stands alone, made by the builder of reports.

local budget = require "tessera.planning.budget"
local core = require "tessera.core"
local marks = require "tessera.desk.report.marks"
local options = require "tessera.options"
local shell = require "tessera.desk.report.shell"
local html = require "tessera.desk.report.html"

core.document {
  name = "ts.report",
  doc = "Writes a page that needs no network and no other file: of a plan its map of nodes and GPUs, layers by "
    .. "bitwidth, memory and times of stages and who is busy when; of a list of ts.plan_serving the best deployment's "
    .. "map, its latencies from idle to overload beside the limits, a run at its rate, the frontier and all others; "
    .. "of a served run what waited and ran, its latencies and its requests; of ts.execute what was predicted and "
    .. "measured; of a fleet its map, what was promised beside what a simulation of all of it answers, cost against "
    .. "attainment and what reserves and limits cost, for which other fleets are planned, each in about the time that "
    .. "it took. `tessera report` makes one of stored results.",
  parameters = {
    { "thing", "tessera.Plan|tessera.ServingPlans|tessera.Served|tessera.Fleet|table",
      "What ts.plan, ts.plan_serving, ts.serve, ts.plan_fleet or ts.execute gave" },
    { "path", "string", "File to write: HTML" },
    { "also", "table?", "What stands beside it: of a plan beside and device_changes, of a run plan" },
  },
}

local read_also = options.reader("ts.report.also", {
  beside = { type = "table" }, device_changes = { type = "table" }, plan = { type = "any" },
})

local function page_of(thing, also)
  local kind = getmetatable(thing)
  local is_object = type(thing) == "userdata"
  if is_object and kind == "tessera.Plan" then return require("tessera.desk.page.of_plan").page(thing, also) end
  if is_object and kind == "tessera.Served" then return require("tessera.desk.page.of_served").page(thing) end
  if type(kind) == "table" and kind.__name == "tessera.ServingPlans" then
    return require("tessera.desk.page.of_stream").page(thing)
  end
  if require("tessera.fleets.fleet").is(thing) then return require("tessera.desk.page.of_fleet").page(thing) end
  if type(thing) == "table" and type(thing.requests) == "table" and type(thing.stages) == "table" and thing.state then
    return require("tessera.desk.page.of_execution").page(thing, also)
  end
  core.refuse("ts.report.thing", ("what ts.plan, ts.plan_serving, ts.serve, ts.plan_fleet or ts.execute gave belongs "
    .. "here, not %s"):format(type(kind) == "string" and "a " .. kind or "a " .. type(thing)))
end

local function check_also(also)
  read_also(also)
  for _, name in ipairs { "beside", "device_changes" } do
    if also[name] then
      options.list(also[name], "ts.report.also." .. name, "a list of rows", options.item_of "table")
    end
  end
  if also.plan ~= nil then budget.object(also.plan, "tessera.Plan", "ts.report.also.plan") end
end

return function(thing, path, also)
  if type(path) ~= "string" or path == "" then core.refuse("ts.report.path", "name the file to write") end
  if also ~= nil then check_also(also) end
  local page = page_of(thing, also or {})
  core.write_file(path, shell { title = page.title, sections = page.sections, before = marks.key(),
    summary = html.h("p", { class = "summary" }, page.summary) })
end
