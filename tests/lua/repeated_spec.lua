-- What repetitions become where they are shown and judged: bands and whiskers, "12.3 ± 0.4", LaTeX, paired tests.
local claims = require "tessera.desk.experiment.claims"
local host = require "tessera.host"
local latex = require "tessera.desk.latex"
local rows = require "tessera.desk.rows"
local sheet = require "tessera.desk.sheet"
local support = require "support"
local student_t = require "tessera.models.student_t"
local ts = require "tessera"
local warning = require "tessera.desk.one_repetition"

-- Two planners at three rates, four times each: `uniform` takes `factor` as long, and each repetition `noise` more.
local function repetitions(factor, noise)
  local list = {}
  for _, planner in ipairs { "exact", "uniform" } do
    for rate = 1, 3 do
      for rep = 1, 4 do
        local base = rate * (planner == "uniform" and factor or 1)
        list[#list + 1] = { point = { planner = planner, rate = rate, rep = rep }, status = "done",
          latency_s = base * (1 + noise * (rep - 2.5) + (planner == "exact" and 0.002 * rep * rate or 0)) }
      end
    end
  end
  return list
end

describe("an interval of a plot", function()
  local function plot(changes)
    return ts.plot(support.changed({ kind = "lines", rows = repetitions(1.5, 0.1), x = "rate", y = "latency_s",
      by = "planner", over = "rep" }, changes))
  end
  local function count(text, pattern) return select(2, text:gsub(pattern, "")) end
  local function saved(made)
    local path = support.temporary() .. ".tex"
    made:save(path)
    local text = support.read(path)
    os.remove(path)
    return text
  end
  after_each(support.remove_files)

  it("is a band along a line, of the mean's interval where rows are repetitions", function()
    local svg = plot():svg()
    assert.equal(2, count(svg, "<polygon "))
    assert.matches("95 %% interval", svg)
    assert.matches("exact: 1, 1%.005 s %(0%.%d+ to 1%.%d+ s%)", svg)
    assert.matches("⠒ 95 %% interval\n", plot():text(60))
    local tex = saved(plot())
    assert.equal(2, count(tex, "forget plot%] coordinates {[^}]*} %-%- cycle;"))
  end)

  it("is a whisker at other marks", function()
    for _, kind in ipairs { "scatter", "bars" } do
      local svg = plot { kind = kind }:svg()
      assert.equal(6 + 1, count(svg, 'd="M[%d.]+ [%d.]+V[%d.]+m%-4 0h8')) -- and the legend's
      assert.equal(6, count(saved(plot { kind = kind }), "%) %+= %(0, [%d.]+%) %-= %(0, [%d.]+%)"))
    end
    assert.matches("1 exact +█+[^ ]* 1%.005 s %(0%.%d+ to 1%.%d+ s%)\n", plot { kind = "bars" }:text(80))
  end)

  it("is between two columns", function()
    local given = { kind = "lines", x = "x", y = "p50_s", low = "p10_s", high = "p90_s", rows = {
      { x = 1, p50_s = 2, p10_s = 1, p90_s = 3 }, { x = 2, p50_s = 2, p10_s = 3, p90_s = 1 }, { x = 3, p50_s = 2 },
      { x = 4, p50_s = 2, p10_s = 1, p90_s = 40 } } }
    local svg = ts.plot(given):svg()
    assert.matches("p10_s to p90_s", svg)
    assert.equal(1, count(svg, "<polygon "))
    assert.equal(1, count(svg, 'V[%d.]+m%-4 0h8')) -- the last point stands alone
    assert.matches(">40</text>", svg) -- the axis reaches its end
  end)

  it("is refused where it could not be seen", function()
    local one = { { x_s = 1, y_s = 2, low = 1, high = 3 } }
    support.raises("invalid_argument", "ts.plot.high: an interval has two ends",
      function() ts.plot { kind = "lines", rows = one, x = "x_s", y = "y_s", high = "high" } end)
    support.raises("invalid_argument", 'kind = "pareto" shows no intervals',
      function() ts.plot { kind = "pareto", rows = one, x = "x_s", y = "y_s", low = "low", high = "high" } end)
    support.raises("invalid_argument", "no row has the column 'lo'",
      function() ts.plot { kind = "lines", rows = one, x = "x_s", y = "y_s", low = "lo", high = "high" } end)
  end)
end)

