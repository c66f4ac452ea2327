-- `tessera run --set`: one changed assumption of an experiment that is not copied; `tessera examples` of experiments.
local core = require "tessera.core"
local host = require "tessera.host"
local support = require "support"

local path, folder

local function tessera(...)
  local words = { host.program, ... }
  local status, out, err = host.run_program(words, "")
  return out, err, status
end

local function run(...) return tessera("run", "splitquant/table6", "--quick", "--results", path, ...) end

local function rows(name)
  return core.from_json((tessera("results", name, "--results", path, "--json")))
end

local function refused(text, ...)
  local _, why, status = run(...)
  assert.equal(2, status, why)
  assert.truthy(why:find(text, 1, true), why)
end

describe("tessera run --set", function()
  setup(function()
    path, folder = support.temporary(), os.tmpname()
    os.remove(path)
    os.remove(folder)
    host.make_folder(folder)
  end)
  teardown(function()
    support.remove_files()
    host.run_program({ "rm", "-rf", folder }, "")
  end)

  it("gives every problem of the papers another value, says so, and checks no claim", function()
    assert.equal(0, select(3, run()))
    local out, err, status = run("--set", "theta=1000000", "--as", "mine")
    assert.equal(0, status, err)
    assert.truthy(err:find("mine: changed by --set: theta = 1000000; all else is that of splitquant/table6", 1, true),
      err)
    assert.truthy(out:find("whose claims are about its own assumptions and are not checked", 1, true))
    assert.is_nil(out:find("claims:", 1, true))
    out = out:gsub("\n +", " ")
    assert.truthy(out:find("- of splitquant/table6, not of this run: theta 1 s per normalised omega", 1, true), out)
    assert.truthy(out:find(" - solve_s is the wall-clock", 1, true), out)
    local ours, theirs = rows "mine", rows "splitquant/table6"
    assert.equal(#theirs, #ours)
    for i, row in ipairs(ours) do
      assert.equal(1000000, row.point.theta)
      assert.is_nil(theirs[i].point.theta)
      assert.truthy(row.objective_s > theirs[i].objective_s, "a price a million times as high tells")
      assert.equal(theirs[i].paper.throughput_tok_s, row.paper.throughput_tok_s)
    end
    assert.truthy(tessera("results", "mine", "--results", path):find("(changed: theta = 1000000)\n", 1, true))
    assert.truthy(tessera("results", "mine", "--results", path, "--format", "csv"):find("^cluster,method,theta,"))
  end)

  it("is part of what the results are", function()
    local _, why, status = run("--set", "theta=7", "--as", "mine")
    assert.equal(1, status)
    assert.truthy(why:find("the script or what --set changes has changed since run", 1, true), why)
    assert.truthy(select(2, run("--set", "theta=1000000", "--as", "mine")):find("3 stored, 0 to run", 1, true))
    core.write_file(folder .. "/o.json", core.to_json { omega = 1 })
    local function with_file() return select(2, run("--set", "indicator=" .. folder .. "/o.json", "--as", "own")) end
    with_file()
    core.write_file(folder .. "/o.json", core.to_json { omega = 2 })
    assert.truthy(with_file():find("has changed since run", 1, true), "the file is, too")
  end)

  it("changes the grid, takes several values and lists, with the same rows in workers and here", function()
    run("--set", "method=group1", "--set", "bitwidths=4+8,8+16", "--as", "bits", "--jobs", "0")
    local found = rows "bits"
    assert.equal(2, #found)
    assert.same({ cluster = "splitquant-5", method = "group1", bitwidths = "4+8" }, found[1].point)
    assert.truthy(found[1].mean_bitwidth < 8.1 and found[2].mean_bitwidth > 8.1)
    run("--set", "method=group1", "--set", "bitwidths=4+8,8+16", "--as", "bits", "--jobs", "2", "--fresh")
    assert.equal(found[1].objective_s, rows "bits"[1].objective_s)
    local _, err = run("--set", "theta=2", "--set", "method=group1")
    assert.truthy(err:find("splitquant/table6-theta-2-method-group1: ", 1, true), "the name says what is set")
  end)

  it("refuses names and values that are none", function()
    refused("splitquant/table6 has no 'thta' to change; its grid has cluster, method; its problems have allow_empty",
      "--set", "thta=1")
    refused("did you mean 'theta'?", "--set", "thta=1")
    refused("theta = 'x': a number belongs here", "--set", "theta=x")
    refused("theta = 'nan': a number belongs here", "--set", "theta=nan")
    refused("allow_empty_stage = 'yes': true or false belongs here", "--set", "allow_empty_stage=yes")
    refused("bitwidths = 'x': a number belongs here", "--set", "bitwidths=4+x")
    refused("theta = 1 is there twice", "--set", "theta=1,1")
    refused("constraints is a table, which no word can be", "--set", "constraints=x")
    refused("'theta' is not name=value", "--set", "theta")
    refused("--as: it belongs to --set", "--as", "mine")
    refused("--as: 'splitquant/table6' is the experiment itself", "--set", "theta=2", "--as", "splitquant/table6")
    refused("--as: '../x' is no name", "--set", "theta=2", "--as", "../x")
    local _, why, status = tessera("run", "tutorial/06_table", "--set", "theta=2", "--results", path)
    assert.equal(2, status)
    assert.truthy(why:find("its problems are its own, not of the papers' settings", 1, true), why)
    _, why, status = tessera("run", "reproduce_all", "--set", "theta=2", "--results", path)
    assert.equal(2, status)
    assert.truthy(why:find("the experiments of a collection have different assumptions", 1, true), why)
  end)

  it("fails a point whose problems do not take what is set", function()
    local script = folder .. "/own.lua"
    core.write_file(script, [[
local ts = require "tessera"
require "lib.papers.splitquant"
return ts.experiment { name = "own", grid = { i = { 1 } }, run = function() return { x = 1 } end }
]])
    local out, _, status = tessera("run", script, "--set", "theta=2", "--as", "changed", "--results", path)
    assert.equal(1, status)
    assert.truthy(out:find("--set theta: no problem of this point has taken it", 1, true), out)
  end)

  it("leaves every point as it was where nothing is set, and says when --quick means everything", function()
    local script = folder .. "/plain.lua"
    core.write_file(script, 'return require("tessera").experiment { name = "plain", grid = { i = { 1, 2 } }, '
      .. "run = function(p) return { x = p.i } end }")
    local _, err = tessera("run", script, "--quick", "--results", path)
    assert.truthy(err:find("plain: it declares no `quick`, so all of its points run", 1, true), err)
    assert.is_nil(select(2, tessera("run", script, "--results", path)):find("quick", 1, true))
  end)
end)

describe("tessera examples", function()
  it("copies experiments that ship, with the files that they load", function()
    local to = os.tmpname()
    os.remove(to)
    local out = tessera("examples", "splitquant/table6", "fidelity/gemm", "--to", to)
    assert.truthy(out:find("its rows are stored as splitquant/table6, like the original's", 1, true), out)
    for _, name in ipairs {
      "table6.lua", "gemm.lua", "fidelity/fit/errors.lua", "fidelity/fit/aiconfigurator.lua", "fidelity/fit/csv.lua",
    } do
      assert.equal("file", core.file_kind(to .. "/" .. name))
    end
    host.run_program({ "rm", "-rf", to }, "")
    local _, why, status = tessera("examples", "table6")
    assert.equal(2, status)
    assert.truthy(why:find("say which: llmpq/table6 or splitquant/table6", 1, true), why)
  end)
end)

describe("tessera run of what is not there", function()
  it("points to the list and to near names", function()
    local _, why, status = tessera("run", "splitqant/table6")
    assert.equal(1, status)
    assert.truthy(why:find("there is no script 'splitqant/table6', here or among the experiments that ship; did you "
      .. "mean 'splitquant/table6'", 1, true), why)
    assert.truthy(select(2, tessera("run", "nope")):find("experiments that ship; `tessera list` names those", 1, true))
  end)
end)
