-- The page of a plan: where its layers lie, what each stage holds and takes, who is busy when, and what else there is.

local core = require "tessera.core"
local cards_of = require "tessera.desk.page.cards"
local html = require "tessera.desk.report.html"
local map = require "tessera.desk.page.map"
local pictures = require "tessera.desk.report.pictures"
local pipeline = require "tessera.desk.picture.pipeline"
local rows_table = require "tessera.desk.page.rows_table"
local solver = require "tessera.solver"
local timeline = require "tessera.desk.picture.timeline"

local h = html.h
local M = {}

local most_timelines = 4

local function notes_of(plan)
  local items = {}
  for i, note in ipairs(plan.notes or {}) do items[i] = h("li", nil, note) end
  return #items > 0 and { h("h3", nil, "Notes"), h("ul", nil, items) } or nil
end

local function facts(plan, problem)
  local w = problem.workload
  return html.facts {
    { "model", problem.model and problem.model.name }, { "cluster", problem.cluster and problem.cluster.name },
    { "requests", w and ("a batch of %d, %g prompt and %g output tokens each"):format(w.batch_size, w.prompt_tokens,
      w.output_tokens) },
    { "latency", core.format_seconds(plan.latency_s) },
    { "throughput", ("%.4g tok/s"):format(plan.throughput_tok_s) },
    { "bits", ("%.3g in the mean"):format(plan.mean_bitwidth) },
    { "status", ("%s, by %s"):format(plan.status, plan.planner) },
    { "objective", plan.bound and plan.bound > 0 and ("%.4g, no plan has less than %.4g"):format(plan.objective,
      plan.bound) or nil },
    { "times are", plan.provenance },
  }
end

--- Sections that show where a plan lies and what it takes; nil for a plan without a cluster.
function M.map(plan, problem)
  if not plan.placement or not problem.cluster then return nil end
  local cards, places, nodes = {}, cards_of.places(problem.cluster)
  cards_of.of_plan(cards, plan, { first_engine = 1, engines = #plan.placement.engines })
  cards_of.add_idle(cards, problem.cluster, places)
  return h("section", nil, h("h2", nil, "Map"), map.draw(cards, nodes))
end

function M.pipeline(plan, problem)
  local data = plan:to_table()
  return h("section", nil, h("h2", nil, "Layers, memory and times of each stage"),
    pictures.of_picture(function(width) return pipeline.draw(data, problem.name, width) end))
end

-- A timeline for each of the first replicas.
local function timelines(plan)
  if plan.offload then return nil end
  local figures, pipelines = {}, plan.replicas or { plan }
  for i = 1, math.min(#pipelines, most_timelines) do
    local run = solver.simulate(pipelines[i])
    local data = run:to_table()
    data.timeline = run.timeline
    local title = #pipelines > 1 and ("replica %d of %d"):format(i, #pipelines) or "the batch"
    figures[#figures + 1] = pictures.of_picture(function(width)
      return timeline.draw(data, "Timeline of " .. title, width)
    end)
  end
  if #figures == 0 then return nil end
  return h("section", nil, h("h2", nil, "Who is busy when"), figures, #pipelines > most_timelines
    and h("p", { class = "muted" }, ("The first %d of %d replicas."):format(most_timelines, #pipelines)))
end

local function beside(rows)
  if not rows or #rows == 0 then return nil end
  return h("section", nil, h("h2", nil, "What people run today on the same problem"),
    rows_table("beside", "what people run", rows, { "planner", "latency_s", "throughput_tok_s", "bits", "omega",
      "speedup_equal_quality", "speedup", "note" }, "modelled"))
end

local function changes(rows)
  if not rows or #rows == 0 then return nil end
  return h("section", nil, h("h2", nil, "With other devices, planned anew"),
    rows_table("changes", "other devices", rows, { "change", "status", "latency_s", "latency_ratio", "omega",
      "usd_per_h" }, "modelled"))
end

--- { title, summary, sections } of a plan; `also`: beside and device_changes, as ts.beside and ts.device_changes give
--- them.
function M.page(plan, also)
  local problem = plan:problem()
  local sections = { h("section", nil, h("h2", nil, "Plan"), facts(plan, problem), notes_of(plan)) }
  for _, part in ipairs { M.map(plan, problem) or false, M.pipeline(plan, problem), timelines(plan) or false,
    beside(also.beside) or false, changes(also.device_changes) or false } do
    sections[#sections + 1] = part or nil
  end
  return {
    title = "Plan for " .. problem.name, sections = sections,
    summary = ("%s for the batch, %.4g tok/s"):format(core.format_seconds(plan.latency_s), plan.throughput_tok_s),
  }
end

return M
