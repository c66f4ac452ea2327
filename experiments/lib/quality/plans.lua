-- Bitwidths of every layer, as lists: by range, at random, and as an indicator chooses them.

local summary = require "lib.quality.summary"

local M = {}

--- The same bitwidth in every layer.
function M.uniform(num_layers, bitwidth)
  local list = {}
  for i = 1, num_layers do list[i] = bitwidth end
  return list
end

--- Layers [first, last) of the `index`-th of `count` ranges as equal as can be, from 0.
function M.range(num_layers, index, count)
  return math.floor((index - 1) * num_layers / count), math.floor(index * num_layers / count)
end

--- One range at `bitwidth`, all other layers at 16.
function M.of_range(num_layers, first, last, bitwidth)
  local list = M.uniform(num_layers, 16)
  for i = first + 1, last do list[i] = bitwidth end
  return list
end

--- Each of `bitwidths` in the same number of layers, the first ones in one more where they do not divide. Which layers
--- is drawn.
function M.shuffled(num_layers, bitwidths, seed)
  local list, draw = {}, summary.generator(seed)
  for i = 1, num_layers do list[i] = bitwidths[(i - 1) % #bitwidths + 1] end
  for i = num_layers, 2, -1 do
    local j = draw(i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end

--- Every layer drawn on its own, as the papers' mixed4-8 and mixed3-4.
function M.drawn(num_layers, bitwidths, seed)
  local list, draw = {}, summary.generator(seed)
  for i = 1, num_layers do list[i] = bitwidths[draw(#bitwidths)] end
  return list
end

--- The wider of two bitwidths in half of the layers, rounded down: in those where it saves most omega(layer, bitwidth),
--- layers from 0. Of equals the first.
function M.chosen(num_layers, narrow, wide, omega)
  local gains, order = {}, {}
  for i = 1, num_layers do
    gains[i], order[i] = omega(i - 1, narrow) - omega(i - 1, wide), i
  end
  table.sort(order, function(a, b)
    if gains[a] ~= gains[b] then return gains[a] > gains[b] end
    return a < b
  end)
  local list = M.uniform(num_layers, narrow)
  for k = 1, math.floor(num_layers / 2) do list[order[k]] = wide end
  return list
end

--- "3384..." of a list of bitwidths of one digit, and back.
function M.text(list) return table.concat(list) end

function M.list(text)
  local list = {}
  for digit in text:gmatch "%d" do list[#list + 1] = tonumber(digit) end
  return list
end

function M.mean(list) return summary.mean(list) end

return M
