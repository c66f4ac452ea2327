-- `tessera indicator`: the sensitivity of every layer of a model on disk, as a table in the terminal and as a file.

local core = require "tessera.core"
local host = require "tessera.host"
local indicators = require "tessera.indicator"
local new_bar = require "tessera.bar"
local terminal = require "tessera.terminal"
local ts = require "tessera"
local units = require "tessera.desk.units"

local M = {}

local shades = { "·", "░", "▒", "▓", "█" }
local sparks = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }

-- One of `marks` for a value on a logarithmic scale; the first for 0.
local function mark_of(value, low, high, marks)
  if value <= 0 or high <= low then return marks[1] end
  local share = math.log(value / low) / math.log(high / low)
  return marks[math.min(math.floor(share * #marks) + 1, #marks)]
end

local function range_of(values)
  local low, high = math.huge, 0
  for _, value in ipairs(values) do
    if value > 0 then low, high = math.min(low, value), math.max(high, value) end
  end
  return low, high
end

--- omega[layer][bitwidth] with a shade on a logarithmic scale over the whole table, and its course over the layers.
function M.heatmap(indicator)
  local columns, all = {}, {}
  for b, bitwidth in ipairs(indicator.bitwidths) do
    columns[b] = indicator:omegas(bitwidth)
    for _, value in ipairs(columns[b]) do all[#all + 1] = value end
  end
  local low, high = range_of(all)
  local lines, heads, courses = {}, {}, {}
  for b, bitwidth in ipairs(indicator.bitwidths) do
    heads[b] = terminal.pad(("%d bits"):format(bitwidth), 12, true)
    local own_low, own_high = range_of(columns[b])
    for i, value in ipairs(columns[b]) do
      courses[b] = (courses[b] or "") .. mark_of(value, own_low, own_high, sparks)
      columns[b][i] = terminal.pad(("%s %9s"):format(mark_of(value, low, high, shades), units.number(value)), 12, true)
    end
  end
  lines[1] = "layer" .. table.concat(heads)
  for layer = 1, indicator.num_layers do
    local cells = { ("%5d"):format(layer - 1) }
    for b in ipairs(indicator.bitwidths) do cells[b + 1] = columns[b][layer] end
    lines[#lines + 1] = table.concat(cells)
  end
  lines[#lines + 1] = "\nover the layers:"
  for b, bitwidth in ipairs(indicator.bitwidths) do
    lines[#lines + 1] = ("%8s  %s"):format(("%d bits"):format(bitwidth), courses[b])
  end
  return table.concat(lines, "\n") .. "\n"
end

local function as_data(indicator)
  local omega = {}
  for layer = 0, indicator.num_layers - 1 do
    local row = {}
    for b, bitwidth in ipairs(indicator.bitwidths) do row[b] = indicator:omega(layer, bitwidth) end
    omega[layer + 1] = row
  end
  return {
    kind = indicator.kind, variant = indicator.variant, provenance = indicator.provenance, source = indicator.source,
    num_layers = indicator.num_layers, bitwidths = indicator.bitwidths, omega = omega,
    overhead_s = indicator.overhead_s, weights_s = indicator.weights_s, statistics_s = indicator.statistics_s,
  }
end

local function show(indicator)
  print(("%s\n%s\n"):format(tostring(indicator), indicator.source))
  terminal.say(M.heatmap(indicator))
  local parts = ""
  if indicator.weights_s + indicator.statistics_s > 0 then
    parts = (": %.3g s over the weights, %.3g s over the statistics"):format(
      indicator.weights_s, indicator.statistics_s)
  end
  print(("\ntook %.3g s%s"):format(indicator.overhead_s, parts))
end

--- @param given table the flags; names: the folder or file of the weights
function M.main(given)
  if #given.names ~= 1 then
    core.raise("usage",
      ("name one folder of a model, or one .gguf file; %d were named"):format(#given.names), "tessera indicator")
  end
  if given.out then indicators.check_replaceable(given.out) end
  local options = { model = given.names[1] }
  for name, value in pairs(given) do
    if name ~= "names" and name ~= "out" then options[name] = value end
  end
  options.kind = given.kind or "variance"
  local runs_model = options.kind == "loss" or options.kind == "divergence"
  if runs_model then options.out = given.out end -- where what is done is kept, too
  local draw, clear = new_bar()
  if draw and options.kind ~= "constant" and options.kind ~= "random" then -- these two do not look at the weights
    options.progress = function(done, total) draw(done, total, ("layer %d/%d"):format(done, total)) end
  end
  local ok, indicator = pcall(ts.indicator, options)
  clear()
  if not ok then error(indicator, 0) end
  if given.out and not runs_model then indicator:save(given.out) end
  if host.json then
    host.set_result(as_data(indicator))
  else
    show(indicator)
    if given.out then print(("written to %s, which --indicator of `tessera plan` takes"):format(given.out)) end
  end
  return 0
end

return M
