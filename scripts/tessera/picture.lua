-- ts.picture(plan, path): the pipeline as an SVG file. Layers run from left to right, one row per stage, each layer
-- coloured by its bitwidth; below them what the stage holds in memory, beside them what a micro-batch takes.

local core = require "tessera.core"

core.document {
  name = "ts.picture",
  doc = "Writes the plan's pipeline as an SVG file: layers by bitwidth, memory by component, stage times.",
  parameters = { { "plan", "tessera.Plan", "Any plan" }, { "path", "string", "File to write" } },
}

local width, label_width, time_width, margin = 960, 150, 180, 16
local strip_width = width - 2 * margin - label_width - time_width
local row_height, header_height = 78, 70
local gib = 2 ^ 30

-- Okabe and Ito's colours, which most colour-blind readers tell apart: few bits warm, many bits cold.
local bit_colours = { [3] = "#d55e00", [4] = "#e69f00", [8] = "#56b4e9", [16] = "#0072b2" }
local components = {
  { "weight_bytes", "weights", "#37474f" }, { "kv_cache_bytes", "KV cache", "#607d8b" },
  { "activation_bytes", "activations", "#90a4ae" }, { "embedding_bytes", "embeddings", "#5d4037" },
  { "reserve_bytes", "reserve", "#bcaaa4" },
}
local prefill_colour, decode_colour = "#009e73", "#cc79a7"

