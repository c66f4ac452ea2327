-- A fleet as a map: a row of cells for each node, one for each of its devices, coloured by the model whose replica has
-- it; cells of one replica are joined, what is free is grey. Nodes of a class stand together, and below them how full
-- each model is. Models from the ninth on have the colours again, with a light square in the cell.

local svg = require "tessera.desk.picture.svg"

local M = {}

local width, margin, gap = 1080, 24, 6
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

local function draw_class(page, class, top, side, idle)
  page:text(margin, top + 12, ("%s: %d %s in use%s"):format(class.name, #class.nodes,
    #class.nodes == 1 and "node" or "nodes", idle and idle.nodes > 0 and (", %d idle"):format(idle.nodes) or ""),
    { class = "ts-text" })
  local x, y = margin, top + 20
  for _, item in ipairs(class.nodes) do
    local wide = #item.cells * side + gap
    if x + wide > width - margin then x, y = margin, y + side + gap end
    draw_node(page, item, x, y, side)
    x = x + wide
  end
  return y + side + 14
end

local function class_height(class, side)
  local x, rows = margin, 1
  for _, item in ipairs(class.nodes) do
    local wide = #item.cells * side + gap
    if x + wide > width - margin then x, rows = margin, rows + 1 end
    x = x + wide
  end
  return 20 + rows * (side + gap) + 14
end

-- A bar for each model: load against what its replicas sustain.
local function draw_models(page, fleet, top)
  local bar, left = 360, margin + 200
  for m, model in ipairs(fleet.models) do
    local y, class = top + (m - 1) * 22, colour(m)
    page:rect(margin, y, 12, 12, { class = class })
    if m > #svg.series_colours then mark_again(page, margin, y, 13) end
    page:text(margin + 18, y + 11, svg.fit(model.name, 170), { class = "ts-text" })
    page:rect(left, y, bar, 12, { class = "ts-track" })
    page:rect(left, y, bar * math.min(1, model.load_ratio), 12, { class = class })
    page:text(left + bar + 10, y + 11, ("%.4g of %.4g req/s, %d replicas, %d GPUs, %.2f USD/h"):format(
      model.demand_per_s, model.capacity_per_s, model.replicas, model.gpus, model.usd_per_h), { class = "ts-muted" })
  end
  return top + #fleet.models * 22
end

--- The page of a fleet.
function M.draw(fleet)
  local classes, idle = by_class(cells_of(fleet)), {}
  for _, class in ipairs(fleet.idle) do idle[class.node_class] = class end
  local side = fleet.gpus > many and small or big
  local height = 64 + #fleet.models * 22 + 30
  for _, class in ipairs(classes) do height = height + class_height(class, side) end
  local title = ("%d GPUs on %d nodes, %.2f USD/h"):format(fleet.gpus, #fleet.nodes, fleet.usd_per_h)
  local page = svg.page(width, height, title)
  page:text(margin, 28, title, { class = "ts-text ts-title" })
  local top = 44
  for _, class in ipairs(classes) do top = draw_class(page, class, top, side, idle[class.name]) end
  draw_models(page, fleet, top + 10)
  return page
end

return M