describe("a table of means", function()
  local list = { { point = { n = 1 }, status = "done", latency_s = 12.345, latency_s_half = 0.412, repetitions = 3 },
    { point = { n = 2 }, status = "done", latency_s = 145.5, latency_s_half = 22, repetitions = 3 },
    { point = { n = 3 }, status = "done", latency_s = 8.25, repetitions = 1 } }
  local function page(columns) return rows.sheet(list, { spread = true, columns = columns }) end

  it("has each with its half width", function()
    assert.same({ "n", "status", "latency_s", "repetitions" }, page().columns)
    local text = sheet.table(page(), 80)
    assert.matches("12.35 ± 0.41 ", text)
    assert.matches("145.5 ± 22 ", text)
    assert.matches("8.25  ", text)
    assert.matches("| +145.5 ± 22 |", sheet.markdown(page { "n", "latency_s" }))
    assert.matches("12.345,0.412", sheet.csv(rows.sheet(list, { columns = { "latency_s", "latency_s_half" } })))
  end)

  it("is uncertain digits for siunitx", function()
    local text = latex.write(page { "n", "latency_s" }, {})
    assert.matches("S%[table%-format = 3%.1%(3%), uncertainty%-mode = separate%]", text)
    assert.matches("\n1 & 12%.3%(4%) \\\\\n2 & 145%.5%(220%) \\\\\n3 & 8%.2 \\\\\n", (text:gsub("8%.3 ", "8.2 ")))
    local small = { { point = { n = 1 }, loss = 1.25e-7, loss_half = 2e-9 }, { point = { n = 2 }, loss = 3 } }
    assert.matches("\\num{1%.25%(2%)e%-07}", latex.write(rows.sheet(small, { spread = true }), {}))
  end)
end)

describe("tessera results --over", function()
  after_each(support.remove_files)

  it("shows means of stored rows", function()
    local path = support.temporary()
    os.remove(path)
    local script = support.temporary [[return require("tessera").experiment { name = "my/sweep",
      grid = { x = { 1, 2 }, rep = { 1, 2, 3 } }, over = "rep",
      run = function(p) return { y_s = p.x + p.rep / 10 } end }]]
    local function tessera(...) return host.run_program({ host.program, ... }, "") end
    assert.equal(0, (tessera("run", script, "--results", path)))
    local function shown(...)
      local status, out, err = tessera("results", "my/sweep", "--results", path, "--over", ...)
      return status == 0 and out or err
    end
    assert.matches("1  done +3  1%.2 ± 0%.25\n2  done +3  2%.2 ± 0%.25\n", shown "rep")
    assert.matches("1  done +2  1%.15 ± 0%.64\n$", (shown("rep", "--where", "x=1", "--where", "rep=1,2")))
    assert.matches("\n1,done,3,1%.2%d*,0%.248", (shown("rep", "--format", "csv"):gsub("\r", "")))
    assert.matches("no key 'rap'; did you mean 'rep'", shown "rap")
    assert.matches("has no %-%-failed", shown("rep", "--failed"))
    assert.matches("2  done +3  1 ± %S+\n", shown("rep", "--against", "x=1"))
    assert.matches("no row has x = 3: there are 1, 2", shown("rep", "--against", "x=3"))
    local _, plot = tessera("plot", "my/sweep", "--results", path)
    assert.matches("\n1 █+%S* 1%.2 s %(0%.95%d* to 1%.4%d* s%)\n2 █+%S* 2%.2 s %(", plot)
  end)
end)

describe("the interval of a mean", function()
  -- scipy 1.17.1: stats.t.interval(0.95, n - 1, mean, stats.sem(values)), its half width; stats.t.ppf.
  it("is scipy's", function()
    for _, case in ipairs {
      { { 1.25, 1.5, 1.125, 1.75, 1.375 }, 1.4, 0.29854854851249746 },
      { { 10.1, 10.4, 9.7, 10.2, 9.9 }, 10.059999999999999, 0.33547913849266564 },
      { { 1e-3, 1.5e-3, 0.9e-3, 1.1e-3, 1.3e-3 }, 0.00116, 0.0002990322893890403 },
      { { 3, 3.5 }, 3.25, 3.1765511840436735 },
    } do
      local list = {}
      for rep, value in ipairs(case[1]) do list[rep] = { point = { rep = rep }, status = "done", x_s = value } end
      local mean = ts.repeated(list, "rep")[1]
      assert.near(1, mean.x_s / case[2], 1e-12)
      assert.near(1, mean.x_s_half / case[3], 1e-9)
    end
    local quantiles = { -- by confidence, of 1, 2, 4, 9 and 99 degrees of freedom
      [0.5] = { 1, 0.8164965809277261, 0.7406970841126829, 0.7027221467513264, 0.6769759855461531 },
      [0.95] = { 12.706204736174694, 4.302652729749462, 2.7764451051977934, 2.262157162798205, 1.9842169515864174 },
      [0.9999] = { 6366.197671316637, 99.99249984375004, 15.544100581546113, 6.593682583944882, 4.055041309114356 },
    }
    for confidence, expected in pairs(quantiles) do
      for i, degrees in ipairs { 1, 2, 4, 9, 99 } do
        assert.near(1, student_t.within(confidence, degrees) / expected[i], 1e-9)
      end
    end
  end)

  it("is said to be missing where there is one repetition", function()
    local one = { { point = { n = 1 }, repetitions = 1 }, { point = { n = 2 }, repetitions = 1 } }
    assert.matches("^one repetition alone: no mean has an interval.*give 'rep' more values$", warning(one, "rep"))
    one[2].repetitions = 3
    assert.equal("1 of 2 means rest on one repetition and have no interval: give 'rep' more values",
      warning(one, "rep"))
    one[1].repetitions = 2
    assert.is_nil(warning(one, "rep"))
  end)
end)

