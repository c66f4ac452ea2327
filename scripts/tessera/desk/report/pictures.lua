-- The pictures of a run: its declared plots or the obvious ones, and the pipelines and timelines that its rows keep.

local columns_of = require "tessera.desk.report.columns"
local data = require "tessera.desk.plot.data"
local html = require "tessera.desk.report.html"
local pipeline = require "tessera.desk.picture.pipeline"
local plot = require "tessera.desk.plot"
local units = require "tessera.desk.units"
local served = require "tessera.desk.picture.served"
local specs = require "tessera.desk.report.specs"
local store_module = require "tessera.store"
local svg = require "tessera.desk.picture.svg"
local timeline = require "tessera.desk.picture.timeline"

local h = html.h
local M = {}

local max_pictures = 6
local plot_width = 560 -- pixels: of two beside one another on a wide page

-- A drawing twice, of which report.css shows the one that there is room for. One Tab reaches it; arrow keys then move
-- through its marks.
local function figure(class, caption, wide, narrow)
  return h("figure", { class = class }, h("div", {
    class = "box", tabindex = "0", role = "group", ["data-marks"] = true,
    ["aria-label"] = caption .. ". Arrow keys move through its values.",
  }, h("div", { class = "wide" }, html.raw(wide)), h("div", { class = "narrow" }, html.raw(narrow))))
end

--- A plot as a figure.
function M.of_plot(made, caption)
  return figure("plot", caption, made:svg(true, plot_width), made:svg(true, svg.narrow_width))
end

--- A picture as a figure; draw(width): its page, by itself of the width that pictures have; nil where it draws none.
function M.of_picture(draw)
  local page = draw()
  return page and figure("picture", page.title, page:to_string(true), draw(svg.narrow_width):to_string(true)) or nil
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
  return attempt(function()
    return M.of_plot(plot(copy), spec.title or ("%s of %s"):format(spec.kind, spec.y or spec.x))
  end)
end

--- The plots of a run. In the place of declared ones that cannot be drawn stand why, and what suits the rows.
function M.plots(run, list)
  local result, refused = {}, false
  for _, spec in ipairs(specs.of(run, list)) do
    local picture, why = drawn(spec, list)
    refused = refused or not picture
    result[#result + 1] = picture or h("p", { class = "problem" },
      ("A plot of the declaration cannot be drawn: %s"):format(why))
  end
  for _, spec in ipairs(refused and specs.obvious(run, list) or {}) do
    result[#result + 1] = drawn(spec, list) or nil
  end
  return result
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

local function draw_artefact(artefact, place, width)
  if artefact.kind == "plan" then return pipeline.draw(artefact.value, place, width) end
  if artefact.kind == "served" then return served.draw(artefact.value, "served requests of " .. place, width) end
  if artefact.kind == "timeline" then return timeline.draw(artefact.value, "timeline of " .. place, width) end
end

local function pictures_of(store, run, row, place)
  local figures = {}
  for _, artefact in ipairs(store:artefacts(run.id, store_module.key(row.point))) do
    local picture, why = attempt(function()
      return M.of_picture(function(width) return draw_artefact(artefact, place, width) end)
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
  for _, row in ipairs(best_first(list, specs.goal(list, names))) do
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
