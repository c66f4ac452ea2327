-- tessera.desk.rows, tessera.desk.sheet and tessera.desk.rows_diff.
local rows = require "tessera.desk.rows"
local rows_diff = require "tessera.desk.rows_diff"
local sheet = require "tessera.desk.sheet"
local raises = require("support").raises

local function row(planner, n, columns)
  local result = { point = { planner = planner, n = n }, status = "optimal" }
  for name, value in pairs(columns or {}) do result[name] = value end
  return result
end

describe("tessera.desk.rows", function()
  local list = {
    row("exact", 4, { latency_s = 1.5, ok = true }), row("uniform", 4, { latency_s = 2, widths = { 4, 8 } }),
    row("exact", 8, { latency_s = 3 }), { point = { planner = "uniform", n = 8 }, status = "failed", error = "boom" },
  }

  it("reads values from the columns, then from the point", function()
    assert.equal(1.5, rows.value(list[1], "latency_s"))
    assert.equal("exact", rows.value(list[1], "planner"))
    assert.is_nil(rows.value(list[1], "none"))
    assert.is_true(rows.failed(list[4]))
    assert.is_false(rows.failed(list[1]))
  end)

  it("names keys and columns, declared ones first", function()
    assert.same({ "n", "planner" }, rows.keys(list))
    assert.same({ "planner", "n" }, rows.keys(list, { "planner", "gone" }))
    assert.same({ "latency_s", "ok", "widths" }, rows.columns(list))
    assert.same({ "widths", "latency_s", "ok" }, rows.columns(list, { "widths" }))
    assert.same({}, rows.keys {})
  end)

  it("finds rows by values, also as people type them", function()
    assert.same({ list[1], list[3] }, rows.where(list, { planner = "exact" }))
    assert.same({ list[1] }, rows.where(list, { planner = "exact", n = 4 }))
    assert.same({ list[1] }, rows.where(list, { planner = { "exact", "none" }, n = "4.0" }))
    assert.same({ list[1] }, rows.where(list, { ok = "true" }))
    assert.same({ list[2] }, rows.where(list, { widths = { 4, 8 } }))
    assert.same({ list[4] }, rows.where(list, { status = "failed" }))
    assert.same({}, rows.where(list, { n = "four" }))
    assert.same({}, rows.where({}, { anything = 1 }))
    raises("invalid_argument", "no row has a 'planer'; did you mean 'planner'", function()
      rows.where(list, { planer = "exact" })
    end)
  end)

  it("makes sheets", function()
    assert.same({ columns = { "n", "planner", "status", "latency_s" }, lines = { { 4, "exact", "optimal", 1.5 } },
      num_keys = 2 }, rows.sheet { row("exact", 4, { latency_s = 1.5 }) })
    assert.same({ "planner", "n", "status", "latency_s", "ok", "widths", "error" },
      rows.sheet(list, { keys = { "planner", "n" }, error = true }).columns)
    assert.same({ "status", "n" }, rows.sheet(list, { columns = { "status", "n" } }).columns)
  end)
end)

