-- tessera.desk.report: what is in the file, and what it refuses. How it looks and works is tested in tests/browser.
local report = require "tessera.desk.report"
local store_module = require "tessera.store"
local support = require "support"
local raises = support.raises

local function new_store()
  local path = support.temporary()
  os.remove(path)
  return store_module.open(path), path
end

local function add(store, run, order, row)
  store:add(run, support.changed({ status = "done", order = order, started_at = 1.7e9, duration_s = 1 }, row))
end

-- One run of two points with a published number for each.
local function small(changes)
  local store, path = new_store()
  local run = store:start_run { experiment = "t", script_path = "t.lua", script_text = "-- <the script>", seed = 7,
    declaration = support.changed({ keys = { "planner" }, doc = "A small table", points = 3,
      paper = { { point = { planner = "exact" }, throughput_tok_s = 100 } } }, changes) }
  add(store, run, 1, { point = { planner = "uniform" }, columns = { latency_s = 2, throughput_tok_s = 80 } })
  add(store, run, 2, { point = { planner = "exact" }, columns = { latency_s = 1, throughput_tok_s = 110 },
    provenance = "fitted", error_ratio = 0.05 })
  return store, path, run
end

local function written(path, options)
  local out = support.temporary()
  local done = report.write(support.changed({ results = path, out = out }, options))
  local text = support.read(out)
  assert.equal(out, done.out)
  done.out = nil
  assert.equal(#text, done.bytes)
  return text, done
end

local function has(text, part) assert.truthy(text:find(part, 1, true), part .. " is not there") end
local function lacks(text, part) assert.is_nil(text:find(part, 1, true), part .. " is there") end

describe("tessera.desk.report", function()
  after_each(support.remove_files)

  it("says in words that what is stored cannot be drawn", function()
    local store, path, run = small { plots = { { kind = "lines", x = "latency_s", y = "no", rows = 3 },
      { kind = "lines", x = { 1 } } } }
    for i, value in ipairs { 3, "x", {}, { stages = 3 }, { stages = { 3 } }, { stages = { { devices = "x" } } } } do
      add(store, run, 2 + i, { point = { planner = "p" .. i }, columns = { latency_s = 1 }, artefacts = {
        { name = "plan", kind = "plan", value = value }, { name = "line", kind = "timeline", value = value } } })
    end
    store:close()
    local text = written(path)
    has(text, "A plot of the declaration cannot be drawn: ts.plot.x")
    has(text, "cannot be drawn: what is stored of it is damaged")
    lacks(text, ".lua:")
    lacks(text, "attempt to")
  end)

  it("shows paper, ours and the difference", function()
    local store, path = small()
    store:close()
    local text, done = written(path)
    assert.same({ experiments = 1, points = 2, bytes = #text }, done)
    has(text, '<th scope="row">exact</th><td><span class="chip good">done</span></td><td class="n">100</td>'
      .. '<td class="n">110</td><td class="n" data-v="10">+10.0</td>')
    has(text, '<th scope="row">uniform</th><td><span class="chip good">done</span></td><td class="n"></td>')
    has(text, "2 of 3 points")
    has(text, "A small table")
  end)

  it("marks where numbers come from", function()
    local store, path = small()
    store:close()
    local text = written(path)
    has(text, "fitted, held-out error 5 % (1 rows): from a model fitted")
    has(text, "not stated (1 rows): the script did not say")
    has(text, "published: as printed in the paper")
  end)

  it("is one file that asks for nothing", function()
    local store, path = small()
    store:close()
    local text = written(path)
    has(text, "default-src &#39;none&#39;")
    for _, what in ipairs { "http://www.w3.org/2000/svg" } do text = text:gsub(what, "") end
    for _, what in ipairs { "http:", "https:", "<link", "<img", "url(http", "@import", " style=", " onclick" } do
      lacks(text, what)
    end
  end)

  it("writes the same for the same", function()
    local store, path = small()
    store:close()
    assert.equal(written(path), written(path))
  end)

  it("keeps what users wrote as text", function()
    local evil = "<b>\"'&</script>\0\255"
    local store, path = new_store()
    local run = store:start_run { experiment = "e<b>", script_path = "<b>.lua", script_text = "</pre><b>",
      machine = { cpu = "<b>" }, declaration = { keys = { "k<b>" }, doc = "<b>", plots = { { kind = "<b>" } } } }
    add(store, run, 1, { point = { ["k<b>"] = "v<b>" }, columns = { ["c<b>"] = "</td><b>", x_s = 1 } })
    add(store, run, 2, { point = { ["k<b>"] = "w" }, status = "failed", error = evil, traceback = evil, log = evil })
    store:set_claims(run, { { text = "<b>", status = "fail", numbers = "<b>", lines = { "<b>" } } })
    store:close()
    local text = written(path)
    lacks((text:gsub("<b>%a[%a ]*</b>", "")), "<b>") -- those of the legend are ours
    assert.equal(1, select(2, text:gsub("</script>", "")))
    assert.is_nil(text:find "[%z\255]")
    has(text, "A plot of the declaration cannot be drawn")
  end)

  it("shows claims with their verdicts", function()
    local store, path, run = small()
    store:set_claims(run, { { text = "one", status = "pass", lines = {} }, { text = "two", passed = false },
      { text = "three", status = "skipped" } })
    store:close()
    local text = written(path)
    has(text, "1 of 3 claims hold")
    has(text, "✓ holds</span> one")
    has(text, "✗ fails</span> two")
    has(text, "– not checked</span> three")
  end)

  it("takes the newest run, the named experiments, or the run asked for", function()
    local store, path, first = small()
    local second = store:start_run { experiment = "t", declaration = { keys = { "a" } } }
    add(store, second, 1, { point = { a = 1 }, columns = { b = 12345 } })
    local other = store:start_run { experiment = "other", declaration = { keys = { "a" } } }
    add(store, other, 1, { point = { a = 1 } })
    store:close()
    local text, done = written(path)
    assert.equal(2, done.experiments)
    has(text, "12,345")
    lacks(text, "A small table")
    has(written(path, { names = { "t" }, run = first }), "A small table")
    lacks(written(path, { names = { "other" } }), "12,345")
    raises("invalid_argument", "name it", function() written(path, { run = first }) end)
    raises("invalid_argument", "is of 't', not of 'other'", function()
      written(path, { names = { "other" }, run = first })
    end)
    raises("not_found", "did you mean 'other'", function() written(path, { names = { "othr" } }) end)
  end)

  it("draws plots of its own where none are declared", function()
    local store, path = small()
    store:close()
    has(written(path), 'aria-label="bars: throughput_tok_s over planner, 2 points"')
    store, path = small { plots = { { kind = "cdf", x = "latency_s", title = "Latencies" } } }
    store:close()
    has(written(path), 'aria-label="Latencies. cdf: share of points over latency_s, 2 points"')
  end)

  it("draws what suits the rows where a declared plot cannot be drawn", function()
    local store, path = small { plots = { { kind = "bars", x = "planner", y = "gone_s" } } }
    store:close()
    local text = written(path)
    has(text, "A plot of the declaration cannot be drawn: ts.plot.y: no row has the column &#39;gone_s&#39;")
    has(text, 'aria-label="bars: throughput_tok_s over planner, 2 points"')
  end)

  it("shows means of repetitions before the rows, and says where one tells nothing", function()
    local store, path = new_store()
    local run = store:start_run { experiment = "reps", declaration = { keys = { "a", "rep" }, over = "rep" } }
    for i, value in ipairs { 1, 2, 3, 7 } do
      add(store, run, i, { point = { a = i < 4 and "x" or "y", rep = i }, columns = { latency_s = value } })
    end
    store:close()
    local text = written(path)
    has(text, "Means over rep, with half of their 95 % interval.")
    has(text, "1 of 2 means rest on one repetition")
    local means = text:match 'id="e1%-means".-</table>'
    has(means, ">2 ± 2.484<") -- t of 2 degrees of freedom, 4.3027, over the root of 3
    has(text:match 'id="e1%-rows".-</table>', ">7<")
    lacks(means, ">rep<")
  end)

  it("draws plans and timelines of rows", function()
    local ts = require "tessera"
    local store, path, run = small()
    local plan = support.small_plan()
    add(store, run, 3, { point = { planner = "het" }, columns = { throughput_tok_s = 500 }, artefacts = {
      { name = "plan", kind = "plan", value = plan:to_table() },
      { name = "run", kind = "timeline", value = ts.simulate(plan):to_table() },
      { name = "odd", kind = "plan", value = { stages = 3 } } } })
    store:close()
    local text = written(path)
    has(text, "Best: planner het")
    has(text, "<title>layer 0: ")
    has(text, "timeline of planner het")
    has(text, "&#39;odd&#39; cannot be drawn")
  end)

  it("keeps rows beyond the first thousand as data", function()
    local store, path = new_store()
    local run = store:start_run { experiment = "long", declaration = { keys = { "a" } } }
    for i = 1, 1002 do add(store, run, i, { point = { a = i }, columns = { b = "</script>" .. i } }) end
    store:close()
    local text = written(path)
    assert.equal(1001, select(2, text:gsub("<tr>", ""))) -- with the head
    has(text, [=["\u003c/script\u003e1002"]=])
    has(text, "The first 1000 of 1002 rows")
  end)

  it("says what is wrong", function()
    local store, path = new_store()
    store:close()
    raises("not_found", "holds no runs yet", function() written(path) end)
    raises("not_found", "/no/such.db", function() written "/no/such.db" end)
    raises("invalid_argument", "did you mean 'results'", function() report.write { result = "x" } end)
  end)
end)
