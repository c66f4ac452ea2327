-- How people split models over what they have, and which of two ways they found better: the same question put to the
-- planner and the simulator. A row is right where they prefer what served better, refuse what did not start, start
-- what did, or answer as who knows the runtime did.
local core = require "tessera.core"
local ts = require "tessera"
local csv = require "fidelity.fit.csv"
local measured = require "lib.measured"

local path, why = measured.path "field/splits.csv"

-- Set before looking. Looked at: the two cards of p22 do not reach each other's memory, by what its sums take
-- (fidelity/field/pcie); the row does not say so.
local least_right = 24

-- Layers by device of one request's plan under llama.cpp.
local function layers_by_device(model, bitwidth)
  local plan = assert(ts.plan { model = model, cluster = "(1xRTX-3090+2xRTX-3060)", bitwidths = { bitwidth },
    runtime = "llama.cpp", workload = { batch_size = 1, prompt_tokens = 512, output_tokens = 128 } })
  local counts, all = {}, 0
  for _, stage in ipairs(plan.pipelines[1].stages) do
    counts[stage.device], all = (counts[stage.device] or 0) + stage.num_layers, all + stage.num_layers
  end
  return counts, all
end

-- More of the layers on the 3090 than its half of the memory, which is llama.cpp's default.
local function more_on_the_fast(model, bitwidth)
  return function()
    local counts, all = layers_by_device(model, bitwidth)
    return counts["RTX-3090"] > all / 2, ("%d of %d layers"):format(counts["RTX-3090"], all)
  end
end

local function slow_left_out(model)
  return function()
    local counts, all = layers_by_device(model, 8)
    return counts["RTX-3090"] == all, ("%d of %d layers"):format(counts["RTX-3090"] or 0, all)
  end
end

local function deployed(given)
  given.kernel_set = given.bitwidths[1] == 8 and "vllm_fp8" or given.kernel_set or "vllm"
  local ok, deployment, refused = pcall(ts.deployment, given)
  if not ok then return nil, deployment.message end
  return deployment, refused and refused.message
end

local function kv_tokens(given)
  local deployment, refused = deployed(given)
  return deployment and deployment.replicas[1].kv_tokens or 0, refused
end

local function starts(given, tokens)
  return function()
    local found = kv_tokens(given)
    return found >= tokens, ("a KV cache of %d tokens"):format(found)
  end
end

local function refused(given, tokens)
  return function()
    local found = kv_tokens(given)
    return found < tokens, ("a KV cache of %d tokens"):format(found)
  end
end

-- tok/s of a closed loop.
local function served(given, load)
  given.router = "least_requests"
  local deployment = assert(deployed(given))
  return ts.serve(deployment, ts.traffic { arrivals = "closed", concurrency = load[1], num_requests = load[2],
    prompt_tokens = load[3], output_tokens = load[4] }, { record = false }).throughput_tok_s
end

-- Two layouts { tensor_parallel, pipeline_parallel, replicas, load }, the second the better where `second_wins`.
local function better(common, a, b, second_wins)
  local function rate(layout)
    local given = { tensor_parallel = layout[1], pipeline_parallel = layout[2], replicas = layout[3] }
    for name, value in pairs(common) do given[name] = value end
    return served(given, layout[4])
  end
  return function()
    local first, second = rate(a), rate(b)
    return (second > first) == second_wins, ("%.0f and %.0f tok/s"):format(first, second)
  end
end

-- A card with so much memory left of what it has.
local function left_of(name, gib)
  local sheet = core.to_json(core.device(name))
  local device = core.from_json(sheet)
  device.name, device.memory_bytes = ("%s with %g GiB"):format(name, gib), gib * 2 ^ 30
  return ts.device(device)
end

-- A pipeline over unlike cards, where tensor parallelism does not hold the model.
local function pipeline_over(cluster, model, bitwidth)
  return function()
    local rows = ts.plan_serving { model = model, cluster = cluster(), bitwidths = { bitwidth }, disaggregated = false,
      traffic = { prompt_tokens = 200, output_tokens = 50 }, slo = { ttft_s = { p99 = 20 } }, num_requests = 100 }
    return rows ~= nil and rows[1].pipeline_parallel > 1, rows and rows[1].layout or "no deployment"
  end
