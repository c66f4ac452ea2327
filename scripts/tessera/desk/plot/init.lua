-- ts.plot { ... }: rows of results as a picture, in the terminal (print), as SVG, PDF, PNG, LaTeX or text.
-- The cards are here; what draws is loaded with the first plot, so that scripts without plots start faster.

local core = require "tessera.core"
local options = require "tessera.options"
local widths = require "tessera.desk.plot.widths"

local path = "ts.plot"
local kinds = { "bars", "lines", "scatter", "heatmap", "pareto", "cdf" }
local directions = { "lower", "higher" }

local read = options.card {
  name = path,
  doc = "A picture of rows: print shows it in the terminal; :save \"x.svg\", \"x.pdf\", \"x.png\" (both by "
    .. "rsvg-convert), \"x.tex\" (pgfplots) or \"x.txt\" writes it; :svg() and :text() give it as a string. A column "
    .. "is looked up in the row, then in its point. Rows without a number are shown as such, with their status.",
  parameters = {}, returns = "tessera.Plot",
  options = {
    { name = "kind", type = "choice", required = true, choices = kinds,
      doc = "cdf: share of points up to x; pareto: scatter with the front drawn" },
    { name = "rows", type = "table", required = true, lua_type = "table[]",
      doc = "{ point = {...}, columns... }, ..." },
    { name = "where", type = "table", doc = "Only rows with these values, as in results:rows { ... }" },
    { name = "over", type = "string", doc = "A key that counts repetitions, of which means are drawn (ts.repeated)" },
    { name = "against", type = "table", doc = "With over: differences to the point with these values are drawn, { "
      .. "planner = \"uniform\" }, each repetition's to its own" },
    -- Columns come from the rows, whose names may be any bytes.
    { name = "x", type = "string", bytes = true, required = true, doc = "Column along x; words become categories" },
    { name = "y", type = "string", bytes = true, doc = "Column along y; all kinds but cdf need it" },
    { name = "low", type = "string", bytes = true,
      doc = "Column with the lower end of an interval around y; with high it is a band along lines, a whisker at other "
        .. "marks. Default: with over, the 95 % interval of the mean" },
    { name = "high", type = "string", bytes = true, doc = "Column with the upper end" },
    { name = "by", type = "string", bytes = true, doc = "Column whose values are the series" },
    { name = "facet", type = "string", bytes = true,
      doc = "Column with a small plot per value, all with the same axes: lines, bars and heat maps refuse rows that "
        .. "differ in what they would not show" },
    { name = "value", type = "string", bytes = true, doc = "Column that colours the cells of a heatmap" },
    { name = "title", type = "string", bytes = true, doc = "Above the plot" },
    { name = "x_label", type = "string", bytes = true,
      doc = "Default: the column with its unit, as in \"latency (s)\"" },
    { name = "y_label", type = "string", bytes = true, doc = "Default: the column with its unit" },
    { name = "x_better", type = "choice", choices = directions, doc = "Of a front; default: by the column's unit" },
    { name = "y_better", type = "choice", choices = directions, doc = "Of a front; default: by the column's unit" },
    { name = "log_x", type = "boolean", default = false, doc = "Logarithmic; only above zero" },
    { name = "log_y", type = "boolean", default = false, doc = "Logarithmic; only above zero" },
    { name = "width", type = "integer", unit = "pixels", default = 720, min = widths.min, max = widths.max,
      doc = "Of the picture" },
    { name = "height", type = "integer", unit = "pixels", default = 400, min = 160, max = 10000,
      doc = "Of the picture; grows where labels need it" },
  },
}

core.document_object {
  name = "tessera.Plot", doc = "A picture of rows; print shows it in the terminal.",
  methods = {
    { "svg", "(inside: boolean?, width: integer?): string",
      "The picture as SVG; inside: for a HTML page that has what they share; width: in place of the plot's own" },
    { "text", "(columns: integer?): string", "The picture as text of so many columns; default: those of the terminal" },
    { "save", "(path: string)", "Writes it as .svg, .pdf and .png (by rsvg-convert), .tex (pgfplots) or .txt" },
  },
}

return function(given)
  local opt = read(given)
  return require "tessera.desk.plot.object"(opt)
end
