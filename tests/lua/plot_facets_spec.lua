-- Plots show what their rows differ in, or refuse: facets, and what lines, bars and heat maps may not hide; pgfplots.
local core = require "tessera.core"
local hidden = require "tessera.desk.plot.hidden"
local host = require "tessera.host"
local rows_of = require "tessera.desk.rows"
local store = require "tessera.store"
local support = require "support"
local ts = require "tessera"
local raises = support.raises

local function sweep()
  local rows = {}
  for c, cluster in ipairs { "c1", "c2" } do
    for p, planner in ipairs { "exact", "uniform" } do
      for _, theta in ipairs { 0, 1, 10 } do
        rows[#rows + 1] = { point = { cluster = cluster, planner = planner, theta = theta }, status = "done",
          latency_s = 10 * c + p * theta, omega = 100 - theta - c }
      end
    end
  end
  return rows
end

local function count(text, part)
  local found = 0
  for _ in text:gmatch(part) do found = found + 1 end
  return found
end

describe("ts.plot", function()
  it("refuses one line through two clusters, and says what to write", function()
    local function draw(more)
      local spec = { kind = "lines", rows = sweep(), x = "theta", y = "latency_s" }
      for key, value in pairs(more) do spec[key] = value end
      return ts.plot(spec)
    end
    raises("invalid_argument", 'they differ in cluster, which the plot does not show: one line would go through all of '
      .. 'them. Give facet = "cluster" for a small plot of each (c1, c2), where = { cluster = ... } for one',
      function() draw { by = "planner" } end)
    raises("invalid_argument", 'they differ in cluster, planner', function() draw {} end)
    raises("invalid_argument", 'or by = "planner" for a series of each', function() draw { facet = "cluster" } end)
    draw { by = "planner", facet = "cluster" }
    draw { by = "planner", where = { cluster = "c1" } }
    draw { kind = "scatter" } -- a cloud of points claims no order
  end)

  it("refuses bars and cells that would stand for several rows", function()
    raises("invalid_argument", "their marks would stand for one thing", function()
      ts.plot { kind = "bars", rows = sweep(), x = "planner", y = "latency_s", by = "theta" }
    end)
    raises("invalid_argument", "they differ in cluster", function()
      ts.plot { kind = "heatmap", rows = sweep(), x = "planner", y = "theta", value = "latency_s" }
    end)
    raises("invalid_argument", "they differ in host", function() -- the words of a plain row name it
      ts.plot { kind = "bars", x = "a", y = "b", rows = { { a = 1, b = 2, host = "x" }, { a = 1, b = 3, host = "y" } } }
    end)
    ts.plot { kind = "bars", x = "a", y = "b", rows = { { a = 1, b = 2, n = 1 }, { a = 1, b = 3, n = 2 } } }
  end)

  it("lets a number change along a line over results, and no word", function()
    local spec = { kind = "lines", rows = sweep(), x = "omega", y = "latency_s", by = "planner" }
    raises("invalid_argument", "they differ in cluster", function() ts.plot(spec) end)
    spec.facet = "cluster"
    ts.plot(spec)
  end)

  it("draws facets with one legend and the same axes", function()
    local plot = ts.plot { kind = "lines", rows = sweep(), x = "theta", y = "latency_s", by = "planner",
      facet = "cluster" }
    local svg = plot:svg()
    assert.equal(2, count(svg, "<g transform"))
    assert.equal(2, count(svg, "<polyline") / 2)
    assert.truthy(svg:find(">cluster: c1<", 1, true) and svg:find(">cluster: c2<", 1, true))
    local first, second = svg:match "<g transform.-</g>", svg:match "</g>%s*(<g transform.-</g>)"
    local function ticks(text)
      local found = {}
      for tick in text:gmatch ">(%d+)</text>" do found[#found + 1] = tick end
      return found
    end
    assert.same(ticks(first), ticks(second))
    assert.truthy(#ticks(first) > 4)
    local text = plot:text(60)
    assert.truthy(text:find("cluster: c1\nlatency (s)\n", 1, true) and text:find("cluster: c2\n", 1, true))
  end)

  it("draws every kind in facets, and what has no numbers in one", function()
    local rows = sweep()
    for _, row in ipairs(rows) do
      if row.point.cluster == "c2" then row.latency_s, row.status = nil, "infeasible" end
    end
    for _, spec in ipairs {
      { kind = "bars", x = "theta", y = "latency_s", by = "planner" },
      { kind = "cdf", x = "latency_s", by = "planner" },
      { kind = "heatmap", x = "theta", y = "planner", value = "latency_s" },
      { kind = "pareto", x = "omega", y = "latency_s" },
      { kind = "lines", x = "theta", y = "latency_s", by = "planner" },
    } do
      spec.rows, spec.facet = rows, "cluster"
      local plot = ts.plot(spec)
      assert.truthy(plot:svg():find("6 infeasible", 1, true), spec.kind)
      assert.truthy(plot:text(70):find("6 infeasible", 1, true), spec.kind)
    end
    local many = {}
    for i = 1, 40 do many[i] = { point = { i = i }, y = i } end
    raises("invalid_argument", "40 values of i are too many small plots, 36 at most", function()
      ts.plot { kind = "scatter", rows = many, x = "y", y = "y", facet = "i" }
    end)
    raises("invalid_argument", "did you mean 'cluster'", function()
      ts.plot { kind = "scatter", rows = rows, x = "theta", y = "omega", facet = "clustr" }
    end)
  end)

  it("writes pgfplots pictures", function()
    local path = support.temporary() .. ".tex"
    ts.plot({ kind = "lines", rows = sweep(), x = "theta", y = "latency_s", by = "planner", title = "50 %",
      where = { cluster = "c1" } }):save(path)
    local text = support.read(path)
    os.remove(path)
    assert.equal(1, count(text, "\\begin{axis}"))
    for _, part in ipairs {
      "\\usepackage{pgfplots}", "\\definecolor{tessera1}{HTML}{0072B2}", "title = {50 \\%}", "ylabel = {latency (s)}",
      "coordinates {\n  (0, 10)\n  (1, 11)\n  (10, 20)\n};\n\\addlegendentry{exact}",
      "\\end{axis}\n\\end{tikzpicture}",
    } do assert.truthy(text:find(part, 1, true), part) end
    raises("unsupported", "save it as .pdf", function()
      ts.plot({ kind = "heatmap", rows = sweep(), x = "theta", y = "planner", value = "omega", facet = "cluster" })
        :save(support.temporary() .. ".tex")
    end)
  end)

  it("is declared by no experiment with rows that it would refuse", function()
    for _, script in ipairs(host.experiments()) do
      if core.read_file(script.path):find("plots = ", 1, true) then
        local ok, experiment = pcall(function() return host.load_script(script.path)() end)
        local declared = ok and getmetatable(experiment) == "tessera.Experiment" and experiment.plots or {}
        for i, spec in ipairs(declared) do
          local list = {}
          for _, point in ipairs(experiment.points) do list[#list + 1] = { point = point } end
          if spec.where then list = rows_of.where(list, spec.where) end
          local columns = hidden.columns { kind = spec.kind, x = spec.x, y = spec.y, by = spec.by, facet = spec.facet,
            value = spec.value, rows = list }
          assert.is_nil(columns, ("%s, plot %d: %s"):format(script.name, i, table.concat(columns or {}, ", ")))
        end
      end
    end
  end)
end)

describe("tessera plot", function()
  local path, folder
  setup(function()
    path, folder = support.temporary(), os.tmpname()
    os.remove(path)
    os.remove(folder)
    local file = store.open(path)
    local run = file:start_run { experiment = "my/sweep", declaration = { keys = { "theta", "planner", "cluster" } } }
    for _, row in ipairs(sweep()) do
      file:add(run, { point = row.point, status = "done", columns = { latency_s = row.latency_s, omega = row.omega } })
    end
    file:close()
  end)
  teardown(function()
    support.remove_files()
    host.run_program({ "rm", "-rf", folder }, "")
  end)

  local function plot(...)
    local status, out, err = host.run_program({ host.program, "plot", "my/sweep", "--results", path, ... }, "")
    return out, err, status
  end

  it("draws what suits the rows, on the terminal or into files", function()
    local text = plot()
    assert.truthy(text:find("cluster: c1", 1, true) and text:find("● exact  ■ uniform", 1, true), text)
    for _, format in ipairs { "svg", "pdf", "png", "tex", "txt" } do
      assert.equal(("wrote %s/my-sweep.%s\n"):format(folder, format), (plot("--out", folder, "--format", format)))
      assert.truthy(#support.read(folder .. "/my-sweep." .. format) > 200)
    end
    assert.same({ folder .. "/my-sweep.svg" }, core.from_json((plot("--out", folder, "--json"))))
  end)

  it("draws a plot of the flags", function()
    local text = plot("--kind", "bars", "--x", "planner", "--y", "omega", "--by", "theta", "--where", "cluster=c2")
    assert.truthy(text:find("^omega\nexact   0  "), text)
  end)

  it("refuses with the way out", function()
    local function refused(status_wanted, text, ...)
      local _, why, status = plot(...)
      assert.equal(status_wanted, status)
      assert.truthy(why:find(text, 1, true), why)
    end
    refused(1, 'Give facet = "cluster"', "--kind", "lines", "--x", "theta", "--y", "omega", "--by", "planner")
    refused(2, "--x: it describes a plot of your own; say --kind too", "--x", "theta")
    refused(2, "say where with --out DIR", "--format", "pdf")
    refused(2, "no row has a column 'clstr'", "--where", "clstr=c1")
  end)
end)
