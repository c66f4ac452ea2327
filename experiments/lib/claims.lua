-- Claims on one number or word of an experiment's rows, in the words of print.

local M = {}

--- A claim on one number: value(at, rows) lies in [low, high]; where it does not here, miss = { why =, here = }.
function M.within(t, text, value, low, high, miss)
  t:expect_that {
    text = text, not_reproduced = miss and miss.why, here = miss and miss.here,
    holds = function(at, rows)
      local found = value(at, rows)
      return found >= low and found <= high, ("%.4g in [%g, %g]"):format(found, low, high), found
    end,
  }
end

--- A claim on a word: value(at, rows) is `printed`.
function M.same(t, text, value, printed, miss)
  t:expect_that {
    text = text, not_reproduced = miss and miss.why, here = miss and miss.here,
    holds = function(at, rows)
      local found = value(at, rows)
      return found == printed, ("%s, print %s"):format(found, printed), found
    end,
  }
end

return M
