-- Which layers a fingerprint has and how often each run repeats, by what is wanted of it: an error, or device time that
-- it may take. Extrapolating to L layers from l1 and l2 multiplies the noise of a run by about
-- sqrt((L - l1)^2 + (L - l2)^2) / (l2 - l1), 111 for 80 layers from 1 and 2 and 15 from 1 and 8; repeats divide it by
-- their square root. A few runs of one deployment tell the noise and what layers cost.

local core = require "tessera.core"
local extrapolate = require "tessera.configurations.extrapolate"

local M = {}

local path = "ts.fingerprint"
local least_repeats, most_repeats = 3, 1000
local most_layers = 16 -- of the larger fingerprint
local of_median = 1.2533 -- the standard error of a median, over that of a mean

--- How often the first look repeats.
M.pilot_repeats = 5

--- Of any fingerprint that is chosen.
function M.most_layers(num_layers) return math.min(num_layers, most_layers) end

-- A straight line through what a pilot found at its two numbers of layers.
local function line(pilot, field)
  local one, two = pilot[1], pilot[2]
  local slope = math.max(0, (two[field] - one[field]) / (two.num_layers - one.num_layers))
  return function(layers) return math.max(1e-300, one[field] + slope * (layers - one.num_layers)) end
end

-- Device time of all runs, once each; those of memory alone take no more than the others.
local function gpu_s_of(configurations, num_layers, opt, layers, per_run)
  local with = setmetatable({ fingerprint_layers = layers }, { __index = opt })
  local sum = 0
  for _, run in ipairs(extrapolate.runs(configurations, num_layers, with)) do
    sum = sum + per_run(run.num_layers) * run.tensor_parallel * run.pipeline_parallel
  end
  return sum
end

-- The standard error of a whole model's latency by one run at each of two numbers of layers, over the latency.
local function error_of_one(layers, num_layers, latency, noise_ratio)
  local share = (num_layers - layers[1]) / (layers[2] - layers[1])
  local one, two = (1 - share) * latency(layers[1]), share * latency(layers[2])
  return noise_ratio * math.sqrt(one ^ 2 + two ^ 2) / latency(num_layers)
end

-- Every pair of layers, with the least repeats for the error, or the most within the time.
local function candidates(pilot, configurations, num_layers, opt, left_s)
  local latency, per_run = line(pilot, "latency_s"), line(pilot, "gpu_s")
  local noise_ratio, list = math.max(pilot[1].noise_ratio, pilot[2].noise_ratio), {}
  local first = opt.fingerprint_layers[1]
  for second = first + 1, math.max(first + 1, M.most_layers(num_layers)) do
    local layers = { first, second }
    local once_s = gpu_s_of(configurations, num_layers, opt, layers, per_run)
    local one = of_median * error_of_one(layers, num_layers, latency, noise_ratio)
    local repeats = opt.max_error and math.ceil((one / opt.max_error) ^ 2) or math.floor(left_s / once_s)
    repeats = math.max(least_repeats, math.min(most_repeats, repeats))
    list[#list + 1] = { fingerprint_layers = layers, repeats = repeats, gpu_s = repeats * once_s,
      error_ratio = one / math.sqrt(repeats), noise_ratio = noise_ratio }
  end
  return list
end

local function least(list, field, fits)
  local best
  for _, one in ipairs(list) do
    if fits(one) and (not best or one[field] < best[field]) then best = one end
  end
  return best
end

--- What to run: { fingerprint_layers, repeats, gpu_s, error_ratio (of the latency), noise_ratio (of a run) }.
--- @param pilot the first look: two rows { num_layers, latency_s, gpu_s (of a run), noise_ratio }, which took spent_s
function M.choose(pilot, configurations, num_layers, opt, spent_s)
  local left_s = (opt.max_gpu_s or math.huge) - spent_s
  local list = candidates(pilot, configurations, num_layers, opt, left_s)
  local function in_time(one) return one.gpu_s <= left_s end
  local function exact(one) return not opt.max_error or one.error_ratio <= opt.max_error * (1 + 1e-9) end
  local found = least(list, opt.max_error and "gpu_s" or "error_ratio", function(one)
    return in_time(one) and exact(one)
  end)
  if found then return found end
  local cheapest = least(list, "gpu_s", exact)
  if not cheapest then
    core.raise("infeasible", ("%s.max_error: %.3g %% are out of reach: %d repeats of runs that spread by %.2g %% give "
      .. "%.2g %% at best"):format(path, 100 * opt.max_error, most_repeats, 100 * list[1].noise_ratio,
      100 * least(list, "error_ratio", function() return true end).error_ratio), path .. ".max_error")
  end
  core.raise("infeasible", ("%s.max_gpu_s: %s of devices are too few: the runs take %s (%d and %d layers, %d times%s), "
    .. "and the first look at noise took %s"):format(path, core.format_seconds(opt.max_gpu_s),
    core.format_seconds(cheapest.gpu_s), cheapest.fingerprint_layers[1], cheapest.fingerprint_layers[2],
    cheapest.repeats, opt.max_error and (" for an error of %.3g %%"):format(100 * opt.max_error) or "",
    core.format_seconds(spent_s)), path .. ".max_gpu_s")
end

return M
