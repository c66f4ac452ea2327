-- The pictures of a run: its declared plots or the obvious ones, and the pipelines and timelines that its rows keep.

local columns_of = require "tessera.report.columns"
local data = require "tessera.plot.data"
local html = require "tessera.report.html"
local pipeline = require "tessera.picture.pipeline"
local plot = require "tessera.plot"
local rows = require "tessera.rows"
local units = require "tessera.units"
local store_module = require "tessera.store"
local timeline = require "tessera.picture.timeline"

local h = html.h
local M = {}

local max_facets, max_bars, max_pictures = 4, 60, 6

--- A picture that one Tab reaches; arrow keys then move through its marks.
local function figure(svg, caption)
  return h("figure", { class = "plot" }, h("div", {
    class = "box", tabindex = "0", role = "group", ["data-marks"] = true,
    ["aria-label"] = caption .. ". Arrow keys move through its values.",
  }, html.raw(svg)))
end

-- What `draw` returns; nil and why it cannot be drawn, in words for who reads the page. Our own errors say that; any
-- other comes from code that met what nobody writes, as a damaged file holds it.
local function attempt(draw)
  local ok, result = pcall(draw)
  if ok then return result end
  if type(result) ~= "table" then return nil, "what is stored of it is damaged, or of another program" end
  if result.code == "interrupted" then error(result, 0) end
  return nil, tostring(result)
end

local function drawn(spec, list)
  local copy = {}
  for key, value in pairs(spec) do copy[key] = value end
  copy.rows = list
  local svg, why = attempt(function() return plot(copy):svg(true) end)
  if svg then return figure(svg, spec.title or ("%s of %s"):format(spec.kind, spec.y or spec.x)) end
  return h("p", { class = "problem" }, "A plot of the declaration cannot be drawn: " .. why)
end

local function distinct(list, name)
  local seen, values = {}, {}
  for _, row in ipairs(list) do
    local word = data.word(rows.value(row, name))
    if not seen[word] then values[#values + 1] = word end
    seen[word] = true
  end
  return values
end

-- What a run is about: throughput where it has one, else the first returned column with a better end, else any number.
local function goal(list, names)
  for _, name in ipairs(names) do
    if name:find "_tok_s$" and columns_of.any_number(list, name) then return name end
  end
  for _, name in ipairs(names) do
    if units.better(name) and columns_of.any_number(list, name) then return name end
  end
  for _, name in ipairs(names) do
    if columns_of.any_number(list, name) then return name end
  end
end
M.goal = goal

local function default_spec(list, keys, y)
  local x, by = keys[1], keys[2]
  if #list == 0 or not x then return nil end
  local num_x, num_by = #distinct(list, x), by and #distinct(list, by) or 1
  if num_by > 12 then by, num_by = nil, 1 end
  local number = columns_of.any_number(list, x)
  if number and num_x > 2 then return { kind = "lines", x = x, y = y, by = by } end
  if num_x * num_by > max_bars then return { kind = "cdf", x = y, by = by } end
  return { kind = "bars", x = x, y = y, by = by }
end

-- One plot per combination of the keys beyond the second, as far as that can be looked at.
local function default_plots(list, keys, y)
  local facets, order = {}, {}
  for _, row in ipairs(list) do
    local parts = {}
    for i = 3, #keys do parts[#parts + 1] = ("%s %s"):format(keys[i], data.word(rows.value(row, keys[i]))) end
    local name = table.concat(parts, ", ")
    if not facets[name] then
      facets[name] = {}
      order[#order + 1] = name
    end
    table.insert(facets[name], row)
  end
  local result = {}
  for i, name in ipairs(order) do
    if i > max_facets then break end
    local spec = default_spec(facets[name], keys, y)
    if spec then
      if name ~= "" then spec.title = name end
      result[#result + 1] = drawn(spec, facets[name])
    end
  end
  if #order > max_facets then
    result[#result + 1] = h("p", { class = "muted" }, ("%d of %d combinations of %s are shown; declare plots to "
      .. "choose."):format(max_facets, #order, table.concat(keys, ", ", 3)))
  end
  return result
end

function M.plots(run, list)
  local declared = run.declaration.plots
  local result = {}
  if type(declared) == "table" and #declared > 0 then
    for i, spec in ipairs(declared) do result[i] = drawn(spec, list) end
    return result
  end
  local keys, names = columns_of.names(run, list)
  local y = goal(list, names)
  if not y then return {} end
  return default_plots(list, keys, y)
end

-- Rows with the best one first.
local function best_first(list, column)
  if not column then return list end
  local best, at
  local sign = units.better(column) == "higher" and -1 or 1
  for i, row in ipairs(list) do
    local value = row[column]
    if type(value) == "number" and (not best or sign * value < best) then best, at = sign * value, i end
  end
  if not at then return list end
  local order = { list[at] }
  for i, row in ipairs(list) do
    if i ~= at then order[#order + 1] = row end
  end
  return order
end

local function point_text(row, keys)
  local parts = {}
  for i, name in ipairs(keys) do parts[i] = ("%s %s"):format(name, data.word(row.point[name])) end
  return table.concat(parts, ", ")
end

local function draw_artefact(artefact, place)
  if artefact.kind == "plan" then return pipeline.draw(artefact.value, place) end
  if artefact.kind == "timeline" then return timeline.draw(artefact.value, "timeline of " .. place) end
end

local function pictures_of(store, run, row, place)
  local figures = {}
  for _, artefact in ipairs(store:artefacts(run.id, store_module.key(row.point))) do
    local picture, why = attempt(function()
      local page = draw_artefact(artefact, place)
      return page and figure(page:to_string(true), page.title)
    end)
    figures[#figures + 1] = picture or nil
    if why then
      figures[#figures + 1] = h("p", { class = "problem" }, ("'%s' cannot be drawn: %s"):format(artefact.name, why))
    end
  end
  return figures
end

--- Pipelines and timelines of the best row and the first others that have some.
function M.artefacts(store, run, list)
  local keys, names = columns_of.names(run, list)
  local result, more = {}, 0
  for _, row in ipairs(best_first(list, goal(list, names))) do
    if #result == max_pictures then
      more = #list - max_pictures
      break
    end
    local place = point_text(row, keys)
    local figures = pictures_of(store, run, row, place)
    if #figures > 0 then
      result[#result + 1] = h("details", { open = #result == 0, class = "picture" },
        h("summary", nil, #result == 0 and "Best: " .. place or place), figures)
    end
  end
  if more > 0 then
    result[#result + 1] = h("p", { class = "muted" }, ("Plans of the best and the first other rows are drawn, not of "
      .. "all %d."):format(#list))
  end
  return result
end

return M
