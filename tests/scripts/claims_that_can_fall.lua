-- tessera claims_that_can_fall.lua RESULTS SCRIPT...: every claim of these experiments, on their stored rows, falls
-- when some of the rows change; a claim that nothing moves is about no data. Prints a line for each experiment.

package.path = arg[0]:match "^(.*)[/\\]" .. "/?.lua;" .. package.path
local overturn = require "overturn"
local store = require "tessera.store"

local file = store.open(arg[1], { read_only = true })

-- Rows of the newest run of an experiment.
local function rows_of(name)
  local rows
  for _, run in ipairs(file:runs()) do
    if run.experiment == name then rows = file:rows(run.id) end
  end
  return assert(rows, name .. " has not been run")
end

local num_constant = 0
for i = 2, #arg do
  local experiment = dofile(arg[i])
  if experiment.check then
    local judged, constant = overturn.of(experiment, rows_of(experiment.name)), {}
    for _, claim in ipairs(judged) do
      if not claim.by then constant[#constant + 1] = claim.text end
    end
    print(("%-28s %3d claims, %3d that data can overturn"):format(experiment.name, #judged, #judged - #constant))
    for _, text in ipairs(constant) do print("  never falls: " .. text) end
    num_constant = num_constant + #constant
  end
end
os.exit(num_constant == 0 and 0 or 1)
