-- The object that ts.plot gives: checks rows against the options, and draws when asked.

local core = require "tessera.core"
local copy = require "tessera.shallow_copy"
local curves = require "tessera.desk.plot.curves"
local escape = require "tessera.desk.escape"
local facets = require "tessera.desk.plot.facets"
local frames = require "tessera.desk.plot.frame"
local hidden = require "tessera.desk.plot.hidden"
local options = require "tessera.options"
local read_data = require "tessera.desk.plot.data"
local repeated = require "tessera.desk.repeated"
local rows = require "tessera.desk.rows"
local units = require "tessera.desk.units"
local save = require "tessera.desk.picture.save"
local terminal = require "tessera.terminal"
local text = require "tessera.desk.plot.text"
local widths = require "tessera.desk.plot.widths"

local path = "ts.plot"
local read_width = options.reader("plot:svg", { width = { type = "integer", min = widths.min, max = widths.max } })
local read_columns = options.reader("plot:text", { columns = { type = "integer", min = 20, max = 10000 } })

local function fail(option, message)
  core.raise("invalid_argument", ("%s.%s: %s"):format(path, option, message), path .. "." .. option)
end

local function check_row(row, at)
  if type(row) ~= "table" then core.raise("invalid_argument", at .. ": a row is a table, not a " .. type(row), at) end
end

