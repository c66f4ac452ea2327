-- The lecture's summary, measured: each technique on a model that runs on this CPU, with it and without it, beside
-- the same two runs simulated. The model is the one that TESSERA_WEIGHTS names (SmolLM2: scripts/fetch_smollm2.sh),
-- else the small one that ships.
--
-- Both run the same requests by the same scheduler; only the times of steps differ. The simulator's are fitted
-- (parts/step_fit.lua) to runs of other requests on the same engine, just before and just after: no point of what is
-- judged is in them. The engines with and without the technique take turns, round after round, so that a machine whose
-- speed drifts is as fast for what is predicted from as for what is predicted; a cell is the median of its rounds.
-- Loads are those of `summary`: below, near and above (0.5, 0.9, 1.5 times) the rate at which the engine without the
-- technique completes requests that come all at once.
--
--   tessera run experiments/lecture/measured.lua --jobs 1     one cell at a time: two would share the cores
--
-- A static batch shrinks as its requests end: a CPU computes no padding.
--
-- A CPU is another roofline: a step of eight tokens takes half as long again as one of one, not the same, so that
-- batching gains less, drafts cost more, and a chunk of a prompt delays decodes by its whole length.
-- P/D is not here: two engines would share the cores of one.
local model_on_disk = require "lib.model_on_disk"
local step_fit = require "lecture.parts.step_fit"
local median = require "tessera.median"
local shallow_copy = require "tessera.shallow_copy"
local ts = require "tessera"

local load_of = { below = 0.5, near = 0.9, above = 1.5 }
local requests = { prompt_tokens = 48, output_tokens = 24, num_requests = 16 }
local num_rounds, num_profile_requests = 5, 12

local function traffic(changes)
  local all = {}
  for _, options in ipairs { requests, changes } do
    for name, value in pairs(options) do all[name] = value end
  end
  return ts.traffic(all)
end

local reference = { scheduler = "vllm_v1", max_num_seqs = 8, max_num_batched_tokens = 256, max_model_len = 256,
  kv_blocks = 128, block_size = 16, enable_prefix_caching = false, async_scheduling = false }

local function engine(changes)
  local all = {}
  for _, options in ipairs { reference, changes or {} } do
    for name, value in pairs(options) do all[name] = value end
  end
  return ts.engine(all)
end

