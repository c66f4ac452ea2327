-- Error objects, as scripts meet them.
local ts = require "tessera"
local support = require "support"

describe("an error object", function()
  local _, err = pcall(ts.model, "opt-30x")

  it("has code, message, where and position", function()
    assert.equal("not_found", err.code)
    assert.equal("ts.model", err.where)
    assert.matches("unknown model 'opt%-30x'", err.message)
    assert.equal("tessera.Error", getmetatable(err))
    local _, here = pcall(function() return ts.model "opt-30x" end)
    assert.equal("table", type(here))
    local _, inside = pcall(function() local m = ts.model "opt-30x" return m end)
    assert.matches("error_spec%.lua:%d+$", inside.at)
  end)

  it("shows nothing that a terminal would obey", function()
    local core = require "tessera.core"
    local _, raised = pcall(core.raise, "usage", "a\0b \27[31m\127 \194\155m \255 \195\169\n\tc")
    assert.equal("a?b ?[31m? ?m ? \195\169\n\tc", raised.message)
    assert.equal("x?y", core.why("infeasible", "x\27y").message)
  end)

  it("reads as its message", function()
    assert.equal(err.message, tostring(err))
    assert.equal("failed: " .. err.message, "failed: " .. err)
    assert.equal(err.message .. "!", err .. "!")
    assert.equal(err.message .. 5, err .. 5)
    assert.equal(err.message .. err.message, err .. err)
    assert.is_false((pcall(function() return err .. {} end)))
  end)

  it("passes through pcall, error, xpcall and coroutines unchanged", function()
    local _, again = pcall(error, err)
    assert.equal(err, again)
    _, again = xpcall(function() error(err) end, function(e) return e end)
    assert.equal(err, again)
    local _, inside = coroutine.resume(coroutine.create(function() ts.model "opt-30x" end))
    assert.equal("not_found", inside.code)
  end)

  it("is what nil, why carries", function()
    local plan, why = ts.plan { model = "opt-175b", cluster = "1xT4-16G" }
    assert.is_nil(plan)
    assert.equal("tessera.Error", getmetatable(why))
    assert.equal("infeasible", why.code)
    assert.equal(why.message, tostring(why))
  end)

  it("stands up to bent objects", function()
    local object = ts.model "opt-125m"
    local meta = debug.getmetatable(object)
    assert.is_false((pcall(meta.__index, 3, "name")))
    assert.is_false((pcall(meta.__index, object)))
    assert.is_false((pcall(meta.__tostring, nil)))
    assert.is_false((pcall(meta.__tostring)))
    assert.is_true((pcall(meta.__gc, 3)))
    assert.is_false((pcall(setmetatable, object, {})))
    assert.is_false((pcall(function() return object[1] end)))
    assert.is_false((pcall(function() return object[{}] end)))
    assert.is_false((pcall(function() return object .. "x" end)))
    assert.is_false((pcall(function() return #object end)))
    assert.is_false((pcall(function() return object < object end)))
    local released = ts.model "opt-350m"
    meta.__gc(released)
    local ok, gone = pcall(function() return released.name end)
    assert.is_false(ok)
    assert.matches("has been released", gone.message)
    meta.__gc(released)
  end)
end)

-- Cards of functions written in Lua, the sandbox's scripts included.
describe("core.document", function()
  local core = require "tessera.core"
  for _, case in ipairs {
    { { name = "x", doc = 1 }, "card: doc: an integer where a string belongs" },
    { { name = "x", doc = "d", returns = {} }, "returns" },
    { { name = "x", doc = "d", options = 3 }, "options: a list" },
    { { name = "x", doc = "d", options = { 3 } }, "where an object belongs" },
    { { name = "x", doc = "d", options = { { name = "o", type = "number", doc = "d", min = "a" } } }, "min" },
    { { name = "x", doc = "d", options = { { name = "o", type = "choice", doc = "d", choices = { 3 } } } }, "choices" },
    { { name = "x", doc = "d", parameters = { { "a" } } }, "parameters: { name, type, doc } belongs here" },
    { { name = "x", doc = "d", parameters = { { "a", 1, "c" } } }, "parameters: a string belongs here" },
    { 3, "where an object belongs" },
  } do
    it("refuses: " .. case[2], function()
      support.raises("invalid_argument", case[2], function() core.document(case[1]) end)
    end)
  end
  it("refuses an object's card alike", function()
    support.raises("invalid_argument", "card: fields: { name, type, doc }", function()
      core.document_object { name = "x", doc = "d", fields = { 1 } }
    end)
  end)
end)