describe("differences in pairs", function()
  local uniform = { planner = "uniform" }

  it("are taken repetition by repetition", function()
    local means = ts.repeated(repetitions(1.5, 0.1), "rep", uniform)
    assert.equal(3, #means) -- the other of each pair is gone
    -- Both planners share the noise: what is left is 0.5 (1 + 0.1 (rep - 2.5)) and 0.002 rep.
    assert.near(-0.5 + 0.005, means[1].latency_s, 1e-12)
    local apart = ts.repeated(repetitions(1.5, 0.1), "rep")[1]
    assert.is_true(means[1].latency_s_half < 0.6 * apart.latency_s_half)
    assert.equal("exact", means[1].point.planner)
  end)

  it("lack what has no partner, and keep what failed", function()
    local list = repetitions(1.5, 0.1)
    table.remove(list, 13) -- uniform at rate 1, repetition 1
    list[2].error, list[2].status = "boom", "error"
    local mean = ts.repeated(list, "rep", uniform)[1]
    assert.equal(2, mean.repetitions)
  end)

  it("are refused by name", function()
    local list = repetitions(1.5, 0)
    support.raises("invalid_argument", "no key 'planer'; did you mean 'planner'",
      function() ts.repeated(list, "rep", { planer = "uniform" }) end)
    support.raises("invalid_argument", "no row has planner=x",
      function() ts.repeated(list, "rep", { planner = "x" }) end)
    support.raises("invalid_argument", "'rep' counts the repetitions",
      function() ts.repeated(list, "rep", { rep = 1 }) end)
    support.raises("invalid_argument", "ts.plot.against: differences are taken repetition by repetition",
      function() ts.plot { kind = "bars", rows = list, x = "rate", y = "latency_s", against = uniform } end)
  end)

  it("are drawn and judged", function()
    local list = repetitions(1.5, 0.1)
    local svg = ts.plot { kind = "lines", rows = list, x = "rate", y = "latency_s", by = "planner", over = "rep",
      against = uniform }:svg()
    assert.matches("exact: 1, %-0%.495 s %(%-", svg)
    local points = {}
    for i, row in ipairs(list) do points[i] = row.point end
    local function judged(changes)
      local claim = support.changed({ column = "latency_s", means = true, against = uniform, interval = true,
        at_most = 0 }, changes)
      local experiment = ts.experiment { name = "x", grid = points, over = "rep", run = function() end,
        check = function(t) t:expect_all(claim) end }
      local found = claims.check(experiment, list)[1]
      return found.status, found
    end
    local status, claim = judged {}
    assert.same({ "pass", "latency_s <= 0 (its 95 % interval), means over rep of differences to planner=uniform" },
      { status, claim.text })
    assert.equal("fail", (judged { at_most = -0.49, where = { rate = 1 } })) -- the mean is below, its interval is not
    assert.equal("pass", (judged { at_most = -0.49, interval = false, where = { rate = 1 } }))
    table.remove(list)
    assert.equal("skipped", (judged {})) -- a repetition has not run
  end)
end)

describe("a paired test", function()
  local function judged(list, changes)
    local points = {}
    for i, row in ipairs(list) do points[i] = row.point end
    local experiment = ts.experiment { name = "x", grid = points, run = function() end, check = function(t)
      t:expect_ratio(support.changed({ column = "latency_s", of = { planner = "exact" }, over = { planner = "uniform" },
        at_most = 1, confidence = 0.95 }, changes))
    end }
    local claim = claims.check(experiment, list)[1]
    return claim.status, claim
  end

  it("passes where the interval of the mean ratio is within the bounds", function()
    local status, claim = judged(repetitions(1.5, 0.1))
    assert.equal("pass", status)
    assert.matches("over 12 pairs; 95 %% interval 0%.67%d* to 0%.67%d*$", claim.numbers)
    assert.matches("%(paired, 95 %%%)$", claim.text)
    assert.equal("pass", (judged(repetitions(1.5, 0.1), { mean = "arithmetic" })))
  end)

  it("fails where the mean alone is", function()
    local list = repetitions(1.02, 0) -- the ratios spread around 1
    for i, row in ipairs(list) do
      if row.point.planner == "exact" then row.latency_s = row.latency_s * (i % 2 == 0 and 1.2 or 0.7) end
    end
    assert.equal("fail", (judged(list)))
    assert.equal("pass", (judged(list, { confidence = 0.5 })))
  end)

  it("wants pairs and a mean", function()
    local pair = { repetitions(1.5, 0)[1], repetitions(1.5, 0)[13] }
    local status, claim = judged(pair)
    assert.same({ "fail", "one pair tells nothing of the spread" }, { status, claim.lines[1] })
    status, claim = judged(repetitions(1.5, 0.1), { mean = "highest" })
    assert.equal("fail", status)
    assert.matches("the highest of several ratios has no interval", claim.numbers)
  end)
end)
