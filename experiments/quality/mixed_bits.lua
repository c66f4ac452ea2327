-- SplitQuant, Table V; LLM-PQ, Table 6: which layers keep more bits, an indicator decides, at the same mean bitwidth.
--
-- The papers let each indicator make a plan of similar latency and compare perplexities, two plans each. Here nothing
-- but the choice of the layers differs: half of them have the wider of two bitwidths, those where the indicator says
-- that it saves most. "first" and "last" take the first or the last half; "worst" does the opposite of what the
-- divergence says, so best and worst tell how much there is to choose. Random rows are means over draws.
--
-- Bounds were chosen before the first run, from the printed perplexities: Random over SplitQuant is 10.33 / 10.31 on
-- cluster 7 and 11.04 / 10.75 on cluster 8, Hessian over SplitQuant 10.33 / 10.31 and 1.
local ts = require "tessera"
local indicators = require "lib.quality.indicators"
local measure = require "lib.quality.measure"
local plans = require "lib.quality.plans"
local subjects = require "lib.quality.subject"

local models = { subjects.small, subjects.real }
local num_draws = 5
local pairs_of_bits = { ["3-4"] = { 3, 4 }, ["4-8"] = { 4, 8 } }

-- Choices that take no indicator, as the gain of keeping a layer wide.
local positions = {
  first = function(layer, bitwidth) return layer * bitwidth end,
  last = function(layer, bitwidth) return -layer * bitwidth end,
}

local function omega_of(choice, subject, folder)
  if positions[choice] then return positions[choice] end
  if choice ~= "worst" then return (indicators.make(choice, subject, folder, 1)) end
  local best = indicators.make("divergence", subject, folder, 1)
  return function(layer, bitwidth) return -best(layer, bitwidth) end
end

local function random_row(subject, bits, seed)
  local rows = {}
  for draw = 1, num_draws do
    rows[draw] = measure.row(subject, { bitwidths = plans.shuffled(subject.num_layers, bits, seed + draw) })
  end
  return measure.mean_row(rows)
end

-- How one choice's perplexity compares with that of another.
local function expect_ratio(t, text, where, above, below, low, high, may_differ)
  t:expect_that {
    text = ("%s: %g to %g"):format(text, low, high), where = where, may_differ = may_differ,
    holds = function(at)
      local ratio = at { choice = above }.perplexity / at { choice = below }.perplexity
      return ratio >= low and ratio <= high, ("%.4f"):format(ratio)
    end,
  }
end

-- Its outliers are read by weights so small that 3 bits lose them as 4 do, and little is left to choose.
local rounded_away = "3 and 4 bits both round the outliers of this model away"
local other_models = "the papers show it for OPT-30b and OPT-66b, on a plan each"

return ts.experiment {
  name = "quality/mixed_bits",
  doc = "What indicators lose that choose layers at the same mean bitwidth, measured",
  seed = 1,
  grid = {
    model = models, bits = { "3-4", "4-8" },
    choice = {
      "random", "first", "last", "variance_weights_only", "variance", "hessian", "gptq_error", "measured", "relative",
      "divergence_short", "divergence", "worst",
    },
  },
  quick = {
    model = { subjects.small }, bits = { "3-4" }, choice = { "random", "variance", "hessian", "divergence", "worst" },
  },
  columns = {
    "bitwidths", "perplexity", "perplexity_increase", "loss_increase_nats", "loss_increase_se", "kl_nats", "kl_se",
    "num_draws", "kl_sd", "num_tokens", "note",
  },
  notes = measure.notes_and {
    indicators.notes[1], "random: means over num_draws draws, kl_sd between them; worst: the divergence upside down",
  },
  time_limit_s = 4 * 3600,

  run = function(point, context)
    local subject, why = subjects.find(point.model, context.quick)
    if not subject then return nil, why end
    local bits = pairs_of_bits[point.bits]
    if point.choice == "random" then return random_row(subject, bits, context.seed % 2 ^ 20) end
    local omega = omega_of(point.choice, subject, context.output_dir)
    local bitwidths = plans.chosen(subject.num_layers, bits[1], bits[2], omega)
    local row = measure.row(subject, { bitwidths = bitwidths })
    row.bitwidths = plans.text(bitwidths)
    return row
  end,

  check = function(t)
    for _, model in ipairs(models) do
      for bits in pairs(pairs_of_bits) do
        local function where(...) return { model = model, bits = bits, choice = { ... } } end
        expect_ratio(t, "perplexity of random choices over the variance's", where("random", "variance"), "random",
          "variance", 1, 1.10, other_models)
        expect_ratio(t, "perplexity of the Hessian's choice over the variance's", where("hessian", "variance"),
          "hessian", "variance", 0.98, 1.02, other_models)
        t:expect_that {
          text = "the divergence's choice loses 0.3 to 0.95 of what random ones do",
          where = where("random", "divergence"), may_differ = model == subjects.small and rounded_away or nil,
          holds = function(at)
            local ratio = at { choice = "divergence" }.kl_nats / at { choice = "random" }.kl_nats
            return ratio >= 0.3 and ratio <= 0.95, ("%.2f"):format(ratio)
          end,
        }
        t:expect_that {
          text = "the worst choice loses 1.1 to 5 times as much as the divergence's",
          where = where("worst", "divergence"),
          holds = function(at)
            local ratio = at { choice = "worst" }.kl_nats / at { choice = "divergence" }.kl_nats
            return ratio >= 1.1 and ratio <= 5, ("%.2f"):format(ratio)
          end,
        }
      end
    end
  end,
  plots = { { kind = "bars", x = "choice", y = "kl_nats", by = "bits", where = { model = subjects.small } } },
}
