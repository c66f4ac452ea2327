-- Data sets of others: what is said of those that are there, absent, changed or no files; scripts read no other.
local core = require "tessera.core"
local data_sets = require "tessera.desk.data_sets"
local host = require "tessera.host"
local measured = require "lib.measured"
local store = require "tessera.store"
local support = require "support"
local ts = require "tessera"

local work

local function sh(command)
  local status, out, err = host.run_program({ "sh", "-c", "cd '" .. work .. "' && " .. command }, "")
  assert.equal(0, status, err)
  return out
end

-- The declaration of set "mine", whose files are small/a.csv and small/b.csv, with `changes`.
local function declare(changes)
  local set = {
    name = "mine", doc = "Made here", root = "measured", origin = "nowhere", licence = "none", without = "no test",
    read_by = { "tests/lua/data_sets_spec.lua" },
    files = {
      { path = "small/a.csv", size_bytes = 3, sha256 = store.sha256 "abc" },
      { path = "small/b.csv", size_bytes = 0, sha256 = store.sha256 "" },
    },
  }
  for key, value in pairs(changes or {}) do set[key] = value or nil end
  core.write_file(work .. "/own/data_sets/mine.json", core.to_json(set))
end

-- Exit status, stdout, stderr of `tessera data ...` with that declaration and the files below work/data.
local function tessera_data(...)
  return host.run_program({ "env", "TESSERA_PATH=" .. work .. "/own", "TESSERA_MEASURED=" .. work .. "/data",
    host.program, "data", ... }, "")
end

local function mine(...)
  local status, out, err = tessera_data("mine", "--json", ...)
  assert.equal("", err)
  return core.from_json(out), status
end

describe("tessera data", function()
  before_each(function()
    work = os.tmpname()
    os.remove(work)
    host.make_folder(work .. "/own/data_sets")
    host.make_folder(work .. "/data/small")
    declare()
    core.write_file(work .. "/data/small/a.csv", "abc")
    core.write_file(work .. "/data/small/b.csv", "")
  end)
  after_each(function() host.run_program({ "rm", "-rf", work }, "") end)

  it("says that a set is there, with its digest over the sorted files", function()
    for _, check in ipairs { false, true } do
      local set, status = mine(check and "--check" or nil)
      assert.same({ 0, "present", 2, 2, 3 }, { status, set.state, set.num_files, set.num_present, set.size_bytes })
      local lines = sh "cd data && sha256sum small/a.csv small/b.csv"
      assert.equal(store.sha256(lines), set.sha256)
      assert.equal(check and set.sha256 or nil, set.found_sha256)
    end
  end)
  it("says what is left out without one that is absent, which is no fault", function()
    sh "rm -r data"
    local set, status = mine "--check"
    assert.same({ 0, "absent", 0 }, { status, set.state, set.num_present })
    local _, out = tessera_data()
    assert.truthy(out:find("mine: no test", 1, true), out)
    assert.truthy(out:find("TESSERA_MEASURED names another folder", 1, true), out)
  end)
  it("names the files that are missing of one", function()
    sh "rm data/small/b.csv"
    local set = mine()
    assert.same({ "incomplete", 1 }, { set.state, set.num_present })
    local _, out = tessera_data()
    assert.truthy(out:find("1 of 2", 1, true) and out:find("mine: small/b.csv is not there", 1, true), out)
  end)
  it("finds a changed file by its size, and with --check by its SHA-256, and says both", function()
    core.write_file(work .. "/data/small/a.csv", "abd")
    assert.equal("present", mine().state)
    local set, status = mine "--check"
    assert.same({ 1, "changed", store.sha256 "abd" }, { status, set.state, set.files[1].found_sha256 })
    assert.equal(("its SHA-256 is %s, %s is recorded"):format(store.sha256 "abd", store.sha256 "abc"),
      set.files[1].message)
    assert.not_equal(set.sha256, set.found_sha256)
    core.write_file(work .. "/data/small/a.csv", "abcd")
    assert.same({ "changed", "it has 4 bytes, 3 are recorded" }, { mine().state, mine().files[1].message })
  end)
  it("says what stands in the place of a file: a folder, a pipe, links in a circle", function()
    for what, command in pairs {
      ["is a folder, not a file"] = "rm data/small/a.csv && mkdir data/small/a.csv",
      ["is a pipe, not a file"] = "rm -r data/small/a.csv && mkfifo data/small/a.csv",
      ["Too many levels of symbolic links"] = "rm -r data/small && ln -s small data/small",
    } do
      sh("rm -rf data && mkdir -p data/small && touch data/small/a.csv data/small/b.csv && " .. command)
      local set, status = mine "--check"
      assert.same({ 1, "unreadable" }, { status, set.state })
      assert.truthy(set.files[1].message:find(what, 1, true), set.files[1].message)
    end
  end)
  it("refuses a declaration that lacks something, and names that it does not know", function()
    for what, changes in pairs {
      ["'licence' is missing"] = { licence = false }, ["it is called 'other'"] = { name = "other" },
      ["root 'home' is none of"] = { root = "home" }, ["'files' is no list, or empty"] = { files = {} },
      ["read_by[1] is no text"] = { read_by = { 7 } },
      ["'../a' is no path below"] = { files = { { path = "../a", size_bytes = 1, sha256 = ("ab"):rep(32) } } },
      ["files[1] needs path, size_bytes"] = { files = { { path = "a", size_bytes = -1, sha256 = ("ab"):rep(32) } } },
      ["files[1] needs path, size_bytes and sha256"] = { files = { { path = "a", size_bytes = 1, sha256 = "ab" } } },
    } do
      declare(changes)
      local status, _, err = tessera_data()
      assert.equal(1, status)
      assert.truthy(err:find(what, 1, true), err)
    end
    for _, text in ipairs { "", "{", "[]", "7", ("["):rep(100000), "\255\254" } do
      core.write_file(work .. "/own/data_sets/mine.json", text)
      local status, _, err = tessera_data()
      assert.equal(1, status)
      assert.truthy(err:find("data_sets/mine.json", 1, true), err)
    end
    declare()
    for names, what in pairs {
      [{ "min" }] = "did you mean 'mine'?", [{ "mine", "mine" }] = "one data set at a time",
    } do
      local status, _, err = tessera_data(unpack(names))
      assert.not_equal(0, status)
      assert.truthy(err:find(what, 1, true), err)
    end
  end)
end)

