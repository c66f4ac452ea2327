-- How far a server is to be expected from its prediction, by the runs of experiments/fidelity/serving.
--
-- local intervals = require "fidelity.fit.intervals"
-- local list, missing = intervals.of_results "served.db"
--
-- Conformal by whole groups, a group being a model on a kind of GPU at a bitwidth in one experiment: the logarithm of
-- measured over predicted has its quantiles, each group counting alike, and the interval is stretched about the middle
-- until it holds four of five runs of a group that it has not seen, the mean over all groups left out one by one. How
-- often it holds is said of groups that neither the quantiles nor the stretch have seen.
-- Classes are told apart by kernel set, whether the very chip was measured, and bitwidth; where there are few groups,
-- by less.

local ts = require "tessera"

local M = {}

-- Of fidelity/serving, whose runs count.
M.experiments = { "accelmark", "blis", "field", "kubecon", "llama70b", "ray_pd", "silicon", "vllm_requests" }

local share, least_held, most_held = 0.8, 0.75, 0.95
local least_groups = 5 -- of a class
local most_stretch = 2.5 -- what needs more says nothing: a wider class does
local metrics = { { "tpot", "_s" }, { "ttft", "_s" }, { "request_rate", "_per_s" } }

-- From narrow to wide: the keys that a class has in common.
local levels = {
  { "kernel_set", "measured_chip", "bitwidth" },
  { "runtime", "measured_chip", "bitwidth" },
  { "runtime", "measured_chip" },
  { "runtime" },
  {},
}

-- The runs that count: { metric =, group =, log_ratio =, and the keys of classes }, of rows of the experiments.
local function errors_of(rows)
  local list = {}
  for _, row in ipairs(rows) do
    for _, metric in ipairs(metrics) do
      local name = metric[1] .. metric[2]
      local measured, predicted = row["measured_" .. name] or 0, row["predicted_" .. name] or 0
      local says = metric[1] ~= "request_rate" or not row.rate_is_offered
      if row.group and row.below_knee and not row.fitted and says and measured > 0 and predicted > 0 then
        list[#list + 1] = {
          metric = metric[1], group = row.group, log_ratio = math.log(measured / predicted),
          kernel_set = row.kernel_set, runtime = row.runtime, measured_chip = row.measured_chip,
          bitwidth = row.bitwidth,
        }
      end
    end
  end
  return list
end

