-- GPTQ's error per layer and bitwidth, as LLM-PQ's published logs have it for OPT-13b, 30b, 66b and BLOOM-176b: a
-- measured sensitivity, which stands in for an indicator computed from weights. Read from the measured data, see
-- lib.measured.

local core = require "tessera.core"
local measured = require "lib.measured"

local M = {}

local operators_per_layer = { opt = 6, bloom = 4 }

-- Sums over the operators of each layer: sums[bitwidth][layer], layers with an operator missing left out.
local function complete_layers(path, model)
  local sums, counts = {}, {}
  for line in core.read_file(path):gmatch "[^\r\n]+" do
    local name, layer, bitwidth, value = line:match "^([^,]+),(%d+),[^,]+,(%d+),([^,]+),"
    if name == model then
      layer, bitwidth = tonumber(layer), tonumber(bitwidth)
      sums[bitwidth], counts[bitwidth] = sums[bitwidth] or {}, counts[bitwidth] or {}
      sums[bitwidth][layer] = (sums[bitwidth][layer] or 0) + tonumber(value)
      counts[bitwidth][layer] = (counts[bitwidth][layer] or 0) + 1
    end
  end
  local wanted = operators_per_layer[model:match "^%a+"]
  for bitwidth, layers in pairs(counts) do
    for layer, count in pairs(layers) do
      if count ~= wanted then sums[bitwidth][layer] = nil end
    end
  end
  return sums
end

-- The value of a layer, between its neighbours on a logarithmic scale where it was not logged.
local function at(values, layer, num_layers)
  if values[layer] then return values[layer] end
  local below, above = layer, layer
  while below >= 0 and not values[below] do below = below - 1 end
  while above < num_layers and not values[above] do above = above + 1 end
  if below < 0 or above >= num_layers then return values[below] or values[above] end
  local share = (layer - below) / (above - below)
  return values[below] ^ (1 - share) * values[above] ^ share
end

--- omega[layer][bitwidth] (layers from 1) of a model for 3, 4, 8 and 16 bits, as the option `indicator` of ts.problem
--- takes it; nil and why where the data is not there.
function M.omega(model)
  local path, why = measured.path "llmpq/gptq_layer_errors.csv"
  if not path then return nil, why end
  local sums, omega = complete_layers(path, model.name), {}
  for layer = 0, model.num_layers - 1 do
    omega[layer + 1] = {}
    for _, bitwidth in ipairs { 3, 4, 8, 16 } do
      local value = sums[bitwidth] and at(sums[bitwidth], layer, model.num_layers)
      if not value then
        core.raise("not_found", ("%s has no layer of %s at %d bits"):format(path, model.name, bitwidth), path)
      end
      omega[layer + 1][bitwidth] = value
    end
  end
  return omega
end

--- The error of a model with these bitwidths, layer by layer; nil without the data.
function M.of(bitwidths, model)
  local omega, sum = M.omega(model), 0
  if not omega then return nil end
  for layer, bitwidth in ipairs(bitwidths) do sum = sum + omega[layer][bitwidth] end
  return sum
end

return M
