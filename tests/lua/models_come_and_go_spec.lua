-- Several models on the same GPUs: when they come and go, what is refused, and traffic for them.
local sets = require "model_sets"
local support = require "support"
local ts = require "tessera"

local raises = support.raises
local near, of_rows, with, deployment, rows_of = sets.near, sets.of_rows, sets.with, sets.deployment, sets.fingerprint

describe("models that come and go", function()
  local cost = { base_s = 1 }

  it("are served from when they come until they leave; others are rejected, apart from misses", function()
    local served = ts.serve(deployment({
      { name = "a", step_cost = cost, devices = { 0 }, at_s = 10, until_s = 20, slo = { e2e_s = 1.5 } },
      { name = "b", step_cost = cost, devices = { 0 } },
    }), of_rows { { 9.5, "a" }, { 10, "a" }, { 19.5, "a" }, { 19.6, "a" }, { 20, "a" }, { 30, "b" } })
    local outcomes = {}
    for i, row in ipairs(served:requests()) do outcomes[i] = row.outcome end
    assert.same({ "rejected", "finished", "finished", "finished", "rejected", "finished" }, outcomes)
    assert.is_true(served:requests()[1].unplaced)
    assert.equal(2, served.num_unplaced)
    assert.equal(2, served.models[1].num_unplaced)
    assert.equal(5, served.models[1].num_requests)
    near(2 / 3, served.models[1].attainment_ratio, 1e-12) -- the third of those that it had waits for the second
    near(3 / 4, served.attainment_ratio, 1e-12) -- what has no limit keeps it
    assert.truthy(served.text:gsub("%s+", " "):find("2 rejected (their model was not there)", 1, true))
    assert.equal(10, served.models[1].placed_at_s)
  end)

  it("give their memory back when what they have is done", function()
    local seen = {}
    local function look(at_s)
      return { name = "look" .. at_s, at_s = at_s, step_cost = cost }
    end
    ts.serve(deployment({
      { name = "a", step_cost = { base_s = 5 }, devices = { 0 }, memory_bytes = 8e9, until_s = 20 },
      { name = "b", step_cost = cost, devices = { 0, 1 }, memory_bytes = 2e9 },
      look(19), look(21), look(25),
    }, { strategy = { place = function(view, model)
      seen[model.name] = seen[model.name] or { view.gpus[1].total_bytes - view.gpus[1].free_bytes, view.gpus[1].models }
      return nil, "it looks"
    end } }), of_rows { { 19.5, "a" } })
    assert.same({ 9e9, { "a", "b" } }, seen.look19)
    assert.same({ 9e9, { "a", "b" } }, seen.look21)
    assert.same({ 1e9, { "b" } }, seen.look25)
  end)

  it("are tried again when another leaves, as long as they have not left", function()
    local asked = {}
    local function strategy(view, model)
      asked[#asked + 1] = ("%s %g"):format(model.name, view.now_s)
      if view.gpus[1].free_bytes < model.memory_bytes then return nil, "GPU 0 is full" end
      return { devices = { 0 } }
    end
    local function model(name, at_s, until_s)
      return { name = name, at_s = at_s, until_s = until_s, step_cost = { base_s = 5 }, memory_bytes = 30e9 }
    end
    local served = ts.serve(deployment({ model("a", 0, 20), model("b", 10), model("c", 11, 15), model("d", 12, 24.5),
      model("e", 13) }, { strategy = { place = strategy } }),
      of_rows { { 19.5, "a" }, { 24, "b" }, { 24.6, "b" }, { 25, "d" } })
    -- Its last request keeps the memory of a until 24.5, when d leaves.
    assert.same({ "a 0", "b 10", "c 11", "d 12", "e 13", "b 24.5", "e 24.5" }, asked)
    local a, b, c, d, e = unpack(served.models)
    assert.equal("", a.why)
    assert.equal(24.5, b.placed_at_s)
    assert.equal("came at 10 s, had no place until another left: GPU 0 is full", b.why)
    assert.equal(1, b.num_unplaced)
    assert.equal(1, b.num_finished)
    for _, other in ipairs { c, d, e } do
      assert.is_false(other.placed)
      assert.equal("GPU 0 is full", other.why)
    end
  end)

  it("load before they serve, where loading takes time", function()
    local served = ts.serve(deployment({
      { name = "a", step_cost = cost, devices = { 0, 1 }, memory_bytes = 20e9, at_s = 5 },
    }, { strategy = { name = "iserve", load_bytes_per_s = 1e9 } }), of_rows { { 6, "a" } })
    near(5 + 10 + 1 - 6, served.e2e_s.mean, 1e-12)
  end)

  it("may have several engines, among which a router chooses", function()
    local served = ts.serve(deployment({ { name = "a", step_cost = cost } }, { strategy = { place = function()
      return { { devices = { 3 } }, { devices = { 5 } } }
    end } }), of_rows { { 1, "a" }, { 1.1, "a" }, { 3, "a" } })
    assert.same({ 3, 5 }, served.models[1].devices)
    assert.equal(1, served.e2e_s.max)
    assert.equal(2, served.num_gpus_used)
    assert.equal(1, served.models[1].num_gpus)
  end)

  it("are placed by iserve: the first that has room, and why others were passed over", function()
    local map = rows_of(200) -- 81 GB
    local served = ts.serve(deployment({ { name = "a", estimates = map, intent = { minimise = "memory" } },
      { name = "b", estimates = map, intent = { minimise = "latency" } },
      { name = "c", estimates = rows_of(1200), at_s = 1 } }), of_rows { { 2, "a", 4 }, { 2, "b", 4 }, { 2, "c" } })
    local a, b, c = unpack(served.models)
    assert.equal(2, a.num_gpus)
    assert.equal(2, a.configuration.rank)
    assert.equal("1 better: no_room 1", a.configuration.passed_over)
    assert.equal(8, b.configuration.tensor_parallel)
    assert.is_false(c.placed)
    assert.truthy(c.why:find("none of 15 configurations has room on 8 GPUs (no_room 15)", 1, true), c.why)
    assert.equal(1, c.num_unplaced)
    assert.equal(1, served.num_unplaced)
  end)

  it("prepare sees the traffic, and opt is of one run", function()
    local seen = {}
    ts.register_strategy { name = "spec_counting", doc = "d",
      options = { start = { type = "integer", default = 3, doc = "d" } },
      prepare = function(view, models, traffic, opt)
        seen[#seen + 1] = { #view.gpus, models[2].name, traffic.num_requests, opt.start }
        opt.count = opt.start
      end,
      place = function(_, _, opt)
        opt.count = opt.count + 1
        return { devices = { opt.count } }
      end }
    local made = deployment({ { name = "a", step_cost = cost }, { name = "b", step_cost = cost } },
      { strategy = { name = "spec_counting", start = 1 } })
    for _ = 1, 2 do
      local served = ts.serve(made, of_rows { { 1, "b" } })
      assert.same({ 2 }, served.models[1].devices)
      assert.same({ 3 }, served.models[2].devices)
    end
    assert.same({ { 8, "b", 1, 1 }, { 8, "b", 1, 1 } }, seen)
  end)
end)

describe("what models that share GPUs are refused for", function()
  local cost = { base_s = 1 }
  local a = { name = "a", step_cost = cost, devices = { 0 } }
  local traffic = of_rows { { 1, "a" } }
  local function made(models, changes) return function() deployment(models, changes) end end
  local function run(models, changes, requests)
    return function() ts.serve(deployment(models, changes), requests or traffic) end
  end
  local function strategy(place) return { strategy = { place = place } } end

  it("is what is said of them", function()
    raises("not_found", "there is no strategy 'iserv'; did you mean 'iserve'?", made({ a }, { strategy = "iserv" }))
    raises("invalid_argument", "unknown option 'thet'; did you mean 'theta'",
      made({ a }, { strategy = { name = "iserve", thet = 1 } }))
    raises("out_of_range", "theta", made({ a }, { strategy = { name = "iserve", theta = 1.5 } }))
    raises("out_of_range", "window_s", made({ a }, { strategy = { name = "iserve", window_s = 0 } }))
    raises("invalid_argument", "strategy.place: missing", made({ a }, { strategy = {} }))
    raises("invalid_argument", "models: the list is empty", made {})
    raises("invalid_argument", "models[2].name: models[1] is called 'a' already", made { a, a })
    raises("invalid_argument", "give estimates, step_cost or plan", made { { name = "a" } })
    raises("invalid_argument", "estimates and step_cost both say", made { { name = "a", step_cost = cost,
      estimates = {} } })
    raises("invalid_argument", "there is no GPU 8 of 8", made { with({ devices = { 8 } }, { name = "a",
      step_cost = cost }) })
    raises("invalid_argument", "GPU 1 is there twice", made { { name = "a", step_cost = cost, devices = { 1, 1 } } })
    raises("invalid_argument", "until_s: it leaves at 4 s, before it comes at 5 s", made { { name = "a",
      step_cost = cost, devices = { 1 }, at_s = 5, until_s = 4 } })
    raises("invalid_argument", "num_layers: missing", made { { name = "a",
      estimates = { { tensor_parallel = 1, pipeline_parallel = 1 } } } })
    raises("invalid_argument", "estimates[1].tensor_parallel: a whole number", made { { name = "a",
      estimates = { { tensor_parallel = 1.5, pipeline_parallel = 1 } } } })
    raises("invalid_argument", "no configuration runs on 7 GPUs", made { { name = "a", estimates = rows_of(4, {
      tensor_parallel = { 1, 2 }, pipeline_parallel = { 1, 2 } }), devices = { 0, 1, 2, 3, 4, 5, 6 } } })
    raises("invalid_argument", "layers: 5 in all, but the model has 4", made { { name = "a", estimates = rows_of(4),
      devices = { 0, 1 }, layers = { 2, 3 } } })
    raises("invalid_argument", "given beside models", made({ a }, { model = "llama-2-7b" }))
    raises("invalid_argument", "cluster", function() ts.deployment { models = { a } } end)
  end)

  it("is what requests ask for", function()
    local b = { name = "b", step_cost = cost, devices = { 1 } }
    raises("invalid_argument", "requests name no model, and there are 2", run({ a, b }, nil, ts.traffic {
      rate_per_s = 1, num_requests = 3 }))
    raises("not_found", "requests name the model 'model-x', which is not there", run({ a, b }, nil, of_rows {
      { 1, "model-x" } }))
    assert.equal(3, ts.serve(deployment { a }, ts.traffic { rate_per_s = 1, num_requests = 3 }).num_finished)
    raises("invalid_argument", "classes[2].model: missing", function()
      ts.traffic { rate_per_s = 1, classes = { { share = 0.5, model = "a" }, { share = 0.5 } } }
    end)
  end)

  it("is what a strategy returns", function()
    local b = { name = "b", step_cost = cost, memory_bytes = 40e9 }
    local function place(found) return function() return found end end
    raises("invalid_argument", "GPU 0 has", run({ b, with({ name = "c" }, { step_cost = cost, memory_bytes = 20e9 }) },
      strategy(place { devices = { 0 } }), of_rows { { 1, "b" } }))
    raises("invalid_argument", "GPU 0 has", run({ with({ devices = { 0 } }, { name = "a", step_cost = cost,
      memory_bytes = 35e9 }), { name = "c", step_cost = cost, memory_bytes = 20e9, devices = { 0 } } }))
    local only_b = of_rows { { 1, "b" } }
    raises("invalid_argument", "it returned a number", run({ b }, strategy(place(3)), only_b))
    raises("invalid_argument", "there is no GPU 9 of 8", run({ b }, strategy(place { devices = { 9 } }), only_b))
    raises("invalid_argument", "GPU 1 is there twice", run({ b }, strategy(place { devices = { 1, 1 } }), only_b))
    raises("invalid_argument", "a list of GPUs, from 0", run({ b }, strategy(place {}), only_b))
    raises("invalid_argument", "it returned nil and no reason", run({ b }, strategy(place(nil)), only_b))
    raises("invalid_argument", "layers: 3 in all, but 'd' has 4", run({ { name = "d", estimates = rows_of(4) } },
      strategy(function(_, model)
        return { devices = { 0 }, layers = { 3 }, configuration = model.estimates[1] }
      end), of_rows { { 1, "d" } }))
    raises("invalid_argument", "block_bytes: a number from 0 on", run({ { name = "d", estimates = rows_of(4) } },
      strategy(function(_, model)
        return { devices = { 0 }, layers = { 4 }, configuration = model.estimates[1], block_bytes = -1 }
      end), of_rows { { 1, "d" } }))
    raises("invalid_argument", "seats: a number from 1 on belongs here, not 0", run({ b }, strategy(place {
      devices = { 0 }, seats = 0 }), only_b))
    raises("invalid_argument", "seats", run({ b }, strategy(place { devices = { 0 }, seats = 1.5 }), only_b))
    local host, file = require "tessera.host", os.tmpname()
    require("tessera.core").write_file(file, [[
      local ts = require "tessera"
      local function never() while true do end end
      ts.serve(ts.deployment { cluster = "1xA6000", models = { { name = "a", step_cost = { base_s = 1 } } },
        strategy = { place = never } }, ts.traffic { rate_per_s = 1, num_requests = 3 })]])
    local status, _, why = host.run_program({ host.program, "run", "--sandbox", "--sandbox-out", file .. "-out",
      "--sandbox-time-limit-s", "1", file }, "")
    host.run_program({ "rm", "-rf", file, file .. "-out" }, "")
    assert.not_equal(0, status)
    assert.truthy(why:find("stopped the script at its time limit", 1, true), why)
    raises("invalid_argument", "iserve chooses among estimates", run({ b }, nil, only_b))
    local ok, err = pcall(run({ b }, strategy(function() error("oops", 0) end), only_b))
    assert.is_false(ok)
    assert.truthy(tostring(err):find("oops", 1, true))
  end)
end)

describe("traffic for models", function()
  it("draws them, keeps them in a trace, and adds them to one", function()
    local traffic = ts.traffic { rate_per_s = 2, num_requests = 900, seed = 4,
      classes = { { share = 0.25, model = "a" }, { share = 0.75, model = 'b "x", y' } } }
    assert.same({ "a", 'b "x", y' }, traffic.models)
    local count = 0
    for _, row in ipairs(traffic:requests()) do count = count + (row.model == "a" and 1 or 0) end
    assert.is_true(count > 160 and count < 290, tostring(count)) -- 225, four deviations of 13 and a bit
    local file = os.tmpname()
    traffic:save(file)
    local again = ts.traffic { trace = file }
    local other = ts.traffic { trace = file, classes = { { share = 1, model = "c" } } }
    os.remove(file)
    assert.same(traffic:requests(), again:requests())
    assert.same({ "c" }, other.models)
    assert.truthy(traffic.description:find("for 2 models", 1, true))
  end)

  it("takes a trace by intervals", function()
    local rows = {}
    for i = 0, 99 do rows[i + 1] = { i + 0.25, "a" } end
    local file = os.tmpname()
    of_rows(rows):save(file)
    local merged = ts.traffic { trace = file, intervals = { interval_s = 10, merge = 2 } }
    local fewer = ts.traffic { trace = file, intervals = { interval_s = 10, merge = 2, factor = 0.3 } }
    local more = ts.traffic { trace = file, intervals = { interval_s = 10, factor = 2.5 } }
    local found = merged:requests()
    assert.equal(100, #found)
    for i, row in ipairs(found) do -- 0.25, 10.25 -> 0.25 twice; 20.25, 30.25 -> 10.25
      near(math.floor((i - 1) / 2) + 0.25, row.arrival_s, 1e-12)
    end
    assert.equal(30, fewer.num_requests)
    assert.equal(250, more.num_requests)
    local by_interval = {}
    for _, row in ipairs(more:requests()) do
      local k = math.floor(row.arrival_s / 10)
      by_interval[k] = (by_interval[k] or 0) + 1
    end
    for k = 0, 9 do assert.equal(25, by_interval[k]) end
    assert.truthy(merged.notes[1]:find("by intervals of 10 s", 1, true))
    raises("invalid_argument", "given beside intervals", function()
      ts.traffic { trace = file, intervals = { interval_s = 10 }, rate_scale = 2 }
    end)
    os.remove(file)
    raises("invalid_argument", "intervals: needs a trace", function()
      ts.traffic { rate_per_s = 1, intervals = { interval_s = 10 } }
    end)
  end)
end)
