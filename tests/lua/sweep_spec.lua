-- A sweep before and after its points: mistakes of `check`, and what is printed of failures.
local claims = require "tessera.desk.experiment.claims"
local show = require "tessera.desk.experiment.show"
local support = require "support"
local ts = require "tessera"

describe("a sweep", function()
  local function declared(check)
    return ts.experiment { name = "x", grid = { n = { 1, 2, 3 } }, run = function() end, check = check }
  end

  it("is refused where its check asks for what there is not", function()
    for text, check in pairs {
      ["no such claim"] = function(t) t:expect_some { column = "a" } end,
      ["unknown option 'text'"] = function(t) t:expect_all { text = "a", column = "a", at_most = 1 } end,
      ["no key 'm'"] = function(t) t:expect_all { column = "a", at_most = 1, where = { m = 1 } } end,
    } do
      support.raises("invalid_argument", text, function() claims.refuse_mistakes(declared(check)) end)
    end
    claims.refuse_mistakes(declared(function(t) return t:rows {}[1].a end)) -- of rows that are not there yet
  end)

  it("prints a cause of failure once, and few of many counter-examples", function()
    local list, text = {}, ""
    local function write(more) text = text .. more end
    for n = 1, 3 do
      list[n] = { point = { n = n }, status = "failed", error = n < 3 and "boom" or "bang",
        meta = { traceback = "x.lua:1" } }
    end
    assert.equal(3, show.failures(declared(), list, "r.db", write))
    assert.matches("failed: n=1 and 1 more: boom\n    x.lua:1\n  failed: n=3: bang\n    x.lua:1\n", text)
    local lines = {}
    for i = 1, 60 do lines[i] = "n=" .. i end
    text = ""
    show.claims({ { text = "all", status = "fail", lines = lines, checked = 60 } }, write)
    assert.matches("n=8\n +%.%.%. and 52 more\n$", text)
  end)
end)

describe("repetitions", function()
  local list = {}
  for i, value in ipairs { 1.1, 1.2, 1.3, 5 } do
    list[i] = { point = { n = i < 4 and 1 or 2, rep = i }, status = "done", latency_s = value, how = "x", odd = i }
  end
  list[5] = { point = { n = 2, rep = 5 }, status = "failed", error = "boom" }

  it("are means with the half of a 95 % interval", function()
    local rows = ts.repeated(list, "rep")
    assert.equal(2, #rows)
    assert.same({ n = 1 }, rows[1].point)
    assert.near(1.2, rows[1].latency_s, 1e-12)
    assert.near(4.302653 * 0.1 / math.sqrt(3), rows[1].latency_s_half, 1e-6) -- of t with 2 degrees of freedom
    assert.equal("x", rows[1].how)
    assert.equal(3, rows[1].repetitions)
    assert.equal(1, rows[2].repetitions) -- the other one failed
    assert.equal(5, rows[2].latency_s)
    assert.is_nil(rows[2].latency_s_half)
    support.raises("invalid_argument", "no point with a key 'run'", function() ts.repeated(list, "run") end)
  end)

  it("are drawn and printed as one", function()
    local made = { kind = "lines", x = "n", y = "latency_s" }
    made.rows = list
    support.raises("invalid_argument", "they differ in rep", function() ts.plot(made) end)
    made.over = "rep"
    assert.matches("latency", ts.plot(made):text(60))
    local experiment = ts.experiment { name = "x", over = "rep", grid = { n = { 1, 2 }, rep = { 1, 2, 3, 4, 5 } },
      run = function() end, plots = { { kind = "lines", x = "n", y = "latency_s" } } }
    assert.equal("rep", experiment.plots[1].over)
    local text = ""
    show.rows(experiment, list, function(more) text = text .. more end)
    assert.matches("repetitions", text)
    assert.matches("1 of 2 means rest on one repetition", text)
    assert.equal(4, select(2, text:gsub("\n", ""))) -- a heading, two rows and that note
    support.raises("invalid_argument", "no key 'run' in the grid", function()
      ts.experiment { name = "x", over = "run", grid = { n = { 1 } }, run = function() end }
    end)
  end)
end)
