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
