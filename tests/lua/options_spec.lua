-- Options that are declared in Lua and read by the engine: what a reader gives, and what it refuses.

local options = require "tessera.options"
local support = require "support"

local raises = support.raises

describe("a reader of options", function()
  local listed = { 1, 2 }
  local read = options.reader("ts.demo", {
    count = { type = "integer", default = 2, min = 1, max = math.huge, doc = "How many" },
    flag = { type = "boolean", default = false },
    list = { type = "integers", default = listed },
    kind = { type = "choice", choices = { "one", "other" } },
    rows = { type = "table", lua_type = "table[]" },
    either = { type = "any", lua_type = "string|number" },
    anything = { type = "any" },
    name = { type = "string" },
    bytes = { type = "string", bytes = true },
  })

  it("gives every option, given or default, in a new table", function()
    local given = { count = 1e15, flag = true, anything = print, rows = {}, bytes = "\255\0" }
    local result = read(given)
    assert.are_not.equal(given, result)
    assert.same({ count = 1e15, flag = true, anything = print, rows = {}, bytes = "\255\0", list = { 1, 2 } }, result)
    assert.equal(given.rows, result.rows)
    assert.equal(listed, read().list)
    assert.same({ count = 2, flag = false, list = { 1, 2 } }, read {})
  end)

  it("refuses what is not declared so", function()
    for _, case in ipairs {
      { { cuont = 3 }, "ts.demo: unknown option 'cuont'; did you mean 'count'" },
      { { 3 }, "options have names, but the key the number 1 was given" },
      { { count = 0 }, "ts.demo.count: 0 is out of range; give an integer >= 1", "out_of_range" },
      { { kind = "on" }, "'on' is not a choice; did you mean 'one'" },
      { { list = { 1, "2" } }, "ts.demo.list[2]: the string '2' is not a number" },
      { { rows = 3 }, "ts.demo.rows: the number 3 has the wrong type; give table[]" },
      { { rows = setmetatable({}, { __index = {} }) }, "not a table that answers by a metatable" },
      { { either = true }, "ts.demo.either: true has the wrong type; give string|number" },
      { { name = "\255" }, "is not UTF-8" }, { { bytes = 3 }, "give string" },
    } do
      raises(case[3] or "invalid_argument", case[2], function() return read(case[1]) end)
    end
    raises("invalid_argument", "ts.demo: the number 3 where a table of options belongs", function() return read(3) end)
  end)

  it("names the path that its caller gives", function()
    raises("out_of_range", "here.count: 0", function() return read({ count = 0 }, "here") end)
    raises("invalid_argument", "here.rows: a table belongs here", function()
      return read({ rows = setmetatable({}, { __index = print }) }, "here")
    end)
  end)

  it("wants what is required", function()
    local strict = options.reader("ts.strict", { name = { type = "string", required = true, doc = "Whose" } })
    raises("invalid_argument", "ts.strict.name: missing; give a string: Whose", function() return strict {} end)
    raises("invalid_argument", "ts.strict: a table of options is needed, got nil", function() return strict(nil) end)
  end)
end)
