-- When speculative decoding pays: while decode waits for memory, and less and less as the batch grows.
--
-- A decode step takes 6 ms and 0.02 ms for each token in it, drafting a token 0.4 ms and 0.002 ms for each request
-- (an 8B model with a draft a fifteenth of its time; chosen, not measured). With acceptance a, g drafts make steps of
-- E = (1 - a^(g+1)) / (1 - a) tokens. Verifying them costs g tokens more per request whether they pass or not, so
-- that there is a batch beyond which speculation loses: B* = (t_f (E - 1) - g d_f) / (t_c (g + 1 - E) + g d_c).
--
-- The lecture says that decode is memory-bound, so that verification is as good as free; here is where that ends.
-- Bounds were worked out by hand before the first run.
local ts = require "tessera"

local times = {
  base_s = 6e-3, per_token_s = 0.02e-3, draft_base_s = 0.4e-3, draft_per_sequence_s = 0.002e-3,
}

local function gain(point, batch_size)
  local options = { acceptance = point.acceptance, num_tokens = point.num_tokens, batch_size = batch_size }
  for name, value in pairs(times) do options[name] = value end
  return ts.speculative.break_even_batch(options)
end

return ts.experiment {
  name = "lecture/speculative_gain",
  doc = "Tokens per step, break-even batch and speed-up of speculative decoding",
  grid = { acceptance = { 0.3, 0.5, 0.7, 0.9 }, num_tokens = { 1, 3, 5 } },
  columns = { "tokens_per_step", "break_even_batch", "speed_up_1", "speed_up_64", "speed_up_256" },
  notes = { "speed_up_N: tokens per second over those without speculation, N requests at once" },

  run = function(point)
    local batch, alone = gain(point, 1)
    local tokens = ts.speculative.expected_tokens { acceptance = point.acceptance, num_tokens = point.num_tokens }
    return {
      tokens_per_step = tokens, break_even_batch = batch, speed_up_1 = alone, speed_up_64 = select(2, gain(point, 64)),
      speed_up_256 = select(2, gain(point, 256)),
    }
  end,

  check = function(t)
    for _, by_hand in ipairs { { 1, 475, 1.59 }, { 3, 226, 2.09 }, { 5, 136, 2.18 } } do
      local g, batch, speed_up = unpack(by_hand)
      local where = { acceptance = 0.7, num_tokens = g }
      t:expect_all { column = "break_even_batch", at_least = batch - 0.5, at_most = batch + 0.5, where = where }
      t:expect_all { column = "speed_up_1", at_least = speed_up - 0.005, at_most = speed_up + 0.005, where = where }
    end
    t:expect_order {
      column = "break_even_batch", by = "num_tokens", order = { 1, 3, 5 }, highest = true,
    }
    t:expect_that {
      text = "the speed-up is above 1 at 1, 64 and 256 requests exactly where the break-even batch is larger",
      holds = function(_, rows)
        for _, row in ipairs(rows) do
          for _, batch in ipairs { 1, 64, 256 } do
            local speed_up = row["speed_up_" .. batch]
            if (speed_up > 1) ~= (row.break_even_batch > batch) then
              return false, ("%.3f at %d"):format(speed_up, batch)
            end
          end
        end
        return true
      end,
    }
    t:expect_that {
      text = "the drafts that pay most at acceptance .7 are 5 for one request and 1 for 256",
      where = { acceptance = 0.7 },
      holds = function(at)
        local function best(column)
          local found
          for _, g in ipairs { 1, 3, 5 } do
            if not found or at { num_tokens = g }[column] > at { num_tokens = found }[column] then found = g end
          end
          return found
        end
        local alone, many = best "speed_up_1", best "speed_up_256"
        return alone == 5 and many == 1, ("%d and %d"):format(alone, many)
      end,
    }
  end,
  plots = { { kind = "lines", x = "acceptance", y = "break_even_batch", by = "num_tokens" } },
}