-- A column that no row has is a slip of the pen, not a picture without points.
local function check_column(opt, option)
  local column = opt[option]
  if not column or #opt.rows == 0 then return end
  local known, names = { point = true, meta = true, error = true }, {}
  for _, row in ipairs(opt.rows) do
    for _, fields in ipairs { row, type(row.point) == "table" and row.point or {} } do
      for name in pairs(fields) do
        if type(name) == "string" and not known[name] then
          known[name] = true
          names[#names + 1] = name
        end
      end
    end
  end
  if known[column] then return end
  -- Where everything failed, no row has any column beyond its point.
  for _, row in ipairs(opt.rows) do
    if row.status == nil or row.status == "done" or row.status == "optimal" or row.status == "feasible" then
      table.sort(names)
      fail(option, ("no row has the column '%s'%s"):format(column, core.did_you_mean(column, names)))
    end
  end
end

-- One line through two clusters, or two bars of one place, is a wrong picture without any mark of it.
local function check_hidden(opt)
  local columns = hidden.columns(opt)
  if not columns then return end
  local column = columns[1]
  local values = hidden.values(opt.rows, column)
  local few = table.concat(values, ", ", 1, math.min(#values, 4)) .. (#values > 4 and ", ..." or "")
  local harm = opt.kind == "lines" and "one line would go through all of them"
    or "their marks would stand for one thing"
  local series = not opt.by and opt.kind ~= "heatmap" and (", or by = \"%s\" for a series of each"):format(column) or ""
  fail("rows", ("they differ in %s, which the plot does not show: %s. Give facet = \"%s\" for a small plot of each "
    .. "(%s), where = { %s = ... } for one%s"):format(table.concat(columns, ", "), harm, column, few, column, series))
end

local function check_facet(opt)
  if not opt.facet then return end
  local count = #hidden.values(opt.rows, opt.facet)
  if count > facets.most then
    fail("facet", ("%d values of %s are too many small plots, %d at most; choose with where"):format(count, opt.facet,
      facets.most))
  end
end

local function check_interval(opt)
  local given = opt.low and "low" or opt.high and "high"
  if not given then return end
  if not (opt.low and opt.high) then
    fail(given, ("an interval has two ends; give %s, too"):format(opt.low and "high" or "low"))
  end
  if not read_data.with_intervals[opt.kind] then fail(given, ("kind = \"%s\" shows no intervals"):format(opt.kind)) end
end

local needs = { heatmap = { "y", "value" }, cdf = {} }

local function check(opt)
  for _, option in ipairs(needs[opt.kind] or { "y" }) do
    if not opt[option] then fail(option, ("missing; kind = \"%s\" needs a column here"):format(opt.kind)) end
  end
  for _, option in ipairs { "x", "y", "low", "high", "by", "value", "facet" } do check_column(opt, option) end
  check_interval(opt)
  check_hidden(opt)
  check_facet(opt)
end

-- { model = "opt-30b", bitwidth = { 4, 8 } } is "bitwidth 4, 8; model opt-30b".
local function where_text(where)
  local parts = {}
  for name, wanted in pairs(where) do
    local words = {}
    for i, value in ipairs(type(wanted) == "table" and wanted or { wanted }) do words[i] = read_data.word(value) end
    parts[#parts + 1] = name .. " " .. table.concat(words, ", ")
  end
  table.sort(parts)
  return table.concat(parts, "; ")
end

local function select_rows(opt)
  if opt.against and not opt.over then
    fail("against", "differences are taken repetition by repetition; give over, the key that counts them")
  end
  options.list(opt.rows, path .. ".rows", "a list of rows", check_row)
  if opt.over then opt.rows = repeated(opt.rows, opt.over, opt.against) end
  if not opt.where or next(opt.where) == nil then return end
  opt.rows = rows.where(opt.rows, opt.where, path .. ".where")
  opt.title = opt.title or where_text(opt.where)
end

local function summary_of(opt, data)
  local what = opt.kind == "cdf" and "share of points over " .. opt.x
    or opt.kind == "heatmap" and ("%s over %s and %s"):format(opt.value, opt.x, opt.y)
    or ("%s over %s"):format(opt.y, opt.x)
  return ("%s%s: %s%s, %d points"):format(opt.title and opt.title .. ". " or "", opt.kind, what,
    (opt.by and " by " .. opt.by or "") .. (opt.facet and " per " .. opt.facet or ""), data.num_points)
end

local drawers = { bars = "tessera.desk.plot.bars", heatmap = "tessera.desk.plot.heatmap" }

local Plot = { __metatable = "tessera.Plot" }
local methods = {}
local state = setmetatable({}, { __mode = "k" }) -- data and options of every plot, out of scripts' reach

Plot.__index = methods
Plot.__newindex = function(_, name)
  core.raise("invalid_argument", "tessera.Plot is read-only: cannot set '" .. tostring(name) .. "'", path)
end
Plot.__tostring = function(plot) return (plot:text():gsub("\n$", "")) end

local function state_of(plot)
  if not state[plot] then
    core.raise("invalid_argument", "plot: call its methods with a colon, on what ts.plot gave", path)
  end
  return state[plot]
end

local function page_of(plot, width)
  local self = state_of(plot)
  local opt = self.opt
  if width ~= nil then
    read_width { width = width }
    opt = copy(opt)
    opt.width = width
  end
  if self.why_empty then return frames.empty(opt, self.why_empty) end
  local drawer = require(drawers[opt.kind] or "tessera.desk.plot.xy")
  if not opt.facet then return drawer.draw(self.data, opt) end
  return facets.draw(self.data, opt, drawer.draw, drawer.legend(self.data, opt))
end

--- The picture as SVG text; `inside`: for a HTML page that has what they share; `width` in place of the plot's own.
function methods.svg(plot, inside, width) return page_of(plot, width):to_string(inside) end

--- The picture as text of so many columns; default: those of the terminal, with its colours.
function methods.text(plot, columns)
  local facts, self = terminal.facts(), state_of(plot)
  if columns ~= nil then
    read_columns { columns = columns }
    facts = { columns = columns, colour = false }
  end
  if not self.opt.facet or self.why_empty then return text.draw(self.data, self.opt, facts, self.why_empty) end
  local parts = self.opt.title and { self.opt.title .. "\n" } or {}
  for _, part in ipairs(facets.split(self.data, self.opt)) do
    parts[#parts + 1] = text.draw(part.data, facets.options(self.opt, part.name), facts,
      part.data.num_points == 0 and (read_data.missing_text(part.data) or "no rows"))
  end
  return table.concat(parts, "\n")
end

function methods.save(plot, file)
  state_of(plot)
  save("plot:save", file, {
    svg = function() return plot:svg() end, txt = function() return plot:text(100) end,
    tex = function()
      local self = state_of(plot)
      return require "tessera.desk.plot.pgf"(self.data, self.opt, self.why_empty)
    end,
  })
end

--- opt: the read options of ts.plot.
return function(opt)
  select_rows(opt)
  check(opt)
  for _, label in ipairs { "title", "x_label", "y_label" } do opt[label] = opt[label] and escape.clean(opt[label]) end
  local data = read_data.read(opt)
  if opt.kind == "cdf" then curves.cumulate(data) elseif opt.kind == "lines" then curves.sort(data) end
  opt.x_better = opt.x_better or units.better(opt.x) or "lower"
  opt.y_better = opt.y_better or opt.y and units.better(opt.y) or "lower"
  opt.summary = summary_of(opt, data)
  local self = { opt = opt, data = data }
  if #opt.rows == 0 then
    self.why_empty = "there are no rows"
  elseif data.num_points == 0 then
    self.why_empty = "no row has numbers here: " .. read_data.missing_text(data)
  end
  local plot = setmetatable({}, Plot)
  state[plot] = self
  return plot
end
