-- A plot for LaTeX: its numbers as a pgfplots picture, in the fonts of the document and to be edited there.

local core = require "tessera.core"
local curves = require "tessera.desk.plot.curves"
local facets = require "tessera.desk.plot.facets"
local latex = require "tessera.desk.latex"
local read = require "tessera.desk.plot.data"
local svg = require "tessera.desk.picture.svg"
local units = require "tessera.desk.units"

local marks = { "*", "square*", "triangle*", "diamond*", "pentagon*", "x", "+", "o" }
local dashes = { "solid", "dashed", "dotted", "dashdotted", "densely dashed", "densely dotted", "loosely dotted",
  "dashdotdotted" }

local head = "% Needs \\usepackage{pgfplots} and \\pgfplotsset{compat=1.16} or newer.\n"

local function colours()
  local lines = {}
  for i, pair in ipairs(svg.series_colours) do
    lines[i] = ("\\definecolor{tessera%d}{HTML}{%s}\n"):format(i, pair[1]:sub(2):upper())
  end
  return table.concat(lines)
end

local function number(value) return ("%.6g"):format(value) end

local function unit_of(data, field, column)
  local low, high = read.range(data, field)
  return units.of(column, math.max(math.abs(low or 0), math.abs(high or 0)))
end

-- What the axis is called, its scale, and the words along x.
local function axis_options(data, opt, x_unit, y_unit)
  local found = {
    "width = \\linewidth, height = 0.6\\linewidth",
    "legend style = {at = {(0.5, 1.02)}, anchor = south, legend columns = 4, draw = none, font = \\footnotesize}",
  }
  local function add(format, ...) found[#found + 1] = format:format(...) end
  if opt.title then
    add("title = {%s}", latex.text(opt.title))
    if #data.series > 1 then add("title style = {yshift = %dem}", 1 + math.ceil(#data.series / 4)) end
  end
  add("xlabel = {%s}", latex.text(opt.x_label or x_unit.label))
  add("ylabel = {%s}", latex.text(opt.y_label or y_unit.label))
  if opt.log_x and not data.x_words then found[#found + 1] = "xmode = log" end
  if opt.log_y then found[#found + 1] = "ymode = log" end
  if data.x_words then
    local places, words = {}, {}
    for i, word in ipairs(data.x_words) do places[i], words[i] = tostring(i), ("{%s}"):format(latex.text(word)) end
    add("xtick = {%s}", table.concat(places, ", "))
    add("xticklabels = {%s}", table.concat(words, ", "))
    add("x tick label style = {rotate = 35, anchor = east, font = \\footnotesize}")
  end
  if opt.kind == "bars" then
    add("ybar, bar width = %s", number(0.8 / #data.series))
    add("enlarge x limits = {abs = 0.6}")
  end
  if data.whole and opt.kind ~= "cdf" then -- facets compare
    local low, high = read.range(data, "y")
    if opt.kind == "bars" and not opt.log_y then low = math.min(low, 0) end
    add("ymin = %s, ymax = %s, enlarge y limits = %s", number(low / y_unit.worth), number(high / y_unit.worth),
      opt.kind == "bars" and "upper" or "0.05")
  elseif opt.kind == "bars" and not opt.log_y and read.range(data, "y") >= 0 then
    add("ymin = 0")
  end
  return table.concat(found, ",\n  ")
end

local function style_of(opt, i)
  local slot = svg.slot(i)
  if opt.kind == "bars" then return ("fill = tessera%d, draw = none"):format(slot) end
  local line = (opt.kind == "lines" or opt.kind == "cdf") and dashes[slot] or "only marks"
  local mark = opt.kind == "cdf" and "none" or marks[(i - 1) % #marks + 1]
  return ("tessera%d, thick, %s, mark = %s, mark options = {solid}"):format(slot, line, mark)
end

-- The bands of a line, below it and without an entry in the legend.
local function bands_of(points, slot, x_worth, y_worth)
  local parts = {}
  for _, band in ipairs(curves.bands(points)) do
    local places = {}
    for i, corner in ipairs(band) do
      places[i] = ("(%s, %s)"):format(number(corner.x / x_worth), number(corner.y / y_worth))
    end
    parts[#parts + 1] = ("\\addplot[draw = none, fill = tessera%d, fill opacity = 0.18, forget plot] coordinates "
      .. "{\n  %s\n} -- cycle;\n"):format(slot, table.concat(places, "\n  "))
  end
  return table.concat(parts)
end

local error_bars = ", error bars/.cd, y dir = both, y explicit"

local function plot_of(points, style, x_worth, y_worth, name, whiskers)
  local places, has_whiskers = {}, false
  for i, point in ipairs(points) do
    places[i] = ("(%s, %s)"):format(number(point.x / x_worth), number(point.y / y_worth))
    if whiskers and point.low then
      has_whiskers = true
      places[i] = ("%s += (0, %s) -= (0, %s)"):format(places[i], number((point.high - point.y) / y_worth),
        number((point.y - point.low) / y_worth))
    end
  end
  if has_whiskers then style = style .. error_bars end
  local legend = name and name ~= "" and ("\\addlegendentry{%s}\n"):format(latex.text(name)) or ""
  return ("\\addplot[%s] coordinates {\n  %s\n};\n%s"):format(style, table.concat(places, "\n  "), legend)
end

local function picture(data, opt)
  local x_unit = data.x_words and units.of(opt.x, 1) or unit_of(data, "x", opt.x)
  local y_unit = opt.kind == "cdf" and { label = "share of points (ratio)", worth = 1 } or unit_of(data, "y", opt.y)
  local x_worth = data.x_words and 1 or x_unit.worth
  local parts = { ("\\begin{tikzpicture}\n\\begin{axis}[\n  %s\n]\n"):format(axis_options(data, opt, x_unit, y_unit)) }
  for i, series in ipairs(data.series) do
    if #series.points > 0 then
      if opt.kind == "lines" then
        parts[#parts + 1] = bands_of(series.points, svg.slot(i), x_worth, y_unit.worth)
      end
      parts[#parts + 1] = plot_of(curves.steps(series.points, opt.kind), style_of(opt, i), x_worth, y_unit.worth,
        series.name, opt.kind ~= "lines")
    end
  end
  if opt.kind == "pareto" then
    local stairs = curves.stairs(curves.front(data, opt.x_better, opt.y_better), opt.x_better)
    parts[#parts + 1] = plot_of(stairs, "black, dashed, mark = none", x_worth, y_unit.worth, "front")
  end
  local missing = read.missing_text(data)
  if missing then table.insert(parts, 1, ("%% no number: %s\n"):format((missing:gsub("%c", " ")))) end
  parts[#parts + 1] = "\\end{axis}\n\\end{tikzpicture}\n"
  return table.concat(parts)
end

--- The plot as LaTeX. why_empty: why it has no points.
return function(data, opt, why_empty)
  if opt.kind == "heatmap" then
    core.raise("unsupported", "plot:save: a heat map is no pgfplots picture; save it as .pdf", "plot:save")
  end
  if why_empty then return ("%% no data: %s\n"):format((why_empty:gsub("%c", " "))) end
  local parts = { head, colours() }
  if not opt.facet then
    parts[#parts + 1] = picture(data, opt)
  else
    for _, part in ipairs(facets.split(data, opt)) do
      if part.data.num_points > 0 then
        parts[#parts + 1] = picture(part.data, facets.options(opt, part.name, opt.width, opt.height)) .. "\\par\n"
      end
    end
  end
  return table.concat(parts)
end
