-- The picture of a plan, from what plan:to_table() gives.

local core = require "tessera.core"
local svg = require "tessera.desk.picture.svg"

local M = {}

local margin, leading = 16, 16
local gib = 2 ^ 30

-- Where the parts of a stage's row lie, its corner at 0, 0: on a wide page beside one another, on a narrow one below.
local function layout_of(width)
  if width >= svg.roomy_width then
    return { width = width, label_width = 148, share_x = margin, share_y = 34, strip_x = margin + 160, strip_y = 0,
      strip_width = width - 2 * margin - 340, times_x = width - margin - 164, times_y = 2, times_width = 80,
      row_height = 82, attention_y = 64, attention_memory_y = 76, attention_height = 46 }
  end
  local room = width - 2 * margin
  return { width = width, label_width = room - 120, share_x = width - margin, share_y = 16, share_anchor = "end",
    strip_x = margin, strip_y = 24, strip_width = room, times_x = margin, times_y = 88, times_width = room - 80,
    row_height = 138, attention_y = 124, attention_memory_y = 148, attention_height = 56 }
end

-- Few bits warm, many bits cold; the number stands in the cell where it fits.
local bit_colours = { [3] = "#d55e00", [4] = "#e69f00", [8] = "#56b4e9", [16] = "#0072b2" }
local components = {
  { "weight_bytes", "weights", "#4a6fa5" }, { "kv_cache_bytes", "KV cache", "#ddcc77" },
  { "activation_bytes", "activations", "#882255" }, { "embedding_bytes", "embeddings", "#117733" },
  { "reserve_bytes", "reserve", "#a8a8a8" },
}
local prefill_colour, decode_colour = "#009e73", "#cc79a7"
M.phase_colours = { prefill = prefill_colour, decode = decode_colour }
M.bit_colours, M.components = bit_colours, components

local function colour_of(bitwidth)
  return bit_colours[bitwidth] or ("hsl(%d, 45%%, 55%%)"):format(30 + 180 * math.min(bitwidth, 16) / 16)
end

M.colour_of = colour_of

local function largest(stages, value)
  local most = 0
  for _, stage in ipairs(stages) do most = math.max(most, value(stage)) end
  return most > 0 and most or 1
end

-- The number of bits once in the middle of layers that have the same.
local function bit_labels(page, layout, stage, y, cell)
  local first = 1
  for i, bitwidth in ipairs(stage.bitwidths) do
    if stage.bitwidths[i + 1] ~= bitwidth then
      local layers = i - first + 1
      local text = layers * cell >= 44 and bitwidth .. " bit" or tostring(bitwidth)
      if layers * cell >= 16 then
        page:text(layout.strip_x + (stage.first_layer + first - 1 + layers / 2) * cell, y + 16, text,
          { class = (bitwidth >= 16 and "ts-on" or "ts-ink") .. " ts-small ts-bits", ["text-anchor"] = "middle",
            stroke = colour_of(bitwidth) })
      end
      first = i + 1
    end
  end
end

local function layer_cells(page, layout, stage, y, num_layers)
  local cell = layout.strip_width / num_layers
  for i, bitwidth in ipairs(stage.bitwidths) do
    local layer = stage.first_layer + i - 1
    page:rect(layout.strip_x + layer * cell, y, cell, 24, { class = "ts-edge", fill = colour_of(bitwidth),
      tip = ("layer %d: %d bit"):format(layer, bitwidth) })
  end
  bit_labels(page, layout, stage, y, cell)
end

-- A bar of what the memory holds, and below it how much that is.
local function memory_bar(page, layout, memory, y, capacity_of_bar)
  local x = layout.strip_x
  local scale = layout.strip_width / capacity_of_bar
  page:rect(x, y, memory.capacity_bytes * scale, 12, { class = "ts-track",
    tip = ("capacity %.2f GiB"):format(memory.capacity_bytes / gib) })
  for _, component in ipairs(components) do
    local bytes = memory[component[1]] or 0
    page:rect(x, y, bytes * scale, 12, { fill = component[3],
      tip = ("%s %.2f GiB"):format(component[2], bytes / gib) })
    x = x + bytes * scale
  end
  page:text(layout.strip_x, y + 27, ("%.2f of %.2f GiB (%.0f %%)"):format(memory.total_bytes / gib,
    memory.capacity_bytes / gib, 100 * memory.total_bytes / math.max(memory.capacity_bytes, 1)),
    { class = "ts-muted ts-small" })
end

local function time_bar(page, layout, y, seconds, longest, colour, what)
  page:rect(layout.times_x, y, layout.times_width * seconds / longest, 10, { fill = colour,
    tip = what .. " " .. core.format_seconds(seconds) })
  page:text(layout.times_x + layout.times_width + 6, y + 9, core.format_seconds(seconds),
    { class = "ts-muted ts-small" })