describe("tessera.desk.sheet", function()
  local nasty = {
    columns = { "name", "x_s", 'a|"b,c' },
    lines = {
      { "a|b, \"c\"\nd", 1 / 3, { 1, 2 } }, { "\\{$&#%_^~<>}", 1e20, true }, { "[x]", nil, nil }, { "é", -7, 0.1 },
    },
  }

  it("writes CSV as RFC 4180 says", function()
    assert.equal('name,x_s,"a|""b,c"\r\n'
      .. '"a|b, ""c""\nd",0.3333333333333333,"[1,2]"\r\n'
      .. "\\{$&#%_^~<>},1e+20,true\r\n"
      .. "[x],,\r\n"
      .. "é,-7,0.1\r\n", sheet.csv(nasty))
    assert.equal('a\r\n""\r\n', sheet.csv { columns = { "a" }, lines = { {} } })
  end)

  it("writes numbers so that they read back the same", function()
    for _, value in ipairs { 0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 2 ^ 53 - 1, 2 ^ 53, 2 ^ 60, -1e15, 1e-7 } do
      assert.equal(value, tonumber(sheet.number_text(value)))
    end
    assert.equal("9007199254740991", sheet.number_text(2 ^ 53 - 1))
    assert.equal("0.1", sheet.number_text(0.1))
  end)

  it("writes Markdown without markup of users", function()
    assert.equal([=[
| name                  |   x\_s | a\|"b,c |
| --------------------- | -----: | ------- |
| a\|b, "c" d           | 0.3333 | \[1,2\] |
| \\\{$\&\#%\_^\~\<\>\} |  1e+20 | true    |
| \[x\]                 |        |         |
| é                     |     -7 | 0.1     |
]=], sheet.markdown(nasty))
  end)

  it("shows a table, long cells cut", function()
    assert.equal("a  a\n1  2\n", sheet.table { columns = { "a", "a" }, lines = { { 1, 2 } } })
    assert.equal("a\n" .. ("é"):rep(41) .. "...\n", sheet.table { columns = { "a" }, lines = { { ("é"):rep(60) } } })
    assert.equal("a\n[4,8]\n", sheet.table { columns = { "a" }, lines = { { { 4, 8 } } } })
  end)

  it("puts the columns that a terminal has no room for below, behind the keys", function()
    local page = { columns = { "cluster", "x_s", "note" }, lines = { { "c1", 1.5, "long enough" } } }
    assert.equal("cluster  x_s\nc1       1.5\n\ncluster  note\nc1       long enough\n", sheet.table(page, 24))
    assert.equal("cluster  x_s  note\nc1       1.5  long enough\n", sheet.table(page, 25))
    assert.equal("cluster\nc1\n\nx_s\n1.5\n\nnote\nlong enough\n", sheet.table(page, 1))
    page.num_keys = 2
    assert.equal("cluster  x_s  note\nc1       1.5  long enough\n", sheet.table(page, 25))
    page.columns[4], page.lines[1][4] = "more", "word"
    assert.equal("cluster  x_s  note\nc1       1.5  long enough\n\ncluster  x_s  more\nc1       1.5  word\n",
      sheet.table(page, 28))
  end)
end)

describe("tessera.desk.rows_diff", function()
  local old = { row("exact", 4, { x = 10, t = { 1 } }), row("exact", 8, { x = 1 }), row("uniform", 4, { x = 0 }) }
  local new = { row("exact", 4, { x = 11, t = { 1 } }), row("uniform", 4, { x = 3, y = "new" }), row("uniform", 8) }

  it("finds what differs", function()
    local result = rows_diff.compare(old, new)
    assert.same({ old[2] }, result.only_old)
    assert.same({ new[3] }, result.only_new)
    assert.equal(0, result.num_same)
    assert.same({
      { point = { planner = "exact", n = 4 }, column = "x", old = 10, new = 11, relative_difference = 0.1 },
      { point = { planner = "uniform", n = 4 }, column = "x", old = 0, new = 3 },
      { point = { planner = "uniform", n = 4 }, column = "y", new = "new" },
    }, result.changed)
    assert.equal(2, rows_diff.compare(old, new, { "t" }).num_same)
    assert.equal(3, rows_diff.compare(old, old).num_same)
  end)

  it("says it", function()
    assert.equal("a against b: 0 rows the same, 2 changed, 1 only in the first, 1 only in the second\n\n"
      .. "n  planner  column  old  new  difference\n"
      .. "4  exact    x        10  11   +10 %\n"
      .. "4  uniform  x         0  3    -\n"
      .. "4  uniform  y         -  new  -\n"
      .. "\nonly in a:\nn  planner  status   x\n8  exact    optimal  1\n"
      .. "\nonly in b:\nn  planner  status\n8  uniform  optimal\n",
      rows_diff.text(rows_diff.compare(old, new), "a", "b"))
  end)
end)
