-- The map of a page: nodes with their GPUs, and of each which layers at which bits lie on it, and what they take of its
-- memory. A card is of the GPUs that a stage shares.

local core = require "tessera.core"
local grouped = require "tessera.grouped"
local html = require "tessera.desk.report.html"
local pipeline = require "tessera.desk.picture.pipeline"
local svg = require "tessera.desk.picture.svg"

local h = html.h
local M = {}

local width, strip_height, bar_height = 320, 18, 12
local least_share = 1e-3 -- of what a card holds, to be named
local alike_from = 4 -- nodes that are alike, from so many on once

-- "0-2, 5": numbers that follow each other as a range.
local function numbers_text(list)
  local parts, first = {}, nil
  for i, number in ipairs(list) do
    first = first or number
    if list[i + 1] ~= number + 1 then
      parts[#parts + 1] = first == number and tostring(number) or ("%d-%d"):format(first, number)
      first = nil
    end
  end
  return table.concat(parts, ", ")
end

-- Layers of the model from left to right, those of the card by their bits; below them its memory by what is in it.
local function picture(card)
  local page = svg.page(width, strip_height + bar_height + 6, card.title)
  local cell = width / card.num_layers
  page:rect(0, 0, width, strip_height, { class = "ts-track", tip = ("%d layers in all"):format(card.num_layers) })
  local first = 1
  for i, bitwidth in ipairs(card.bitwidths) do
    if card.bitwidths[i + 1] ~= bitwidth then
      local from, to = card.first_layer + first - 1, card.first_layer + i - 1
      page:rect(from * cell, 0, (to - from + 1) * cell, strip_height, { class = "ts-edge",
        fill = pipeline.colour_of(bitwidth), tip = ("layers %d-%d: %d bit"):format(from, to, bitwidth) })
      first = i + 1
    end
  end
  local memory, x = card.memory, 0
  local scale = width / math.max(memory.capacity_bytes, memory.total_bytes, 1)
  page:rect(0, strip_height + 6, memory.capacity_bytes * scale, bar_height, { class = "ts-track",
    tip = "memory " .. core.format_bytes(memory.capacity_bytes) })
  for _, component in ipairs(pipeline.components) do
    local bytes = memory[component[1]] or 0
    if bytes > 0 then
      page:rect(x, strip_height + 6, bytes * scale, bar_height, { fill = component[3],
        tip = ("%s %s"):format(component[2], core.format_bytes(bytes)) })
      x = x + bytes * scale
    end
  end
  return h("div", { class = "box", tabindex = "0", role = "group", ["data-marks"] = true,
    ["aria-label"] = card.title .. ". Arrow keys move through its values." }, html.raw(page:to_string(true)))
end

-- "0-15 at 16 bit, 16-31 at 4 bit" of a few stretches, else "32 layers at 5.5 bit in the mean".
local function bits_text(card)
  local parts, first, sum = {}, 1, 0
  for i, bitwidth in ipairs(card.bitwidths) do
    sum = sum + bitwidth
    if card.bitwidths[i + 1] ~= bitwidth then
      local from, to = card.first_layer + first - 1, card.first_layer + i - 1
      parts[#parts + 1] = ("%s at %d bit"):format(from == to and from or ("%d-%d"):format(from, to), bitwidth)
      first = i + 1
    end
  end
  if #parts <= 3 then return "layers " .. table.concat(parts, ", ") end
  return ("%d layers at %.3g bit in the mean"):format(#card.bitwidths, sum / #card.bitwidths)
end

local function memory_text(card)
  local memory, parts = card.memory, {}
  for _, component in ipairs(pipeline.components) do
    local bytes = memory[component[1]] or 0
    if bytes >= least_share * memory.total_bytes then
      parts[#parts + 1] = ("%s %s"):format(component[2], core.format_bytes(bytes))
    end
  end
  return ("%s of %s: %s"):format(core.format_bytes(memory.total_bytes), core.format_bytes(memory.capacity_bytes),
    table.concat(parts, ", "))
end

local function name_of(card)
  local count = #card.gpus
  return ("%s%s %s: %s"):format(card.of_cpu and "share" or "GPU", count > 1 and "s" or "", numbers_text(card.gpus),
    count > 1 and ("%d x %s"):format(count, card.device) or card.device)
end

local function card_html(card)
  if not card.bitwidths then
    return h("div", { class = "gpu idle" }, h("b", nil, name_of(card)), h("p", { class = "muted" }, "left out"))
  end
  return h("div", { class = "gpu" }, h("b", nil, name_of(card)), h("p", nil, card.title), picture(card),
    h("p", { class = "muted" }, bits_text(card)), h("p", { class = "muted" }, memory_text(card)))
end

-- What a node shows, but for the numbers of its engines.
local function signature(cards)
  local parts = {}
  for i, card in ipairs(cards) do
    parts[i] = table.concat({ name_of(card), card.role or "", card.stage or "",
      card.bitwidths and bits_text(card) .. memory_text(card) or "" }, "|")
  end
  return table.concat(parts, "\n")
end

local function node_html(names, cards)
  local list, title = {}, names[1]
  for i, card in ipairs(cards) do list[i] = card_html(card) end
  if #names > 1 then title = ("%s to %s: %d nodes alike, the first drawn"):format(names[1], names[#names], #names) end
  return h("section", { class = "node" }, h("h3", nil, title), h("div", { class = "gpus" }, list))
end

local function legend(cards)
  local seen, entries = {}, {}
  local function entry(colour, name)
    local swatch = svg.page(12, 12, name)
    swatch:rect(0, 0, 12, 12, { fill = colour })
    entries[#entries + 1] = h("li", nil, html.raw(swatch:to_string(true)), name)
  end
  local bits = {}
  for _, card in ipairs(cards) do
    for _, bitwidth in ipairs(card.bitwidths or {}) do
      if not seen[bitwidth] then bits[#bits + 1], seen[bitwidth] = bitwidth, true end
    end
  end
  table.sort(bits)
  for _, bitwidth in ipairs(bits) do entry(pipeline.colour_of(bitwidth), ("%d-bit layers"):format(bitwidth)) end
  for _, component in ipairs(pipeline.components) do
    for _, card in ipairs(cards) do
      if card.memory and (card.memory[component[1]] or 0) > 0 then
        entry(component[3], component[2])
        break
      end
    end
  end
  return h("ul", { class = "legend" }, entries)
end

--- Of cards { node, gpus (numbers), device, title, role, stage, first_layer, num_layers (of the model), bitwidths,
--- memory (of all its GPUs) }; a card without bitwidths is of GPUs that are left out. `nodes`: names in order.
function M.draw(cards, nodes)
  local by_node, drawn, run = {}, {}, nil
  for _, group in ipairs(grouped(cards, function(card) return card.node end)) do by_node[group.key] = group end
  local function close()
    if not run then return end
    if #run.names >= alike_from then
      drawn[#drawn + 1] = node_html(run.names, run.cards[1])
    else
      for i, name in ipairs(run.names) do drawn[#drawn + 1] = node_html({ name }, run.cards[i]) end
    end
    run = nil
  end
  for _, name in ipairs(nodes) do
    local list = by_node[name] or {}
    table.sort(list, function(a, b) return a.gpus[1] < b.gpus[1] end)
    local own = signature(list)
    if run and run.signature ~= own then close() end
    run = run or { signature = own, names = {}, cards = {} }
    run.names[#run.names + 1], run.cards[#run.cards + 1] = name, list
  end
  close()
  return { legend(cards), h("div", { class = "nodes" }, drawn) }
end

return M