end

-- Returns the foot of its last line.
local function legend(page, y, plans)
  local seen, bits, x = {}, {}, margin
  for _, plan in ipairs(plans) do
    for _, stage in ipairs(plan.stages) do
      for _, bitwidth in ipairs(stage.bitwidths) do
        if not seen[bitwidth] then bits[#bits + 1] = bitwidth end
        seen[bitwidth] = true
      end
    end
  end
  table.sort(bits)
  local function entry(colour, name)
    local room = 26 + svg.text_width(name, 11)
    if x + room > page.width - margin then x, y = margin, y + leading end
    page:rect(x, y - 9, 10, 10, { fill = colour })
    page:text(x + 14, y, name, { class = "ts-muted ts-small" })
    x = x + room
  end
  for _, bitwidth in ipairs(bits) do entry(colour_of(bitwidth), bitwidth .. "-bit layer") end
  for _, component in ipairs(components) do entry(component[3], component[2]) end
  entry(prefill_colour, "prefill of a micro-batch")
  entry(decode_colour, "decode step")
  return y
end

-- What a row is of: a device, and what it has of the model.
local function label(page, layout, y, name, share)
  local text = svg.fit(name, layout.label_width, 12)
  page:text(margin, y + 16, text, { tip = text ~= name and name or nil })
  page:text(layout.share_x, y + layout.share_y, share, { class = "ts-muted ts-small",
    ["text-anchor"] = layout.share_anchor })
end

local function stage_row(page, layout, stage, index, y, scale)
  label(page, layout, y, ("%d  %s"):format(index, stage.device), ("%d layers"):format(stage.num_layers))
  layer_cells(page, layout, stage, y + layout.strip_y, scale.num_layers)
  memory_bar(page, layout, stage.memory, y + layout.strip_y + 30, scale.capacity_bytes)
  time_bar(page, layout, y + layout.times_y, stage.prefill_s, scale.prefill_s, prefill_colour, "prefill micro-batch")
  time_bar(page, layout, y + layout.times_y + 18, stage.decode_s, scale.decode_s, decode_colour, "decode step")
  local there = stage.attention -- of a device that attends to heads of the stage
  if not there then return end
  label(page, layout, y + layout.attention_y, "+  " .. there.device, ("%.3g %% of KV heads"):format(100 * there.ratio))
  memory_bar(page, layout, there.memory, y + layout.attention_memory_y, scale.capacity_bytes)
end

-- Returns where it ends.
local function one_pipeline(page, layout, plan, top, title)
  local room = layout.width - 2 * margin
  local y = page:heading(margin, top + 26, title, room)
  y = page:lines(margin, y + 2, svg.wrap(("latency %s, %.1f tok/s (%s); micro-batches: prefill %d, decode %d; "
    .. "mean bitwidth %.2f"):format(core.format_seconds(plan.latency_s), plan.throughput_tok_s, plan.provenance,
    plan.prefill_micro_batch_size, plan.decode_micro_batch_size, plan.mean_bitwidth), room, 11), leading,
    { class = "ts-muted ts-small" }) + 2
  local stages, last = plan.stages, plan.stages[#plan.stages]
  local scale = {
    num_layers = last.first_layer + last.num_layers,
    capacity_bytes = largest(stages, function(s)
      return math.max(s.memory.capacity_bytes, s.attention and s.attention.memory.capacity_bytes or 0)
    end),
    prefill_s = largest(stages, function(s) return s.prefill_s end),
    decode_s = largest(stages, function(s) return s.decode_s end),
  }
  for index, stage in ipairs(stages) do
    stage_row(page, layout, stage, index - 1, y, scale)
    y = y + layout.row_height + (stage.attention and layout.attention_height or 0)
  end
  return y
end

local function headline(plan, name) return ("%s: %s by %s"):format(name, plan.status, plan.planner) end

--- The page; plan: plan:to_table(), `name`: of its problem, `width` in pixels.
function M.draw(plan, name, width)
  local replicas = type(plan.replicas) == "table" and plan.replicas[1] and plan.replicas
  local plans = plan.pipelines or replicas or { plan } -- rows of older results have no pipelines
  local title = headline(plan, name)
  local layout = layout_of(width or svg.wide_width)
  local page, top = svg.page(layout.width, 0, title), 0
  for r, one in ipairs(plans) do
    top = one_pipeline(page, layout, one, top, #plans > 1 and ("%s, replica %d of %d"):format(title, r, #plans)
      or title)
  end
  page.height = legend(page, top + 14, plans) + 26
  return page
end

return M
