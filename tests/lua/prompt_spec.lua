-- What the prompt adds: completion inside calls, describe, help on methods, time, reload.
local prompt = require "tessera.cli.prompt"
local support = require "support"
local ts = require "tessera"

local function completed(text)
  local words, length = prompt.complete(text)
  return words and table.concat(words, " "), length
end

-- What `f` prints, and what it returns.
local function printed(f, ...)
  local lines, real_print, real_write = {}, _G.print, io.write
  _G.print = function(...) lines[#lines + 1] = table.concat({ ... }, "\t") end
  io.write = function(text) lines[#lines + 1] = text end -- luacheck: ignore
  local result = { pcall(f, ...) }
  _G.print, io.write = real_print, real_write -- luacheck: ignore
  assert(result[1], result[2])
  return table.concat(lines, "\n"), result[2]
end

describe("completion", function()
  it("knows the options of a call", function()
    assert.equal("planner", (completed "ts.plan(problem, { pl"))
    assert.equal("what_if", (completed "my_plan:explain { wh"))
    assert.equal("objective", (completed "ts.problem {\n  model = 'opt-13b', obj"))
    local words, length = completed "ts.plan(problem, { "
    assert.truthy(words:find("time_limit_s", 1, true))
    assert.equal(0, length)
  end)

  it("leaves out what is given already", function()
    assert.falsy((completed "ts.plan(problem, { planner = 'exact', "):find("planner", 1, true))
  end)

  it("knows values that are choices or names", function()
    assert.equal("steady", (completed "ts.problem { objective = \"st"))
    assert.equal("exact", (completed "ts.plan(problem, { planner = 'ex"))
    assert.equal("adabits", (completed "ts.plan(problem, { planner = { 'ada"))
    assert.equal("opt-125m", (completed "ts.model 'opt-12"))
    assert.truthy((completed "ts.problem { cluster = 'llmpq-"):find("llmpq-3", 1, true))
  end)

  it("knows parts of the library that have not been used yet", function()
    assert.truthy((completed "ts.plot { kind = 'he"):find("heatmap", 1, true))
    assert.equal("name", (completed "ts.experiment { na"))
  end)

  it("stays out of everything else", function()
    for _, text in ipairs { "", "local x = { a", "print(", "ts.plan(problem, { seed = 1 }) x", "f { g(", "} ) {" } do
      assert.is_nil((completed(text)))
    end
  end)

  it("does not mind brackets in texts", function()
    assert.equal("planner", (completed "ts.plan(named '}{(', { pl"))
  end)
end)

describe("describe", function()
  it("shows the fields of an object with values and units, and its methods", function()
    local text = printed(prompt.describe, support.small_plan())
    assert.matches("^tessera.Plan: ", text)
    assert.matches("latency_s +[%d.e-]+ +Batch end to end, by the steady model %(s%)", text)
    assert.truthy(text:find(":save(path: string)", 1, true))
  end)

  it("says something of every kind of value", function()
    assert.matches("a table with 2 items in sequence and 3 keys", printed(prompt.describe, { 1, 2, x = {} }))
    assert.matches("ts.check", printed(prompt.describe, ts.check))
    assert.matches("prompt_spec", printed(prompt.describe, function() end))
    assert.matches("written in C", printed(prompt.describe, math.floor))
    assert.matches("models", printed(prompt.describe, "opt-30b"))
    assert.matches("nil", printed(prompt.describe, nil))
    assert.matches("number", printed(prompt.describe, 0 / 0))
  end)
end)

describe("help on methods", function()
  it("takes the method or its name", function()
    local model = ts.model "opt-125m"
    assert.matches("Weights of the first decoder layer", prompt.method_help(model.layer_bytes))
    assert.matches("Weights of the first decoder layer", prompt.method_help "model:layer_bytes")
    assert.matches("options:", prompt.method_help "plan:explain")
    assert.is_nil(prompt.method_help "model:nothing")
    assert.is_nil(prompt.method_help(print))
  end)
end)

describe("time", function()
  it("prints seconds and returns what the function returned", function()
    local text, result = printed(prompt.time, function(a) return a end, 42)
    assert.matches("^[%d.e-]+ s$", text)
    assert.equal(42, result)
    support.raises("invalid_argument", "a function belongs here", function() prompt.time(42) end)
  end)
end)

describe("reload", function()
  after_each(support.remove_files)

  it("runs a file again, and planners that it registers take the place of the old", function()
    local code = "local ts = require 'tessera' ts.register_planner { name = 'reloaded', doc = '%s', "
      .. "plan = function() end } return '%s'"
    local path = support.temporary(code:format("first", "one"))
    assert.equal("one", prompt.reload(path))
    local file = assert(io.open(path, "w"))
    file:write(code:format("second", "two"))
    file:close()
    assert.equal("two", prompt.reload())
    for _, card in ipairs(ts.planners()) do
      if card.name == "reloaded" then assert.equal("second", card.doc) end
    end
  end)

  it("names a file that cannot be loaded", function()
    support.raises("script", "none.lua", function() prompt.reload "none.lua" end)
    support.raises("script", "near", function() prompt.reload(support.temporary "x =") end)
  end)
end)
