-- Claims over means: what `means = true` and `against` of a claim ask for.

local core = require "tessera.core"
local repeated = require "tessera.desk.repeated"
local comparing = require "tessera.desk.experiment.comparing"
local grid = require "tessera.desk.experiment.grid"

local M = {}

--- Options of every claim.
M.options = {
  means = { type = "boolean", doc = "Of an experiment with `over`: what is compared are means over the repetitions" },
  against = { type = "table", doc = "With means: of differences to the point with these values, in pairs" },
}

--- The same claims over means: points without the key of repetitions, each with its mean once all of them have run.
--- self: the claims of an experiment.
function M.of(self, against, path)
  local over = self.experiment.over
  if not over then core.refuse(path .. ".means", "the experiment names no key that counts repetitions (over)") end
  local found = setmetatable({}, { __index = self })
  found.keys, found.is_key, found.points, found.row_of, found.rows = {}, {}, {}, {}, {}
  for _, key in ipairs(self.keys) do
    if key ~= over then found.keys[#found.keys + 1], found.is_key[key] = key, true end
  end
  local complete = {}
  for _, group in ipairs(self:groups(self:cells(), { [over] = true })) do
    local point, is_whole = {}, true
    for _, key in ipairs(found.keys) do point[key] = group.cells[1].point[key] end
    for _, cell in ipairs(group.cells) do is_whole = is_whole and cell.row ~= nil end
    if not (against and comparing.is_member(point, against)) then found.points[#found.points + 1] = point end
    for _, cell in ipairs(is_whole and group.cells or {}) do complete[#complete + 1] = cell.row end
  end
  for _, row in ipairs(repeated(complete, over, against)) do
    found.rows[#found.rows + 1], found.row_of[core.to_json(row.point)] = row, row
  end
  return found
end

--- What a claim over them says of itself.
function M.text(self, against)
  return (", means over %s%s"):format(self.experiment.over,
    against and (" of differences to %s"):format(grid.text(against)) or "")
end

return M
