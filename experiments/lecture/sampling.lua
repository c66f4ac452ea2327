-- Token sampling: what temperature, top-k and top-p leave of a distribution.
--
-- Two sets of logits over eight tokens, one where a token stands out and one where none does, pass the filters of
-- lm:generate, the code that writes text here. Columns say how many tokens can still come, how surprising a token is
-- on average (entropy in nats: 0 is certain, ln 8 = 2.08 is anything), how far the filter is from its own definition,
-- computed here in Lua, and whether draws have the probabilities (Pearson's chi-square).
--
-- Bounds were chosen before the first run: definitions to 1e-6, as logits are kept in 32 bits; chi-square below its
-- quantile 1 - 1e-6.
local ts = require "tessera"
local chi_square = require "lecture.parts.chi_square"

local logits = {
  sharp = { 6, 3, 2, 1.5, 1, 0.5, 0, -1 },
  flat = { 1.2, 1.1, 1, 0.9, 0.8, 0.7, 0.6, 0.5 },
}
local shapes = { "sharp", "flat" }
local temperatures = { 0, 0.25, 0.5, 1, 2, 4, 16 }

local points = {}
for _, shape in ipairs(shapes) do
  local function add(filter, value) points[#points + 1] = { shape = shape, filter = filter, value = value } end
  for _, value in ipairs(temperatures) do add("temperature", value) end
  for _, value in ipairs { 1, 2, 4, 8 } do add("top_k", value) end
  for _, value in ipairs { 0.5, 0.9, 0.99 } do add("top_p", value) end
end

-- The definitions, without a look at the engine. Logits are in falling order, so what stays is the first of them.
local function softmax(list, temperature, kept)
  local weights, sum = {}, 0
  for i = 1, #list do
    weights[i] = i <= kept and math.exp((list[i] - list[1]) / temperature) or 0
    sum = sum + weights[i]
  end
  for i = 1, #list do weights[i] = weights[i] / sum end
  return weights
end

local function by_definition(list, filter, value)
  if filter == "temperature" then
    if value == 0 then return softmax(list, 1, 1) end
    return softmax(list, value, #list)
  end
  if filter == "top_k" then return softmax(list, 1, value) end
  local whole, kept, sum = softmax(list, 1, #list), 0, 0
  while sum < value do
    kept = kept + 1
    sum = sum + whole[kept]
  end
  return softmax(list, 1, kept)
end

local function entropy_of(probabilities)
  local nats = 0
  for _, p in ipairs(probabilities) do
    if p > 0 then nats = nats - p * math.log(p) end
  end
  return nats
end

local function kept_of(probabilities)
  local kept = 0
  for _, p in ipairs(probabilities) do
    if p > 0 then kept = kept + 1 end
  end
  return kept
end

return ts.experiment {
  name = "lecture/sampling",
  doc = "Temperature, top-k and top-p on a sharp and a flat distribution",
  seed = 1,
  grid = points,
  columns = { "tokens_left", "top_probability", "entropy_nats", "off_definition", "chi_square", "chi_square_bound" },
  notes = { "chi_square: of 1,000,000 draws (100,000 in a quick run) against the probabilities; bound: 1 - 1e-6" },

  run = function(point, context)
    local options = { logits = logits[point.shape], [point.filter] = point.value }
    local probabilities = ts.sampling.probabilities(options)
    options.seed, options.num_draws = context.seed % 2 ^ 40, context.quick and 1e5 or 1e6
    local _, counts = ts.sampling.draw(options)
    local statistic, degrees = chi_square.statistic(counts, probabilities)
    local off = 0
    for i, p in ipairs(by_definition(logits[point.shape], point.filter, point.value)) do
      off = math.max(off, math.abs(p - probabilities[i]))
    end
    return {
      tokens_left = kept_of(probabilities), top_probability = probabilities[1],
      entropy_nats = entropy_of(probabilities), off_definition = off,
      chi_square = statistic, chi_square_bound = chi_square.bound(degrees),
    }
  end,

  check = function(t)
    t:expect_all { column = "off_definition", at_least = 0, at_most = 1e-6 }
    t:expect_that {
      text = "draws have the probabilities",
      holds = function(_, rows)
        local worst = 0
        for _, row in ipairs(rows) do
          if row.chi_square > row.chi_square_bound then return false, ("%.1f"):format(row.chi_square) end
          worst = math.max(worst, row.chi_square / math.max(row.chi_square_bound, 1))
        end
        return worst > 0, ("at most %.2f of the bound"):format(worst)
      end,
    }
    for _, shape in ipairs(shapes) do
      t:expect_order { -- "Low: sharper, goes greedy. High: flatter, more diversity"
        column = "entropy_nats", by = "value", order = { 16, 4, 2, 1, 0.5, 0.25, 0 }, highest = true,
        where = { shape = shape, filter = "temperature" },
      }
      t:expect_that {
        text = "temperature 0 is certain, and 16 within 2 % of what eight equal tokens have",
        where = { shape = shape, filter = "temperature", value = { 0, 16 } },
        holds = function(at)
          local cold, hot = at { value = 0 }.entropy_nats, at { value = 16 }.entropy_nats / math.log(8)
          return cold == 0 and hot >= 0.98 and hot < 1, ("%g nats, %.4f of ln 8"):format(cold, hot)
        end,
      }
      t:expect_that { -- "K=1 is the same as argmax"
        text = "top_k leaves so many tokens, and one alone is what temperature 0 takes",
        where = { shape = shape, filter = { "top_k", "temperature" }, value = { 0, 1, 2, 4, 8 } },
        holds = function(at)
          for _, k in ipairs { 1, 2, 4, 8 } do
            local left = at { filter = "top_k", value = k }.tokens_left
            if left ~= k then return false, ("%g of %d"):format(left, k) end
          end
          local one, greedy = at { filter = "top_k", value = 1 }, at { filter = "temperature", value = 0 }
          return one.top_probability == 1 and greedy.top_probability == 1 and greedy.tokens_left == 1
        end,
      }
    end
    -- "Few tokens when distribution is sharp, many when flat": worked out by hand from the logits above.
    t:expect_that {
      text = "top_p .9 leaves 1 token of the sharp distribution and 7 of the flat one",
      where = { filter = "top_p", value = 0.9 },
      holds = function(at)
        local sharp, flat = at { shape = "sharp" }.tokens_left, at { shape = "flat" }.tokens_left
        return sharp == 1 and flat == 7, ("%g and %g"):format(sharp, flat)
      end,
    }
  end,
  plots = { {
    kind = "lines", x = "value", y = "entropy_nats", by = "shape", where = { filter = "temperature" },
  } },
}
