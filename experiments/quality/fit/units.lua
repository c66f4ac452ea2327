-- How the rise of the loss, divergence and accuracy go together, what keys and values cost, and which layers and
-- matrices lose most: the rest of what datasets/quality holds, from the folder of measured data.

local data = require "quality.fit.data"
local levels = require "quality.fit.levels"
local csv = require "fidelity.fit.csv"
local measured = require "lib.measured"

local M = {}

local function by_group(rows, of)
  local groups, by_name = {}, {}
  for _, row in ipairs(rows) do
    local name = of(row)
    if not by_name[name] then
      by_name[name] = {}
      groups[#groups + 1] = { name = name, rows = by_name[name] }
    end
    table.insert(by_name[name], row)
  end
  return groups
end

local function median(values)
  table.sort(values)
  local n = #values
  if n % 2 == 1 then return values[(n + 1) / 2] end
  return (values[n / 2] + values[n / 2 + 1]) / 2
end
M.median = median

--- Median of ln ratio over divergence, and the factor within which 90 % of the rows are, models weighing the same.
function M.rise_per_kl()
  local rows, why = data.rises_per_divergence()
  if not rows then return nil, why end
  local values = {}
  for i, row in ipairs(rows) do values[i] = row.value end
  local middle, groups = median(values), by_group(rows, function(row) return row.family end)
  for _, group in ipairs(groups) do
    group.misses = {}
    for i, row in ipairs(group.rows) do group.misses[i] = math.log(row.value / middle) end
  end
  return { ratio = middle, spread = math.exp(levels.half_width(groups, 0.9)), rows = #rows, models = #groups }
end

-- Accuracy that a rise costs, both measured of one model, method and bitwidth: { family, rise, recovery }.
local function accuracy_pairs()
  local rises = {}
  for _, row in ipairs(data.rows().weights) do
    local key = row.model .. "|" .. row.method .. "|" .. row.bitwidth
    rises[key] = rises[key] or {}
    table.insert(rises[key], row.nats)
  end
  local pairs_of = {}
  for _, row in ipairs(data.accuracy_rows()) do
    local of_cell = rises[row.model .. "|" .. row.method .. "|" .. row.bitwidth]
    if of_cell then
      pairs_of[#pairs_of + 1] = { family = row.model, rise = median(of_cell), recovery = row.recovery,
        metric = row.metric }
    end
  end
  return pairs_of
end

-- Whether a recovery is inside of what a factor around `ratio` nats of accuracy per nat of loss allows, and 1 % beside.
local function recovers(pair, ratio, factor)
  local low = math.min(0.99, math.exp(-pair.rise * ratio * factor))
  local high = math.exp(-pair.rise * ratio / factor) + 0.01
  return pair.recovery >= low and pair.recovery <= high
end

--- -ln(recovery) over the rise: the median, and the factor that holds 90 % of the pairs.
function M.recovery_per_rise()
  local list, values, models = accuracy_pairs(), {}, {}
  for i, pair in ipairs(list) do
    values[i], models[pair.family] = -math.log(pair.recovery) / pair.rise, true
  end
  local ratio, num_models = median(values), 0
  for _ in pairs(models) do num_models = num_models + 1 end
  local factor = 1
  while factor < 100 do
    local inside = 0
    for _, pair in ipairs(list) do inside = inside + (recovers(pair, ratio, factor) and 1 or 0) end
    if inside >= 0.9 * #list then break end
    factor = factor * 1.02
  end
  return { ratio = ratio, spread = factor, rows = #list, models = num_models }
end

--- Keys and values: the level of each bitwidth (over models, not rows), and the spread of families left out.
function M.kv_cache()
  local rows, list = data.kv_rows(), {}
  for _, of_bits in ipairs(by_group(rows, function(row) return row.bitwidth end)) do
    local per_model = {}
    for i, of_model in ipairs(by_group(of_bits.rows, function(row) return row.model end)) do
      local logs = {}
      for k, row in ipairs(of_model.rows) do logs[k] = math.log(row.nats) end
      per_model[i] = median(logs)
    end
    list[#list + 1] = { bitwidth = of_bits.name, nats = math.exp(median(per_model)), rows = #of_bits.rows,
      models = #per_model }
  end
  table.sort(list, function(a, b) return a.bitwidth > b.bitwidth end)
  -- Caches of 2 bits come from methods that keep outliers apart, those of 3 not always: fewer bits never cost less.
  for i = 2, #list do list[i].nats = math.max(list[i].nats, list[i - 1].nats) end
  local level_of, families = {}, by_group(rows, function(row) return row.family end)
  for _, level in ipairs(list) do level_of[level.bitwidth] = level.nats end
  for _, family in ipairs(families) do
    family.misses = {}
    for i, row in ipairs(family.rows) do family.misses[i] = math.log(row.nats / level_of[row.bitwidth]) end
  end
  return { levels = list, spread = math.exp(levels.half_width(families, 0.9)), families = #families, rows = #rows }
end

-- Single tensors of a model and type, without what their logits' 16 bits make of nothing.
local function tensor_groups()
  local rows = {}
  for row in csv.rows(assert(measured.path "quality/tensor_kld.csv")) do
    local is_ternary = row.qtype:find "_bn$"
    if not is_ternary and tonumber(row.kld) then rows[#rows + 1] = row end
  end
  local groups = by_group(rows, function(row) return row.model .. "|" .. row.qtype end)
  for _, group in ipairs(groups) do
    local floor = math.huge
    for _, row in ipairs(group.rows) do floor = math.min(floor, tonumber(row.kld)) end
    for _, row in ipairs(group.rows) do row.loss = tonumber(row.kld) - floor end
    group.model = group.rows[1].model
  end
  return groups
end

-- Sums by layer, layer 0 first, each over the mean layer's.
local function by_layer(group)
  local sums, total, count = {}, 0, 0
  for _, row in ipairs(group.rows) do
    local layer = tonumber(row.layer)
    if layer then sums[layer], count = (sums[layer] or 0) + row.loss, math.max(count, layer + 1) end
  end
  for layer = 0, count - 1 do total = total + (sums[layer] or 0) end
  for layer = 0, count - 1 do sums[layer] = (sums[layer] or 0) * count / total end
  return sums, count
end

-- One value per model (the median of its types), and over models the median and range.
local function over_models(samples)
  local per_model = {}
  for i, of_model in ipairs(by_group(samples, function(sample) return sample.model end)) do
    local values = {}
    for k, sample in ipairs(of_model.rows) do values[k] = sample.value end
    per_model[i] = median(values)
  end
  local middle = median(per_model)
  return { ratio = middle, least = per_model[1], most = per_model[#per_model], models = #per_model }
end

--- What the last layer and each tenth of the layers lose, over the mean layer; GLM's last layer predicts tokens ahead
--- and stands for nothing else.
function M.depth()
  local last, tenths = {}, {}
  for _, group in ipairs(tensor_groups()) do
    local sums, count = by_layer(group)
    if not group.model:find "^GLM" then last[#last + 1] = { model = group.model, value = sums[count - 1] } end
    local sum, num = {}, {}
    for layer = 0, count - 1 do
      local tenth = math.floor(10 * layer / count) + 1
      sum[tenth], num[tenth] = (sum[tenth] or 0) + sums[layer], (num[tenth] or 0) + 1
    end
    for tenth = 1, 10 do
      tenths[tenth] = tenths[tenth] or {}
      table.insert(tenths[tenth], { model = group.model, value = sum[tenth] / num[tenth] })
    end
  end
  for tenth = 1, 10 do tenths[tenth] = over_models(tenths[tenth]) end
  return over_models(last), tenths
end

--- What a weight of each matrix costs, over the mean weight: roles that five models have.
function M.roles()
  local samples = {}
  for _, group in ipairs(tensor_groups()) do
    local loss, elements = 0, 0
    for _, row in ipairs(group.rows) do
      loss, elements = loss + row.loss, elements + (tonumber(row.elements) or 0)
    end
    for _, of_role in ipairs(by_group(group.rows, function(row) return row.role end)) do
      local own, size = 0, 0
      for _, row in ipairs(of_role.rows) do own, size = own + row.loss, size + (tonumber(row.elements) or 0) end
      if size > 0 then
        samples[#samples + 1] = { role = of_role.name, model = group.model, value = own / loss * elements / size }
      end
    end
  end
  local roles = {}
  for _, of_role in ipairs(by_group(samples, function(sample) return sample.role end)) do
    local found = over_models(of_role.rows)
    found.role = of_role.name
    if found.models >= 5 then roles[#roles + 1] = found end
  end
  table.sort(roles, function(a, b) return a.role < b.role end)
  return roles
end

--- The factor by which the sum of single tensors' divergences misses that of all at once: below 1.5 nats (plans are far
--- below), 90 % of the rows.
function M.additivity()
  local misses = {}
  for row in csv.rows(assert(measured.path "quality/additivity.csv")) do
    local all, ratio = tonumber(row.measured_kld_all_at_once), tonumber(row.ratio_high)
    if row.same_chunks == "1" and all < 1.5 then misses[#misses + 1] = math.log(ratio) end
  end
  return { spread = math.exp(levels.half_width({ { misses = misses } }, 0.9)), rows = #misses }
end

local fewest_recipes = 6

-- Recipes by model, those whose rise is above the noise of perplexities, 0.02 nats.
local function recipes_by_model()
  local rows = {}
  for row in csv.rows(assert(measured.path "quality/mixed_recipes.csv")) do
    local rise, sum = tonumber(row.ln_ratio), tonumber(row.sum_kld_predicted)
    if rise and sum and rise > 0.02 and sum > 0 then
      rows[#rows + 1] = { model = row.model, ratio = math.log(rise / sum) }
    end
  end
  return by_group(rows, function(row) return row.model end)
end

--- The factor by which mixed models miss the sum of their tensors' own losses, after one scale from the model's other
--- recipes: 90 % of a model's, the median over models.
function M.mixing()
  local widths, rows = {}, 0
  for _, group in ipairs(recipes_by_model()) do
    local count, sum, misses = #group.rows, 0, {}
    for _, row in ipairs(group.rows) do sum = sum + row.ratio end
    for i, row in ipairs(group.rows) do misses[i] = row.ratio - (sum - row.ratio) / (count - 1) end
    if count >= fewest_recipes then
      widths[#widths + 1], rows = levels.half_width({ { misses = misses } }, 0.9), rows + count
    end
  end
  return { spread = math.exp(median(widths)), rows = rows, models = #widths }
end

return M
