-- ts.plot: what each kind shows in SVG and in the terminal, and what it does with awkward rows.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local folder = arg[0]:match "^(.*)[/\\]" .. "/plots/"

-- Rows of an experiment: one point does not fit.
local function serving()
  local rows = {}
  for i, cluster in ipairs { "llmpq-1", "llmpq-3" } do
    for j, planner in ipairs { "uniform", "exact" } do
      local fits = not (i == 2 and j == 1)
      rows[#rows + 1] = {
        point = { cluster = cluster, planner = planner }, status = fits and "optimal" or "infeasible",
        throughput_tok_s = fits and 40 * i + 25 * j or nil, latency_s = fits and 12 / j + i or nil,
        memory_bytes = fits and 2 ^ 33 * j or nil,
      }
    end
  end
  return rows
end

local specs = {
  bars = { kind = "bars", rows = serving(), x = "cluster", y = "throughput_tok_s", by = "planner",
    title = "Throughput" },
  pareto = { kind = "pareto", rows = serving(), x = "latency_s", y = "throughput_tok_s", by = "planner" },
  heatmap = { kind = "heatmap", rows = serving(), x = "cluster", y = "planner", value = "memory_bytes" },
  lines = { kind = "lines", x = "batch_size", y = "latency_s", by = "name", log_x = true, rows = {
    { name = "a", batch_size = 1, latency_s = 0.5 }, { name = "a", batch_size = 100, latency_s = 2 },
    { name = "b", batch_size = 10, latency_s = 1 }, { name = "b", batch_size = 1, latency_s = 0.25 } } },
  cdf = { kind = "cdf", x = "latency_s", rows = { { latency_s = 3 }, { latency_s = 1 }, { latency_s = 2 } } },
  scatter = { kind = "scatter", x = "a", y = "b", rows = { { a = -1, b = 0 }, { a = 2, b = -3 } } },
}

local function count(text, pattern) return select(2, text:gsub(pattern, "")) end

