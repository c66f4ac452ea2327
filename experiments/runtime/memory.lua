-- What a stage takes: the plan's account of its weights, cache and runtime beside the memory of the process that loaded
-- them.
--
-- Counted is the anonymous memory of the process after loading, the cache in it. The bound of 5 % was chosen before the
-- first run; what the runtime takes beside weights and cache was measured on the model that ships, so that its rows are
-- no test of it, and those of SmolLM2's shape are.
local ts = require "tessera"
local core = require "tessera.core"
local models = require "lib.runtime.models"

local mib = 2 ^ 20
local prompt_tokens, output_tokens, batch_size = 64, 32, 8

-- Shares of the layers and bits, by stage.
local plans = {
  one_4 = { { 1, 4 } },
  one_16 = { { 1, 16 } },
  two_4_8 = { { 1 / 2, 4 }, { 1 / 2, 8 } },
  two_16_4 = { { 1 / 3, 16 }, { 2 / 3, 4 } },
  three_8 = { { 1 / 3, 8 }, { 1 / 3, 8 }, { 1 / 3, 8 } },
}

local function plan_of(folder, shares)
  local cluster = core.cluster(#shares .. "xA100-40G") -- where it would run says nothing of what it takes
  local problem = ts.problem { model = folder, cluster = cluster, bitwidths = { 4, 8, 16 }, tensor_parallel = 1,
    memory = "tessera",
    workload = { prompt_tokens = prompt_tokens, output_tokens = output_tokens, batch_size = batch_size } }
  return ts.plan(problem, { planner = "manual", prefill_micro_batch_size = 4, decode_micro_batch_size = 4,
    stages = models.stages("A100-40G", models.cut(shares, problem.model.num_layers)) })
end

local function predicted_bytes(memory)
  return memory.weight_bytes + memory.kv_cache_bytes + memory.embedding_bytes + memory.reserve_bytes
end

-- Of a layer as it is stored, by what the plan says of the stage's.
local function source_layer_bytes(stage)
  return stage.memory.weight_bytes / #stage.bitwidths * 16 / stage.bitwidths[1]
end

return ts.experiment {
  name = "runtime/memory",
  doc = "Memory of stages: predicted, and of the processes that loaded them",
  grid = { model = { models.small, models.shaped }, plan = { "one_16", "one_4", "three_8", "two_16_4", "two_4_8" } },
  quick = { model = { models.small }, plan = { "one_4", "two_4_8" } },
  columns = { "first_predicted_mib", "first_measured_mib", "first_error", "last_predicted_mib", "last_measured_mib",
    "last_error", "worst_error", "peak_layers", "load_s" },
  notes = {
    "measured: anonymous memory after loading",
    "error: predicted over measured, minus 1; worst_error: of the stage that is furthest from 0",
    "peak_layers: anonymous memory at most while loading less that after it, in layers of 16 bits, of the worst stage",
  },
  time_limit_s = 600,

  run = function(point)
    return models.with(point.model, function(folder)
      local plan, refused = plan_of(folder, plans[point.plan])
      if not plan then return nil, refused end
      local run = ts.execute(plan, { model = folder, device = "cpu", threads = 1, progress = false,
        prompts = models.prompts(batch_size, prompt_tokens, plan:problem().model.vocab_size),
        max_tokens = output_tokens, ignore_stop_tokens = true })
      if run.state ~= "done" then core.raise("internal", run.why, "runtime/memory") end
      local row = { worst_error = 0, peak_layers = 0, load_s = run.load_s }
      for k, stage in ipairs(run.stages) do
        local predicted = predicted_bytes(plan.stages[k].memory)
        local measured = stage.resident_bytes
        local error = predicted / measured - 1
        if math.abs(error) > math.abs(row.worst_error) then row.worst_error = error end
        row.peak_layers = math.max(row.peak_layers, (stage.peak_bytes - stage.resident_bytes)
          / source_layer_bytes(plan.stages[k]))
        for name, at in pairs { first = 1, last = #run.stages } do
          if k == at then
            row[name .. "_predicted_mib"], row[name .. "_measured_mib"] = predicted / mib, measured / mib
            row[name .. "_error"] = error
          end
        end
      end
      return row
    end)
  end,

  check = function(t)
    t:expect_all { column = "worst_error", at_least = -0.05, at_most = 0.05 }
    t:expect_all { column = "peak_layers", at_least = 0, at_most = 2 }
  end,
}
