-- The picture of a plan, from what plan:to_table() gives.

local core = require "tessera.core"
local svg = require "tessera.desk.picture.svg"

local M = {}

local width, label_width, time_width, margin = 960, 160, 180, 16
local strip_width = width - 2 * margin - label_width - time_width
local row_height, header_height, legend_height = 82, 64, 40
local attention_height = 46 -- of a device that attends to heads of a stage, below its row
local gib = 2 ^ 30

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
local function bit_labels(page, stage, y, cell)
  local first = 1
  for i, bitwidth in ipairs(stage.bitwidths) do
    if stage.bitwidths[i + 1] ~= bitwidth then
      local layers = i - first + 1
      local text = layers * cell >= 44 and bitwidth .. " bit" or tostring(bitwidth)
      if layers * cell >= 16 then
        page:text(margin + label_width + (stage.first_layer + first - 1 + layers / 2) * cell, y + 16, text,
          { class = (bitwidth >= 16 and "ts-on" or "ts-ink") .. " ts-small ts-bits", ["text-anchor"] = "middle",
            stroke = colour_of(bitwidth) })
      end
      first = i + 1
    end
  end
end

local function layer_cells(page, stage, y, num_layers)
  local cell = strip_width / num_layers
  for i, bitwidth in ipairs(stage.bitwidths) do
    local layer = stage.first_layer + i - 1
    page:rect(margin + label_width + layer * cell, y, cell, 24, { class = "ts-edge", fill = colour_of(bitwidth),
      tip = ("layer %d: %d bit"):format(layer, bitwidth) })
  end
  bit_labels(page, stage, y, cell)
end

local function memory_bar(page, memory, y, capacity_of_bar)
  local x = margin + label_width
  local scale = strip_width / capacity_of_bar
  page:rect(x, y, memory.capacity_bytes * scale, 12, { class = "ts-track",
    tip = ("capacity %.2f GiB"):format(memory.capacity_bytes / gib) })
  for _, component in ipairs(components) do
    local bytes = memory[component[1]] or 0
    page:rect(x, y, bytes * scale, 12, { fill = component[3],
      tip = ("%s %.2f GiB"):format(component[2], bytes / gib) })
    x = x + bytes * scale
  end
end

local function time_bars(page, stage, y, longest_prefill, longest_decode)
  local x, room = width - margin - time_width + 16, time_width - 100
  page:rect(x, y, room * stage.prefill_s / longest_prefill, 10, { fill = prefill_colour,
    tip = "prefill micro-batch " .. core.format_seconds(stage.prefill_s) })
  page:text(x + room + 6, y + 9, core.format_seconds(stage.prefill_s), { class = "ts-muted ts-small" })
  page:rect(x, y + 18, room * stage.decode_s / longest_decode, 10, { fill = decode_colour,
    tip = "decode step " .. core.format_seconds(stage.decode_s) })
  page:text(x + room + 6, y + 27, core.format_seconds(stage.decode_s), { class = "ts-muted ts-small" })
end

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
    if x + room > width - margin then x, y = margin, y + 16 end
    page:rect(x, y - 9, 10, 10, { fill = colour })
    page:text(x + 14, y, name, { class = "ts-muted ts-small" })
    x = x + room
  end
  for _, bitwidth in ipairs(bits) do entry(colour_of(bitwidth), bitwidth .. "-bit layer") end
  for _, component in ipairs(components) do entry(component[3], component[2]) end
  entry(prefill_colour, "prefill of a micro-batch")
  entry(decode_colour, "decode step")
end

local function label(page, name, y)
  local text = svg.fit(name, label_width - 12, 12)
  page:text(margin, y, text, { tip = text ~= name and name or nil })
end

local function memory_words(page, memory, y)
  page:text(margin + label_width, y, ("%.2f of %.2f GiB (%.0f %%)"):format(memory.total_bytes / gib,
    memory.capacity_bytes / gib, 100 * memory.total_bytes / math.max(memory.capacity_bytes, 1)),
    { class = "ts-muted ts-small" })
end

local function stage_row(page, stage, index, y, scale)
  label(page, ("%d  %s"):format(index, stage.device), y + 16)
  page:text(margin, y + 34, ("%d layers"):format(stage.num_layers), { class = "ts-muted ts-small" })
  layer_cells(page, stage, y, scale.num_layers)
  memory_bar(page, stage.memory, y + 30, scale.capacity_bytes)
  memory_words(page, stage.memory, y + 57)
  time_bars(page, stage, y + 2, scale.prefill_s, scale.decode_s)
  local there = stage.attention
  if not there then return end
  label(page, "+  " .. there.device, y + attention_height + 34)
  page:text(margin, y + attention_height + 52, ("%.3g %% of KV heads"):format(100 * there.ratio),
    { class = "ts-muted ts-small" })
  memory_bar(page, there.memory, y + attention_height + 30, scale.capacity_bytes)
  memory_words(page, there.memory, y + attention_height + 57)
end

local function height_of(stage) return row_height + (stage.attention and attention_height or 0) end

local function height_of_all(stages)
  local height = 0
  for _, stage in ipairs(stages) do height = height + height_of(stage) end
  return height
end

local function one_pipeline(page, plan, top, title)
  page:text(margin, top + 26, svg.fit(title, width - 2 * margin, 15), { class = "ts-text ts-title" })
  page:text(margin, top + 46, ("latency %s, %.1f tok/s (%s); micro-batches: prefill %d, decode %d; "
    .. "mean bitwidth %.2f"):format(core.format_seconds(plan.latency_s), plan.throughput_tok_s, plan.provenance,
    plan.prefill_micro_batch_size, plan.decode_micro_batch_size, plan.mean_bitwidth), { class = "ts-muted ts-small" })
  local stages, last = plan.stages, plan.stages[#plan.stages]
  local scale = {
    num_layers = last.first_layer + last.num_layers,
    capacity_bytes = largest(stages, function(s)
      return math.max(s.memory.capacity_bytes, s.attention and s.attention.memory.capacity_bytes or 0)
    end),
    prefill_s = largest(stages, function(s) return s.prefill_s end),
    decode_s = largest(stages, function(s) return s.decode_s end),
  }
  local y = top + header_height
  for index, stage in ipairs(stages) do
    stage_row(page, stage, index - 1, y, scale)
    y = y + height_of(stage)
  end
  return y
end

local function headline(plan, name) return ("%s: %s by %s"):format(name, plan.status, plan.planner) end

--- The page; plan: plan:to_table(), `name`: of its problem.
function M.draw(plan, name)
  local replicas = type(plan.replicas) == "table" and plan.replicas[1] and plan.replicas
  local plans, height = plan.pipelines or replicas or { plan }, 0 -- rows of older results have no pipelines
  for _, one in ipairs(plans) do height = height + header_height + height_of_all(one.stages) end
  local title = headline(plan, name)
  local page = svg.page(width, height + legend_height, title)
  local top = 0
  for r, one in ipairs(plans) do
    top = one_pipeline(page, one, top, #plans > 1 and ("%s, replica %d of %d"):format(title, r, #plans) or title)
  end
  legend(page, height + 14, plans)
  return page
end

return M
