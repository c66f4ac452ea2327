-- `require` of scripts: what lies beside them, above them and among the experiments that ship.
local core = require "tessera.core"
local host = require "tessera.host"

local folder

local function write(name, text)
  local path = folder .. "/" .. name
  host.make_folder(path:match "^(.*)/")
  core.write_file(path, text)
  return path
end

local function tessera(...)
  local status, out, err = host.run_program({ host.program, ... }, "")
  return out, err, status
end

local function prints(expected, ...)
  local out, err = tessera(...)
  assert.equal(expected .. "\n", out, err)
end

-- "at.lua" runs `code` and prints what comes out.
local function says(expected, at, code) prints(expected, write(at, "print(" .. code .. ")")) end

describe("require", function()
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    host.make_folder(folder)
  end)
  after_each(function() host.run_program({ "rm", "-rf", folder }, "") end)

  it("takes what lies beside the script, else above it, a folder's init.lua included", function()
    write("a/parts/one.lua", "return 'beside'")
    write("parts/one.lua", "return 'above'")
    write("parts/two/init.lua", "return 'above'")
    says("beside\tabove", "a/x.lua", "require 'parts.one', require 'parts.two'")
    says("above", "b/x.lua", "require 'parts.one'")
  end)

  it("looks from the file that asks, wherever that was loaded from", function()
    write("lib/deep/inner.lua", "return { name = 'inner', later = function() return (require 'lazy') end }")
    write("lib/deep/lazy.lua", "return 'lazy'")
    write("lib/deep/outer.lua", "return require 'inner'")
    says("inner\tlazy", "a/x.lua", "require 'lib.deep.outer'.name, require 'lib.deep.outer'.later()")
    write("elsewhere.lua", "return require 'lib.deep.inner'")
    says("inner", "a/y.lua", ("dofile '%s/elsewhere.lua'.name"):format(folder))
  end)

  it("runs a file once, whatever it is called", function()
    write("parts/count.lua", "counted = (rawget(_G, 'counted') or 0) + 1 return { counted = counted }")
    host.run_program({ "ln", "-s", folder .. "/parts", folder .. "/linked" }, "")
    prints("true\t1", "--no-strict", write("a/x.lua",
      "local a, b = require 'parts.count', require 'linked.count'\nprint(a == b, a.counted)"))
  end)

  it("follows the link of a script to its neighbours, after those of the link", function()
    write("real/x.lua", "print(require 'm', require 'n')")
    write("real/m.lua", "return 'by the script'")
    write("real/n.lua", "return 'by the script'")
    write("other/m.lua", "return 'by the link'")
    host.run_program({ "ln", "-s", folder .. "/real/x.lua", folder .. "/other/x.lua" }, "")
    prints("by the link\tby the script", folder .. "/other/x.lua")
  end)

  it("finds what the experiments share from anywhere", function()
    says("function", "x.lua", "type(require 'lib.papers.llmpq'.problem)")
    says("table", "x.lua", "type(require 'fidelity.fit.errors')")
  end)

  it("lets no file take the place of the library or of Lua", function()
    for _, name in ipairs { "tessera.lua", "tessera/core.lua", "tessera/desk/units.lua", "string.lua", "bit.lua" } do
      write(name, "error 'taken'")
    end
    says("table\ttable\ttable\ttrue\ttrue", "x.lua", "type(require 'tessera.core'), "
      .. "type(require 'tessera.desk.units'), type(require 'tessera'), require 'string' == string, "
      .. "require 'bit' == bit")
    local _, err = tessera(write("y.lua", "require 'tessera.nothing'"))
    assert.truthy(err:find("module 'tessera.nothing' not found", 1, true), err)
  end)

  it("keeps modules of the same name beside different scripts apart", function()
    for _, name in ipairs { "a", "b" } do
      write(name .. "/part.lua", ("return '%s'"):format(name))
      write(name .. "/x.lua", "return require('part'), function() return (require 'part') end")
    end
    says("a\tb\ta", "x.lua", ("(function() local a, later = dofile '%s/a/x.lua' return a, (dofile '%s/b/x.lua'), "
      .. "later() end)()"):format(folder, folder))
  end)

  it("tells a file that asks for itself, and what is wrong in one, each time", function()
    write("loop.lua", "return { require 'loop2' }")
    write("loop2.lua", "return { require 'loop' }")
    local _, err = tessera(write("x.lua", "require 'loop'"))
    assert.truthy(err:find("require 'loop': '" .. folder .. "/loop.lua' asks for itself", 1, true), err)
    write("broken.lua", "error 'broken'")
    says("false\tfalse\ttrue", "y.lua", "pcall(require, 'broken'), (pcall(require, 'broken')), "
      .. "tostring(select(2, pcall(require, 'broken'))):find('broken.lua:1: broken', 1, true) ~= nil")
    write("false_syntax.lua", "return return")
    _, err = tessera(write("z.lua", "require 'false_syntax'"))
    assert.truthy(err:find("false_syntax.lua:1:", 1, true), err)
  end)
