-- Static and continuous batching: the lecture's drawing of 4 slots over 8 steps, served by the schedulers themselves.
--
-- Seven requests are there from the start and every step takes one second, whatever is in it, so that step k is
-- column Tk. S1 to S4 end in T6, T8, T5 and T7 (END included). Static batching runs them to the last one's end and
-- lets the others wait: of 32 slots 26 hold a request. Continuous batching gives a free slot to the next one at once:
-- S5 takes S3's in T6, S6 that of S1 in T7, S7 that of S4 in T8, and no slot is idle. Orca and vLLM V1 must both do
-- that here: there is memory for everybody, and prompts are one token long.
--
-- Whole numbers, compared exactly.
local core = require "tessera.core"
local ts = require "tessera"

local paper = ts.paper "lecture/slots.csv"

local num_slots, num_columns = 4, 8
-- Tokens of S1 to S7: the step of each is the one that gives its last. S5 to S7 end in T8 when they begin as drawn.
local output_tokens = { 6, 8, 5, 7, 3, 2, 1 }

local function trace_in(folder)
  local path = folder .. "/slots.csv"
  local lines = {}
  lines[#lines + 1] = "arrival_s,prompt_tokens,output_tokens\n"
  for _, tokens in ipairs(output_tokens) do lines[#lines + 1] = ("0,1,%d\n"):format(tokens) end
  core.write_file(path, table.concat(lines))
  return path
end

-- The column in which each request begins and ends, and the slots that are in use up to the last column.
local function read_off(steps)
  local begins, ends, busy, total = {}, {}, 0, 0
  for _, step in ipairs(steps) do
    local column = step.start_s + 1
    total = total + #step.scheduled
    if column <= num_columns then busy = busy + #step.scheduled end
    for _, part in ipairs(step.scheduled) do
      local name = part.request + 1
      begins[name] = begins[name] or column
      ends[name] = column
    end
  end
  return begins, ends, busy, total
end

return ts.experiment {
  name = "lecture/slots",
  doc = "Four slots, eight steps: which are in use, static and continuous",
  paper = paper,
  grid = { scheduler = { "static", "orca", "vllm_v1" } },
  columns = {
    "busy_slots", "use_ratio", "s5_begins", "s6_begins", "s7_begins", "s1_ends", "s2_ends", "s3_ends", "s4_ends",
    "last_column",
  },
  notes = { "columns T1, T2, ... of one second each; use_ratio: of the 32 slots of T1 to T8" },

  run = function(point, context)
    local deployment = ts.deployment {
      engine = ts.engine {
        scheduler = point.scheduler, max_num_seqs = num_slots, max_num_batched_tokens = 64, max_model_len = 32,
        block_size = 16, kv_blocks = 64, enable_prefix_caching = false,
      },
      step_cost = { base_s = 1 },
    }
    local result = ts.serve(deployment, ts.traffic { trace = trace_in(context.output_dir) }, { record = true })
    local begins, ends, busy, total = read_off(result:steps())
    local last = 0
    for _, column in ipairs(ends) do last = math.max(last, column) end
    return {
      busy_slots = busy, use_ratio = busy / (num_slots * num_columns), total_tokens = total, last_column = last,
      s1_ends = ends[1], s2_ends = ends[2], s3_ends = ends[3], s4_ends = ends[4],
      s5_begins = begins[5], s6_begins = begins[6], s7_begins = begins[7],
    }
  end,

  check = function(t)
    for _, column in ipairs { "busy_slots", "s5_begins", "s6_begins", "s7_begins" } do
      t:expect_close { column = column, to = "paper", abs = 0 }
    end
    t:expect_all { column = "use_ratio", equals = 26 / 32, where = { scheduler = "static" } }
    t:expect_all { column = "use_ratio", equals = 1, where = { scheduler = { "orca", "vllm_v1" } } }
    for slot, column in ipairs { 6, 8, 5, 7 } do
      t:expect_all { column = ("s%d_ends"):format(slot), equals = column }
    end
    for _, name in ipairs { "s5_begins", "s6_begins", "s7_begins" } do -- "new requests wait for the next batch"
      t:expect_all { column = name, equals = 9, where = { scheduler = "static" } }
    end
    t:expect_all { column = "total_tokens", equals = 32 }
    t:expect_that {
      text = "static batching needs three columns more for the same tokens",
      holds = function(at)
        local static, orca, v1 = at { scheduler = "static" }, at { scheduler = "orca" }, at { scheduler = "vllm_v1" }
        return static.last_column == 11 and orca.last_column == 8 and v1.last_column == 8,
          ("%g, %g and %g"):format(static.last_column, orca.last_column, v1.last_column)
      end,
    }
  end,
  plots = { { kind = "bars", x = "scheduler", y = "use_ratio" } },
}
