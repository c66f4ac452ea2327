-- A fleet as a map: a row of cells for each node, one for each of its devices, coloured by the model whose replica has
-- it; cells of one replica are joined, what is free is grey. Nodes of a class stand together, and below them how full
-- each model is. Models from the ninth on have the colours again, with a light square in the cell.

local svg = require "tessera.desk.picture.svg"

local M = {}

local margin, gap, leading = 16, 6, 16
local small, big = 9, 14 -- sides of a cell, where there are many devices and where there are few
local many = 256

-- Model of each device of each node, and the replica: nodes[i].cells = { { model =, replica = }, ... }.
local function cells_of(fleet)
  local nodes, place = {}, {}
  for i, node in ipairs(fleet.nodes) do nodes[i] = { node = node, cells = {} } end
  for d, device in ipairs(fleet.cluster:places()) do
    local node = nodes[device.node_index + 1]
    node.cells[#node.cells + 1] = {}
    place[d - 1] = node.cells[#node.cells]
  end
  local order = {}
  for m, model in ipairs(fleet.models) do order[model.name] = m end
  for _, row in ipairs(fleet.replicas) do
    for _, devices in ipairs(row.devices) do
      for k, device in ipairs(devices) do
        local cell = place[device]
        cell.model, cell.row, cell.last = order[row.model], row, k == #devices
      end
    end
  end
  return nodes
end

local function by_class(nodes)
  local classes, known = {}, {}
  for _, item in ipairs(nodes) do
    local name = item.node.node_class
    if not known[name] then
      known[name] = { name = name, nodes = {} }
      classes[#classes + 1] = known[name]
    end
    local list = known[name].nodes
    list[#list + 1] = item
  end
  return classes
end

local function cell_tip(item, cell)
  if not cell.row then return ("%s: free"):format(item.node.name) end
  return ("%s: %s, %s, %.3g req/s"):format(item.node.name, cell.row.model, cell.row.label, cell.row.rate_per_s)
end

local function colour(model) return ("ts-f%d"):format(svg.slot(model)) end

local function mark_again(page, x, y, side)
  page:rect(x + side / 3, y + side / 3, side / 3, side / 3, { class = "ts-on" })
end

local function draw_node(page, item, x, y, side)
  for k, cell in ipairs(item.cells) do
    local at, joined = x + (k - 1) * side, cell.row and not cell.last
    page:rect(at, y, joined and side or side - 1, side - 1, { class = cell.model and colour(cell.model) or "ts-track",
      tip = cell_tip(item, cell) })
    if cell.model and cell.model > #svg.series_colours then mark_again(page, at, y, side) end
  end
end

-- Returns where it ends.
local function draw_class(page, class, top, side, idle)
  local most = page.width - margin
  local y = page:lines(margin, top + 12, svg.wrap(("%s: %d %s in use%s"):format(class.name, #class.nodes,
    #class.nodes == 1 and "node" or "nodes", idle and idle.nodes > 0 and (", %d idle"):format(idle.nodes) or ""),
    most - margin, 12), leading, { class = "ts-text" }) - 8
  local x = margin
  for _, item in ipairs(class.nodes) do
    local wide = #item.cells * side + gap
    if x + wide > most and x > margin then x, y = margin, y + side + gap end
    draw_node(page, item, x, y, side)
    x = x + wide
  end
  return y + side + 14
end

-- A bar for each model: load against what its replicas sustain, with words beside it or, on a narrow page, around it.
-- Returns where they end.
local function draw_models(page, fleet, top)
  local roomy, room = page.width >= svg.roomy_width, page.width - 2 * margin
  local left, bar = roomy and margin + 190 or margin, roomy and 300 or room
  local words_x = roomy and left + bar + 10 or margin
  for m, model in ipairs(fleet.models) do
    local class, bar_y = colour(m), roomy and top or top + 18
    page:rect(margin, top, 12, 12, { class = class })
    if m > #svg.series_colours then mark_again(page, margin, top, 13) end
    local name = svg.fit(model.name, roomy and 165 or room - 18, 12)
    page:text(margin + 18, top + 11, name, { class = "ts-text", tip = name ~= model.name and model.name or nil })
    page:rect(left, bar_y, bar, 12, { class = "ts-track" })
    page:rect(left, bar_y, bar * math.min(1, model.load_ratio), 12, { class = class })
    local words = svg.wrap(("%.4g of %.4g req/s, %d replicas, %d GPUs, %.2f USD/h"):format(model.demand_per_s,
      model.capacity_per_s, model.replicas, model.gpus, model.usd_per_h), page.width - margin - words_x, 12)
    local foot = page:lines(words_x, roomy and top + 11 or bar_y + 27, words, leading, { class = "ts-muted" })
    top = roomy and foot - 5 or foot
  end
  return top
end

--- "12 GPUs on 3 nodes, 14.40 USD/h"
function M.title(fleet)
  return ("%d GPUs on %d nodes, %.2f USD/h"):format(fleet.gpus, #fleet.nodes, fleet.usd_per_h)
end

--- The page of a fleet, `width` in pixels.
function M.draw(fleet, width)
  local classes, idle = by_class(cells_of(fleet)), {}
  for _, class in ipairs(fleet.idle) do idle[class.node_class] = class end
  local side = fleet.gpus > many and small or big
  local page = svg.page(width or svg.wide_width, 0, M.title(fleet))
  local top = page:heading(margin, 28, page.title, page.width - 2 * margin) - 2
  for _, class in ipairs(classes) do top = draw_class(page, class, top, side, idle[class.name]) end
  page.height = draw_models(page, fleet, top + 10) + 8
  return page
end

return M