local style = [[<style>
text { font: 12px sans-serif; fill: #222 }
.small { font-size: 11px; fill: #555 } .title { font-size: 16px; font-weight: bold }
.cell { stroke: #fff; stroke-width: 1 } .page { fill: #fff } .track { fill: #eee }
@media (prefers-color-scheme: dark) {
  text { fill: #eee } .small { fill: #aaa } .page { fill: #1b1b1b } .cell { stroke: #1b1b1b } .track { fill: #333 } }
</style>]]

local escapes = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }
local function escape(text) return (tostring(text):gsub('[&<>"]', escapes):gsub("%c", "?")) end

local function colour_of(bitwidth)
  if bit_colours[bitwidth] then return bit_colours[bitwidth] end
  return ("hsl(%d, 45%%, 55%%)"):format(30 + 180 * math.min(bitwidth, 16) / 16)
end

local function seconds(s)
  if s >= 1 then return ("%.2f s"):format(s) end
  return s >= 1e-3 and ("%.2f ms"):format(s * 1e3) or ("%.1f us"):format(s * 1e6)
end

local function rect(x, y, w, h, attributes, tooltip)
  return ('<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" %s><title>%s</title></rect>'):format(x, y,
    math.max(w, 0), h, attributes, escape(tooltip))
end

local function fill(colour) return ('fill="%s"'):format(colour) end

local function text(x, y, class, content)
  return ('<text x="%.2f" y="%.2f" class="%s">%s</text>'):format(x, y, class, escape(content))
end

local function largest(stages, value)
  local most = 0
  for _, stage in ipairs(stages) do most = math.max(most, value(stage)) end
  return most > 0 and most or 1
end

local function layer_cells(stage, y, num_layers)
  local cells, cell = {}, strip_width / num_layers
  for i, bitwidth in ipairs(stage.bitwidths) do
    local layer = stage.first_layer + i - 1
    cells[i] = rect(margin + label_width + layer * cell, y, cell, 24,
      ('class="cell" fill="%s"'):format(colour_of(bitwidth)), ("layer %d: %d bit"):format(layer, bitwidth))
  end
  return table.concat(cells, "\n")
end

local function memory_bar(stage, y, capacity_of_bar)
  local memory, x = stage.memory, margin + label_width
  local scale = strip_width / capacity_of_bar
  local parts = { rect(x, y, memory.capacity_bytes * scale, 12, 'class="track"',
    ("capacity %.2f GiB"):format(memory.capacity_bytes / gib)) }
  for _, component in ipairs(components) do
    local bytes = memory[component[1]]
    parts[#parts + 1] = rect(x, y, bytes * scale, 12, fill(component[3]),
      ("%s %.2f GiB"):format(component[2], bytes / gib))
    x = x + bytes * scale
  end
  return table.concat(parts, "\n")
end

local function time_bars(stage, y, longest_prefill, longest_decode)
  local x, room = width - margin - time_width + 16, time_width - 100
  return table.concat({
    rect(x, y, room * stage.prefill_s / longest_prefill, 10, fill(prefill_colour), "prefill micro-batch"),
    text(x + room + 6, y + 9, "small", seconds(stage.prefill_s)),
    rect(x, y + 18, room * stage.decode_s / longest_decode, 10, fill(decode_colour), "decode step"),
    text(x + room + 6, y + 27, "small", seconds(stage.decode_s)),
  }, "\n")
end

local function legend(y, stages)
  local seen, bits, parts, x = {}, {}, {}, margin
  for _, stage in ipairs(stages) do
    for _, bitwidth in ipairs(stage.bitwidths) do
      if not seen[bitwidth] then bits[#bits + 1] = bitwidth end
      seen[bitwidth] = true
    end
  end
  table.sort(bits)
  local function entry(colour, name)
    parts[#parts + 1] = rect(x, y - 9, 10, 10, fill(colour), name)
    parts[#parts + 1] = text(x + 14, y, "small", name)
    x = x + 30 + 6.2 * #name
  end
  for _, bitwidth in ipairs(bits) do entry(colour_of(bitwidth), bitwidth .. "-bit layer") end
  for _, component in ipairs(components) do entry(component[3], component[2]) end
  entry(prefill_colour, "prefill")
  entry(decode_colour, "decode")
  return table.concat(parts, "\n")
end

local function stage_row(stage, index, y, scale)
  local memory = stage.memory
  return table.concat({
    text(margin, y + 16, "", ("%d  %s"):format(index, stage.device)),
    text(margin, y + 34, "small", ("%d layers"):format(stage.num_layers)),
    layer_cells(stage, y, scale.num_layers),
    memory_bar(stage, y + 30, scale.capacity_bytes),
    text(margin + label_width, y + 56, "small", ("%.2f of %.2f GiB (%.0f %%)"):format(memory.total_bytes / gib,
      memory.capacity_bytes / gib, 100 * memory.total_bytes / memory.capacity_bytes)),
    time_bars(stage, y + 2, scale.prefill_s, scale.decode_s),
  }, "\n")
end

local function svg(plan)
  local stages, last = plan.stages, plan.stages[#plan.stages]
  local height = header_height + row_height * #stages + 34
  local scale = {
    num_layers = last.first_layer + last.num_layers,
    capacity_bytes = largest(stages, function(s) return s.memory.capacity_bytes end),
    prefill_s = largest(stages, function(s) return s.prefill_s end),
    decode_s = largest(stages, function(s) return s.decode_s end),
  }
  local lines = {
    ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">')
      :format(width, height, width, height),
    "<title>" .. escape(tostring(plan)) .. "</title>",
    style,
    ('<rect class="page" width="%d" height="%d"/>'):format(width, height),
    text(margin, 26, "title", ("%s: %s by %s"):format(plan:problem().name, plan.status, plan.planner)),
    text(margin, 46, "small",
      ("latency %s, %.1f tok/s (%s); micro-batches: prefill %d, decode %d; mean bitwidth %.2f"):format(
        seconds(plan.latency_s), plan.throughput_tok_s, plan.provenance, plan.prefill_micro_batch_size,
        plan.decode_micro_batch_size, plan.mean_bitwidth)),
  }
  for index, stage in ipairs(stages) do
    lines[#lines + 1] = stage_row(stage, index - 1, header_height + (index - 1) * row_height, scale)
  end
  lines[#lines + 1] = legend(height - 14, stages)
  lines[#lines + 1] = "</svg>\n"
  return table.concat(lines, "\n")
end

return function(plan, path)
  if type(plan) ~= "userdata" then
    core.raise("invalid_argument", "ts.picture.plan: a plan belongs here, not a " .. type(plan), "ts.picture.plan")
  end
  if plan.replicas then
    core.raise("invalid_argument", "ts.picture.plan: one picture shows one pipeline; draw each of plan.replicas",
      "ts.picture.plan")
  end
  core.write_file(path, svg(plan))
end