describe("data of others", function()
  it("are read by their declaration alone", function()
    for _, name in ipairs { "azure_2023_code.csv", "../README.md", "/etc/passwd", "" } do
      support.raises("invalid_argument", "no data set declares the file '" .. name .. "' below 'measured'",
        function() measured.path(name) end)
    end
  end)
  it("have declarations that are whole, and the recorded SHA-256 where they are here", function()
    local sets, num_here = ts.data_sets { check = true }, 0
    assert.is_true(#sets >= 15)
    for _, set in ipairs(sets) do
      assert.truthy(set.state == "present" or set.state == "absent", set.name .. " is " .. set.state)
      if set.state == "present" then
        num_here = num_here + 1
        assert.equal(set.sha256, set.found_sha256)
        if set.root == "measured" then assert.truthy(measured.path(set.files[1].path)) end
      elseif set.root == "measured" then
        support.declines("no_data", "`tessera data " .. set.name .. "`", measured.path(set.files[1].path))
      end
    end
    print(("%d of %d data sets are here"):format(num_here, #sets))
  end)
  it("are hashed piece by piece", function()
    local path = os.tmpname()
    local text = ("0123456789abcdef"):rep(600000)
    core.write_file(path, text)
    assert.equal(store.sha256(text), store.file_sha256(path))
    assert.equal(store.sha256(text), store.file_sha256(path, function(done) assert.is_true(done <= #text) end))
    core.write_file(path, "")
    assert.equal(store.sha256 "", store.file_sha256(path))
    os.remove(path)
    support.raises("io", "No such file or directory", function() store.file_sha256(path) end)
    support.raises("io", "it is no regular file", function() store.file_sha256 "/tmp" end)
  end)
  it("has roots beside the project", function()
    assert.truthy(data_sets.root("instances"):find("shared/instances", 1, true))
  end)
end)