-- without, with: changes of the engine; bits of the weights; what requests are like.
local techniques = {
  continuous_batching = { without = { scheduler = "static", static_slots = "shrink" },
    requests = { output_tokens = { distribution = "uniform", min = 4, max = 44 } } },
  paged_attention = { without = { kv_allocation = "maximum", kv_blocks = 48 }, with = { kv_blocks = 48 } },
  prefix_caching = { with = { enable_prefix_caching = true },
    requests = { prefix_groups = 2, prefix_tokens = 32, prefix_share = 0.8 } },
  chunked_prefill = { without = { scheduler = "vllm_v0", enable_chunked_prefill = false },
    with = { scheduler = "vllm_v0", enable_chunked_prefill = true, max_num_batched_tokens = 32 } },
  speculative_decoding = { with = { speculative = { method = "ngram", num_tokens = 3, acceptance = 0.5 } } },
  quantization = { bits = { 16, 4 } },
}
local names = {}
for name in pairs(techniques) do names[#names + 1] = name end
table.sort(names)

local function deployment(changes, cost)
  return ts.deployment { engine = engine(changes), step_cost = cost or { base_s = 1e-3 }, api_s = 0 }
end

local models = {} -- by bitwidth, of a worker
local function model(bits)
  local found = model_on_disk.find()
  models[bits] = models[bits] or ts.language_model { path = found.path, bitwidths = bits ~= 0 and bits or nil,
    progress = false }
  return models[bits]
end

local function measure(changes, bits, sent)
  return ts.serve(deployment(changes), sent, { real = { model = model(bits), temperature = 0 }, clock = "wall",
    record = true })
end

local function metrics(served)
  return { ttft_s = served.ttft_s.mean, tpot_s = served.tpot_s.mean, throughput_tok_s = served.throughput_tok_s }
end

-- Of the steps of requests that decode, the share with drafts, and how many of its drafts such a step passes.
local function drafts_of(served)
  local decodes, verified, accepted = 0, 0, 0
  for _, loads in ipairs(step_fit.loads(served)) do
    for _, load in ipairs(loads) do
      decodes = decodes + (load.decodes and 1 or 0)
      verified = verified + (load.drafts > 0 and 1 or 0)
      accepted = accepted + load.accepted
    end
  end
  return verified / decodes, verified > 0 and accepted / verified or 0
end

-- The engine of a run with step times, and what its drafts turned out to be worth: a look-up finds none for most steps,
-- so that a rate of acceptance alone would have every step verify three and pass more than there are.
local function twin_of(changes, cost, served)
  if not (changes and changes.speculative) then return deployment(changes, cost) end
  local all = shallow_copy(changes)
  local drafts = shallow_copy(changes.speculative)
  local found, passed = drafts_of(served)
  drafts.found, drafts.acceptance = found, {}
  for position = 1, drafts.num_tokens do drafts.acceptance[position] = passed / drafts.num_tokens end
  all.speculative = drafts
  return deployment(all, cost)
end

-- Kinds of engines, { changes, bits }, at one load, in turns: of each and each round what was measured, and its twin's.
local function rounds_of(kinds, asked, rate)
  local function profile(kind, round)
    return measure(kind.changes, kind.bits, traffic { rate_per_s = rate, seed = 1000 + round,
      num_requests = num_profile_requests })
  end
  local runs = {}
  for i, kind in ipairs(kinds) do runs[i] = { last = profile(kind, 0), identical = true } end
  for round = 1, num_rounds do
    local options = shallow_copy(asked)
    options.rate_per_s, options.seed = rate, 10 + round
    for i, kind in ipairs(kinds) do
      local all, sent = runs[i], traffic(options)
      local served = measure(kind.changes, kind.bits, sent)
      local after = profile(kind, round)
      local twin = twin_of(kind.changes, step_fit.of { all.last, after }, served)
      all[round] = { measured = metrics(served), simulated = metrics(ts.serve(twin, sent)) }
      all.last, all.identical = after, all.identical and ts.replay(served).identical
    end
  end
  return unpack(runs)
end

-- The rate at which requests that come all at once are completed.
local function capacity(changes, bits, kind)
  local options = { rate_per_s = 1e4, seed = 7 }
  for name, value in pairs(kind) do options[name] = value end
  return measure(changes, bits, traffic(options)).request_per_s
end

local function gain(without, with, name)
  return name == "throughput_tok_s" and with[name] / without[name] or without[name] / with[name]
end

local function median_of(value)
  local values = {}
  for round = 1, num_rounds do values[round] = value(round) end
  return median(values)
end

return ts.experiment {
  name = "lecture/measured",
  doc = "The lecture's summary measured on a model that runs here, each cell beside its simulation",
  grid = { technique = names, load = { "below", "near", "above" } },
  quick = { technique = { "continuous_batching", "prefix_caching" }, load = { "below" } },
  columns = {
    "rate_per_s", "ttft_s", "tpot_s", "throughput_tok_s", "ttft_gain", "tpot_gain", "throughput_gain",
    "ttft_gain_simulated", "tpot_gain_simulated", "throughput_gain_simulated", "ttft_error", "tpot_error",
    "throughput_error", "replayed",
  },
  notes = {
    "gains: factors over the engine without the technique, above 1 better; errors: simulated over measured, less one, "
      .. "the worse of the two engines; medians of rounds, on whatever else this machine did",
  },

  run = function(point)
    local technique = techniques[point.technique]
    local bits = technique.bits or { 0, 0 }
    local is_there, why = pcall(model, bits[1])
    if not is_there and why.code == "unsupported" then return nil, why end
    if not is_there then error(why, 0) end
    local kind = technique.requests or {}
    local rate = load_of[point.load] * capacity(technique.without, bits[1], kind)
    local a, b = rounds_of({ { changes = technique.without, bits = bits[1] },
      { changes = technique.with, bits = bits[2] } }, kind, rate)
    local row = { rate_per_s = rate, replayed = a.identical and b.identical }
    for _, name in ipairs { "ttft", "tpot", "throughput" } do
      local full = name == "throughput" and "throughput_tok_s" or name .. "_s"
      local function gain_of(which)
        return median_of(function(round) return gain(a[round][which], b[round][which], full) end)
      end
      local function error_of(runs)
        return median_of(function(round) return runs[round].simulated[full] / runs[round].measured[full] - 1 end)
      end
      row[full] = median_of(function(round) return b[round].measured[full] end)
      row[name .. "_gain"], row[name .. "_gain_simulated"] = gain_of "measured", gain_of "simulated"
      local first, second = error_of(a), error_of(b)
      row[name .. "_error"] = math.abs(first) > math.abs(second) and first or second
    end
    return row
  end,

  check = function(t)
    -- What does not depend on what else the machine does: the simulator decides as the server did.
    t:expect_that { text = "the simulator takes every decision of every run again",
      holds = function(_, rows)
        local count = 0
        for _, row in ipairs(rows) do count = count + (row.replayed and 1 or 0) end
        return count == #rows, ("%d of %d"):format(count, #rows)
      end }
    for _, name in ipairs { "ttft", "tpot", "throughput" } do
      local within, all = 0, 0
      for _, row in ipairs(t:rows { load = "below" }) do
        local wrong = row[name .. "_error"]
        if wrong then
          all = all + 1
          within = within + (math.abs(wrong) <= 0.15 and 1 or 0)
        end
      end
      t:note(("%s below the knee predicted within 15 %%"):format(name), ("%d of %d"):format(within, all))
    end
  end,
}
