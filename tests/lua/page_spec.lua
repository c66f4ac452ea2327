-- ts.report: pages of plans, deployments and served runs. How they look and read is tests/browser's.
local support = require "support"
local ts = require "tessera"

local function written(thing, also)
  local path = support.temporary() .. ".html"
  ts.report(thing, path, also)
  local text = support.read(path)
  os.remove(path)
  return text
end

local function has(text, words) assert.truthy(text:find(words, 1, true), "missing: " .. words) end

-- Nothing that a browser would fetch.
local function stands_alone(text)
  for _, pattern in ipairs { "src%s*=", "<link", "url%(http", "@import", "<img", "<iframe" } do
    assert.is_nil(text:find(pattern), pattern)
  end
  for address in text:gmatch "https?://[^\"<% ]*" do assert.equal("http://www.w3.org/2000/svg", address) end
  has(text, "default-src &#39;none&#39;")
end

local function cells(text, id)
  local body = text:match('id="' .. id .. '".-<tbody>(.-)</tbody>')
  local rows = {}
  for row in body:gmatch "<tr>(.-)</tr>" do
    rows[#rows + 1] = {}
    for cell in row:gmatch "<t[hd][^>]*>(.-)</t[hd]>" do table.insert(rows[#rows], (cell:gsub("<[^>]*>", ""))) end
  end
  return rows
end

local function tips(drawing)
  local list = {}
  for tip in drawing:gmatch "<title>([^<]*)</title></[rcp]" do list[#list + 1] = tip end
  return list
end

-- Every figure for a wide page and for a narrow one, with the same marks; how many there are.
local function drawn_twice(text)
  local figures = 0
  for wide, narrow in text:gmatch '<div class="wide">(.-)</div><div class="narrow">(.-)</div></div></figure>' do
    figures = figures + 1
    assert.same(tips(wide), tips(narrow))
    assert.matches('viewBox="0 0 340 ', narrow)
    assert.is_true(tonumber(wide:match 'viewBox="0 0 (%d+) ') >= 560)
  end
  assert.equal(figures, select(2, text:gsub("<figure", "")))
  return figures
end

describe("ts.report", function()
  after_each(support.remove_files)

  it("shows where a plan lies, what it holds and who is busy when", function()
    local problem = ts.problem { model = "opt-13b", cluster = "3xT4-16G+1xV100-32G",
      workload = { prompt_tokens = 512, output_tokens = 100, batch_size = 8 } }
    local plan = assert(ts.plan(problem))
    local text = written(plan, { beside = { { planner = "other <one>", latency_s = 2.5, note = "x" } } })
    stands_alone(text)
    has(text, "<h1>Plan for opt-13b on 3xT4-16G+1xV100-32G</h1>")
    has(text, "<h2>Map</h2>")
    for _, engine in ipairs(plan.placement.engines) do
      for _, stage in ipairs(engine.stages) do has(text, stage.device) end
    end
    has(text, "prefill of micro-batch 0")
    assert.equal(1 + #(plan.replicas or { plan }), drawn_twice(text)) -- the pipeline, and a timeline of each
    has(text, "other &lt;one&gt;")
    local shown = 0
    for first, last in text:gmatch "GPUs? (%d+)%-?(%d*):" do shown = shown + (tonumber(last) or first) - first + 1 end
    assert.equal(4, shown) -- every GPU once, those left out too
  end)

  it("shows what there is of a plan without a cluster", function()
    local plan = assert(ts.plan(ts.problem { instance = support.tiny_instance() }))
    local text = written(plan)
    stands_alone(text)
    assert.is_nil(text:find("<h2>Map</h2>", 1, true))
    has(text, "<h2>Layers, memory and times of each stage</h2>")
  end)

  it("shows a deployment's latencies as the search saw them", function()
    local options = assert(ts.plan_serving { model = "llama-3.1-8b", cluster = "2x(2xL4)", num_requests = 300,
      traffic = { prompt_tokens = 500, output_tokens = 100 }, slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } } })
    local text = written(options)
    stands_alone(text)
    has(text, options[1].layout)
    has(text, "limit on p99")
    assert.equal(#options, #cells(text, "deployments"))
    assert.is_true(drawn_twice(text) >= 4)
    local found
    for _, row in ipairs(cells(text, "loads")) do
      if tonumber(row[1]) == 1 then found = row end
    end
    assert.near(1, tonumber(found[2]) / options[1].rate_per_s, 1e-3)
    assert.near(1, tonumber(found[5]) / options[1].tpot_p99_s, 0.02) -- the same simulation, to the digits shown
  end)

  it("shows a fleet's promises beside a simulation, and what reserves and limits cost", function()
    local fleet = assert(ts.plan_fleet { cluster = "3x(2xL4)", gap = 0.02, models = {
      { name = "chat <1>", model = "llama-3.2-1b", traffic = { rate_per_s = 12, prompt_tokens = 200,
        output_tokens = 30 }, slo = { ttft_s = { p99 = 1 }, tpot_s = { p99 = 0.05 } }, num_requests = 100,
        bitwidths = { 16 } } } })
    local text = written(fleet)
    stands_alone(text)
    has(text, "<h2>Map</h2>")
    has(text, "chat &lt;1&gt;")
    local promises = cells(text, "promises")
    assert.equal(1, #promises)
    assert.near(12, tonumber(promises[1][2]), 1e-9)
    assert.near(fleet.models[1].capacity_per_s, tonumber(promises[1][3]), 0.01 * fleet.models[1].capacity_per_s)
    assert.equal(7, #cells(text, "attainments"))
    assert.equal(5, drawn_twice(text)) -- the map, loads, cost against attainment, by reserves and by limits
    local cost = {} -- by reserve, with the limits as they are
    for _, row in ipairs(cells(text, "frontier")) do
      if tonumber(row[2]) == 1 then cost[tonumber(row[1])] = tonumber(row[3]) end
    end
    assert.near(fleet.usd_per_h, cost[0], 0.01)
    assert.is_true(cost[0] < cost[1] and cost[1] < cost[2])
  end)

  it("shows every request of a served run, a page at a time", function()
    local served = ts.serve(ts.deployment { model = "opt-13b", cluster = "1xA100-80G" },
      { rate_per_s = 2, num_requests = 1200, prompt_tokens = 64, output_tokens = 8 },
      { slo = { ttft_s = { p99 = 1 } } })
    local text = written(served)
    stands_alone(text)
    assert.equal(1000, #cells(text, "requests")) -- the others are data that the script adds
    has(text, 'data-rest="requests"')
    has(text, 'data-pager="requests"')
    has(text, "TTFT p99 at most 1.00 s: kept")
    assert.equal(4, drawn_twice(text)) -- over time, and three latencies
  end)

  it("keeps a map of many nodes short", function()
    local map = require "tessera.desk.page.map"
    local html = require "tessera.desk.report.html"
    local memory = { capacity_bytes = 2 ^ 34, total_bytes = 2 ^ 33, weight_bytes = 2 ^ 33 }
    local cards, nodes = {}, {}
    for n = 1, 12 do
      nodes[n] = "n" .. n
      cards[n] = { node = nodes[n], gpus = { 0 }, device = "L4", title = "engine " .. n, first_layer = 0,
        num_layers = 4, bitwidths = n == 12 and { 8, 8, 4, 4 } or { 4, 4, 4, 4 }, memory = memory }
    end
    local text = html.text(map.draw(cards, nodes))
    has(text, "n1 to n11: 11 nodes alike, the first drawn")
    has(text, "layers 0-1 at 8 bit, 2-3 at 4 bit")
    has(text, "8.00 GiB of 16.00 GiB: weights 8.00 GiB")
    assert.equal(2, select(2, text:gsub('class="gpu"', "")))
  end)

  it("refuses what it has no page for", function()
    support.raises("invalid_argument", "what ts.plan, ts.plan_serving, ts.serve, ts.plan_fleet or ts.execute gave",
      function() ts.report(ts.model "opt-13b", "x.html") end)
    support.raises("invalid_argument", "ts.report.path", function() ts.report({}, 1) end)
    support.raises("invalid_argument", "ts.report.thing", function() ts.report({}, "x.html") end)
  end)
end)
