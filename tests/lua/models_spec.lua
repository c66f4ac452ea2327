-- Several models on the same GPUs: against cases from an independent reference, closed forms, models by themselves, and
-- single steps; when they come and go; what comes out; what is refused.
local core = require "tessera.core"
local data_sets = require "tessera.desk.data_sets"
local support = require "support"
local ts = require "tessera"

local raises = support.raises

local path, missing = data_sets.path("instances", "iserve/cases.json")
local cases = path and core.from_json(core.read_file(path)) or {}

-- A test of every case of a kind.
local function each(kind, text, check)
  if not path then
    it(text, function() pending(missing.message) end)
    return
  end
  local count = 0
  for _, case in ipairs(cases) do
    if case.kind == kind then
      count = count + 1
      it(("%s: %s"):format(text, case.name), function() check(case.given, case.expected) end)
    end
  end
  it(text .. ": there are cases", function() assert.is_true(count > 0) end)
end

local function near(expected, found, tolerance, what)
  assert.is_true(math.abs(found - expected) <= tolerance * math.max(math.abs(expected), 1e-12),
    ("%s: %g, expected %g"):format(what or "value", found, expected))
end

-- A trace of rows { at_s, model, output_tokens }.
local function of_rows(rows)
  local lines = { "arrival_s,model,prompt_tokens,output_tokens" }
  for i, row in ipairs(rows) do
    lines[i + 1] = ("%.12f,%s,%d,%d"):format(row[1], row[2], row[4] or 8, row[3] or 1)
  end
  local file = os.tmpname()
  core.write_file(file, table.concat(lines, "\n") .. "\n")
  local traffic = ts.traffic { trace = file }
  os.remove(file)
  return traffic
end

local function with(options, changes)
  for key, value in pairs(changes or {}) do options[key] = value end
  return options
end

local function deployment(models, changes)
  return ts.deployment(with({ cluster = "8xA6000", engine = { max_num_seqs = 1 }, models = models }, changes))
end

-- Configurations of a model whose layers each take so much and so long.
local function rows_of(num_layers, options)
  local map = ts.fingerprint { num_layers = num_layers, repeats = 1,
    configurations = ts.configurations(with({ num_gpus = 8, schemes = { "fp16" } }, options)),
    measure = function(run)
      local times, layers = {}, run.num_layers
      for i, n in ipairs(run.output_tokens) do
        times[i] = 0.1 + 0.02 * layers + n * (0.002 + 0.001 * layers / run.tensor_parallel ^ 0.8)
      end
      local tp, pp = run.tensor_parallel, run.pipeline_parallel
      return { memory_bytes = 1e9 + 4e8 * layers + (tp - 1) * 2e8 + (pp > 1 and pp * 1e8 or 0), latency_s = times }
    end }
  return map
end

local function request_rows(served)
  local rows = served:requests()
  for _, row in ipairs(rows) do row.request = nil end
  return rows
end

