-- Fits what plans say of quality to measured data and writes it as <out>/weights.json, int8.json, fp8.json,
-- kv_cache.json and units.json: coefficients, and with them the source, the number of rows and the error on what a fit
-- has not seen.
--
--   tessera run experiments/quality/fit_quality.lua -- datasets/quality
--
-- Without a folder it prints the tables and writes nothing. Run twice, it writes the same bytes.
local ts = require "tessera"
local core = require "tessera.core"
local sorted_keys = require "tessera.sorted_keys"
local data = require "quality.fit.data"
local families = require "quality.fit.families"
local levels = require "quality.fit.levels"
local units = require "quality.fit.units"

local function rounded(value) return tonumber(("%.4g"):format(value)) end

-- JSON with one entry of every list to a line. `fields`: { name, value } in order.
local function text_of(fields)
  local lines = {}
  for i, field in ipairs(fields) do
    local name, value = field[1], field[2]
    local text = core.to_json(value)
    if type(value) == "table" and type(value[1]) == "table" then
      local items = {}
      for k, item in ipairs(value) do items[k] = "    " .. core.to_json(item) end
      text = "[\n" .. table.concat(items, ",\n") .. "\n  ]"
    end
    lines[i] = ("  %s: %s"):format(core.to_json(name), text)
  end
  return "{\n" .. table.concat(lines, ",\n") .. "\n}\n"
end

local function levels_of(fit, rows)
  local count, list = {}, {}
  for _, row in ipairs(rows) do
    local key = row.method .. " " .. row.bitwidth
    count[key] = (count[key] or 0) + 1
  end
  for _, key in ipairs(sorted_keys(fit.levels)) do
    local method, bitwidth = key:match "^(%S+) (%d+)$"
    list[#list + 1] = { method = method, bitwidth = tonumber(bitwidth), nats = rounded(math.exp(fit.levels[key])),
      rows = count[key] }
  end
  return list
end

-- Every generation whose description is known; those that were measured with their effect.
local function generations_of(fit)
  local list = {}
  for _, each in ipairs(families.generations) do
    local effect = fit.generations[each.name]
    list[#list + 1] = {
      name = each.name, family = each.family, model_types = each.model_types, vocabulary = each.vocabulary,
      context_tokens = each.context, ratio = effect and rounded(math.exp(effect)) or nil,
    }
  end
  return list
end

local function models_of(fit, rows)
  local generation = {}
  for _, row in ipairs(rows) do generation[row.model:lower()] = row.generation end
  local list = {}
  for _, name in ipairs(sorted_keys(fit.models)) do
    list[#list + 1] = { name = name:lower(), generation = generation[name:lower()],
      ratio = rounded(math.exp(fit.models[name])) }
  end
  return list
end

