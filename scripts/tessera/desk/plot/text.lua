-- Plots in the terminal: bars of eighth blocks, points and lines in Braille cells, heat maps in shades.

local escape = require "tessera.desk.escape"
local axis = require "tessera.desk.plot.axis"
local canvas = require "tessera.desk.plot.braille"
local curves = require "tessera.desk.plot.curves"
local read = require "tessera.desk.plot.data"
local shares = require "tessera.desk.plot.heatmap"
local terminal = require "tessera.terminal"
local units = require "tessera.desk.units"
local xy = require "tessera.desk.plot.xy"

local M = {}

local paints = { "blue", "yellow", "green", "magenta", "cyan", "red", "white", "dim" }
local marks = { "●", "■", "▲", "◆", "▼", "✕", "✚", "○" }
local blocks = { [0] = "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" }
local shades = { "·", "░", "▒", "▓", "█" }

local function colour_of(index) return paints[(index - 1) % #paints + 1] end
local function mark_of(index) return marks[(index - 1) % #marks + 1] end

local function has_names(data) return #data.series > 1 or data.series[1].name ~= "" end

local function foot(lines, data)
  local missing = read.missing_text(data)
  if missing then lines[#lines + 1] = "no number: " .. missing end
end

-- The bar from `zero` to `value`, both shares of `room` cells.
local function block_bar(value, zero, room)
  local low, high = math.min(value, zero), math.max(value, zero)
  if value < zero then
    local first, last = math.floor(low * room + 0.5), math.floor(high * room + 0.5)
    return (" "):rep(first) .. ("█"):rep(math.max(last - first, 1))
  end
  local eighths = math.floor((high - low) * room * 8 + 0.5)
  local text = ("█"):rep(math.floor(eighths / 8)) .. blocks[eighths % 8]
  return (" "):rep(math.floor(low * room + 0.5)) .. (text == "" and "▏" or text)
end

-- One line per bar: category, series, bar, number.
local function each_bar(data)
  local items = {}
  for s, series in ipairs(data.series) do
    for _, list in ipairs { series.points, series.missing } do
      for _, item in ipairs(list) do items[#items + 1] = { x = item.x, s = s, item = item, name = series.name } end
    end
  end
  for i, entry in ipairs(items) do entry.place = i end
  table.sort(items, function(a, b)
    if a.x ~= b.x then return a.x < b.x end
    if a.s ~= b.s then return a.s < b.s end
    return a.place < b.place
  end)
  return items
end

local function bars(data, opt, facts, lines)
  local low, high = read.range(data, "y")
  low, high = math.min(low or 0, 0), math.max(high or 0, 0)
  local unit = units.of(opt.y, math.max(-low, high))
  local log = opt.log_y and axis.numbers((read.range(data, "y")) / 1.5, high, { log = true })
  local items, widths = each_bar(data), { x = 0, name = 0, value = 0 }
  for _, entry in ipairs(items) do
    entry.text = entry.item.why or units.value(entry.item.y, unit) .. xy.interval_text(entry.item, unit)
    widths.x = math.max(widths.x, terminal.width(data.x_words[entry.x]))
    widths.name = math.max(widths.name, terminal.width(entry.name))
    widths.value = math.max(widths.value, terminal.width(entry.text))
  end
  widths.x = math.min(widths.x, math.floor(facts.columns / 4))
  widths.name = math.min(widths.name, math.floor(facts.columns / 4))
  local room = math.max(facts.columns - widths.x - widths.name - widths.value - 4, 8)
  local span = math.max(high - low, 1e-300)
  local last
  for _, entry in ipairs(items) do
    local head = terminal.pad(entry.x ~= last and data.x_words[entry.x] or "", widths.x)
    if widths.name > 0 then head = head .. " " .. terminal.pad(entry.name, widths.name) end
    last = entry.x
    local bar
    if entry.item.why then
      bar = terminal.paint("╱╱╱", "dim", facts)
    else
      local share = log and log.at(entry.item.y) or (entry.item.y - low) / span
      bar = terminal.paint(block_bar(share, log and 0 or -low / span, room), colour_of(entry.s), facts)
    end
    lines[#lines + 1] = ("%s %s %s"):format(head, bar, entry.text)
  end
  table.insert(lines, #lines - #items + 1, opt.y_label or unit.label)
end

local function legend(data, lines, facts)
  if not has_names(data) then return end
  local parts, length = {}, 0
  for i, series in ipairs(data.series) do
    local name = terminal.fit(series.name, math.max(facts.columns - 4, 8))
    if length + terminal.width(name) + 4 > facts.columns and #parts > 0 then
      lines[#lines + 1] = table.concat(parts, "  ")
      parts, length = {}, 0
    end
    parts[#parts + 1] = terminal.paint(mark_of(i), colour_of(i), facts) .. " " .. name
    length = length + terminal.width(name) + 4
  end
  lines[#lines + 1] = table.concat(parts, "  ")
end

-- Numbers and words below the x axis, as many as fit.
local function x_line(x_axis, left, width)
  local cells, next_free = {}, 0
  for _, tick in ipairs(x_axis.ticks) do
    local text = terminal.fit(tick.text, 16)
    local length = terminal.width(text)
    local start = math.floor(x_axis.at(tick.value) * (width - 1) + 0.5) - math.floor(length / 2)
    start = math.max(math.min(start, width - length), 0)
    if start >= next_free then
      cells[#cells + 1] = (" "):rep(start - math.max(next_free - 1, 0)) .. text
      next_free = start + length + 1
    end
  end
  return (" "):rep(left) .. table.concat(cells)
end

-- The ends of intervals: along a line as lines of dots, else as a stroke through the mark.
local function draw_intervals(grid, points, opt, at)
  local function stroke(from, to)
    local x, y = at(from)
    local to_x, to_y = at(to)
    grid:line(x, y, to_x, to_y, "dim")
  end
  if opt.kind ~= "lines" then
    for _, point in ipairs(points) do
      if point.low then stroke({ x = point.x, y = point.low }, { x = point.x, y = point.high }) end
    end
    return
  end
  for _, band in ipairs(curves.bands(points)) do
    for i = 1, #band - 1 do
      if i ~= #band / 2 or #band == 2 then stroke(band[i], band[i + 1]) end
    end
  end
end

-- Draws all series; returns how many points of each stand behind the mark of another: { [series] = count }.
local function draw_points(grid, data, opt, at)
  local dots, hidden = data.num_points > 200, {}
  for _, series in ipairs(data.series) do draw_intervals(grid, series.points, opt, at) end
  for i, series in ipairs(data.series) do
    if opt.kind == "lines" or opt.kind == "cdf" then
      local before
      for _, point in ipairs(curves.steps(series.points, opt.kind)) do
        local x, y = at(point)
        if before then grid:line(before[1], before[2], x, y, colour_of(i)) end
        before = { x, y }
      end
    end
    for _, point in ipairs(series.points) do
      local x, y = at(point)
      if dots then
        grid:dot(x, y, colour_of(i))
      elseif not grid:mark(x, y, mark_of(i), colour_of(i)) then
        hidden[i] = (hidden[i] or 0) + 1
      end
    end
  end
  return hidden
end

-- "behind the marks of others: ilp (3 of 3 points), adabits (1 of 3)", wrapped.
local function hidden_lines(data, hidden, facts, lines)
  local parts = {}
  for i, series in ipairs(data.series) do
    if hidden[i] then
      parts[#parts + 1] = ("%s %s (%d of %d%s)"):format(mark_of(i), series.name, hidden[i], #series.points,
        #parts == 0 and " points" or "")
    end
  end
  if #parts == 0 then return end
  local line = "behind marks of others:"
  for i, part in ipairs(parts) do
    if i < #parts then part = part .. "," end
    if terminal.width(line) + 1 + terminal.width(part) > facts.columns then
      lines[#lines + 1], line = line, " "
    end
    line = line .. " " .. part
  end
  lines[#lines + 1] = terminal.fit(line, facts.columns)
end

local function points(data, opt, facts, lines)
  local x_axis, x_unit, y_axis, y_unit = xy.axes(data, opt)
  local left, height = 0, opt.text_height or 16
  for _, tick in ipairs(y_axis.ticks) do left = math.max(left, terminal.width(tick.text)) end
  local grid = canvas.new(math.max(facts.columns - left - 2, 10), height)
  local function at(point)
    return x_axis.at(point.x / (data.x_words and 1 or x_unit.worth)), y_axis.at(point.y / y_unit.worth)
  end
  if opt.kind == "pareto" then
    local before
    for _, corner in ipairs(curves.stairs(curves.front(data, opt.x_better, opt.y_better), opt.x_better)) do
      local x, y = at(corner)
      if before then grid:line(before[1], before[2], x, y, "dim") end
      before = { x, y }
    end
  end
  local hidden = draw_points(grid, data, opt, at)
  lines[#lines + 1] = opt.y_label or y_unit.label
  local texts = {}
  for _, tick in ipairs(y_axis.ticks) do
    texts[math.floor((1 - y_axis.at(tick.value)) * (height - 1) + 0.5)] = tick.text
  end
  for r = 0, height - 1 do
    lines[#lines + 1] = ("%s%s%s"):format(terminal.pad(texts[r] or "", left, true), texts[r] and "┤" or "│",
      grid:row(r, facts))
  end
  lines[#lines + 1] = (" "):rep(left) .. "└" .. ("─"):rep(grid.width)
  lines[#lines + 1] = x_line(x_axis, left + 1, grid.width)
  lines[#lines + 1] = terminal.pad("", left + 1) .. (opt.x_label or x_unit.label)
  legend(data, lines, facts)
  hidden_lines(data, hidden, facts, lines)
  local interval = read.interval_name(data, opt)
  if interval then lines[#lines + 1] = (opt.kind == "lines" and "⠒ " or "⡇ ") .. interval end
  if opt.kind == "pareto" then lines[#lines + 1] = "⠒ front: nothing better in both" end
end

local function heatmap(data, opt, facts, lines)
  local low, high = read.range(data, "value")
  local unit = units.of(opt.value, math.max(math.abs(low or 0), math.abs(high or 0)))
  local cells, left, width = {}, 0, 1
  for _, name in ipairs(data.y_words) do left = math.max(left, terminal.width(name)) end
  left = math.min(left, math.floor(facts.columns / 4))
  for _, series in ipairs(data.series) do
    for _, item in ipairs(series.missing) do cells[item.x .. ":" .. item.y] = "╱ " .. item.why end
    for _, item in ipairs(series.points) do
      local share = shares.share_of(item.value, low, high)
      local shade = shades[math.min(math.floor(share * #shades) + 1, #shades)]
      cells[item.x .. ":" .. item.y] = shade .. " " .. units.number(item.value / unit.worth)
    end
  end
  for _, name in ipairs(data.x_words) do width = math.max(width, terminal.width(name)) end
  for _, cell in pairs(cells) do width = math.max(width, terminal.width(cell)) end
  local room = math.floor((facts.columns - left) / #data.x_words) - 1
  width = math.max(math.min(width, room), 3)
  local function line(head, text_of)
    local parts = { terminal.pad(head, left) }
    for x in ipairs(data.x_words) do parts[#parts + 1] = terminal.pad(text_of(x), width) end
    lines[#lines + 1] = escape.trimmed(table.concat(parts, " "))
  end
  lines[#lines + 1] = ("%s of %s over %s"):format(unit.label, opt.y_label or units.of(opt.y, 1).label,
    opt.x_label or units.of(opt.x, 1).label)
  line("", function(x) return data.x_words[x] end)
  for y = #data.y_words, 1, -1 do
    line(data.y_words[y], function(x) return cells[x .. ":" .. y] or "" end)
  end
end

local draw = { bars = bars, heatmap = heatmap }

--- The plot as text. facts: columns, colour.
function M.draw(data, opt, facts, why_empty)
  local lines = {}
  if opt.title then lines[1] = terminal.paint(terminal.fit(opt.title, facts.columns), "bold", facts) end
  if why_empty then
    lines[#lines + 1] = "no data: " .. why_empty
  else
    (draw[opt.kind] or points)(data, opt, facts, lines)
    foot(lines, data)
  end
  for i, text in ipairs(lines) do lines[i] = escape.trimmed(text) end
  return table.concat(lines, "\n") .. "\n"
end

return M