describe("shared GPUs", function()
  each("load", "a strategy sees the load", function(given, expected)
    local arrivals, seen = {}, nil
    for i, at in ipairs(given.arrivals) do arrivals[i] = { at, "a" } end
    local served = ts.serve(deployment({
      { name = "a", step_cost = { base_s = given.service_s }, devices = { 0 } },
      { name = "probe", step_cost = { base_s = 1 }, at_s = given.at_s },
    }, { strategy = { place = function(view)
      seen = view
      return nil, "it only looks"
    end } }), of_rows(arrivals))
    near(expected.load, seen.gpus[1].load, 1e-9, "load")
    assert.equal(0, seen.gpus[2].load)
    assert.equal(given.at_s, seen.now_s)
    assert.equal("it only looks", served.models[2].why)
  end)

  each("shared", "the law of conservation holds", function(given, expected)
    local models, classes, sum, found = {}, {}, 0, 0
    for _, rate in ipairs(given.rates) do sum = sum + rate end
    for i, service in ipairs(given.services) do
      models[i] = { name = "m" .. i, step_cost = { base_s = service }, devices = { 0 } }
      classes[i] = { share = given.rates[i] / sum, model = "m" .. i }
    end
    local served = ts.serve(deployment(models), ts.traffic { rate_per_s = sum, num_requests = given.num_requests,
      seed = given.seed, prompt_tokens = 1, output_tokens = 1, classes = classes })
    for i, model in ipairs(served.models) do
      near(model.e2e_s.mean - given.services[i], model.queue_s.mean, 1e-9)
      found = found + given.rates[i] * given.services[i] * model.queue_s.mean
    end
    near(expected.weighted_wait_s, found, 0.06)
  end)

  each("sequence", "models come and go", function(given, expected)
    local models, steps, loads, free = {}, {}, {}, nil
    for i, step in ipairs(given.steps) do
      local row = { name = step.name or "-" .. i, at_s = i, estimates = {}, num_layers = step.num_layers }
      if step.remove then
        for _, model in ipairs(models) do
          if model.name == step.remove then model.until_s = i end
        end
      else
        for k, ranked in ipairs(step.ranked) do
          row.estimates[k] = with({ ttft_s = 1, tpot_s = 1, latency_s = k, memory_bytes = ranked.base_bytes,
            cost_byte_s = k }, ranked)
        end
        models[#models + 1], loads[row.name], steps[row.name] = row, step, i
      end
    end
    models[#models + 1] = { name = "last", at_s = #given.steps + 1, step_cost = { base_s = 1 } }
    local served = ts.serve(deployment(models, { strategy = { place = function(view, model)
      if model.name == "last" then
        free = view.gpus
        return nil, "the end"
      end
      local step = loads[model.name]
      for i, gpu in ipairs(view.gpus) do gpu.load = step.loads[i] end
      return ts.place(model.estimates, view.gpus, { num_layers = model.num_layers, policy = step.policy,
        theta = step.theta })
    end } }), of_rows { { 100, models[1].name } })
    for i, bytes in ipairs(expected.free_bytes) do near(bytes - given.free_bytes[i],
      free[i].free_bytes - free[i].total_bytes, 1e-6, "free bytes of GPU " .. i - 1) end
    for _, model in ipairs(served.models) do
      local placed = expected.placed[steps[model.name]]
      if type(placed) == "table" then
        assert.same(placed.devices, model.devices)
        assert.same(placed.layers, model.layers)
      end
    end
  end)

  it("keep the law of conservation within their own noise", function()
    for _, case in ipairs { { { 0.25, 0.1 }, { 1, 2.5 } }, { { 0.3, 0.1, 0.02 }, { 0.5, 2, 10 } } } do
      local rates, services, sum, load, residual = case[1], case[2], 0, 0, 0
      local models, classes, number = {}, {}, {}
      for i, rate in ipairs(rates) do
        sum, load, residual = sum + rate, load + rate * services[i], residual + rate * services[i] ^ 2 / 2
        models[i] = { name = "m" .. i, step_cost = { base_s = services[i] }, devices = { 0, 3 } }
        number["m" .. i] = services[i]
      end
      for i, rate in ipairs(rates) do classes[i] = { share = rate / sum, model = "m" .. i } end
      local traffic = ts.traffic { rate_per_s = sum, num_requests = 200000, seed = 5, output_tokens = 1,
        classes = classes }
      local served, batches = ts.serve(deployment(models), traffic, { record = false }), {}
      local arrivals, n = traffic:requests(), 50
      for i, row in ipairs(served:requests()) do
        local b, service = math.floor((i - 1) * n / 200000) + 1, number[arrivals[i].model]
        batches[b] = (batches[b] or 0) + sum * service * (row.e2e_s - service) * n / 200000
      end
      local mean, squares = 0, 0
      for _, value in ipairs(batches) do mean = mean + value / n end
      for _, value in ipairs(batches) do squares = squares + (value - mean) ^ 2 end
      local sigma, expected = math.sqrt(squares / (n - 1) / n), load * residual / (1 - load)
      assert.is_true(math.abs(mean - expected) <= 4 * sigma,
        ("%g, expected %g, sigma %g"):format(mean, expected, sigma))
      assert.is_true(sigma < 0.03 * expected)
      near(load, served.gpus[1].busy_ratio, 0.03)
      assert.equal(served.gpus[1].busy_ratio, served.gpus[4].busy_ratio)
    end
  end)

  it("are M/D/1 for one model", function()
    local served = ts.serve(deployment { { name = "a", step_cost = { base_s = 1 }, devices = { 2 } } },
      ts.traffic { rate_per_s = 0.5, num_requests = 200000, output_tokens = 1 })
    near(0.5, served.queue_s.mean, 0.04)
  end)

  local function long(mean) return { distribution = "lognormal", mean = mean, cv = 1, max = 2000 } end
  local two = ts.traffic { rate_per_s = 0.8, num_requests = 400, seed = 3, prompt_tokens = long(300),
    output_tokens = long(60), classes = { { share = 0.6, model = "a" }, { share = 0.4, model = "b" } } }
  local function of_model(name)
    local rows = {}
    for _, row in ipairs(two:requests()) do
      if row.model == name then rows[#rows + 1] = { row.arrival_s, name, row.output_tokens, row.prompt_tokens } end
    end
    return of_rows(rows)
  end

  it("leave models on GPUs of their own alone, to the tick", function()
    local a = { name = "a", step_cost = { base_s = 0.01, per_token_s = 1e-4 }, devices = { 0, 1 } }
    local b = { name = "b", step_cost = { base_s = 0.02 }, devices = { 2 }, engine = { max_num_seqs = 8 } }
    local both, seen = ts.serve(deployment { a, b }, two, { record = false }):requests(), { a = 0, b = 0 }
    for _, model in ipairs { a, b } do
      local alone = ts.serve(deployment { model }, of_model(model.name), { record = false }):requests()
      for i, row in ipairs(two:requests()) do
        if row.model == model.name then
          seen[row.model] = seen[row.model] + 1
          local own = alone[seen[row.model]]
          assert.equal(own.ttft_s, both[i].ttft_s)
          assert.equal(own.e2e_s, both[i].e2e_s)
        end
      end
      assert.equal(#alone, seen[model.name])
    end
  end)

  it("give one model the numbers that it has without them, to the tick", function()
    local plan = ts.plan(ts.problem { model = "llama-2-7b", cluster = "2xA6000",
      workload = { batch_size = 1, prompt_tokens = 300, output_tokens = 60 } })
    local count = 0
    for _, stage in ipairs(plan.stages) do count = count + (tonumber(stage.device:match "^(%d+)x") or 1) end
    local cost = { base_s = 0.02, per_context_token_s = 1e-6 }
    for _, seats in ipairs { 1, 16 } do
      local engine, traffic = { max_num_seqs = seats }, of_model "a"
      for _, case in ipairs { { { step_cost = cost }, 1 }, { { plan = plan }, count } } do
        local devices = {}
        for i = 1, case[2] do devices[i] = i end
        local today = ts.deployment(with({ engine = engine }, case[1]))
        local shared = deployment({ with({ name = "a", devices = devices }, case[1]) },
          { engine = engine, api_s = case[1].plan and 0.0055 or nil })
        local one, other = ts.serve(today, traffic), ts.serve(shared, traffic)
        assert.same(request_rows(one), request_rows(other))
        assert.equal(one.throughput_tok_s, other.throughput_tok_s)
        assert.equal(one.itl_s.p99, other.itl_s.p99)
      end
    end
  end)

  it("take what estimates say, shared out over stages", function()
    local map = rows_of(30, { tensor_parallel = { 1, 2 }, pipeline_parallel = { 1, 3 } })
    for _, shape in ipairs { { 1, 1 }, { 2, 1 }, { 2, 3 } } do
      local devices = {}
      for i = 1, shape[1] * shape[2] do devices[i] = i end
      local served = ts.serve(deployment { { name = "a", estimates = map, devices = devices,
        layers = shape[2] == 3 and { 20, 5, 5 } or nil } }, of_rows { { 1, "a", 40 } })
      local row = served.models[1].configuration
      assert.equal(shape[1], row.tensor_parallel)
      near(row.ttft_s + 39 * row.tpot_s, served.e2e_s.mean, 1e-9)
      near(row.ttft_s, served.ttft_s.mean, 1e-9)
      near(row.num_gpus * served.e2e_s.mean, served.gpu_s, 1e-9)
      near(row.memory_bytes * served.e2e_s.mean, served.cost_byte_s, 1e-9)
      assert.equal(row.memory_bytes, served.memory_bytes)
      assert.equal(row.num_gpus, served.num_gpus_used)
      near(served.request_per_s / row.num_gpus, served.request_per_s_per_gpu, 1e-12)
      near(row.block_bytes * served.models[1].layers[1], served.gpus[2].peak_bytes, 1e-9)
      assert.equal(0, served.gpus[1].peak_bytes)
    end
  end)
end)

-- Models that come and go on the same GPUs, what each stretch and each single step of them gives.
describe("stretches on shared GPUs", function()
  it("are single steps, loads and places too", function()
    local names, classes = { "a", "b", "c", "d" }, {}
    for i, name in ipairs(names) do classes[i] = { share = 0.25, model = name } end
    local map = rows_of(24, { pipeline_parallel = { 1, 2, 4 } })
    for seed = 1, 6 do
      local function run(skip)
        local models, loads = {}, {}
        for i, name in ipairs(names) do
          models[i] = { name = name, at_s = (i - 1) * 90, until_s = i == 2 and 400 or nil, estimates = map,
            intent = { minimise = i % 2 == 0 and "latency" or "cost" } }
        end
        models[3] = { name = "c", step_cost = { base_s = 0.01, per_context_token_s = 1e-5 }, devices = { 0, 1 },
          engine = { max_num_seqs = 4, async_scheduling = seed % 2 == 0 } }
        local iserve = { name = "iserve", policy = function(gpus)
          local order = {}
          for i, gpu in ipairs(gpus) do
            order[i], loads[#loads + 1] = gpu.index, gpu.load
          end
          return order
        end }
        local served = ts.serve(deployment(models, { strategy = iserve, cluster = "4xA6000",
          engine = { max_num_seqs = seed > 3 and 4 or 1 } }),
          ts.traffic { rate_per_s = 0.5, num_requests = 300, seed = seed, classes = classes,
            output_tokens = { distribution = "lognormal", mean = 50, cv = 1, max = 900 } },
          { record = false, skip = skip })
        return served, loads
      end
      local one, loads_of_one = run(false)
      local many, loads_of_many = run(true)
      assert.same(request_rows(one), request_rows(many))
      assert.is_true(#loads_of_one > 8)
      assert.same(loads_of_one, loads_of_many)
      for i, gpu in ipairs(one.gpus) do assert.equal(gpu.busy_ratio, many.gpus[i].busy_ratio) end
      assert.is_true(one.num_unplaced > 0)
    end
  end)
end)

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
      seen[model.name] = { view.gpus[1].total_bytes - view.gpus[1].free_bytes, view.gpus[1].models }
      return nil, "it looks"
    end } }), of_rows { { 19.5, "a" } })
    assert.same({ 9e9, { "a", "b" } }, seen.look19)
    assert.same({ 9e9, { "a", "b" } }, seen.look21)
    assert.same({ 1e9, { "b" } }, seen.look25)
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
    raises("invalid_argument", "num_layers: missing", made { { name = "a", estimates = { {} } } })
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
