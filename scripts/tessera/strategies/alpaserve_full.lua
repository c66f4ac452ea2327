-- AlpaServe (full) of iServe (arXiv 2501.13111, section 8.6), the authors' extension of alpaserve over all schemes. The
-- paper compares the cost of profiling with it and shows no service; what it does with the schemes is not said.
-- Assumed: one scheme for all models, the one whose best placement scores most; of equal ones the first.

local ts = require "tessera"
local parallel_groups = require "tessera.serving.parallel_groups"

-- In the order of the first model's estimates.
local function schemes_of(models)
  local list, seen = {}, {}
  for _, row in ipairs(models[1].estimates) do
    if not seen[row.scheme] then
      seen[row.scheme], list[#list + 1] = true, row.scheme
    end
  end
  return list
end

return ts.register_strategy(parallel_groups.card {
  name = "alpaserve_full",
  doc = "The same over all schemes, one for all models; drops what would be late",
  drops = true,
  schemes = schemes_of,
})
