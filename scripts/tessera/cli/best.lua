-- `tessera results --best`: which cells of a sheet stand bold.

local core = require "tessera.core"
local grouped = require "tessera.grouped"
local published = require "tessera.desk.published"
local units = require "tessera.desk.units"

local M = {}

local function fail(flag, text) core.raise("usage", ("%s: %s"):format(flag, text), flag) end

local function place_of(page, name, flag)
  for c, column in ipairs(page.columns) do
    if column == name then return c end
  end
  fail(flag, ("the table has no column '%s'%s"):format(name, core.did_you_mean(name, page.columns)))
end

-- Columns by number with "lower" or "higher", of words "NAME", "NAME=lower" or "all".
local function directions(page, words)
  local result = {}
  for _, word in ipairs(words) do
    local name, said = word:match "^(.-)=(.*)$"
    name = name or word
    if said and said ~= "lower" and said ~= "higher" then
      fail("--best", ("'%s': lower or higher belongs behind ="):format(word))
    end
    if name == "all" and not said then
      for c, column in ipairs(page.columns) do
        if not published.split(column) then result[c] = result[c] or units.better(column) end
      end
    else
      local better = said or units.better(name)
      local place = place_of(page, name, "--best")
      if not better then
        fail("--best", ("whether '%s' should be low or high cannot be told from its name; say %s=lower or %s=higher")
          :format(name, name, name))
      end
      result[place] = better
    end
  end
  return result
end

-- Lines by number that stand together: those alike in the columns of `per`.
local function groups_of(page, per)
  local numbers = {}
  for l = 1, #page.lines do numbers[l] = l end
  return grouped(numbers, function(l)
    local parts = {}
    for i, c in ipairs(per) do parts[i] = tostring(page.lines[l][c]) end
    return table.concat(parts, "\31")
  end)
end

-- Marks the best numbers of a group, those that print like the best one too.
local function mark(page, c, better, group, marks)
  local best
  for _, l in ipairs(group) do
    local value = page.lines[l][c]
    if type(value) == "number" and (not best or (better == "lower" and value < best)
      or (better == "higher" and value > best)) then best = value end
  end
  for _, l in ipairs(group) do
    local value = page.lines[l][c]
    if best and type(value) == "number" and ("%.4g"):format(value) == ("%.4g"):format(best) then marks[l] = true end
  end
end

--- Sets page.best as --best and --best-per say.
function M.mark(page, given)
  if given.best_per and not given.best then fail("--best-per", "it belongs to --best") end
  if not given.best then return end
  local per = {}
  for i, name in ipairs(given.best_per or {}) do per[i] = place_of(page, name, "--best-per") end
  local groups = groups_of(page, per)
  page.best = {}
  for c, better in pairs(directions(page, given.best)) do
    page.best[c] = {}
    for _, group in ipairs(groups) do mark(page, c, better, group, page.best[c]) end
  end
end

return M
