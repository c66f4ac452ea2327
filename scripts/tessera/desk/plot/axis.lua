-- Axes: where a value stands between 0 and 1, and the ticks that people read: multiples of 1, 2 and 5.

local units = require "tessera.desk.units"

local M = {}

-- Numbers closer than this are the same on an axis: its steps could not be told from 0.
local smallest = 1e-300

-- The least of 1, 2, 5 times a power of ten that is not below `step`.
local function nice_step(step)
  local power = 10 ^ math.floor(math.log10(step))
  for _, factor in ipairs { 1, 2, 5, 10 } do
    if factor * power >= step * (1 - 1e-9) then return factor * power end
  end
end

local function linear(low, high, num_ticks)
  local step = nice_step((high - low) / num_ticks)
  local first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
  local decimals = math.max(-math.floor(math.log10(step) + 1e-9), 0)
  local plain = ("%%.%df"):format(decimals)
  local axis = { low = first * step, high = last * step, ticks = {} }
  for i = first, last do
    local value = i * step
    local text = (math.abs(value) >= 1e4 or decimals > 4) and units.number(value) or plain:format(value)
    axis.ticks[#axis.ticks + 1] = { value = value, text = i == 0 and "0" or text }
  end
  function axis.at(value) return (value - axis.low) / (axis.high - axis.low) end
  return axis
end

-- The largest of 1, 2, 5 times a power of ten not above `value`, or with `up` the least not below.
local function round_to_125(value, up)
  local power = 10 ^ math.floor(math.log10(value) + 1e-12)
  local best
  for _, factor in ipairs { 1, 2, 5, 10 } do
    local candidate = factor * power
    if up and candidate >= value * (1 - 1e-9) then return candidate end
    if not up and candidate <= value * (1 + 1e-9) then best = candidate end
  end
  return best
end

local function log(low, high)
  low, high = round_to_125(low), round_to_125(high, true)
  if high <= low * 1.001 then low, high = low / 2, high * 2 end
  local axis = { low = low, high = high, log = true, ticks = {} }
  local first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
  local every = math.ceil((last - first) / 7)
  for power = first, last do
    for _, factor in ipairs(last - first <= 3 and { 1, 2, 5 } or { 1 }) do
      local value = factor * 10 ^ power
      if value >= low * (1 - 1e-9) and value <= high * (1 + 1e-9) and (power - first) % every == 0 then
        axis.ticks[#axis.ticks + 1] = { value = value, text = units.number(value) }
      end
    end
  end
  function axis.at(value) return math.log(value / low) / math.log(high / low) end
  return axis
end

--- An axis for numbers from low to high. options: log, zero (it must be on the axis), num_ticks.
function M.numbers(low, high, options)
  if options.log then return log(low, high) end
  -- Where zero is near, it belongs on the axis: differences then look as large as they are.
  if options.zero or (low > 0 and low < 0.4 * high) then low = math.min(low, 0) end
  if options.zero or (high < 0 and high > 0.4 * low) then high = math.max(high, 0) end
  if high - low <= math.max(1e-12 * math.max(math.abs(low), math.abs(high)), smallest) then
    local room = math.abs(low) <= smallest and 1 or 0.1 * math.abs(low)
    low, high = options.zero and low or low - room, high + room
  end
  return linear(low, high, options.num_ticks or 5)
end

--- An axis for words: category i has the band from (i - 1) / n to i / n.
function M.words(categories)
  local axis = { categories = categories, ticks = {} }
  for i, text in ipairs(categories) do axis.ticks[i] = { value = i, text = text } end
  function axis.at(index) return (index - 0.5) / #categories end
  return axis
end

return M
