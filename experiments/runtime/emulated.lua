-- Pipelines of four to eight unlike GPUs, emulated on this CPU: does the schedule of a run overlap as it is simulated?
--
-- Devices are T4s, V100s and A100s whose rates are divided by 25,000 (of the small model; else 2,500), so that a step
-- takes tens of milliseconds, and each is a host of its own on a network of 20 Mbit/s and 10 ms. Every step takes what
-- the plan's prediction says (ts.execute { emulated = true }), the arithmetic is done all the same; what is sent is
-- held until latency and bytes over rate have passed. With network = namespaces each stage is a network namespace that
-- sends at the rate (tbf), and latencies are held as before. It proves order, overlap and messages, not speed. The
-- bound of 5 % was chosen before the first run.
local ts = require "tessera"
local core = require "tessera.core"
local models = require "lib.runtime.models"
local namespaces = require "lib.runtime.namespaces"
local steady = require "lib.runtime.steady"

local slower = { [models.small] = 25000, [models.shaped] = 2500 }
local network_bytes_per_s, latency_s = 2.5e6, 0.01
local workload = { prompt_tokens = 32, output_tokens = 12, batch_size = 16 }
local clusters = {
  [4] = { ["T4-16G"] = 2, ["V100-32G"] = 1, ["A100-40G"] = 1 },
  [6] = { ["T4-16G"] = 3, ["V100-32G"] = 2, ["A100-40G"] = 1 },
  [8] = { ["T4-16G"] = 4, ["V100-32G"] = 2, ["A100-40G"] = 2 },
}
local order = { "T4-16G", "V100-32G", "A100-40G" }

-- The same device, so much slower; of a memory that has room for all.
local function slow_device(name, times)
  local device = core.cluster("1x" .. name):to_table().devices[1]
  device.name, device.full_name, device.backend = name .. "-slow", nil, "cpu" -- which has kernels for all bits
  device.memory_bytes_per_s = device.memory_bytes_per_s / times
  for kind, rate in pairs(device.flop_per_s) do device.flop_per_s[kind] = rate / times end
  return core.device(device)
end

local function slow_cluster(num_stages, times)
  local entries = { name = ("%d slow GPUs"):format(num_stages), link_gbps = network_bytes_per_s * 8 / 1e9,
    link_latency_s = latency_s }
  for _, name in ipairs(order) do
    local device = slow_device(name, times)
    for i = 1, clusters[num_stages][name] do
      entries[#entries + 1] = { device, 1, node = ("%s-%d"):format(name, i) }
    end
  end
  return core.cluster(entries)
end

-- Layers in proportion to what a device reads in a second, one at least.
local function stages_of(num_stages, num_layers, times)
  local devices, cut, total, left = {}, {}, 0, num_layers
  for _, name in ipairs(order) do
    for _ = 1, clusters[num_stages][name] do
      local device = slow_device(name, times)
      devices[#devices + 1] = device.name
      cut[#cut + 1] = { device.memory_bytes_per_s, 8 }
      total = total + device.memory_bytes_per_s
    end
  end
  for _, stage in ipairs(cut) do
    stage[1] = math.max(1, math.floor(num_layers * stage[1] / total))
    left = left - stage[1]
  end
  cut[#cut][1] = cut[#cut][1] + left
  return models.stages(devices, cut)
end

local function plan_of(folder, num_stages, times)
  local problem = ts.problem { model = folder, cluster = slow_cluster(num_stages, times), bitwidths = { 8 },
    tensor_parallel = 1, workload = workload }
  return ts.plan(problem, { planner = "manual", stages = stages_of(num_stages, problem.model.num_layers, times),
    prefill_micro_batch_size = 2, decode_micro_batch_size = 3 })
end

local function same_tokens(a, b)
  for i, tokens in ipairs(a.tokens) do
    if table.concat(tokens, " ") ~= table.concat(b.tokens[i], " ") then return 0 end
  end
  return 1
end

local function sum(list, name)
  local total = 0
  for _, item in ipairs(list) do total = total + item[name] end
  return total
end

-- The shortest step of any stage, as it is emulated.
local function shortest_step_s(run)
  local least = math.huge
  for _, unit in ipairs(run.predicted:unit_times()) do
    for at = 5, #unit, 2 do least = math.min(least, unit[at]) end
  end
  return least
end

return ts.experiment {
  name = "runtime/emulated",
  doc = "Pipelines of 4 to 8 emulated GPUs on emulated links, beside their simulation",
  grid = { model = { models.small, models.shaped }, stages = { 4, 6, 8 }, network = { "held", "namespaces" } },
  quick = { model = { models.small }, stages = { 4 }, network = { "held" } },
  columns = { "total_s", "predicted_s", "total_error", "ttft_error", "decode_round_error", "overlap",
    "predicted_overlap", "overlap_error", "shortest_step_ms", "cores", "same_tokens", "load" },
  notes = {
    "emulated: devices (steps are held until their predicted time), latencies, and rates where network = held",
    "error: predicted over measured, minus 1; overlap: busy time of all stages over total_s",
    "cores: arithmetic of all stages over total_s, of 2; same_tokens: as the plan writes without emulation",
    "load: processes that ran or waited, over a minute, at the end",
  },
  time_limit_s = 600,

  run = function(point, context)
    return models.with(point.model, function(folder)
      local plan, refused = plan_of(folder, point.stages, slower[point.model])
      if not plan then return nil, refused end
      local function execute(options)
        local all = { model = folder, device = "cpu", threads = 1, progress = false, temperature = 0,
          prompts = models.prompts(workload.batch_size, workload.prompt_tokens, plan:problem().model.vocab_size),
          max_tokens = workload.output_tokens, ignore_stop_tokens = true, step_limit_s = 300 }
        for key, value in pairs(options) do all[key] = value end
        local run = ts.execute(plan, all)
        if run.state ~= "done" then core.raise("internal", run.why, "runtime/emulated") end
        return run
      end
      local function emulate(options)
        options.emulated = true
        return execute(options)
      end
      local run, missing
      if point.network == "held" then
        run = emulate {}
      else -- priced are 2 bytes an activation, sent are 4
        run, missing = namespaces.with(point.stages, 2 * network_bytes_per_s, context, emulate)
        if not run then return nil, missing end
      end
      local overlap = sum(run.stages, "busy_s") / run.total_s
      local predicted = sum(run.predicted.stages, "busy_s") / run.predicted.total_s
      return { total_s = run.total_s, predicted_s = run.predicted.total_s, total_error = run.error.total,
        ttft_error = run.error.ttft, decode_round_error = run.error.decode_round, overlap = overlap,
        predicted_overlap = predicted, overlap_error = predicted / overlap - 1,
        shortest_step_ms = 1000 * shortest_step_s(run), cores = sum(run.stages, "computed_s") / run.total_s,
        same_tokens = same_tokens(run, execute {}), load = steady.load() }
    end)
  end,

  check = function(t)
    for _, column in ipairs { "total_error", "ttft_error", "decode_round_error", "overlap_error" } do
      t:expect_all { column = column, at_least = -0.05, at_most = 0.05,
        may_differ = "arithmetic shares the machine with whatever else runs there" }
    end
    t:expect_all { column = "shortest_step_ms", at_least = 20, at_most = 2000 }
    t:expect_all { column = "cores", at_least = 0.001, at_most = 1.5,
      may_differ = "arithmetic shares the machine with whatever else runs there" }
    t:expect_all { column = "same_tokens", at_least = 1, at_most = 1 }
  end,
  plots = { { kind = "bars", x = "stages", y = "total_error", by = "model", facet = "network" } },
}
