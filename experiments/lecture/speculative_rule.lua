-- Speculative decoding: a draft model guesses, the target model decides, and the text is as if it had written alone.
--
-- Over three tokens A, B, C: the lecture's draft model q = (.2, .5, .3) and target model p = (.5, .3, .2), and other
-- draft models for the same target, down to one that never drafts A. Each step drafts and verifies by the code that
-- engines use. The first token of a step has to come with p whoever drafted; better draft models only make steps
-- longer.
--
-- Bounds were chosen before the first run: exact numbers to 1e-9, chi-square below its quantile 1 - 1e-6, tokens per
-- step within five standard errors. E, the expected tokens per step, is Leviathan et al.'s (1 - a^(g+1)) / (1 - a).
local ts = require "tessera"
local chi_square = require "lecture.parts.chi_square"

local paper = ts.paper "lecture/speculative_rule.csv"

local p = { 0.5, 0.3, 0.2 }
local drafts = {
  lecture = { 0.2, 0.5, 0.3 }, perfect = p, uniform = { 1 / 3, 1 / 3, 1 / 3 }, never_a = { 0, 0.6, 0.4 },
  certain_b = { 0, 1, 0 }, -- what an n-gram that says B is
}

local function copies(row, count)
  local list = {}
  for i = 1, count do list[i] = row end
  return list
end

-- Probabilities that a step accepts 0, 1, ... g drafts, each with the rate a.
local function accepted_law(rate, num_tokens)
  local law = {}
  for i = 0, num_tokens - 1 do law[i + 1] = rate ^ i * (1 - rate) end
  law[num_tokens + 1] = rate ^ num_tokens
  return law
end

local function exactly(counts_reaching, num_draws)
  local counts, above = {}, num_draws
  for i, reached in ipairs(counts_reaching) do
    counts[i], above = above - reached, reached
  end
  counts[#counts + 1] = above
  return counts
end

local function standard_error(law, num_draws)
  local mean, square = 0, 0
  for i, share in ipairs(law) do mean, square = mean + share * i, square + share * i * i end
  return math.sqrt(math.max(square - mean * mean, 0) / num_draws)
end

return ts.experiment {
  name = "lecture/speculative_rule",
  doc = "Drafts accepted, tokens per step and the distribution that comes out, by draft model",
  paper = paper,
  seed = 2,
  grid = { draft = { "lecture", "perfect", "uniform", "never_a", "certain_b" }, num_tokens = { 1, 4 } },
  columns = {
    "accept_a", "accept_b", "accept_c", "acceptance_rate", "residual_a", "tokens_per_step", "expected_tokens",
    "standard_error", "chi_square_output", "chi_square_accepted", "chi_square_simulated",
  },
  notes = {
    "of 1,000,000 steps (100,000 in a quick run); chi_square_output: first tokens against p, bound "
      .. ("%.1f"):format(chi_square.bound(2)) .. "; accepted: drafts per step; simulated: those of the generator that "
      .. "the serving simulator draws from",
    "accept_a is 0 of a draft model that never drafts A",
  },

  run = function(point, context)
    local q, g = drafts[point.draft], point.num_tokens
    local num_draws, seed = context.quick and 1e5 or 1e6, context.seed % 2 ^ 40
    local rule = ts.speculative.rule { q = q, p = p }
    local steps = ts.speculative.verify {
      q = copies(q, g), p = copies(p, g + 1), num_draws = num_draws, seed = seed,
    }
    local law = accepted_law(rule.acceptance_rate, g)
    local simulated = ts.speculative.accepted_drafts {
      acceptance = math.min(rule.acceptance_rate, 1), num_tokens = g, num_requests = num_draws / 100, num_steps = 100,
      seed = seed,
    }
    local accepted, degrees = chi_square.statistic(exactly(steps.accepted, num_draws), law)
    local off = 0
    for i, share in ipairs(rule.output) do off = math.max(off, math.abs(share - p[i])) end
    return {
      accept_a = rule.acceptance[1], accept_b = rule.acceptance[2], accept_c = rule.acceptance[3],
      acceptance_rate = rule.acceptance_rate, residual_a = rule.residual and rule.residual[1], off_target = off,
      tokens_per_step = steps.tokens_per_step, standard_error = standard_error(law, num_draws),
      expected_tokens = ts.speculative.expected_tokens { acceptance = rule.acceptance_rate, num_tokens = g },
      chi_square_output = chi_square.statistic(steps.counts[1], p), chi_square_accepted = accepted,
      chi_square_simulated = chi_square.statistic(simulated, law), accepted_bound = chi_square.bound(degrees),
    }
  end,

  check = function(t)
    for _, column in ipairs { "accept_a", "accept_b", "accept_c", "residual_a" } do
      t:expect_close { column = column, to = "paper", abs = 5e-4 } -- as the slide rounds
    end
    t:expect_that {
      text = "the lecture's drafts pass 7 times in 10, so that E of four drafts is 2.773",
      where = { draft = "lecture" },
      holds = function(at)
        local rate, tokens = at { num_tokens = 1 }.acceptance_rate, at { num_tokens = 4 }.expected_tokens
        return math.abs(rate - 0.7) < 1e-9 and math.abs(tokens - 2.773) < 5e-4, ("%.4f, %.4f"):format(rate, tokens)
      end,
    }
    t:expect_all { column = "off_target", at_least = 0, at_most = 1e-12 }
    t:expect_all { column = "chi_square_output", at_least = 0, at_most = chi_square.bound(2) }
    t:expect_that {
      text = "drafts pass as often as the acceptance says, verified and simulated",
      holds = function(_, rows)
        for _, row in ipairs(rows) do
          local worst = math.max(row.chi_square_accepted, row.chi_square_simulated)
          if not (worst >= 0 and worst <= row.accepted_bound) then
            return false, ("%.1f where %.1f is the bound"):format(worst, row.accepted_bound)
          end
        end
        return true
      end,
    }
    t:expect_that {
      text = "steps are as long as expected, to five standard errors",
      holds = function(_, rows)
        local worst = 0
        for _, row in ipairs(rows) do
          local off = math.abs(row.tokens_per_step - row.expected_tokens)
          if off > 5 * row.standard_error + 1e-9 then return false, ("%.5f off"):format(off) end
          worst = math.max(worst, off)
        end
        return true, ("at most %.5f off"):format(worst)
      end,
    }
    t:expect_order {
      column = "tokens_per_step", by = "draft", order = { "perfect", "uniform", "lecture", "never_a", "certain_b" },
      highest = true, where = { num_tokens = 4 },
    }
  end,
  plots = { { kind = "bars", x = "draft", y = "tokens_per_step", by = "num_tokens" } },
}
