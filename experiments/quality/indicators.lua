-- Which indicator orders mixed plans as the model itself does?
--
-- 100 random plans, each with 3, 4 and 8 bits in a third of the layers, so all of one mean bitwidth, are run on a text:
-- rise of the loss, and divergence from the model as it is. Every indicator predicts them by its sum over the layers;
-- the rank correlation says how well. All plans have the same counts, so the constant indicator, and with it memory,
-- says nothing here: to be worth anything, an indicator's interval must lie above 0. That is the papers' claim of the
-- variance (SplitQuant's Table V, LLM-PQ's Table 6), which they test on two plans.
--
-- Bounds were chosen before the first run; of SmolLM2 it was known from single layers that the variance orders them
-- badly at 4 bits (tessera man indicator). Rows are stored as they come, the layers of loss and divergence in the
-- output folder: Ctrl-C loses the point in flight at most.
local ts = require "tessera"
local indicators = require "lib.quality.indicators"
local measure = require "lib.quality.measure"
local plans = require "lib.quality.plans"
local study = require "lib.quality.study"
local subjects = require "lib.quality.subject"

local num_plans, num_quick_plans = 100, 20

-- Part "quick" is what a quick run has; indicators belong to it.
local points = {}
for _, model in ipairs { subjects.small, subjects.real } do
  for _, name in ipairs(indicators.names) do
    points[#points + 1] = { model = model, kind = "indicator", part = "quick", name = name }
  end
  for i = 1, num_plans do
    local part = i <= num_quick_plans and "quick" or "full"
    points[#points + 1] = { model = model, kind = "plan", part = part, name = ("plan %03d"):format(i) }
  end
end

local function indicator_row(name, subject, context)
  local omega, overhead_s = indicators.make(name, subject, context.output_dir, 1)
  local row = { overhead_s = overhead_s, omega = {} }
  for _, bitwidth in ipairs { 3, 4, 8 } do
    local list = {}
    for layer = 0, subject.num_layers - 1 do list[layer + 1] = omega(layer, bitwidth) end
    row.omega[tostring(bitwidth)] = list
  end
  return row
end

local function plan_row(name, subject)
  local bitwidths = plans.shuffled(subject.num_layers, { 3, 4, 8 }, tonumber(name:match "%d+"))
  local row = measure.row(subject, { bitwidths = bitwidths })
  row.bitwidths, row.mean_bitwidth = plans.text(bitwidths), plans.mean(bitwidths)
  return row
end

return ts.experiment {
  name = "quality/indicators",
  doc = "Indicators against the measured loss and divergence of random mixed plans of one mean bitwidth",
  seed = 1,
  grid = points,
  quick = { model = { subjects.small }, part = { "quick" } },
  columns = {
    "overhead_s", "bitwidths", "mean_bitwidth", "perplexity", "loss_increase_nats", "loss_increase_se", "kl_nats",
    "kl_se", "num_tokens", "note",
  },
  notes = measure.notes_and {
    indicators.notes[1], indicators.notes[2],
    "correlations: Spearman's rho over plans, in brackets 95 % of 1,000 bootstrap resamples; tau: Kendall's tau-b",
  },
  time_limit_s = 4 * 3600,

  run = function(point, context)
    local subject, why = subjects.find(point.model, context.quick)
    if not subject then return nil, why end
    if point.kind == "plan" then return plan_row(point.name, subject) end
    return indicator_row(point.name, subject, context)
  end,

  check = function(t)
    for _, model in ipairs { subjects.small, subjects.real } do study.expect(t, model) end
  end,
}
