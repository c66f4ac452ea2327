-- What stands first where nothing is said but the model and the GPUs: thirty clusters, from one GPU to 16 mixed ones,
-- under four models, each planned for a stream of requests and written for vLLM.
--
--   tessera run experiments/recommended/streams.lua
--
-- Requests of 1000 prompt and 200 output tokens; 99 of 100 wait at most 2 s for the first token, 0.1 s for each after.
-- What an expert would say to each: README.md beside this file.
local ts = require "tessera"
local core = require "tessera.core"

local clusters = { "1xT4", "1xL4", "1xRTX-3090", "1xRTX-4090", "1xRTX-5090", "1xA100-40G", "1xA100-80G", "1xH100-80G",
  "2xT4", "4xT4", "2xL4", "4xL4", "2xRTX-3090", "4xRTX-3090", "2xRTX-4090", "4xL40S", "2xA100-40G", "2xA100-80G",
  "4xA100-80G", "8xA100-80G", "8xH100-80G", "8xH200-141G", "8xV100-32G", "3xT4+1xV100-32G", "2xA100-40G+4xT4",
  "2xA100-80G+4xL4", "(2xRTX-3090+1xRTX-4090)", "1xH100-80G+3xA100-80G+1xT4", "4xA100-40G+4xL40S",
  "8xA100-80G+4xL4+4xT4" }
local models = { "llama-3.1-8b", "qwen2.5-14b", "qwen2.5-32b", "llama-3.3-70b" }

local traffic = { prompt_tokens = 1000, output_tokens = 200, arrivals = "gamma", burstiness = 1, seed = 1 }
local slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } }

return ts.experiment {
  name = "recommended/streams",
  doc = "What is recommended for a stream of requests on thirty clusters under four models, launched on vLLM",
  grid = { cluster = clusters, model = models },
  quick = { cluster = { "1xL4", "3xT4+1xV100-32G" }, model = { "llama-3.1-8b", "qwen2.5-32b" } },
  columns = { "layout", "bitwidth", "kv_bitwidth", "rate_per_s", "ttft_p99_s", "tpot_p99_s", "perplexity_increase",
    "gain_of_mixing", "usd_per_h", "max_model_len", "max_num_seqs", "plan_s", "preference", "note" },
  notes = {
    "plan_s: wall time of ts.plan_serving, other work on the machine included",
    "perplexity_increase: ratio, the middle of its band",
    "max_model_len, max_num_seqs: the least of the launched servers",
  },

  run = function(point, context)
    local started_s = core.clock()
    local list, why = ts.plan_serving { model = point.model, cluster = point.cluster, traffic = traffic, slo = slo }
    local plan_s = core.clock() - started_s
    if not list then return { status = why.code, note = why.message, plan_s = plan_s } end
    local first = list[1]
    local folder = ("%s/%s on %s"):format(context.output_dir, point.model, point.cluster):gsub("[^%w./]+", "-")
    local written, why_not = list:export("vllm", folder, { overwrite = true })
    local row = { layout = first.layout, bitwidth = first.bitwidth, kv_bitwidth = first.kv_bitwidth,
      rate_per_s = first.rate_per_s, ttft_p99_s = first.ttft_p99_s, tpot_p99_s = first.tpot_p99_s,
      perplexity_increase = first.perplexity_increase, gain_of_mixing = list.gain_of_mixing or 1,
      usd_per_h = first.usd_per_h, plan_s = plan_s, preference = list.preference, note = list.quality_note,
      provenance = first.provenance }
    if not written then row.note = why_not.message end
    for _, engine in ipairs(written and ts.load_launch(folder).engines or {}) do
      for name, flag in pairs { max_model_len = "--max-model-len", max_num_seqs = "--max-num-seqs" } do
        row[name] = math.min(row[name] or math.huge, tonumber(engine.options[flag]))
      end
    end
    return row
  end,

  check = function(t)
    local answers, refused, unlike = {}, 0, {}
    local function expect_none(text, found)
      t:expect(text, #found == 0, #found > 0 and table.concat(found, "; ") or nil)
    end
    for _, row in ipairs(t:rows()) do
      if row.status == "done" then
        answers[#answers + 1] = row
      else
        refused = refused + 1
        if not (row.status == "infeasible" and row.note:find "memory: ") then
          unlike[#unlike + 1] = ("%s on %s: %s"):format(row.point.model, row.point.cluster, row.note or row.error)
        end
      end
    end
    expect_none(("%d pairs are refused, each for want of memory"):format(refused), unlike)
    local function expect_within(column, at_least, at_most)
      local beyond = {}
      for _, row in ipairs(answers) do
        local value = row[column]
        if not (value and value >= at_least and value <= at_most) then
          beyond[#beyond + 1] = ("%s on %s: %s"):format(row.point.model, row.point.cluster, tostring(value))
        end
      end
      expect_none(("%s of every answer is within %g and %g"):format(column, at_least, at_most), beyond)
    end
    -- A prompt of 4,000 tokens and a short answer is taken by every server that is started.
    expect_within("max_model_len", 4352, 131072)
    expect_within("ttft_p99_s", 0.001, 2)
    expect_within("tpot_p99_s", 0.001, 0.1)
    -- The best on one type is among what is searched, so that mixing never loses more than the preference for less.
    expect_within("gain_of_mixing", 0.9, 20)
  end,
}