end)

describe("require in a sweep", function()
  local script, database

  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    write("lib/settings.lua", "return { factor = 2 }")
    script, database = folder .. "/a/sweep.lua", folder .. "/results.db"
    write("a/sweep.lua", [[
local ts = require "tessera"
local settings = require "lib.settings"
return ts.experiment {
  name = "neighbours", doc = "Doubles", grid = { i = { 1, 2, 3, 4 } },
  run = function(point) return { value = settings.factor * point.i * require "lib.settings".factor } end,
}]])
  end)
  after_each(function() host.run_program({ "rm", "-rf", folder }, "") end)

  local function values()
    local found = {}
    for _, row in ipairs(core.from_json((tessera("results", "neighbours", "--results", database, "--json")))) do
      found[row.point.i] = row.value
    end
    return found
  end

  it("works in workers and in shards, and counts as a part of the script", function()
    local _, err, status = tessera("run", script, "--jobs", "2", "--results", database)
    assert.equal(0, status, err)
    assert.same({ 4, 8, 12, 16 }, values())
    write("lib/settings.lua", "return { factor = 3 }")
    _, err, status = tessera("run", script, "--results", database)
    assert.equal(1, status)
    assert.truthy(err:find("changed", 1, true), err)
    _, err, status = tessera("run", script, "--fresh", "--jobs", "1", "--shard", "0/1", "--results", database)
    assert.equal(0, status, err)
  end)

  it("works in the sandbox, beside the script and of what the experiments share", function()
    write("a/lib/settings.lua", "return { factor = 5 }")
    write("a/shared.lua", "print(type(require 'lib.papers.llmpq'.problem), require 'lib.settings'.factor)")
    local out, err = tessera("run", "--sandbox", "--sandbox-out", folder .. "/out", folder .. "/a/shared.lua")
    assert.equal("function\t5\n", out, err)
    database = folder .. "/out/results.db"
    local _, why, status = tessera("run", "--sandbox", "--sandbox-out", folder .. "/out", script)
    assert.equal(0, status, why)
    assert.same({ 25, 50, 75, 100 }, values())
  end)
end)

describe("the sandbox", function()
  it("lends modules of the library that do nothing but what scripts may do", function()
    local lent = {}
    for _, name in ipairs(host.lent_modules()) do lent[name] = true end
    assert.is_true(lent["tessera.options"] and lent["tessera.desk.units"] and lent["tessera.models.student_t"])
    for _, name in ipairs {
      "tessera.host", "tessera.store", "tessera.solver", "tessera.terminal", "tessera.planning.search",
      "tessera.plugins.schedulers", "tessera.desk.plot", "tessera.desk.experiment.runner", "tessera.cli.plan",
    } do
      assert.is_nil(lent[name], name)
    end
  end)

  it("loads every script that ships", function()
    folder = os.tmpname()
    os.remove(folder)
    local failed = {}
    for _, script in ipairs(host.experiments()) do
      local _, err, status = tessera("run", script.path, "--sandbox", "--sandbox-out", folder, "--dry-run")
      if status ~= 0 then failed[#failed + 1] = script.name .. ": " .. err end
    end
    host.run_program({ "rm", "-rf", folder }, "")
    assert.equal("", table.concat(failed, "\n"))
  end)
end)