-- Every element closed in order: a small parser, since nothing else here reads XML.
local function well_formed(svg)
  local open = {}
  for close, name, rest in svg:gmatch "<(/?)([%a][%w]*)([^<>]*)>" do
    if close == "/" then
      assert.equal(open[#open], name)
      open[#open] = nil
    elseif rest:sub(-1) ~= "/" then
      open[#open + 1] = name
    end
  end
  assert.same({}, open)
  assert.is_nil(svg:find "[%z\1-\8\11-\31]")
  assert.is_nil(svg:find("nan", 1, true))
  assert.is_nil(svg:find('="-?inf'))
end

-- TESSERA_UPDATE=1 keeps what is drawn now; look at the pictures before you commit them.
local function as_kept(name, now)
  if os.getenv "TESSERA_UPDATE" then require("tessera.core").write_file(folder .. name, now) end
  local kept, line = (support.read(folder .. name) .. "\n"):gmatch "(.-)\n", 0
  for text in (now .. "\n"):gmatch "(.-)\n" do
    line = line + 1
    assert.equal(kept(), text, ("line %d of tests/lua/plots/%s"):format(line, name))
  end
  assert.is_nil(kept())
end

describe("ts.plot", function()
  after_each(support.remove_files)

  it("refuses widths in which nothing can be read", function()
    support.raises("out_of_range", "plot:svg.width", function() ts.plot(specs.cdf):svg(false, 100) end)
  end)

  for name, spec in pairs(specs) do
    it("draws " .. name .. " as kept in tests/lua/plots", function()
      well_formed(ts.plot(spec):svg())
      as_kept(name .. ".svg", ts.plot(spec):svg(true))
      local narrow = ts.plot(spec):svg(false, 340)
      well_formed(narrow)
      assert.truthy(narrow:find('viewBox="0 0 340 ', 1, true))
    end)
    it("shows " .. name .. " in the terminal as kept in tests/lua/plots", function()
      local now = ts.plot(spec):text(72)
      as_kept(name .. ".txt", now)
      for line in now:gmatch "[^\n]+" do assert.is_true(require("tessera.terminal").width(line) <= 72, line) end
      assert.is_nil(now:find("\27", 1, true))
    end)
  end

  it("draws only the rows that are asked for, and says which", function()
    local picture = ts.plot { kind = "bars", rows = serving(), x = "planner", y = "throughput_tok_s",
      where = { cluster = "llmpq-1", planner = { "uniform", "exact" } } }
    assert.is_truthy(picture:svg():find("cluster llmpq-1; planner uniform, exact. bars: throughput_tok_s over planner, "
      .. "2 points", 1, true))
    raises("invalid_argument", "did you mean 'cluster'", function()
      ts.plot { kind = "bars", rows = serving(), x = "planner", y = "throughput_tok_s", where = { clustr = "llmpq-1" } }
    end)
  end)

  it("says what has no number, and why", function()
    local plot = ts.plot(specs.bars)
    local svg, text = plot:svg(), plot:text(80)
    assert.truthy(svg:find("hatched, no number: 1 infeasible", 1, true))
    assert.truthy(svg:find("<title>llmpq-3, uniform: throughput_tok_s infeasible</title>", 1, true))
    assert.equal(1, count(svg, 'fill="url%(#ts%-hatch%)"'))
    assert.matches("llmpq%-3 uniform ╱╱╱ infeasible", text)
    assert.truthy(ts.plot(specs.pareto):svg():find("not shown: 1 infeasible", 1, true))
    local log = ts.plot { kind = "lines", x = "a", y = "b", log_y = true,
      rows = { { a = 1, b = 0 }, { a = 2, b = 5 } } }
    assert.truthy(log:svg():find("not shown: 1 0, which a log axis cannot show", 1, true))
    local odd = ts.plot { kind = "scatter", x = "a", y = "b",
      rows = { { a = 1, b = support.nan }, { a = support.inf, b = 1 }, { a = 1, b = "x" }, { a = 1, b = 1 } } }
    assert.truthy(odd:svg():find("not shown: 1 not a number, 2 not finite", 1, true))
  end)

  it("says whose marks stand behind those of others in the terminal", function()
    local rows = {}
    for i, planner in ipairs { "exact", "ilp", "adabits", "uniform" } do
      for x = 1, 3 do
        -- ilp is where exact is, adabits at one place of three, uniform nowhere.
        local apart = ({ 0, 0, x > 1 and 5 or 0, 9 })[i]
        table.insert(rows, { planner = planner, batch_size = x, latency_s = x + apart })
      end
    end
    for _, kind in ipairs { "lines", "scatter" } do
      local plot = ts.plot { kind = kind, rows = rows, x = "batch_size", y = "latency_s", by = "planner" }
      local who = "■ ilp (3 of 3 points), ▲ adabits (1 of 3)\n"
      for columns, between in pairs { [80] = " ", [44] = "\n  " } do
        local text = plot:text(columns)
        assert.truthy(text:find("\nbehind marks of others:" .. between .. who, 1, true), text)
      end
    end
    local apart = ts.plot { kind = "lines", rows = { { a = 1, b = 1, c = "p" }, { a = 1, b = 9, c = "q" } }, x = "a",
      y = "b", by = "c" }
    assert.is_nil(apart:text(80):find("behind", 1, true))
  end)

  it("draws rows of one category side by side", function()
    local svg = ts.plot({ kind = "bars", x = "a", y = "b", rows = { { a = "x", b = 1 }, { a = "x", b = 2 } } }):svg()
    local places = {}
    for x, width in svg:gmatch '<rect x="([%d.]+)" y="[%d.]+" width="([%d.]+)" height="[%d.]+" class="ts%-f1"' do
      places[#places + 1] = { tonumber(x), tonumber(width) }
    end
    assert.equal(2, #places)
    assert.near(places[1][1] + places[1][2], places[2][1], 0.11)
  end)

  it("draws nothing where there is nothing", function()
    local none = ts.plot { kind = "bars", x = "a", y = "b", rows = {}, title = "Empty" }
    well_formed(none:svg())
    assert.truthy(none:svg():find(">there are no rows<", 1, true))
    assert.equal("Empty\nno data: there are no rows\n", none:text(80))
    local failed = ts.plot { kind = "lines", x = "a", y = "b", rows = { { point = { a = 1 }, status = "failed" } } }
    assert.equal("no data: no row has numbers here: 1 failed\n", failed:text(80))
  end)

  it("copes with one point, equal points, negative and huge ones", function()
    for _, rows in ipairs {
      { { a = 3, b = -3 } }, { { a = 0, b = 0 } }, { { a = 1, b = 7 }, { a = 1, b = 7 } },
      { { a = 1, b = -5 }, { a = 2, b = 5 } }, { { a = 1e300, b = 1e-300 }, { a = -1e300, b = 1e-308 } },
      { { a = 1e15, b = 1e15 }, { a = 1e15 + 1, b = 1e15 + 1 } },
    } do
      for _, kind in ipairs { "bars", "lines", "scatter", "pareto", "cdf", "heatmap" } do
        local plot = ts.plot { kind = kind, x = "a", y = "b", value = kind == "heatmap" and "b" or nil, rows = rows }
        well_formed(plot:svg())
        assert.is_true(#plot:text(40) > 0)
      end
    end
  end)

  it("escapes and cuts names", function()
    local evil = "</text><script>&\"'\0\27[31m\255" .. ("long "):rep(60)
    local plot = ts.plot { kind = "bars", x = evil, y = "y", by = "by", title = evil,
      rows = { { [evil] = evil, y = 1, by = evil }, { [evil] = "b", y = 2, by = "\226\130" } } }
    well_formed(plot:svg())
    assert.is_nil(plot:svg():find("<script", 1, true))
    assert.is_nil(plot:text(60):find("[\27%z]"))
  end)

  it("keeps thousands of points small", function()
    local rows = {}
    for i = 1, 5000 do rows[i] = { a = i * 7919 % 5000, b = i * 104729 % 5000, by = i % 3 } end
    local svg = ts.plot({ kind = "scatter", rows = rows, x = "a", y = "b", by = "by" }):svg()
    assert.is_true(#svg < 120000, #svg)
    assert.is_true(#ts.plot({ kind = "lines", rows = rows, x = "a", y = "b" }):svg() < 120000)
  end)

  it("labels axes with units that fit", function()
    local function label(column, value)
      return (ts.plot { kind = "scatter", rows = { { x = 1, [column] = value } }, x = "x", y = column }:text(60)
        :match "^[^\n]*")
    end
    assert.equal("memory (GiB)", label("memory_bytes", 2 ^ 34))
    assert.equal("memory (MiB)", label("memory_bytes", 2 ^ 24))
    assert.equal("tpot (ms)", label("tpot_s", 0.02))
    assert.equal("latency (s)", label("latency_s", 12))
    assert.equal("link (GB/s)", label("link_bytes_per_s", 5e9))
    assert.equal("throughput (tok/s)", label("throughput_tok_s", 5e5))
    assert.equal("cost (USD/h)", label("cost_usd_per_h", 5))
    assert.equal("omega", label("omega", 5))
  end)

  it("finds the front by what is better", function()
    local curves = require "tessera.desk.plot.curves"
    local points = { { x = 1, y = 1 }, { x = 2, y = 3 }, { x = 3, y = 2 }, { x = 2, y = 2 }, { x = 1, y = 1 } }
    local function front(x_better, y_better)
      local list = {}
      for i, p in ipairs(curves.front({ series = { { points = points } } }, x_better, y_better)) do
        list[i] = { p.x, p.y }
      end
      return list
    end
    assert.same({ { 1, 1 } }, front("lower", "lower"))
    assert.same({ { 1, 1 }, { 2, 3 } }, front("lower", "higher"))
    assert.same({ { 2, 3 }, { 3, 2 } }, front("higher", "higher"))
    assert.same({ { 1, 1 }, { 3, 2 } }, front("higher", "lower"))
  end)

  it("saves what the name says", function()
    local plot = ts.plot(specs.bars)
    local base = support.temporary()
    for _, kind in ipairs { "svg", "txt", "png", "pdf", "tex" } do
      local path = base .. "." .. kind
      plot:save(path)
      local content = support.read(path)
      os.remove(path)
      if kind == "svg" then assert.equal(plot:svg(), content) end
      if kind == "txt" then assert.equal(plot:text(100), content) end
      if kind == "png" then assert.equal("\137PNG\r\n\26\n", content:sub(1, 8)) end
      if kind == "pdf" then assert.equal("%PDF-", content:sub(1, 5)) end
      if kind == "tex" then assert.truthy(content:find("\\begin{tikzpicture}", 1, true)) end
    end
    raises("invalid_argument", "ends in none of .svg, .pdf, .png, .tex, .txt", function() plot:save "x.eps" end)
    raises("invalid_argument", "a path belongs here", function() plot:save() end)
  end)

  it("is read-only and prints as text", function()
    local plot = ts.plot(specs.cdf)
    assert.equal("tessera.Plot", getmetatable(plot))
    assert.matches("share of points", tostring(plot))
    raises("invalid_argument", "read-only", function() plot.x = 1 end)
  end)

  it("draws numbers at the ends of what a double holds", function()
    for _, kind in ipairs { "lines", "scatter", "bars", "cdf" } do
      local function plot(values)
        local rows = {}
        for i, value in ipairs(values) do rows[i] = { a = i, b = value, word = "w" .. i } end
        local cdf = kind == "cdf"
        return ts.plot { kind = kind, rows = rows, x = cdf and "b" or kind == "bars" and "word" or "a", y = not cdf
          and "b" or nil }
      end
      local huge = plot { 1e308, -1e308, 3 }
      assert.truthy(huge:svg():find("2 beyond 1e+300", 1, true), kind)
      assert.is_nil(huge:text(80):find "nan")
      local tiny = plot { 5e-324, 0, 1e-310 }
      assert.is_nil(tiny:svg():find "nan", kind)
      assert.is_nil(tiny:text(80):find "nan", kind)
    end
  end)

  it("refuses wrong use", function()
    local function plot(changes)
      return function() return ts.plot(support.changed({ kind = "bars", x = "a", y = "b", rows = { { a = 1, b = 2 } } },
        changes)) end
    end
    raises("invalid_argument", "ts.plot.rows", function() ts.plot { kind = "bars", x = "a", y = "b" } end)
    raises("invalid_argument", "'pie' is not a choice", plot { kind = "pie" })
    raises("invalid_argument", "did you mean 'title'", plot { titel = "x" })
    raises("invalid_argument", "no row has the column 'c'", plot { y = "c" })
    raises("invalid_argument", "needs a column here", plot { kind = "heatmap" })
    raises("invalid_argument", "ts.plot.rows[1]: a row is a table", plot { rows = { 3 } })
    raises("invalid_argument", "the list has gaps", plot { rows = { {}, nil, {} } })
    raises("invalid_argument", "the key 'a'", plot { rows = { a = {} } })
    raises("out_of_range", "ts.plot.width", plot { width = 3 })
    raises("out_of_range", "plot:text.columns", function() plot {}():text(3) end)
    for _, method in ipairs { "svg", "text", "save" } do
      raises("invalid_argument", "call its methods with a colon", function() plot {}()[method]({}, "x.svg") end)
    end
    raises("invalid_argument", "by a metatable", plot { rows = setmetatable({}, { __index = {} }) })
    raises("invalid_argument", "no row has the column 'b'", plot { rows = { { a = 1, point = 3 } } })
    local ring = { a = 1, b = 2 }
    ring.a = { ring }
    ring.a[1] = ring.a
    assert.matches("{{{{{...}}}}}", plot { rows = { ring } }():text(200), 1, true)
  end)
end)
