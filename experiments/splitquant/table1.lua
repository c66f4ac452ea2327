-- SplitQuant, Table I: what it costs to quantise the first, the middle or the last third of the layers to 4 bits.
--
-- Perplexity and accuracy need the models' weights: only the published figures are shown. What is computed of those
-- models is what the three choices have in common, their memory, and the omega that the default indicator gives them,
-- which knows no layer from another. Perplexity is measured on the model on disk, which TESSERA_WEIGHTS names (else the
-- small one that ships).
local ts = require "tessera"

local indicator_rows = require "lib.papers.indicator_rows"
local thirds_on_disk = require "lib.papers.thirds_on_disk"

local paper = ts.paper "splitquant/table1.csv"

-- The first and the last third.
local ends_of = { ["opt-1.3b"] = { "0-8", "16-24" }, ["bloom-3b"] = { "0-10", "20-30" } }

-- "8-16": the 0-based first layer of the range, and the layer after its last.
local function range_of(layers)
  local first, after = layers:match "^(%d+)-(%d+)$"
  return tonumber(first), tonumber(after)
end

local points = {}
for _, point in ipairs(paper.points) do points[#points + 1] = point end
for _, point in ipairs(thirds_on_disk.points) do points[#points + 1] = point end

-- The row of a model with the least (sign 1) or the most (-1) of a published column.
local function best_of(model, column, sign)
  local best
  for _, row in ipairs(paper.rows) do
    if row.point.model == model and (not best or sign * row[column] < sign * best[column]) then best = row end
  end
  return best.point.layers
end

return ts.experiment {
  name = "splitquant/table1",
  doc = "SplitQuant, Table I: the first, middle or last third of the layers at 4 bits",
  paper = paper,
  grid = points,
  columns = {
    "perplexity", "accuracy_percent", "num_layers", "omega", "layer_bytes", "fp16_layer_bytes",
    unpack(thirds_on_disk.columns),
  },
  notes = thirds_on_disk.notes_and {
    "Omega is raw, of the constant indicator, at 4 bits in the range and 16 bits elsewhere.",
    "Layers only, without embeddings. No plan is made: no kernel set, memory preset, theta or objective is in play.",
  },

  run = function(point, context)
    local row, missing = thirds_on_disk.row(point, context)
    if row or missing then return row, missing end
    local model = ts.model(point.model)
    local indicator = ts.indicator { model = model }
    local first, after = range_of(point.layers)
    local omega, bytes = 0, 0
    for layer = 0, model.num_layers - 1 do
      local bitwidth = layer >= first and layer < after and 4 or 16
      omega, bytes = omega + indicator:omega(layer, bitwidth), bytes + model:layer_bytes(bitwidth)
    end
    return {
      num_layers = model.num_layers, omega = omega, layer_bytes = bytes,
      fp16_layer_bytes = model.num_layers * model:layer_bytes(16), note = indicator_rows.not_measured(model.name),
    }
  end,

  check = function(t)
    thirds_on_disk.expect(t)
    for _, model in ipairs { "opt-1.3b", "bloom-3b" } do
      local ranges = ends_of[model]
      t:expect_that {
        text = "the ranges are thirds of all layers, and the first third is printed as the best in both measures",
        where = { model = model }, note = "print against print",
        holds = function(at)
          local _, last = range_of(ranges[2])
          local best = { best_of(model, "perplexity", 1), best_of(model, "accuracy_percent", -1) }
          return at { layers = ranges[1] }.num_layers == last and best[1] == ranges[1] and best[2] == ranges[1],
            ("%d layers; best perplexity %s, best accuracy %s"):format(last, best[1], best[2])
        end,
      }
      t:expect_that {
        text = "omega tells that the last third is more sensitive than the first",
        where = { model = model, layers = ranges },
        not_reproduced = "the constant indicator does not tell layers apart; llmpq/table1 asks a measured "
          .. "sensitivity of other models", here = { 0.999, 1.001 },
        holds = function(at)
          local first, last = at { layers = ranges[1] }.omega, at { layers = ranges[2] }.omega
          return last > first * (1 + 1e-9), ("%.4g against %.4g"):format(last, first), last / first
        end,
      }
    end
  end,
  plots = { { kind = "bars", x = "model", y = "layer_bytes", by = "layers" } },
}