-- Median of every generation, method and bitwidth as measured, for readers; what plans say comes from the levels.
local function medians_of(rows)
  local cells, order = {}, {}
  for _, row in ipairs(rows) do
    local key = ("%s %s %d"):format(row.generation, row.method, row.bitwidth)
    if not cells[key] then
      cells[key] = { generation = row.generation, method = row.method, bitwidth = row.bitwidth, values = {}, key = key }
      order[#order + 1] = cells[key]
    end
    table.insert(cells[key].values, row.nats)
  end
  table.sort(order, function(a, b) return a.key < b.key end)
  local list = {}
  for i, cell in ipairs(order) do
    local middle = units.median(cell.values)
    list[i] = { generation = cell.generation, method = cell.method, bitwidth = cell.bitwidth,
      median_nats = rounded(middle), least_nats = rounded(cell.values[1]),
      most_nats = rounded(cell.values[#cell.values]), rows = #cell.values }
  end
  return list
end

local fewest_left_out = 3

-- The factor of every grade, no narrower than that of a better one, and how many rows it holds. What fewer than three
-- stand behind has the factor of the grade below it.
local function bands_of(rows)
  local list, half_width = {}, 0
  for i = #levels.grades, 1, -1 do
    local held_out = levels.held_out(rows, levels.grades[i])
    if #held_out >= fewest_left_out then half_width = math.max(half_width, levels.half_width(held_out, 0.9)) end
    list[i] = { grade = levels.grades[i], left_out = #held_out, held_out = held_out, half_width = half_width }
  end
  local bands = {}
  for i, band in ipairs(list) do
    if band.left_out < fewest_left_out then band.half_width = list[i - 1].half_width end
    local inside, count = levels.coverage(band.held_out, band.half_width)
    bands[i] = { grade = band.grade, spread = rounded(math.exp(band.half_width)), left_out = band.left_out,
      rows = count, inside = count > 0 and rounded(inside) or nil }
  end
  return bands
end

local levels_source = "Rises of the loss (ln of the perplexity over that at 16 bits, same text), as published of "
  .. "whole models: tables of GPTQ, AWQ, EfficientQAT, RPTQ, LLM.int8, SmoothQuant, QServe, Marlin, torchao, "
  .. "Model-Optimizer, AutoRound, llama.cpp (MIT), and divergences of Thireus/GGUF-Tool-Suite (MIT) times the "
  .. "units' rise_per_kl. Only these coefficients are kept. fit_quality.lua says how."

local fp8_source = "Rises of the loss of a token (ln of the perplexity over that at 16 bits, same text), as torchao "
  .. "(BSD-3), AMD Quark and AMD's model cards publish them of whole models; the rows are in fit/fp8_rows.lua, "
  .. "fit_quality.lua says how they are fitted."

local function table_of(name, doc, rows, source)
  local fit = levels.fit(rows)
  return {
    { "name", name }, { "doc", doc }, { "source", source or levels_source }, { "rows", #rows },
    { "reference_parameters", 7e9 }, { "size_slope", rounded(fit.slope) },
    { "bands", bands_of(rows) }, { "levels", levels_of(fit, rows) }, { "generations", generations_of(fit) },
    { "models", models_of(fit, rows) }, { "medians", medians_of(rows) },
  }
end

local function rounded_all(entry)
  local copy = {}
  for key, value in pairs(entry) do copy[key] = type(value) == "number" and rounded(value) or value end
  return copy
end

local function rounded_list(list)
  local copy = {}
  for i, entry in ipairs(list) do copy[i] = rounded_all(entry) end
  return copy
end

local function kv_table()
  local kv = units.kv_cache()
  return {
    { "name", "kv_cache" },
    { "doc", "Rise of the loss by keys and values alone (nats), both at the bitwidth; spread: 90 % of families" },
    { "source", "llama.cpp (MIT), KVQuant, RPTQ and others' tables, in the folder of measured data; 5,120 tokens are "
      .. "too few and left out. 8 bits rest on two models" },
    { "rows", kv.rows }, { "spread", rounded(kv.spread) }, { "levels", rounded_list(kv.levels) },
  }
end

local function unit_table()
  local last, tenths = units.depth()
  return {
    { "name", "units" },
    { "doc", "Rise of the loss per nat of divergence; -ln(recovery of accuracy) per nat of rise; what the last layer "
      .. "and each tenth of the layers lose, over the mean layer; what a weight of each matrix costs, over the mean "
      .. "weight; how far sums of single tensors miss, "
      .. "and those of mixed models after one scale. spread: a factor that holds 90 %" },
    { "source", "Thireus/GGUF-Tool-Suite (MIT; single tensors at 1.6 to 2.6 bits), llama.cpp (MIT), AutoRound "
      .. "(Apache-2.0), EfficientQAT" },
    { "rise_per_kl", rounded_all(units.rise_per_kl()) },
    { "recovery_per_rise", rounded_all(units.recovery_per_rise()) },
    { "additivity", rounded_all(units.additivity()) }, { "mixing", rounded_all(units.mixing()) },
    { "last_layer", rounded_all(last) },
    { "tenths", rounded_list(tenths) }, { "roles", rounded_list(units.roles()) },
  }
end

local out = (arg or {})[1]
local rows, missing = data.rows()
if not rows then print(missing.message) return end
local tables = {
  weights = table_of("weights", "Rise of the loss (nats) of a model whose weights alone are rounded to integers, "
    .. "activations stay in 16 bits", rows.weights),
  int8 = table_of("int8", "Rise of the loss (nats) of a model with INT8 weights and activations", rows.int8),
  fp8 = table_of("fp8", "Rise of the loss (nats) of a model with FP8 weights (E4M3): alone; with activations, a scale "
    .. "per channel and token; a scale per tensor, found while running; the same from a calibration text (static)",
    rows.fp8, fp8_source),
  kv_cache = kv_table(), units = unit_table(),
}
for _, name in ipairs(sorted_keys(tables)) do
  local text = text_of(tables[name])
  if out then core.write_file(("%s/%s.json"):format(out, name), text) end
  for _, field in ipairs(tables[name]) do
    if field[1] == "bands" then
      print(name)
      print(ts.table(field[2], { columns = { "grade", "spread", "left_out", "rows", "inside" } }))
    end
  end
end
