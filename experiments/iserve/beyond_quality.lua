-- Beyond the paper: quality beside every gain. The paper excludes accuracy, and its intents take the schemes of fewest
-- bits. What each intent gains over the same intent in FP16, what is published of the perplexity of the scheme that it
-- takes, and what is left of the gain where perplexity may rise by 2 % at most, at the unfavourable end of what is
-- published.
--
-- Bounds were set before any run: from 16 to 4 bits memory falls by 70 % and time by 60 % where weights are all; at 8
-- bits both by half of that.
local iserve = require "lib.papers.iserve"
local ts = require "tessera"

local models = { "llama-2-7b", "llama-2-13b", "gpt-j-6b", "falcon-40b", "llama-2-70b" }
local value_of = { latency = "latency_s", cost = "cost_byte_s", gpu_hours = "gpu_s", memory = "memory_bytes" }
local bound = 0.02

local function of_scheme(rows, scheme)
  local kept = {}
  for _, row in ipairs(rows) do
    if row.scheme == scheme then kept[#kept + 1] = row end
  end
  return kept
end

local function best(rows, intent, max_perplexity_increase)
  return ts.intent({ minimise = intent, max_perplexity_increase = max_perplexity_increase }):rank(rows)[1]
end

-- "+1.6 to +11 %", or that nobody published it.
local function words(increase)
  if not increase then return "no source" end
  return ("%+.1f to %+.1f %%"):format(100 * increase.low, 100 * increase.high)
end

-- Nil where nobody published it.
local function mid(row) return row.perplexity_increase and row.perplexity_increase.mid end

return ts.experiment {
  name = "iserve/beyond_quality",
  doc = "What each intent gains, and what its scheme does to perplexity",
  grid = { model = models, intent = { "latency", "cost", "gpu_hours", "memory" } },
  quick = {},
  columns = { "taken", "gain_ratio", "perplexity", "perplexity_mid", "within", "gain_within_ratio",
    "perplexity_within" },
  notes = {
    "gain_ratio: what the intent minimises, 1 less taken over the best in FP16",
    ("within: the best whose published perplexity rises by at most %g %%"):format(100 * bound),
    "perplexity: low and high end of what is published of such weights and caches (datasets/quality)",
    "no source: of LLM-Pruner at half of the weights nothing is published here, so that no bound takes it",
  },

  run = function(point)
    local rows = iserve.estimates(point.model)
    local value, whole = value_of[point.intent], best(of_scheme(rows, "fp16"), point.intent)
    local free, held = best(rows, point.intent), best(rows, point.intent, bound)
    return {
      taken = iserve.name(free), gain_ratio = 1 - free[value] / whole[value],
      perplexity = words(free.perplexity_increase), perplexity_mid = mid(free),
      within = iserve.name(held), gain_within_ratio = 1 - held[value] / whole[value],
      perplexity_within = words(held.perplexity_increase),
    }
  end,

  check = function(t)
    local function ends(intent, column)
      return function(_, rows)
        local low, high = math.huge, -math.huge
        for _, row in ipairs(rows) do
          local value = row.point.intent == intent and row[column]
          if value then low, high = math.min(low, value), math.max(high, value) end
        end
        return low, high
      end
    end
    -- The least and the largest gain over the models lie in a range.
    local function between(text, intent, column, low, high, miss)
      for i, word in ipairs { "least", "largest" } do
        iserve.within(t, ("%s, %s over the models"):format(text, word), function(at, rows)
          return (select(i, ends(intent, column)(at, rows)))
        end, low, high, miss)
      end
    end
    local eight = "at TP 4 and 8, which this intent takes, weights are a part of a token's time: sums over PCIe and "
      .. "launches are the rest, and have no bits"
    between("latency: gain over FP16", "latency", "gain_ratio", 0.4, 0.75, { why = eight, here = { 0.2, 0.4 } })
    between("cost: gain over FP16", "cost", "gain_ratio", 0.6, 0.95)
    between("memory: gain over FP16", "memory", "gain_ratio", 0.5, 0.8)
    between("latency: gain with perplexity at most 2 % up", "latency", "gain_within_ratio", 0.2, 0.55,
      { why = eight, here = { 0.03, 0.2 } })
    between("cost: the same", "cost", "gain_within_ratio", 0.35, 0.8)
    between("memory: the same", "memory", "gain_within_ratio", 0.25, 0.55)
    between("perplexity of what the latency intent takes, mid", "latency", "perplexity_mid", 0.005, 0.15)
  end,
}
