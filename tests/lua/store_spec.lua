-- tessera.store: the file of results as Lua sees it.
local store = require "tessera.store"
local support = require "support"
local raises = support.raises

describe("tessera.store", function()
  local path, db
  before_each(function()
    path = support.temporary()
    db = store.open(path)
  end)
  after_each(function()
    db:close()
    for _, suffix in ipairs { "-wal", "-shm" } do os.remove(path .. suffix) end
    support.remove_files()
  end)

  it("is an object that says where it is", function()
    assert.equal("tessera.ResultStore", getmetatable(db))
    assert.equal(path, db.path)
    assert.is_true(db.is_open)
    assert.equal("results in " .. path, tostring(db))
    db:close()
    assert.equal("results in " .. path .. " (closed)", tostring(db))
    raises("invalid_argument", "is closed; open it again", function() db:runs() end)
  end)

  it("gives rows back with the point apart and columns beside it", function()
    local run = db:start_run { experiment = "e" }
    db:add(run, { point = { cluster = "a", n = 3 }, status = "optimal",
      columns = { x = 1 / 3, big = 2 ^ 53, list = { 1, 2 }, flag = false, text = "é" } })
    db:add(run, { point = { cluster = "b", n = 3 }, status = "crashed", error = "signal 11" })
    local rows = db:rows(run)
    assert.same({ point = { cluster = "a", n = 3 }, status = "optimal", x = 1 / 3, big = 2 ^ 53, list = { 1, 2 },
      flag = false, text = "é" }, rows[1])
    assert.same({ point = { cluster = "b", n = 3 }, status = "crashed", error = "signal 11" }, rows[2])
    local statuses, failed = db:keys(run)
    assert.equal("optimal", statuses[store.key { n = 3, cluster = "a" }])
    assert.same({ [store.key { cluster = "b", n = 3 }] = true }, failed)
  end)

  it("knows where each row comes from", function()
    local run = db:start_run { experiment = "e", script_hash = "h", git_commit = "c", seed = 4,
      machine = { host = "m" }, build = { version = "1" } }
    db:add(run, { point = { i = 1 }, started_at = 5, duration_s = 2, provenance = "fitted", error_ratio = 0.02,
      inputs = { { path = "p", sha256 = "s" } } })
    db:add(run, { point = { i = 2 }, machine = { host = "other" }, traceback = "t\nu", log = "bytes \255\0",
      error = "e" })
    local rows = db:rows(run, { meta = true })
    assert.same({ script_hash = "h", git_commit = "c", seed = 4, machine = { host = "m" }, build = { version = "1" },
      started_at = 5, duration_s = 2, provenance = "fitted", error_ratio = 0.02,
      inputs = { { path = "p", sha256 = "s" } } }, rows[1].meta)
    assert.equal("other", rows[2].meta.machine.host)
    assert.equal("h", rows[2].meta.script_hash)
    assert.equal("t\nu", rows[2].meta.traceback)
    assert.equal("bytes ?\0", rows[2].meta.log)
    assert.is_nil(db:rows(run)[1].meta)
  end)

  it("lists runs and their claims", function()
    local first = db:start_run { experiment = "e", script_path = "s.lua", script_text = "return", quick = true,
      shard = "0/2", declaration = { keys = { "b", "a" } } }
    db:start_run { experiment = "other" }
    db:set_claims(first, { { passed = true, text = "t" } })
    local runs = db:runs { experiment = "e" }
    assert.equal(1, #runs)
    assert.equal(2, #db:runs())
    local run = runs[1]
    assert.same({ "e", true, "0/2", 0, 0 }, { run.experiment, run.quick, run.shard, run.num_points, run.num_failed })
    assert.same({ "b", "a" }, run.declaration.keys)
    assert.same({ { passed = true, text = "t" } }, run.claims)
    assert.is_nil(run.script_text)
    assert.equal("return", db:run(first).script_text)
  end)

  it("keeps artefacts", function()
    local run = db:start_run { experiment = "e" }
    db:add(run, { point = { i = 1 }, artefacts = { { name = "plan", kind = "plan",
      value = support.small_plan():to_table() } } })
    local found = db:artefacts(run, store.key { i = 1 })
    assert.equal("plan", found[1].name)
    assert.equal(support.small_plan().latency_s, found[1].value.latency_s)
  end)

  it("merges other files", function()
    local other_path = support.temporary()
    local other = store.open(other_path)
    other:add(other:start_run { experiment = "e" }, { point = { i = 1 }, columns = { v = 1 } })
    other:close()
    assert.same({ num_runs = 1, num_rows = 1, num_replaced = 0, num_duplicates = 0, contradictions = {} },
      db:merge { other_path })
    db:add(1, { point = { i = 1 }, columns = { v = 2 }, replace = true })
    assert.equal(1, #db:merge({ other_path }).contradictions)
    assert.equal(1, db:merge({ other_path }, { prefer = "last" }).num_replaced)
    assert.equal(1, db:rows(1)[1].v)
  end)

  it("names points in one way", function()
    assert.equal('{"a":1,"b":"x"}', store.key { b = "x", a = 1 })
    assert.equal("{}", store.key {})
    assert.equal("[1,2]", store.key { 1, 2 })
  end)

  it("hashes, and knows machine and commit", function()
    assert.equal("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", store.sha256 "abc")
    assert.is_true(store.machine().num_cores >= 1)
    assert.equal("", store.git_commit "/")
  end)

  it("writes rows as JSON that starts with what they are about", function()
    assert.equal('[\n  {\n    "point": {},\n    "status": "done",\n    "a": 1,\n    "meta": []\n  }\n]\n',
      store.json { { a = 1, status = "done", meta = {}, point = {} } })
    assert.equal("[]\n", store.json {})
  end)

  it("refuses wrong use", function()
    local run = db:start_run { experiment = "e" }
    db:add(run, { point = { i = 1 } })
    raises("invalid_argument", "did not fail; it is kept", function() db:add(run, { point = { i = 1 } }) end)
    raises("invalid_argument", "column 'point'", function()
      db:add(run, { point = { i = 2 }, columns = { point = 1 } })
    end)
    raises("invalid_argument", "point", function() db:add(run, { columns = {} }) end)
    raises("invalid_argument", "point", function() db:add(run, { point = { 1, 2 } }) end)
    raises("invalid_argument", "NaN", function() db:add(run, { point = { i = 2 }, columns = { x = support.nan } }) end)
    raises("invalid_argument", "columns.x", function() db:add(run, { point = { i = 2 }, columns = { x = print } }) end)
    raises("invalid_argument", "did you mean 'columns'", function() db:add(run, { point = {}, colums = {} }) end)
    raises("invalid_argument", "'guessed' is not a choice", function()
      db:add(run, { point = { i = 2 }, provenance = "guessed" })
    end)
    raises("not_found", "no run 7; the last are 1", function() db:rows(7) end)
    raises("invalid_argument", "7.5 is not an integer", function() db:rows(7.5) end)
    raises("not_found", "does not exist", function() store.open("/tmp/none/such.db") end)
    raises("io", "is a folder", function() store.open "/tmp" end)
    raises("invalid_argument", "read_onl", function() store.open(path, { read_onl = true }) end)
    raises("invalid_argument", "claims", function() db:set_claims(run, { a = 1 }) end)
    raises("invalid_argument", "store:add_all rows: the number 3 is not a list", function() db:add_all(run, 3) end)
    raises("invalid_argument", "the list has gaps", function() db:add_all(run, { nil, { point = {} } }) end)
    raises("invalid_argument", "store:merge paths: the string 'x' is not a list", function() db:merge "x" end)
    raises("invalid_argument", "the list has gaps", function() db:merge { [0] = "x", "y" } end)
    assert.equal(1, #db:rows(run))
  end)
end)
