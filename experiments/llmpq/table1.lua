-- LLM-PQ, Table 1: layers differ in what they lose at 4 bits: the first third of the layers loses least.
--
-- OPT-1.3b and BLOOM-3b are not evaluated, since that takes their weights. The same question is asked of the model on
-- disk, which TESSERA_WEIGHTS names (else the small one that ships) and which runs with one third at 4 bits; and of the
-- models whose GPTQ errors the published logs have, a measured sensitivity: the error of each third of the layers at 4
-- bits. No plan is made, so kernels, memory and theta play no part.
local ts = require "tessera"
local indicator_rows = require "lib.papers.indicator_rows"
local thirds_on_disk = require "lib.papers.thirds_on_disk"
local gptq_errors = require "lib.papers.gptq_errors"

local paper = ts.paper "llmpq/table1.csv"
local thirds = {
  ["opt-13b"] = { "0-13", "13-26", "26-40" }, ["opt-30b"] = { "0-16", "16-32", "32-48" },
  ["opt-66b"] = { "0-21", "21-42", "42-64" }, ["bloom-176b"] = { "0-23", "23-46", "46-70" },
}
local logged = { "opt-13b", "opt-30b", "opt-66b", "bloom-176b" }

local points = {}
for _, point in ipairs(paper.points) do points[#points + 1] = point end
for _, point in ipairs(thirds_on_disk.points) do points[#points + 1] = point end
for _, model in ipairs(logged) do
  for _, layers in ipairs(thirds[model]) do points[#points + 1] = { model = model, layers = layers } end
end

return ts.experiment {
  name = "llmpq/table1",
  doc = "LLM-PQ, Table 1: which layers lose most at 4 bits",
  paper = paper,
  grid = points,
  columns = { "perplexity", "accuracy_percent", "gptq_error", "share", unpack(thirds_on_disk.columns) },
  quick = { model = { "opt-1.3b", "bloom-3b", thirds_on_disk.points[1].model, unpack(logged) } },
  notes = thirds_on_disk.notes_and {
    "gptq_error: of the named layers at 4 bits, summed, from the published logs; share: of all layers of the model",
  },

  run = function(point, context)
    local row, missing = thirds_on_disk.row(point, context)
    if row or missing then return row, missing end
    if not thirds[point.model] then
      return { status = "no_weights", note = indicator_rows.not_measured(point.model) }
    end
    local omega, why = gptq_errors.omega(ts.model(point.model))
    if not omega then return { status = why.code } end
    local first, last = point.layers:match "^(%d+)-(%d+)$"
    local sum, all = 0, 0
    for layer = 1, #omega do
      all = all + omega[layer][4]
      if layer > tonumber(first) and layer <= tonumber(last) then sum = sum + omega[layer][4] end
    end
    return { gptq_error = sum, share = sum / all }
  end,

  check = function(t)
    thirds_on_disk.expect(t)
    for _, model in ipairs(logged) do
      t:expect_that {
        text = "Later thirds lose more, as in print on OPT-1.3b and BLOOM-3b", where = { model = model },
        holds = function(at)
          local shares = {}
          for i, layers in ipairs(thirds[model]) do shares[i] = at { layers = layers }.share end
          return shares[1] < shares[2] and shares[2] < shares[3],
            ("%.2f, %.2f and %.2f of the error"):format(unpack(shares))
        end,
      }
    end
    t:expect_all {
      column = "status", equals = "done", where = { model = { "opt-1.3b", "bloom-3b" } },
      not_reproduced = "perplexity and accuracy take the models' weights and the data sets", here = "no_weights",
    }
  end,
}
