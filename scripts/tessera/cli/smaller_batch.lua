-- Where a batch does not fit: how many of its requests do, and what the whole takes in batches of so many.

local copy = require "tessera.shallow_copy"
local core = require "tessera.core"
local host = require "tessera.host"
local ts = require "tessera"

local most = 10 -- the largest batch that is tried is 2 to the power of it
local time_limit_s = 2 -- of each search

--- `why` there is no plan of a description of ts.problem, with what is said above where a smaller batch fits.
return function(description, planner, why)
  local whole = description.workload.batch_size
  if why.code ~= "infeasible" or not whole or whole < 2 then return why end
  local function planned(power)
    local smaller = copy(description)
    smaller.workload = copy(description.workload)
    smaller.workload.batch_size = 2 ^ power
    return (ts.plan(ts.problem(smaller), { planner = planner, time_limit_s = time_limit_s }))
  end
  local fits, above = -1, math.min(most, math.ceil(math.log(whole) / math.log(2)) - 1) + 1
  local best
  while above - fits > 1 do -- memory grows with the batch
    local power = math.max(math.floor((fits + above) / 2), 0)
    local plan = planned(power)
    if plan then best, fits = plan, power else above = power end
  end
  if not best then return why end
  local batches = math.ceil(whole / 2 ^ fits)
  local told = core.why(why.code, host.wrapped("stderr", ("%s\nA batch is in memory all at once. %d requests fit: "
    .. "--batch-size %d takes %s, so that %d requests take %s in %d such batches. As a stream, --rate in place of "
    .. "--batch-size, a server takes new ones as others end."):format(why.message, 2 ^ fits, 2 ^ fits,
    core.format_seconds(best.latency_s), whole, core.format_seconds(batches * best.latency_s), batches)))
  told.constraint = why.constraint
  return told
end
