-- ts.results: stored rows for scripts, and scripts that sweep by themselves.
local ts = require "tessera"
local store = require "tessera.store"
local support = require "support"
local raises = support.raises

describe("ts.results", function()
  local path
  before_each(function()
    path = support.temporary()
    os.remove(path)
  end)
  after_each(support.remove_files)

  it("has nothing where there is no file, and makes none to look", function()
    local results = ts.results("e", { db = path })
    assert.is_false(results:has { i = 1 })
    assert.same({}, results:rows())
    assert.equal(0, results:count())
    assert.same({}, results:runs())
    assert.equal("results e in " .. path .. ": no rows yet", tostring(results))
    assert.is_nil(io.open(path))
  end)

  it("does not pass for empty where the file cannot be read", function()
    assert(io.open(path, "w")):close()
    raises("not_found", "does not exist", function() ts.results("e", { db = path .. "/b.db" }):rows() end)
  end)

  it("keeps what is added, for this script and the next start of it", function()
    local results = ts.results("e", { db = path, seed = 7 })
    for i = 1, 3 do results:add({ i = i }, { status = "optimal", square = i * i }) end
    results:add({ i = 4 }, { error = "boom" })
    assert.is_true(results:has { i = 2 })
    assert.is_false(results:has { i = 4 }, "a failed point wants another try")
    assert.is_false(results:has { i = 5 })
    local again = ts.results("e", { db = path, seed = 7 })
    assert.is_true(again:has { i = 2 })
    again:add({ i = 4 }, { square = 16 })
    assert.equal(4, again:count())
    assert.equal(1, #again:runs())
    assert.equal(4, results:count { status = { "optimal", "done" } })
    raises("invalid_argument", "it is kept", function() again:add({ i = 4 }, { square = 0 }) end)
    assert.equal(("results e in %s: run 1, 4 rows, 0 failed"):format(path), tostring(again))
  end)

  it("records script, seed, commit, machine and build", function()
    local results = ts.results("e", { db = path, seed = 7 })
    results:add({ i = 1 }, { v = 1 })
    local meta = results:rows({ meta = true })[1].meta
    assert.equal(7, meta.seed)
    assert.equal(64, #meta.script_hash)
    assert.equal(store.git_commit(arg[0]), meta.git_commit)
    assert.same(store.machine(), meta.machine)
    assert.equal("LuaJIT", meta.build.luajit:match "^%a+")
    local db = store.open(path, { read_only = true })
    assert.equal(meta.script_hash, store.sha256(db:run(1).script_text))
    db:close()
  end)

  it("starts a run where script or seed are others, unless told", function()
    ts.results("e", { db = path, seed = 1 }):add({ i = 1 }, { v = 1 })
    local other = ts.results("e", { db = path, seed = 2 })
    assert.is_false(other:has { i = 1 })
    other:add({ i = 1 }, { v = 2 })
    assert.equal(2, #other:runs())
    assert.equal(2, other:rows()[1].v)
    assert.equal(1, other:rows({ run = 1 })[1].v)
    assert.is_true(ts.results("e", { db = path, seed = 9, continue = "always" }):has { i = 1 })
    local fresh = ts.results("e", { db = path, seed = 2, continue = "never" })
    assert.is_false(fresh:has { i = 1 })
    fresh:add({ i = 2 }, { v = 3 })
    assert.equal(3, #fresh:runs())
  end)

  it("filters rows", function()
    local results = ts.results("e", { db = path })
    for _, planner in ipairs { "exact", "uniform" } do
      for n = 1, 2 do results:add({ planner = planner, n = n }, { v = n }) end
    end
    assert.equal(2, #results:rows { planner = "exact" })
    assert.equal(3, #results:rows { planner = "exact", n = { 1, 2 } } + #results:rows { planner = "uniform", n = 1 })
    raises("invalid_argument", "did you mean 'planner'", function() results:rows { planer = "exact" } end)
    raises("invalid_argument", "has no run 9; it has 1", function() results:rows { run = 9 } end)
  end)

  it("compares with a run, another file and other results", function()
    local results = ts.results("e", { db = path, seed = 1 })
    results:add({ i = 1 }, { v = 1 })
    local newer = ts.results("e", { db = path, seed = 2 })
    newer:add({ i = 1 }, { v = 2 })
    local diff = newer:diff(1)
    assert.same({ { point = { i = 1 }, column = "v", old = 1, new = 2, relative_difference = 1 } }, diff.changed)
    assert.matches("run 1 against results e in .*1 changed", (tostring(diff):gsub("\n", " ")))
    assert.equal(1, #newer:diff(results).changed)
    assert.equal(1, newer:diff(path).num_same)
    raises("not_found", "there is no file", function() newer:diff "/tmp/none/such.db" end)
    raises("invalid_argument", "not a boolean", function() newer:diff(true) end)
  end)

  it("prints as a table", function()
    local results = ts.results("e", { db = path })
    for i = 1, 22 do results:add({ i = i }, { v = i * 2 }) end
    local text = getmetatable(results) == "tessera.Results" and debug.getmetatable(results).__full(results)
    assert.matches("22 rows, 0 failed\n i  status   v\n 1  done     2\n", text)
    assert.matches("20  done    40\n%.%.%. 2 more$", text)
  end)

  it("stores names of users as names", function()
    for _, name in ipairs { "a'b", 'a"b', "x; DROP TABLE points; --", "é/ü" } do
      local results = ts.results(name, { db = path })
      results:add({ ["k'\""] = name }, { ["c;--\""] = name })
      assert.same({ { point = { ["k'\""] = name }, status = "done", ["c;--\""] = name } }, results:rows())
    end
  end)

  it("refuses wrong use", function()
    local results = ts.results("e", { db = path })
    raises("invalid_argument", "the name of an experiment", function() ts.results() end)
    raises("invalid_argument", "the name of an experiment", function() ts.results "" end)
    raises("invalid_argument", "did you mean 'db'", function() ts.results("e", { bd = "x" }) end)
    raises("invalid_argument", "a point is a table", function() results:has(3) end)
    raises("invalid_argument", "got the key 1", function() results:add({ 1 }, {}) end)
    raises("invalid_argument", "a row is a table", function() results:add({ i = 1 }, 3) end)
    raises("invalid_argument", "NaN", function() results:add({ i = 1 }, { v = support.nan }) end)
    raises("invalid_argument", "column 'point'", function() results:add({ i = 1 }, { point = 1 }) end)
    raises("invalid_argument", "'ad' does not exist; did you mean 'add'", function() return results.ad end)
    raises("invalid_argument", "read-only", function() results.x = 1 end)
    raises("io", "is a folder", function() ts.results("e", { db = "/tmp" }):rows() end)
    raises("not_found", "make it first", function() ts.results("e", { db = "/tmp/no/such.db" }):add({}, {}) end)
    for _, method in ipairs { "has", "add", "rows", "runs", "count", "diff" } do
      raises("invalid_argument", "call it with a colon", function() results[method]({}, { i = 1 }, {}) end)
    end
    assert.equal(0, results:count())
  end)
end)
