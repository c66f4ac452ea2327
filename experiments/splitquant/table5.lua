-- SplitQuant, Table V: plans made by the variance indicator, by the Hessian and by a random one.
--
-- On the paper's models the protocol is run with the indicators that need no weights: random draws, the constant one,
-- and the GPTQ error of LLM-PQ's published logs as a measured sensitivity; of variance and Hessian the published
-- figures are shown. On the model on disk, which TESSERA_WEIGHTS names (else the small one that ships), all are made
-- from its weights and statistics, on the same clusters with as little memory as suits its size
-- ("splitquant-8-scaled"). Theta is adjusted until the plans take about as long, and what they lose is judged by the
-- GPTQ error; the model on disk runs with the plan's bitwidths, and its perplexity and divergence are measured.
--
-- SplitQuant prints cluster 7 (4xT4 + 2xV100) for OPT-66b; LLM-PQ's Table 6 has the same numbers and prints its cluster
-- 6 (2xV100 + 2xA100). Both are run.
local ts = require "tessera"
local gptq_errors = require "lib.papers.gptq_errors"
local indicator_rows = require "lib.papers.indicator_rows"
local similar_latency = require "lib.papers.similar_latency"
local splitquant = require "lib.papers.splitquant"

local paper = ts.paper "splitquant/table5.csv"

local model_of, clusters, points = {}, {}, {}
for _, row in ipairs(paper.rows) do
  local cluster = row.point.cluster
  if not model_of[cluster] then
    clusters[#clusters + 1] = cluster
    for _, indicator in ipairs { "constant", "gptq_error" } do
      points[#points + 1] = { cluster = cluster, indicator = indicator }
    end
  end
  model_of[cluster] = row.model
  points[#points + 1] = row.point
end
for _, point in ipairs(indicator_rows.points(clusters)) do points[#points + 1] = point end

-- The indicator of a point as ts.problem takes it, or nil and why there is none.
local function indicator_of(name, model, seed)
  if name == "variance" or name == "hessian" then return nil, { code = "no_weights" } end
  if name == "gptq_error" then return gptq_errors.omega(model) end
  return ts.indicator { kind = name, model = model, seed = seed }
end

local function ratio_of(cluster, above, below)
  local seconds = {}
  for _, row in ipairs(paper.rows) do
    if row.point.cluster == cluster then seconds[row.point.indicator] = row.overhead_s end
  end
  return seconds[above] / seconds[below]
end

return ts.experiment {
  name = "splitquant/table5",
  doc = "SplitQuant, Table V: effectiveness of the variance indicator",
  paper = paper, seed = 1,
  grid = points,
  quick = { cluster = { "splitquant-8", "splitquant-8-scaled" }, indicator = { "hessian", "random" } },
  columns = indicator_rows.columns,
  time_limit_s = 1200,
  notes = indicator_rows.notes_and(splitquant.notes_and(
    "theta in seconds per normalised omega: the largest whose plan takes at most 1.1 of the fastest plan's time",
    "OPT's Hessian and variance need its weights (status no_weights)",
    "gptq_error: of the plan's bitwidths, OPT's from the published logs; lower is better")),

  run = function(point, context)
    local unscaled = indicator_rows.unscaled(point.cluster)
    if unscaled then return indicator_rows.row(point.indicator, unscaled, context) end
    local model = ts.model(model_of[point.cluster])
    local note = indicator_rows.not_measured(model.name)
    local indicator, why = indicator_of(point.indicator, model, context.seed)
    if not indicator then return { status = why.code, model = model.name, note = note } end
    local problem = splitquant.problem(point.cluster, { model = model, indicator = indicator, theta = 0 })
    local plan, theta = similar_latency.plan(problem, context.quick and 4 or nil)
    local row = splitquant.row(problem, plan)
    row.theta, row.gptq_error, row.note = theta, similar_latency.gptq_error(plan, model), note
    return row
  end,

  check = function(t)
    similar_latency.expect_informed(t, clusters)
    indicator_rows.expect(t, clusters)
    for _, case in ipairs { { "splitquant-8", "72.69" }, { "splitquant-7", "58.15" } } do
      t:note(("printed seconds of the Hessian over those of the variance, %s; %s is printed"):format(case[1], case[2]),
        ("%.2f"):format(ratio_of(case[1], "hessian", "variance")))
    end
    t:expect_all {
      column = "status", equals = "optimal", where = { cluster = clusters, indicator = { "variance", "hessian" } },
      not_reproduced = "indicators made from weights need weights; their perplexities are the published ones",
        here = "no_weights",
    }
  end,
  plots = { { kind = "bars", x = "cluster", y = "latency_s", by = "indicator" } },
}
