-- llm-d's ladder of rates on gpt-oss-120b, 16 replicas on one H100 each: round robin against routing by prefix.
--
-- Known: prompts that share 6,000 tokens, Poisson arrivals. From llm-d's guide to inference scheduling, whose ladder
-- has the same rates: 150 groups of five prompts, 1,200 tokens of their own, 1,000 out, how long each rate lasts, and
-- 50 s at 15 per second before, which send every prompt once. Assumed: V1 with 256 seats and 8,192 tokens a step;
-- weights of 4 bits throughout; the router is prefix_aware with its defaults, llm-d's being a weighted sum of scores;
-- of its gateway nothing. Nothing is fitted to these runs.
--
-- The knee: rates at which the measured mean TTFT is below one second.
local core = require "tessera.core"
local ts = require "tessera"
local measured = require "lib.measured"

local runs = require "fidelity.serving.parts.runs"

local seconds_of = {
  [3] = 20, [10] = 20, [15] = 20, [20] = 38, [22] = 34, [25] = 30, [30] = 25, [35] = 21, [40] = 38,
}
local groups, prompts_per_group, shared, own, out, block_id_tokens = 150, 5, 6000, 1200, 1000, 400
local first_rate, first_s, pause_s = 15, 50, 400
-- Half of the layers see 128 tokens, and vLLM keeps no more for them: twice the 10,020 blocks that hold all tokens of
-- all layers. (Ours, with the windows of 256 requests set aside, are 17,737.)
local kv_blocks = 20040

local function rows()
  local table_rows, why = runs.read(measured.path "serving/prefix_routing_ladders.csv")
  if not table_rows then return nil, why end
  local list = {}
  for _, r in ipairs(table_rows) do
    local rate, ttft = tonumber(r.rate), tonumber(r.ttft_s)
    -- Beyond 40 per second TTFT measures the queue, and these runs take long.
    if rate <= 40 then list[#list + 1] = {
      run = ("%s, %g/s"):format(r.routing, rate), case = r.routing, rate = rate,
      deployment = {
        model = "gpt-oss-120b", bitwidths = { 4 }, kernel_set = "vllm", cluster = "16xH100-80G", replicas = 16,
        router = r.routing, kv_blocks = kv_blocks,
        engine = { scheduler = "vllm_v1", max_num_seqs = 256, max_num_batched_tokens = 8192 },
      },
      measured = { ttft = ttft, output_rate = tonumber(r.output_tok_s) }, below_knee = ttft < 1,
    } end
  end
  return list
end

-- The stage at `rate` after the first one, whose requests are not counted. inference-perf shuffles its 750 prompts once
-- and sends them in turn: the first stage has each of them, later ones repeat whole prompts.
local function trace_of(row, context)
  local state = 2026
  local function uniform() -- Park and Miller's generator
    state = state * 48271 % 2147483647
    return state / 2147483647
  end
  local order = {}
  for i = 1, groups * prompts_per_group do order[i] = i - 1 end
  for i = #order, 2, -1 do
    local j = 1 + math.floor(uniform() * i)
    order[i], order[j] = order[j], order[i]
  end
  local path = ("%s/ladder-%d.csv"):format(context.output_dir, context.point_index)
  local lines = {}
  lines[#lines + 1] = "arrival_s,prompt_tokens,output_tokens,block_ids,block_id_tokens\n"
  local function ids_of(prompt)
    local ids, group = {}, math.floor(prompt / prompts_per_group)
    for i = 1, (shared + own) / block_id_tokens do
      local of_group = i <= shared / block_id_tokens
      ids[i] = ("%d"):format((of_group and group or groups + prompt) * 100 + i)
    end
    return table.concat(ids, " ")
  end
  local sent = 0
  local function stage(start_s, rate, count)
    local at = start_s
    for _ = 1, count do
      at = at - math.log(uniform()) / rate
      local ids = ids_of(order[sent % #order + 1])
      lines[#lines + 1] = ("%.6f,%d,%d,%s,%d\n"):format(at, shared + own, out, ids, block_id_tokens)
      sent = sent + 1
    end
  end
  local before, count = first_rate * first_s, row.rate * seconds_of[row.rate]
  stage(0, first_rate, before)
  stage(pause_s, row.rate, count)
  core.write_file(path, table.concat(lines))
  return path, before, count
end

local function predict(row, _, context)
  local path, before, count = trace_of(row, context)
  local served = ts.serve(ts.deployment(row.deployment), ts.traffic { trace = path },
    { record = false, warm_up_requests = before })
  local last_s = 0
  for _, request in ipairs(served:requests()) do last_s = math.max(last_s, request.arrival_s + request.e2e_s) end
  return {
    ttft = served.ttft_s.mean, output_rate = count * out / (last_s - pause_s),
    hits = served.prefix_hit_ratio,
  }, served
end

return runs.experiment {
  name = "prefix_routing", doc = "gpt-oss-120b on 16 H100 by rate: round robin against routing by prefix",
  rows = rows, quick = 4, predict = predict,
  groups = { { metrics = { ttft = true }, differs = { ttft = { here = { 0.34, 0.6 },
    why = "how much of a prompt is cached decides TTFT, and neither hits nor the prompts' order are published: one "
      .. "that is new takes 300 ms, a known one all but nothing, and llm-d's gateway its time on top" } } } },
  more = function(row, predicted, _, columns)
    columns.measured_output_tok_s, columns.predicted_output_tok_s = row.measured.output_rate, predicted.output_rate
    columns.prefix_hit_ratio = predicted.hits
  end,
  plots = {},
  columns = {
    "below_knee", "measured_ttft_s", "predicted_ttft_s", "ttft_error_ratio", "measured_output_tok_s",
    "predicted_output_tok_s", "prefix_hit_ratio",
  },
  check = function(t)
    t:expect_that {
      text = "routing by prefix has the lower TTFT at every rate, as measured",
      holds = function(at, rows_of)
        local wrong, count = {}, 0
        for _, row in ipairs(rows_of) do
          if row.case == "prefix_aware" then
            count = count + 1
            local other = at { run = row.point.run:gsub("prefix_aware", "round_robin") }
            if row.predicted_ttft_s >= other.predicted_ttft_s then wrong[#wrong + 1] = row.point.run end
          end
        end
        return #wrong == 0, ("%d of %d rates%s"):format(count - #wrong, count,
          #wrong > 0 and "; not at " .. table.concat(wrong, ", ") or "")
      end,
    }
  end,
}
