-- Declarations of experiments: what is checked before anything runs. Sweeps themselves: tests/program/sweep_test.cpp.

local ts = require "tessera"
local support = require "support"
local claims = require "tessera.desk.experiment.claims"
local grid = require "tessera.desk.experiment.grid"
local paper = require "tessera.desk.experiment.paper"
local point = require "tessera.desk.experiment.point"
local progress = require "tessera.desk.experiment.progress"
local shards = require "tessera.desk.experiment.shards"
local verdict = require "tessera.desk.experiment.verdict"

local function declared(changes)
  return ts.experiment(support.changed({
    name = "test/one", grid = { planner = { "exact", "uniform" }, size = { 1, 2, 3 } },
    run = function(p) return { x = p.size } end,
  }, changes))
end

describe("ts.experiment", function()
  it("expands the grid in the order of its sorted keys", function()
    local e = declared()
    assert.equal(6, #e.points)
    assert.same({ "planner", "size" }, e.keys)
    assert.same({ planner = "exact", size = 1 }, e.points[1])
    assert.same({ planner = "uniform", size = 3 }, e.points[6])
    assert.equal("tessera.Experiment", getmetatable(e))
    assert.equal("experiment test/one: 6 points", tostring(e))
    support.raises("invalid_argument", "read-only", function() e.name = "other" end)
  end)

  it("takes quick values that replace those of the grid", function()
    local e = declared { quick = { size = { 9 } } }
    assert.same({ { planner = "exact", size = 9 }, { planner = "uniform", size = 9 } }, e.quick_points)
  end)

  it("takes listed points, of which quick chooses", function()
    local list = { { a = 1, b = "x" }, { a = 2, b = "x" }, { a = 2, b = "y" } }
    local e = declared { grid = list, quick = { a = { 2 } } }
    assert.equal(3, #e.points)
    assert.equal(2, #e.quick_points)
  end)

  it("says in the row that a plan was cut short", function()
    ts.register_heuristic { name = "endless", doc = "d", improve = function(search)
      while not search:expired() do search:perturb(0.1) end
    end }
    local problem = ts.problem { model = "opt-125m", cluster = "2xT4-16G", bitwidths = { 4, 8 } }
    local function row(planner, own)
      local e = declared { run = function()
        local plan = assert(ts.plan(problem, { planner = planner, time_limit_s = 0.05 }))
        return { status = plan.status, stopped_by = own }
      end }
      return point.run(e, { point = {}, seed = 1, index = 1, text = "one" }, { time_limit_s = 60 })
    end
    local cut = row { "adabits", "endless" }
    assert.equal("feasible", cut.status)
    assert.equal("time_limit", cut.columns.stopped_by)
    assert.is_nil(row("adabits").columns.stopped_by)
    assert.equal("mine", row({ "adabits", "endless" }, "mine").columns.stopped_by)
  end)

  for _, case in ipairs {
    { { gird = {} }, "unknown option 'gird'; did you mean 'grid'" },
    { { name = "no spaces" }, "'no spaces' is no name" }, { { name = "a/../b" }, "is no name" },
    { { name = "a/" }, "is no name" }, { { name = ("x"):rep(101) }, "is no name" },
    { { run = 3 }, "run: the number 3 has the wrong type; give fun(point" },
    { { check = {} }, "check: a table has the wrong type; give fun(" },
    { { grid = {} }, "give { key = { value" }, { { grid = { a = {} } }, "the list of values is empty" },
    { { grid = { a = 3 } }, "a list of values belongs here, not a number" },
    { { grid = { a = { 1, 1 } } }, "1 is there twice" }, { { grid = { a = { 0 / 0 } } }, "not a finite number" },
    { { grid = { a = { {} } } }, "belongs here, not a table; give it a name" },
    { { grid = { "a", "b" } }, "grid[1]: a point belongs here, { key = value, ... }, not a string" },
    { { grid = { ["a b"] = { 1 } } }, "no name of letters" }, { { grid = { status = { 1 } } }, "choose another name" },
    { { grid = { { a = 1 }, { b = 1 } } }, "the key 'b', which the first point has not" },
    { { grid = { { a = 1, b = 2 }, { a = 1 } } }, "it has no 'b'" },
    { { grid = { { a = 1 }, { a = 1 } } }, "the same point is there twice: a=1" },
    { { quick = { sice = { 1 } } }, "the grid has no key 'sice'; did you mean 'size'" },
    { { quick = { size = 1 } }, "a list of values" }, { { time_limit_s = 0 }, "is out of range", "out_of_range" },
    { { seed = 0.5 }, "not an integer" }, { { columns = { 1 } }, "a string belongs here" },
    { { plots = { "bars" } }, "a table belongs here" },
    { { plots = { { kind = "bar", x = "a", y = "b" } } }, "plots[1]: kind: 'bar' is not a choice" },
    { { plots = { { kind = "bars", x = "a" } } }, "plots[1]: y: missing" },
    { { plots = { { kind = "cdf", x = "a", whre = {} } } }, "did you mean 'where'" },
    { { plots = { { kind = "cdf", x = "a", rows = {} } } }, "leave rows away" },
    { { paper = {} }, "give what ts.paper returns" },
  } do
    it("refuses: " .. case[2], function()
      support.raises(case[3] or "invalid_argument", case[2], function() declared(case[1]) end)
    end)
  end
  it("wants name, grid and run", function()
    support.raises("invalid_argument", "ts.experiment.run: missing", function()
      ts.experiment { name = "x", grid = { a = { 1 } } }
    end)
  end)
end)

describe("ts.grid and --where", function()
  it("lists every combination", function()
    assert.same({ { a = 1, b = true }, { a = 1, b = false } }, ts.grid { a = { 1 }, b = { true, false } })
  end)
  it("counts the points before it makes them", function()
    local function thousand(from)
      local list = {}
      for i = 1, 1000 do list[i] = from + i end
      return list
    end
    local many = { a = thousand(0), b = thousand(0), c = thousand(0) }
    local endless = {}
    for i = 1, 400 do endless["k" .. i] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 } end
    local small, run = { a = { 1 }, b = { 1 }, c = { 1 } }, function() end
    local before = collectgarbage "count"
    for _, case in ipairs {
      { "ts.grid: it has 1000000000 points, at most 1000000", function() ts.grid(many) end },
      { "ts.grid: it has more than 1e308 points", function() ts.grid(endless) end },
      { "ts.experiment.grid: it has 1000000000 points",
        function() ts.experiment { name = "x", grid = many, run = run } end },
      { "ts.experiment.quick: it has 1000000000 points",
        function() ts.experiment { name = "x", grid = small, quick = many, run = run } end },
    } do
      support.raises("invalid_argument", case[1], case[2])
    end
    assert.is_true(collectgarbage "count" - before < 10 * 1024)
    assert.equal(1000000, #ts.grid { a = thousand(0), b = thousand(0) })
  end)
  it("chooses by words as people type them", function()
    local keys, points = grid.expand({ n = { 1, 2.5 }, flag = { true }, name = { "a", "b" } }, "x")
    assert.same({ n = { 2.5 }, name = { "a", "b" } }, grid.where({ "n=2.50", "name=a", "b" }, keys, points))
    support.raises("usage", "no key 'nam'; did you mean 'name'", function()
      grid.where({ "nam=a" }, keys, points)
    end)
    support.raises("usage", "no point has name = 'c'", function() grid.where({ "name=c" }, keys, points) end)
    support.raises("usage", "'a' is not key=value", function() grid.where({ "a" }, keys, points) end)
  end)
  it("takes all values that read alike, unless a number is typed with all its digits", function()
    local keys, points = grid.expand({ v = { 1, "1", true, "true", 0.3, 0.1 + 0.2 } }, "x")
    local function chosen(word) return #grid.select(points, grid.where({ word }, keys, points)) end
    assert.equal(2, chosen "v=1")
    assert.equal(2, chosen "v=true")
    assert.equal(2, chosen "v=0.3")
    assert.same({ v = { 0.1 + 0.2 } }, grid.where({ "v=0.30000000000000004" }, keys, points))
  end)
end)

describe("ts.paper", function()
  it("reads the shipped table", function()
    local t = ts.paper "llmpq/table4.csv"
    assert.equal(36, #t.rows)
    assert.same({ "cluster", "planner" }, t.keys)
    assert.same({ cluster = "llmpq-1", planner = "pipeedge" }, t.rows[1].point)
    assert.equal(13.69, t.rows[1].throughput_tok_s)
    assert.truthy(t.source:find "Table 4")
  end)
  local head = "# source: S\n# keys: a\n"
  it("reads quotes, empty cells and words", function()
    local t = paper.parse(head .. 'a,b,c\n"x, y","say ""hi""",\nz,,1e3\n', "f.csv")
    assert.same({ point = { a = "x, y" }, b = 'say "hi"' }, t.rows[1])
    assert.same({ point = { a = "z" }, c = 1000 }, t.rows[2])
  end)
  for _, case in ipairs {
    { "a,b\n1,2\n", "f.csv:1: no line '# source" }, { "# source: S\na,b\n1,2\n", "f.csv:2: no line '# keys" },
    { head .. "a,b\n1\n", "f.csv:4: 1 fields, the header has 2 columns" }, { head .. "b\n1\n", "no column 'a'" },
    { head .. "a,a\n1,2\n", "column 'a' is there twice" }, { head .. "a,b\n,2\n", "the key 'a' is empty" },
    { head .. "a,b\n1,2\n1,3\n", "f.csv:5: the point of line 4 again" }, { head .. "a,b\n", "no rows" },
    { head .. 'a,b\n"1,2\n', "a quotation mark is not closed" }, { head .. 'a,b\n"1"x,2\n', "text follows" },
    { head .. 'a,b\n1x"y",2\n', "inside a field" }, { head .. "a,b\n1,inf\n", "not a finite number" },
    { head .. "# keys: b\na,b\n", "f.csv:3: 'keys' is there twice" },
  } do
    it("refuses: " .. case[2], function()
      support.raises("invalid_argument", case[2], function() paper.parse(case[1], "f.csv") end)
    end)
  end
  it("refuses names that are none", function()
    support.raises("not_found", "there is no file 'no/such.csv'", function() ts.paper "no/such.csv" end)
    support.raises("invalid_argument", "is no name", function() ts.paper "../x.csv" end)
    support.raises("invalid_argument", "not a number", function() ts.paper(3) end)
  end)
end)

describe("the seed of a point", function()
  it("depends on the experiment's seed and the point, and on nothing else", function()
    assert.equal(point.seed(1, "k"), point.seed(1, "k"))
    assert.not_equal(point.seed(1, "k"), point.seed(2, "k"))
    assert.not_equal(point.seed(1, "k"), point.seed(1, "l"))
  end)
end)

describe("shards", function()
  local function env(values) return function(name) return values[name] end end
  it("are as the launcher says, unless --shard does", function()
    local s = shards.choose(nil, env { SLURM_PROCID = "1", SLURM_NTASKS = "3" })
    assert.same({ 1, 3, "Slurm" }, { s.index, s.count, s.by })
    assert.is_nil(shards.choose(nil, env { SLURM_PROCID = "0", SLURM_NTASKS = "1" }))
    assert.is_nil(shards.choose("0/2", env { SLURM_PROCID = "1", SLURM_NTASKS = "3" }).by)
    support.raises("usage", "part 3 of 3 does not exist", function()
      shards.choose(nil, env { RANK = "3", WORLD_SIZE = "3" })
    end)
  end)
  it("name their files", function()
    local s = shards.choose(nil, env { RANK = "1", WORLD_SIZE = "3" })
    assert.equal("dir/r.shard-1-of-3.db", shards.path("dir/r.db", s))
    assert.equal("r-shard-1-of-3.db", shards.path("r-{shard}.db", s))
    assert.equal("r.db", shards.path("r.db", shards.choose "1/3"))
    assert.same({ 2, 5 }, shards.part({ 1, 2, 3, 4, 5 }, s))
  end)
end)

describe("durations", function()
  it("are for people", function()
    assert.equal("1.2 s", progress.duration(1.23))
    assert.equal("45 s", progress.duration(45))
    assert.equal("3 min 20 s", progress.duration(200))
    assert.equal("2 h 5 min", progress.duration(7500))
  end)
end)

describe("claims", function()
  local values = {
    { "a", "exact", 10 }, { "a", "uniform", 5 }, { "b", "exact", 8 }, { "b", "uniform", nil },
    { "c", "exact", 9 }, { "c", "uniform", 9.5 },
  }
  local function rows_of(keep)
    local rows = {}
    for i, v in ipairs(values) do
      if not keep or keep(i) then
        rows[#rows + 1] = { point = { c = v[1], planner = v[2] }, status = v[3] and "optimal" or "infeasible",
          throughput_tok_s = v[3] }
      end
    end
    return rows
  end
  local function check(body, keep)
    local e = ts.experiment {
      name = "x", grid = { c = { "a", "b", "c" }, planner = { "exact", "uniform" } }, run = function() end,
      check = body,
      paper = { keys = { "c", "planner" }, rows = {
        { point = { c = "a", planner = "exact" }, throughput_tok_s = 11 },
        { point = { c = "c", planner = "exact" }, throughput_tok_s = 30 },
      } },
    }
    return claims.check(e, rows_of(keep))
  end
  local function outcome(body, keep)
    local list = check(body, keep)
    assert.equal(1, #list)
    return list[1].status, list[1]
  end
  local best = { column = "throughput_tok_s", is = { planner = "exact" } }

  it("expect_best", function()
    local status, claim = outcome(function(t) t:expect_best(best) end)
    assert.equal("fail", status)
    assert.same({ "c=c: 9, but 9.5 with c=c planner=uniform" }, claim.lines)
    assert.equal("pass", outcome(function(t) t:expect_best(support.changed(best, { within = 0.06 })) end))
    local ab = { where = { c = { "a", "b" } } }
    assert.equal("pass", outcome(function(t) t:expect_best(support.changed(best, ab)) end))
    assert.equal("fail", outcome(function(t) t:expect_best(support.changed(best, { lowest = true })) end))
    assert.equal("skipped", outcome(function(t) t:expect_best(best) end, function(i) return i < 5 end))
  end)

  it("expect_close", function()
    local close = { column = "throughput_tok_s", to = "paper", rel = 0.1 }
    local status, claim = outcome(function(t) t:expect_close(close) end)
    assert.equal("fail", status)
    assert.same({ "c=c planner=exact: 9 against 30 (-70.0 %)" }, claim.lines)
    assert.equal("pass", outcome(function(t) t:expect_close(support.changed(close, { where = { c = "a" } })) end))
    assert.equal("pass", outcome(function(t)
      t:expect_close { column = "throughput_tok_s", to = 9, abs = 1, where = { planner = "exact" } }
    end))
  end)

  it("published", function()
    local list = check(function(t)
      assert.equal(11, t:published({ c = "a", planner = "exact" }, "throughput_tok_s"))
      assert.is_nil(t:published({ c = "b", planner = "exact" }, "throughput_tok_s"))
    end)
    assert.same({}, list) -- no error either
  end)
  it("expect_that", function()
    local better = { text = "exact is twice as fast on a", where = { c = "a" }, holds = function(at, rows)
      local exact, uniform = at { planner = "exact" }, at { planner = "uniform" }
      return exact.throughput_tok_s >= 2 * uniform.throughput_tok_s, #rows .. " rows"
    end }
    local status, claim = outcome(function(t) t:expect_that(better) end)
    assert.equal("pass", status)
    assert.same({ "exact is twice as fast on a, for c=a", "2 rows" }, { claim.text, claim.numbers })
    assert.equal("skipped", outcome(function(t) t:expect_that(better) end, function(i) return i ~= 2 end))
    assert.equal("fail", outcome(function(t)
      t:expect_that(support.changed(better, { holds = function() return false end }))
    end))
  end)
  it("expect_that of a point that failed", function()
    local e = ts.experiment { name = "x", grid = { c = { "a", "b" } }, run = function() end, columns = { "x" },
      check = function(t)
        t:expect_that { text = "a is above b", holds = function(at) return at { c = "a" }.x > at { c = "b" }.x end }
      end }
    local claim = claims.check(e, {
      { point = { c = "a" }, status = "ok", x = 1 },
      { point = { c = "b" }, status = "time_limit", error = "still running" },
    })[1]
    assert.equal("fail", claim.status)
    assert.same({ "c=b: time_limit" }, claim.lines)
  end)
  it("skips points that had no data to run on", function()
    local e = ts.experiment { name = "x", grid = { c = { "a" } }, run = function() end, columns = { "x" },
      check = function(t) t:expect_all { column = "x", at_least = 1 } end }
    local claim = claims.check(e, { { point = { c = "a" }, status = "no_data" } })[1]
    assert.same({ "skipped", 1 }, { claim.status, claim.without_data })
  end)
  describe("not_reproduced", function()
    local close = { column = "throughput_tok_s", to = "paper", rel = 0.1, where = { c = "c" } }
    local function with(reason, changes, keep)
      return outcome(function(t)
        local claim = support.changed(close, { not_reproduced = reason, here = { 0.29, 0.31 } })
        t:expect_close(support.changed(claim, changes or {}))
      end, keep)
    end
    it("counts apart, with the figure and the reason", function()
      local status, claim = with "another batch size in print"
      assert.equal("differs", status)
      assert.equal("another batch size in print", claim.not_reproduced)
      assert.equal("c=c planner=exact: 9 against 30 (-70.0 %)", claim.lines[1])
      assert.is_nil(verdict.passed(status))
    end)
    it("fails once the claim holds", function()
      local status, claim = with("another batch size", { rel = 0.9 })
      assert.equal("fail", status)
      assert.truthy(claim.lines[1]:find("it holds, though it is listed as not reproduced (another batch", 1, true))
    end)
    it("is skipped where nothing was run, and fails where nothing is concerned", function()
      assert.equal("skipped", with("x", {}, function(i) return i < 5 end))
      assert.equal("fail", with("x", { where = { c = "b" } }))
    end)
    it("does not excuse points that failed", function()
      local e = ts.experiment { name = "x", grid = { c = { "a" } }, run = function() end, check = function(t)
        t:expect_all { column = "status", equals = "optimal", not_reproduced = "x", here = "crashed" }
      end }
      local row = { point = { c = "a" }, status = "crashed", error = "killed" }
      assert.equal("fail", claims.check(e, { row })[1].status)
      row.error = nil
      assert.equal("differs", claims.check(e, { row })[1].status)
    end)
    it("is counted, also of claims stored before there was a status", function()
      assert.same({ pass = 2, fail = 1, skipped = 1, differs = 1, note = 1 }, verdict.count { { passed = true },
        { passed = false }, {}, { status = "differs" }, { status = "pass", passed = true }, { status = "note" } })
    end)
    it("wants a reason", function()
      local wordless = support.changed(close, { not_reproduced = " ", here = { 0, 1 } })
      local list = check(function(t) t:expect_close(wordless) end)
      assert.truthy(list[1].numbers:find("not_reproduced: say why", 1, true))
    end)
    it("fails once what comes out leaves its interval, on either side", function()
      for _, here in ipairs { { 0.1, 0.2 }, { 0.31, 0.9 } } do
        local status, claim = with("x", { here = here })
        assert.equal("fail", status)
        assert.truthy(claim.lines[1]:find("0.3 is not what is stored as coming out here", 1, true))
      end
      assert.equal("fail", with("x", { here = "infeasible" }))
    end)
    it("wants an interval, and an interval wants a reason", function()
      for _, changes in ipairs {
        { not_reproduced = "x" }, { here = { 0, 1 } }, { not_reproduced = "x", here = { 1, 0 } },
        { not_reproduced = "x", here = { 1 } }, { not_reproduced = "x", here = { 0, 0 / 0 } } } do
        local list = check(function(t) t:expect_close(support.changed(close, changes)) end)
        assert.equal("check raised an error", list[1].text)
        assert.truthy(list[1].numbers:find("{ lowest, highest }", 1, true))
      end
    end)
  end)
  it("a note counts apart, and fails where it does not hold", function()
    local function with(rel)
      return outcome(function(t)
        t:expect_close { column = "throughput_tok_s", to = "paper", rel = rel, where = { c = "c" }, note = "a theorem" }
      end)
    end
    local status, claim = with(0.9)
    assert.same({ "note", "a note: a theorem" }, { status, verdict.why(claim) })
    assert.is_nil(verdict.passed(status))
    assert.equal("fail", with(0.1))
    assert.equal("note", outcome(function(t) t:note("all of them", "6 rows") end))
  end)
  it("one reason at a time", function()
    local list = check(function(t) t:expect("x", true, nil, { note = "a", may_differ = "b" }) end)
    assert.truthy(list[1].numbers:find("at once", 1, true))
  end)
  it("skip says what waits for data", function()
    local status, claim = outcome(function(t) t:skip("not checked: no measurements") end)
    assert.same({ "skipped", "not checked: no measurements" }, { status, claim.text })
  end)
  it("expect takes a value to hold against `here`", function()
    local function with(value)
      return outcome(function(t)
        t:expect("error at most 5 %", value <= 0.05, nil, {
          value = value, not_reproduced = "why", here = { 0.1, 0.2 },
        })
      end)
    end
    assert.equal("differs", with(0.15))
    assert.equal("fail", with(0.25))
    assert.equal("fail", with(0.01))
  end)
  it("a ratio is expected within a factor to either side", function()
    local function with(changes)
      return outcome(function(t)
        t:expect_ratio(support.changed({ column = "throughput_tok_s", of = { planner = "exact" },
          over = { planner = "uniform" }, where = { c = { "a", "c" } }, mean = "highest" }, changes))
      end)
    end
    assert.equal("pass", with { to = 2, rel = 0.1 })
    assert.equal("pass", with { to = 2.15, rel = 0.1 })
    assert.equal("fail", with { to = 1.7, rel = 0.1 }) -- too fast does not pass
    assert.equal("fail", with { to = 2.5, rel = 0.1 })
    assert.equal("pass", with { mean = "lowest", to = 9 / 9.5, rel = 1e-6 })
    assert.equal("pass", with { mean = "arithmetic", to = (2 + 9 / 9.5) / 2, rel = 1e-6 })
    local status, claim = with { to = 2 }
    assert.same({ "fail", true }, { status, claim.numbers:find("to goes with rel", 1, true) ~= nil })
  end)
  it("may_differ passes or counts apart", function()
    local function with(rel)
      return outcome(function(t)
        t:expect_close { column = "throughput_tok_s", to = "paper", rel = rel, where = { c = "c" }, may_differ = "why" }
      end)
    end
    assert.equal("pass", with(0.9))
    local status, claim = with(0.1)
    assert.same({ "differs", "why" }, { status, claim.not_reproduced })
    local e = ts.experiment { name = "x", grid = { c = { "a" } }, run = function() end, check = function(t)
      t:expect_all { column = "status", equals = "optimal", may_differ = "x" }
    end }
    assert.equal("fail", claims.check(e, { { point = { c = "a" }, status = "crashed", error = "killed" } })[1].status)
  end)
  it("expect_all, expect_order, expect_ratio, expect", function()
    local exact = { planner = "exact" }
    assert.equal("pass", outcome(function(t)
      t:expect_all { column = "throughput_tok_s", at_least = 8, where = exact }
    end))
    assert.equal("fail", outcome(function(t)
      t:expect_all { column = "throughput_tok_s", at_most = 9, where = exact }
    end))
    assert.equal("fail", outcome(function(t) t:expect_all { column = "status", equals = "optimal" } end))
    local order = { column = "throughput_tok_s", by = "planner", order = { "exact", "uniform" } }
    assert.equal("fail", outcome(function(t) t:expect_order(order) end))
    local ab = { where = { c = { "a", "b" } } }
    assert.equal("pass", outcome(function(t) t:expect_order(support.changed(order, { within = 0.06 })) end))
    assert.equal("pass", outcome(function(t) t:expect_order(support.changed(order, ab)) end))
    local ratio = { column = "throughput_tok_s", of = exact, over = { planner = "uniform" }, at_least = 1.3 }
    local status, claim = outcome(function(t) t:expect_ratio(ratio) end)
    assert.equal("pass", status)
    assert.equal("geometric mean 1.376, 0.9474 to 2 over 2 pairs", claim.numbers)
    status, claim = outcome(function(t) t:expect_ratio(ratio) end, function(i) return i ~= 6 end)
    assert.equal("skipped", status)
    assert.matches("^%d[%d.]*$", claim.numbers)
    assert.equal("fail", outcome(function(t) t:expect_ratio(support.changed(ratio, { at_least = 1.5 })) end))
    assert.equal("pass", outcome(function(t) t:expect("three", #t:rows(exact) == 3, "3 rows") end))
    assert.equal("fail", outcome(function(t) t:expect("four", #t:rows(exact) == 4) end))
  end)

  it("that raise have failed, with the reason", function()
    for _, case in ipairs {
      { function(t) t:expect_best { column = "troughput_tok_s", is = { planner = "exact" } } end, "did you mean" },
      { function(t) t:expect_best { column = "throughput_tok_s", is = { planner = "exakt" } } end, "no point has" },
      { function(t) t:expect_best { colum = "x" } end, "unknown option 'colum'" },
      { function(t) t:expect_best { column = "throughput_tok_s" } end, "is: missing" },
      { function(t) t:expect_close { column = "throughput_tok_s", to = "paper" } end, "give rel or abs" },
      { function(t) t:expect_all { column = "throughput_tok_s" } end, "give at_least" },
      { function(t) t:expect_that { text = "x", holds = true } end, "give function" },
      { function(t) t:expect_that { text = "x", holds = function(at) return at { c = "a" } end } end, "more than one" },
      { function(t) t:expect_that { text = "x", holds = function(at) return at { c = "d" } end } end, "no point has" },
      { function(t) t:expect_that { text = "x", holds = function(at) return at() end } end, "a point, { key" },
      { function(t) t:rows(3) end, "t:rows.where: { key = value } belongs here" },
      { function(t) t:published(3, "x") end, "a point, { key = value }, belongs here" },
      { function(t) t:expect_bst {} end, "no such claim; did you mean 'expect_best'" },
      { function() error "own mistake" end, "own mistake" },
    } do
      local status, claim = outcome(case[1])
      assert.equal("fail", status)
      assert.truthy(claim.numbers:find(case[2], 1, true), claim.numbers)
    end
  end)
end)
