-- Several models on the same GPUs: against cases from an independent reference, closed forms, models by themselves, and
-- single steps.
local core = require "tessera.core"
local data_sets = require "tessera.desk.data_sets"
local sets = require "model_sets"
local ts = require "tessera"

local near, of_rows, with, deployment, rows_of = sets.near, sets.of_rows, sets.with, sets.deployment, sets.fingerprint

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

  it("are reserved by who decides first, at one time in the order of models", function()
    local cost = { base_s = 1 }
    local served = ts.serve(deployment {
      { name = "a", step_cost = cost, devices = { 0, 1 }, at_s = 0.5 },
      { name = "b", step_cost = cost, devices = { 1 } },
      { name = "c", step_cost = { ttft_s = 3, tpot_s = 1, stage_layers = { 2, 1 } }, devices = { 2, 1 } },
    }, of_rows { { 1, "b" }, { 1, "a" }, { 1, "c" }, { 1.5, "b" }, { 3.5, "a" } })
    local ends = {}
    for i, row in ipairs(served:requests()) do ends[i] = row.last_token_s end
    -- c passes GPU 2 until 3 and has GPU 1 from there on: it reserved it before b decided its second step, at 3.
    assert.same({ 3, 2, 4, 5, 6 }, ends)
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