-- Errors by group, and the groups' names.
local function by_group(errors)
  local groups, names = {}, {}
  for _, error in ipairs(errors) do
    if not groups[error.group] then
      groups[error.group] = {}
      names[#names + 1] = error.group
    end
    table.insert(groups[error.group], error.log_ratio)
  end
  table.sort(names)
  return groups, names
end

-- Quantiles where each group counts alike; `without` one.
local function quantiles(groups, names, without)
  local points, all = {}, 0
  for _, name in ipairs(names) do
    if name ~= without then
      all = all + 1
      for _, value in ipairs(groups[name]) do points[#points + 1] = { value, 1 / #groups[name] } end
    end
  end
  table.sort(points, function(a, b) return a[1] < b[1] end)
  return function(q)
    local sum = 0
    for _, point in ipairs(points) do
      sum = sum + point[2]
      if sum >= q * all - 1e-9 then return point[1] end
    end
    return points[#points][1]
  end
end

local function bounds(quantile, stretch)
  local low, middle, high = quantile((1 - share) / 2), quantile(0.5), quantile((1 + share) / 2)
  return middle - stretch * (middle - low), middle + stretch * (high - middle)
end

local function share_inside(values, low, high)
  local inside = 0
  for _, value in ipairs(values) do inside = inside + (value >= low and value <= high and 1 or 0) end
  return inside / #values
end

-- Share of a group's runs that the others' interval holds, the mean over groups.
local function held(groups, names, others, stretch)
  local sum = 0
  for _, name in ipairs(names) do sum = sum + share_inside(groups[name], bounds(others[name], stretch)) end
  return sum / #names
end

-- The least stretch that holds enough; nil where even the most does not.
local function stretch_of(groups, names)
  local others = {}
  for _, name in ipairs(names) do others[name] = quantiles(groups, names, name) end
  for step = 0, math.floor((most_stretch - 1) / 0.05 + 0.5) do
    local stretch = 1 + 0.05 * step
    if held(groups, names, others, stretch) >= share then return stretch end
  end
end

-- Share of the runs of groups that the whole procedure has not seen, stretch and all, over those whose others make an
-- interval.
local function held_unseen(groups, names)
  local sum, number = 0, 0
  for i, name in ipairs(names) do
    local others = {}
    for k, other in ipairs(names) do if k ~= i then others[#others + 1] = other end end
    local stretch = stretch_of(groups, others)
    if stretch then
      sum = sum + share_inside(groups[name], bounds(quantiles(groups, others), stretch))
      number = number + 1
    end
  end
  return number > 0 and sum / number or 0
end

local function rounded(value) return tonumber(("%.3g"):format(value)) end

-- The interval of a class, or nil where its groups are too few or too unlike: unseen ones have to be held about as
-- often as those that it is stretched for.
local function interval(errors)
  local groups, names = by_group(errors)
  local stretch = #names >= least_groups and stretch_of(groups, names)
  local held_ratio = stretch and held_unseen(groups, names) or 0
  if held_ratio < least_held or held_ratio > most_held then return nil end
  local low, high = bounds(quantiles(groups, names), stretch)
  return { low_ratio = rounded(math.exp(low)), high_ratio = rounded(math.exp(high)), num_groups = #names,
    num_runs = #errors, held_ratio = rounded(held_ratio) }
end

-- Errors of a metric by class.
local function classes_of(errors, metric, keys)
  local classes, order = {}, {}
  for _, error in ipairs(errors) do
    local words, of, is_there = {}, {}, true
    for i, key in ipairs(keys) do
      of[key], words[i] = error[key], tostring(error[key])
      is_there = is_there and error[key] ~= nil and error[key] ~= ""
    end
    if error.metric == metric and is_there then
      local name = table.concat(words, "|")
      if not classes[name] then
        classes[name] = { of = of, errors = {} }
        order[#order + 1] = name
      end
      table.insert(classes[name].errors, error)
    end
  end
  table.sort(order)
  return classes, order
end

-- "vllm, measured chips, 16 bits", "kernel set vllm_fp8, other chips, 8 bits"
local function words_of(of)
  if not of then return "any server" end
  local words = { of.kernel_set and "kernel set " .. of.kernel_set or of.runtime }
  if of.measured_chip ~= nil then words[#words + 1] = of.measured_chip and "measured chips" or "other chips" end
  if of.bitwidth then words[#words + 1] = of.bitwidth .. " bits" end
  return table.concat(words, ", ")
end

-- Of each metric the narrow classes first, as the first that fits holds.
local function fit(errors)
  local list = {}
  for _, metric in ipairs(metrics) do
    for _, keys in ipairs(levels) do
      local classes, order = classes_of(errors, metric[1], keys)
      for _, name in ipairs(order) do
        local found = interval(classes[name].errors)
        if found then
          found.metric, found.of = metric[1], #keys > 0 and classes[name].of or nil
          found.name = words_of(found.of)
          list[#list + 1] = found
        end
      end
    end
  end
  return list
end

--- Intervals as datasets/intervals has them, of the rows in a results file; nil and the experiment that it lacks.
function M.of_results(db)
  local rows = {}
  for _, name in ipairs(M.experiments) do
    local stored = ts.results("fidelity/serving/" .. name, { db = db }):rows()
    if #stored == 0 then return nil, "fidelity/serving/" .. name end
    for _, row in ipairs(stored) do rows[#rows + 1] = row end
  end
  return fit(errors_of(rows))
end

return M