end

local function pair(a, b) return function() return ts.cluster { a(), b() } end end

local moe = { model = "glm-4.5-air", cluster = "4xRTX-5090", bitwidths = { 4 }, kv_bitwidth = 8,
  kernel_set = "vllm_fp8", engine = { max_num_batched_tokens = 2048 } }
local glm = { model = "glm-4.6", cluster = "8xRTX-PRO-6000", bitwidths = { 8 }, kv_bitwidth = 8 }
local coder = { model = "qwen3-coder-480b-a35b", cluster = "8xRTX-PRO-6000", bitwidths = { 4 } }
local air = { model = "glm-4.5-air", cluster = "8xH200-141G", bitwidths = { 4 }, kv_bitwidth = 8,
  kernel_set = "vllm_fp8" }
local awq = { model = "qwen3-14b", cluster = "2xL4", bitwidths = { 4 } }
local long = { 256, 512, 998, 1000 } -- requests at a time, requests, tokens of prompt and answer

local questions = {
  p01 = more_on_the_fast("qwen3-32b", 8),
  p02 = more_on_the_fast("llama-3.3-70b", 4),
  p03 = more_on_the_fast("gemma-3-27b", 8),
  p04 = more_on_the_fast("qwen2.5-32b", 8), -- Nemotron has no sheet
  p05 = slow_left_out "qwen3-8b",
  p06 = slow_left_out "qwen3-14b",
  p07 = starts({ model = "qwen3-30b-a3b", cluster = "(1xRTX-5070-Ti+1xRTX-5090)", pipeline_parallel = 2,
    stage_layers = { 16, 32 }, bitwidths = { 8 }, engine = { runtime_version = "0.15.0" } }, 0.9 * 104000),
  p08 = function()
    local function tokens(layers)
      return kv_tokens { model = "llama-3-70b", cluster = "8xL4", pipeline_parallel = 8, stage_layers = layers,
        bitwidths = { 8 } }
    end
    local even = tokens { 10, 10, 10, 10, 10, 10, 10, 10 }
    local fewer = tokens { 9, 10, 10, 11, 11, 10, 10, 9 }
    return fewer > even, ("%d and %d tokens"):format(even, fewer)
  end,
  p09 = refused({ model = "qwen2.5-14b", cluster = "2xRTX-4090", tensor_parallel = 2, bitwidths = { 16 },
    engine = { runtime_version = "0.8.5", gpu_memory_utilization = 0.98, max_num_batched_tokens = 2048 } }, 131072),
  p10 = pipeline_over(pair(function() return { left_of("A10", 9), 1 } end,
    function() return { left_of("A10", 22), 1 } end), "qwen2.5-14b", 8),
  p11 = pipeline_over(function() return "(2xV100-32G+1xA100-80G)" end, "mistral-large-123b", 8),
  p12 = pipeline_over(function() return "(1xRTX-3080+1xRTX-3090)" end, "qwen2.5-32b", 4),
  -- The post asks whether unlike cards may serve together, and names no model: of three that are much run, each engine
  -- stays on one type.
  p13 = function()
    local layouts = {}
    for i, model in ipairs { "llama-3.1-8b", "gemma-3-27b", "qwen3-32b" } do
      local first = assert(ts.plan_serving { model = model, cluster = "(1xRTX-PRO-6000+1xRTX-6000-Ada)",
        traffic = { prompt_tokens = 1000, output_tokens = 200 }, slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } },
        num_requests = 100 })[1]
      local unlike = first.disaggregated
      for _, part in ipairs(first.parts) do unlike = unlike or part.device:find("+", 1, true) ~= nil end
      if unlike then return false, first.layout end
      layouts[i] = first.layout
    end
    return true, table.concat(layouts, "; ")
  end,
  p14 = better({ model = "gemma-3-27b", cluster = "2xRTX-5060-Ti-16G", bitwidths = { 4 } },
    { 1, 2, 1, { 1, 4, 200, 200 } }, { 2, 1, 1, { 1, 4, 200, 200 } }, true),
  -- The one kernel set with 4 bits on both; llama.cpp's is for cards that others do not run on.
  p15 = better({ model = "gemma-3-27b", cluster = "(1xRTX-3060+1xP100-16G)", bitwidths = { 4 },
    kernel_set = "tessera", engine = { max_num_seqs = 4, max_num_batched_tokens = 512 } },
    { 1, 2, 1, { 1, 4, 200, 200 } }, { 2, 1, 1, { 1, 4, 200, 200 } }, true),
  p16 = function()
    local function rate(cluster)
      return served({ model = "qwen3-30b-a3b", cluster = cluster, tensor_parallel = 2, bitwidths = { 4 } },
        { 1, 4, 200, 200 })
    end
    local unlike, slower = rate "(1xRTX-5090+1xRTX-3090-Ti)", rate "2xRTX-3090"
    return math.abs(unlike / slower - 1) < 0.1, ("%.0f and %.0f tok/s"):format(unlike, slower)
  end,
  p17 = better(moe, { 4, 1, 1, { 200, 600, 998, 1000 } }, { 1, 4, 1, { 400, 800, 998, 1000 } }, true),
  p18 = better(glm, { 8, 1, 1, long }, { 1, 8, 1, long }, false),
  p19 = better(coder, { 4, 1, 2, long }, { 1, 4, 2, long }, false),
  p20 = better(air, { 8, 1, 1, { 400, 800, 998, 1000 } }, { 1, 1, 8, { 2048, 2048, 999, 1000 } }, true),
  p21 = better(awq, { 2, 1, 1, { 32, 128, 1000, 200 } }, { 1, 1, 2, { 32, 128, 1000, 200 } }, false),
  p22 = function()
    local function rate(cluster, degree)
      return served({ model = "qwen2.5-7b", cluster = cluster, tensor_parallel = degree, bitwidths = { 16 } },
        { 100, 100, 1020, 1022 })
    end
    local two, one = rate("2xA100 80GB PCIe@no-peer", 2), rate("1xA100 80GB PCIe", 1)
    return one > two, ("%.0f and %.0f tok/s"):format(two, one)
  end,
  -- Whatever the context: by memory one of the ten gets seven layers, which are more than it has.
  p23 = function()
    local plan, lacks = ts.plan({ model = "deepseek-v3", cluster = "10xA100-80G", bitwidths = { 8 },
      tensor_parallel = 1, runtime = "llama.cpp",
      workload = { batch_size = 1, prompt_tokens = 512, output_tokens = 128 } },
      { planner = "memory_split" })
    return plan == nil, plan and "fits" or lacks.message:match "stage[^;]*"
  end,
  p24 = refused({ model = "qwen3-30b-a3b", cluster = "1xRTX-5090", bitwidths = { 8 },
    engine = { gpu_memory_utilization = 0.95, max_num_batched_tokens = 2048 } }, 1),
  p25 = starts({ model = "llama-3.1-405b", cluster = "8xA100-80G", tensor_parallel = 8, bitwidths = { 8 },
    engine = { runtime_version = "0.8.5", max_num_batched_tokens = 4096 } }, 4096),
  p26 = starts({ model = "llama-3.1-8b", cluster = "1xL4", bitwidths = { 16 },
    engine = { runtime_version = "0.8.5", max_num_batched_tokens = 2048 } }, 1024),
}

local points, rows = {}, {}
for row in path and csv.rows(path) or function() end do
  points[#points + 1], rows[row.id] = { id = row.id }, row
end

return ts.experiment {
  name = "fidelity/field/splits",
  doc = "Ways to split models that people compared on their own GPUs, asked of the planner",
  grid = #points > 0 and points or { { id = "" } },
  columns = { "row", "question", "gpus", "model", "found", "is_right" },

  run = function(point)
    if why then return { status = why.code, message = why.message } end
    local row = rows[point.id]
    local is_right, found = questions[point.id]()
    return { row = row.id, question = row.question, gpus = row.gpus, model = row.model, found = found,
      is_right = is_right }
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    local right, wrong = 0, {}
    for _, row in ipairs(t:rows {}) do
      if row.is_right then right = right + 1 else wrong[#wrong + 1] = row.row end
    end
    table.sort(wrong)
    t:expect(("at least %d of 26 are answered as people found"):format(least_right), right >= least_right,
      ("%d; not %s"):format(right, table.concat(wrong, ", ")), { value = right })
  end,
}
