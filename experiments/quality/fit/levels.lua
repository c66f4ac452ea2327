-- How far a model's loss rises at a bitwidth, from those of others:
--   ln nats = level of method and bitwidth + slope ln(size / 7e9) + effect of generation + effect of model + noise
-- Effects are shrunk towards 0 by half a generation and one number of a model, so that a generation with one model, or
-- a model with one number, is not taken at its word. Levels are means over models, not over rows: papers measure what
-- others have.
--
-- The band of a grade is what 90 % of the numbers stay within that a fit without them predicts, where a family (grade
-- unknown), a generation (family), a model (sibling) or a method of a model (measured) is left out at a time.

local student_t = require "tessera.models.student_t"

local M = {}

local normal_90 = 1.645 -- within which a normal deviate stays with probability 0.9

local slope_is_shrunk_by = 1

local function key_of(row) return row.method .. " " .. row.bitwidth end

local function mean(list)
  local sum = 0
  for _, value in ipairs(list) do sum = sum + value end
  return sum / #list
end

-- One number per model and method: the mean of the logarithms of its rows.
local function cells_of(rows)
  local cells, by_name = {}, {}
  for _, row in ipairs(rows) do
    local name = row.model .. "|" .. key_of(row)
    local cell = by_name[name]
    if not cell then
      cell = { model = row.model, generation = row.generation, family = row.family, level = key_of(row),
        size = math.log(row.params_b / 7), logs = {} }
      by_name[name], cells[#cells + 1] = cell, cell
    end
    cell.logs[#cell.logs + 1] = math.log(row.nats)
  end
  for _, cell in ipairs(cells) do cell.y = mean(cell.logs) end
  return cells
end

-- Sets effects[name] to the shrunk mean of what the cells of the name leave over.
local function refit(effects, cells, field, left_over, pseudo)
  local sums, counts = {}, {}
  for _, cell in ipairs(cells) do
    local name = cell[field]
    sums[name], counts[name] = (sums[name] or 0) + left_over(cell), (counts[name] or 0) + 1
  end
  for name, sum in pairs(sums) do effects[name] = sum / (counts[name] + pseudo) end
end

-- Effects of generations: over models, each with the mean of its cells.
local function refit_generations(effects, cells, left_over)
  local per_model, order = {}, {}
  for _, cell in ipairs(cells) do
    local model = per_model[cell.model]
    if not model then
      model = { generation = cell.generation, values = {} }
      per_model[cell.model], order[#order + 1] = model, model
    end
    model.values[#model.values + 1] = left_over(cell)
  end
  local sums, counts = {}, {}
  for _, model in ipairs(order) do
    local name = model.generation
    sums[name], counts[name] = (sums[name] or 0) + mean(model.values), (counts[name] or 0) + 1
  end
  for name, sum in pairs(sums) do effects[name] = sum / (counts[name] + 0.5) end
end

--- { levels, generations, models, slope }: logarithms. By turns until they stand still.
function M.fit(rows)
  local cells = cells_of(rows)
  local fit = { levels = {}, generations = {}, models = {}, slope = 0, family_of = {} }
  for _, cell in ipairs(cells) do
    fit.levels[cell.level], fit.generations[cell.generation], fit.models[cell.model] = 0, 0, 0
    fit.family_of[cell.generation] = cell.family
  end
  local function rest(cell, but)
    return cell.y - (but == "level" and 0 or fit.levels[cell.level])
      - (but == "generation" and 0 or fit.generations[cell.generation])
      - (but == "model" and 0 or fit.models[cell.model]) - (but == "slope" and 0 or fit.slope * cell.size)
  end
  for _ = 1, 200 do
    refit(fit.levels, cells, "level", function(cell) return rest(cell, "level") end, 0)
    refit(fit.models, cells, "model", function(cell) return rest(cell, "model") end, 1)
    refit_generations(fit.generations, cells, function(cell) return rest(cell, "generation") end)
    local product, square = 0, slope_is_shrunk_by
    for _, cell in ipairs(cells) do
      product = product + cell.size * rest(cell, "slope")
      square = square + cell.size ^ 2
    end
    fit.slope = product / square
  end
  return fit
end

-- Of a family, from the generations that the fit knows: their mean, shrunk; nil where it knows none.
function M.family_effect(fit, family)
  local sum, count = 0, 0
  for generation, effect in pairs(fit.generations) do
    if fit.family_of[generation] == family then sum, count = sum + effect, count + 1 end
  end
  return count > 0 and sum / (count + 0.5) or nil
end

--- ln nats that the fit predicts of a row at a grade; nil where it cannot.
function M.predict(fit, row, grade)
  local level = fit.levels[key_of(row)]
  if not level then return nil end
  local y = level + fit.slope * math.log(row.params_b / 7)
  if grade == "unknown" then return y end
  if grade == "family" then
    local effect = M.family_effect(fit, row.family)
    return effect and y + effect
  end
  local effect = fit.generations[row.generation]
  if not effect then return nil end
  if grade == "sibling" then return y + effect end
  local own = fit.models[row.model]
  return own and y + effect + own
end

M.grades = { "unknown", "family", "sibling", "measured" }

local left_out_by = {
  unknown = function(row) return row.family end,
  family = function(row) return row.generation end,
  sibling = function(row) return row.model end,
  measured = function(row) return row.model .. "|" .. key_of(row) end,
}

local function others_than(rows, name, of)
  local others = {}
  for _, row in ipairs(rows) do
    if of(row) ~= name then others[#others + 1] = row end
  end
  return others
end

--- What fits without each thing in turn miss: a list of { name, misses } (logarithms), by name.
function M.held_out(rows, grade)
  local of, groups, names = left_out_by[grade], {}, {}
  for _, row in ipairs(rows) do
    local name = of(row)
    if not groups[name] then groups[name], names[#names + 1] = {}, name end
    table.insert(groups[name], row)
  end
  table.sort(names)
  local result = {}
  for _, name in ipairs(names) do
    local fit, misses = M.fit(others_than(rows, name, of)), {}
    for _, row in ipairs(groups[name]) do
      local y = M.predict(fit, row, grade)
      if y then misses[#misses + 1] = math.log(row.nats) - y end
    end
    if #misses > 0 then result[#result + 1] = { name = name, misses = misses } end
  end
  return result
end

-- The least size that `share` of the weight is not above.
local function quantile(all, share)
  table.sort(all, function(a, b) return a.size < b.size end)
  local sum, total = 0, 0
  for _, each in ipairs(all) do total = total + each.weight end
  for _, each in ipairs(all) do
    sum = sum + each.weight
    if sum >= (share - 1e-9) * total then return each.size end
  end
end

-- How much wider a band has to be because few groups say how far groups are apart: Student's t over the normal
-- quantile for the next group's mean, on the part of the variance that lies between groups.
local function for_few(groups)
  local between, within, count = 0, 0, #groups
  if count < 2 then return 1 end
  for _, group in ipairs(groups) do
    local middle, square = mean(group.misses), 0
    for _, miss in ipairs(group.misses) do square = square + (miss - middle) ^ 2 end
    between, within = between + middle ^ 2 / count, within + square / #group.misses / count
  end
  local factor = student_t.within(0.9, count - 1) / normal_90 * math.sqrt(1 + 1 / count)
  return math.sqrt((between * factor ^ 2 + within) / (between + within))
end

--- The half width (a logarithm) that holds `share` of the misses, both with every group of the same weight and with
--- every miss; wider where the groups are few.
function M.half_width(groups, share)
  local by_group, by_miss = {}, {}
  for _, group in ipairs(groups) do
    for _, miss in ipairs(group.misses) do
      local size = math.abs(miss)
      by_group[#by_group + 1] = { size = size, weight = 1 / #group.misses }
      by_miss[#by_miss + 1] = { size = size, weight = 1 }
    end
  end
  return math.max(quantile(by_group, share), quantile(by_miss, share)) * for_few(groups)
end

--- Share of all misses inside of a half width, and the number of them.
function M.coverage(groups, half_width)
  local inside, count = 0, 0
  for _, group in ipairs(groups) do
    for _, miss in ipairs(group.misses) do
      count = count + 1
      if math.abs(miss) <= half_width then inside = inside + 1 end
    end
  end
  return inside / count, count
end

return M
