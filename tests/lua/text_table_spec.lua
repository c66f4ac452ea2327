-- ts.table.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

describe("ts.table", function()
  it("aligns numbers to the right, words to the left", function()
    assert.equal(" a  word\n 1  x\n20  longer\n", ts.table { { a = 1, word = "x" }, { a = 20, word = "longer" } })
  end)

  it("shows four digits and gaps", function()
    assert.equal("    x\n3.142\n   -1\n    -\n1e+20\n",
      ts.table({ { x = math.pi }, { x = -1 }, {}, { x = 1e20 } }, { columns = { "x" } }))
    assert.equal("x\ninf\nnan\n", (ts.table { { x = support.inf }, { x = support.nan } }:gsub("[ -]", "")))
  end)

  it("has every field of every row", function()
    assert.equal("a  b\n1  -\n-  2\n", ts.table { { a = 1 }, { b = 2 } })
    assert.equal("\n", ts.table {})
    assert.equal("b  a\n", ts.table({}, { columns = { "b", "a" } }))
  end)

  it("shows the points of results", function()
    local list = { { point = { planner = "exact" }, x = 1, status = "done", meta = {} } }
    assert.equal("planner  status  x\nexact    done    1\n", ts.table(list))
    assert.equal("x  planner\n1  exact\n", ts.table(list, { columns = { "x", "planner" } }))
    assert.equal("meta  point\na     b\n", ts.table { { point = "b", meta = "a" } })
  end)

  it("counts characters, not bytes, and keeps to one line", function()
    assert.equal("name  x\n\195\169\195\169    1\nab?c  2\n",
      ts.table { { name = "\195\169\195\169", x = 1 }, { name = "ab\nc", x = 2 } })
    assert.matches("model opt%-125m", ts.table { { m = ts.model "opt-125m" } })
  end)

  it("refuses wrong use", function()
    raises("invalid_argument", "ts.table: a list of rows belongs here, not a nil", function() return ts.table() end)
    raises("invalid_argument", "not a string", function() return ts.table "x" end)
    raises("invalid_argument", "ts.table[1]: a table belongs here, not a number", function() return ts.table { 3 } end)
    raises("invalid_argument", "the key 'a'", function() return ts.table { a = {} } end)
    raises("invalid_argument", "gaps", function() return ts.table { {}, nil, {} } end)
    raises("invalid_argument", "fields have names, got the key 1", function() return ts.table { { 3 } } end)
    raises("invalid_argument", "did you mean 'columns'", function() return ts.table({}, { colums = {} }) end)
    raises("invalid_argument", "its options are a table", function() return ts.table({}, 3) end)
    raises("invalid_argument", "ts.table.columns", function() return ts.table({}, { columns = "a" }) end)
    raises("invalid_argument", "ts.table.columns[1]: a string", function() return ts.table({}, { columns = { 3 } }) end)
  end)
end)

describe("trimming", function()
  it("takes no time to speak of", function()
    local trimmed = require "tessera.desk.escape".trimmed
    for _, case in ipairs { { "", "" }, { "  \n", "" }, { " a b \t", " a b" }, { "a", "a" } } do
      assert.equal(case[2], trimmed(case[1]))
    end
    -- 10^12 steps of a pattern that looks from every space anew.
    local spaces = (" "):rep(1000000)
    assert.equal(#spaces + 1, #trimmed(spaces .. "x"))
    assert.equal(2, #trimmed("x " .. "y" .. spaces) - 1)
    assert.matches("^a +b\n", ts.table { { a = spaces .. "x", b = 1 } })
  end)
end)
