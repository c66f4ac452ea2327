-- Speculative decoding in a serving engine: what it gains by batch, and where it loses.
--
-- Three parts. `formula`: the step times of lecture/speculative_gain, 6 ms and 0.02 ms for each token in it, drafting
-- 0.4 ms and 0.002 ms for each request; so many clients keep so many seats busy. What the simulator gains in time per
-- token is held against ts.speculative's closed form, up to the break-even batches (475, 226 and 136 for 1, 3 and 5
-- drafts of rate 0.7). `model`: Llama-3.1-8B on an H100, prompts of 512 tokens, three drafts each by an n-gram look-up,
-- an EAGLE head, or Llama-3.2-1B. `context`: 32 answers of 4,096 tokens, EAGLE, by the length of their prompts: the
-- cache is read once for all drafts of a request, and is the larger part of a step where contexts are long.
--
-- Rates of acceptance are chosen, not measured; 0.7 is that of the lecture's example. Drafts take no memory here.
-- Bounds: the closed form to 3 % (its requests end together, ours one by one); tokens per step to five standard errors;
-- in `model` what follows from E, and else written after a first look.
local ts = require "tessera"
local chat = require "lecture.parts.chat"

local times = { base_s = 6e-3, per_token_s = 0.02e-3, draft_base_s = 0.4e-3, draft_per_sequence_s = 0.002e-3 }
local num_drafts, rates, batches = 3, { 0.4, 0.7 }, { 1, 8, 32, 128, 256 }

local draft_shape = ts.model {
  name = "llama-3.2-1b", family = "llama", num_layers = 16, hidden_size = 2048, num_heads = 32, num_kv_heads = 8,
  head_dim = 64, ffn_size = 8192, vocab_size = 128256, max_context_tokens = 131072,
}

local points = {}
local function add(part, method, acceptance, num_tokens, batch_size, context_tokens)
  points[#points + 1] = {
    part = part, method = method, acceptance = acceptance, num_tokens = num_tokens, batch_size = batch_size,
    context_tokens = context_tokens,
  }
end
for _, num_tokens in ipairs { 1, 3, 5 } do
  for _, batch_size in ipairs { 4, 16, 64, 136, 226, 475 } do
    add("formula", "given", 0.7, num_tokens, batch_size, 1)
  end
end
for _, method in ipairs { "ngram", "eagle", "draft_model" } do
  for _, rate in ipairs(rates) do
    for _, batch_size in ipairs(batches) do add("model", method, rate, num_drafts, batch_size, 512) end
  end
end
for _, tokens in ipairs { 512, 8192 } do add("context", "eagle", 0.4, num_drafts, 32, tokens) end

local function drafts_of(point, method)
  return { method = method, num_tokens = point.num_tokens, acceptance = point.acceptance }
end

local function given_times(point, with_drafts)
  local count = with_drafts and point.num_tokens or 0
  local function cost(step)
    return times.base_s + times.per_token_s * step.tokens
      + count * (times.draft_base_s + times.draft_per_sequence_s * step.num_decodes)
  end
  return ts.deployment {
    engine = ts.engine {
      scheduler = "vllm_v1", max_num_seqs = point.batch_size, max_num_batched_tokens = 8192, max_model_len = 1024,
      enable_prefix_caching = false, speculative = with_drafts and drafts_of(point, "ngram") or nil,
    },
    step_cost = cost,
  }
end

local function of_model(point, with_drafts)
  local by_model = with_drafts and point.method == "draft_model"
  return chat.deployment({
    max_num_seqs = point.batch_size, max_num_batched_tokens = 8192,
    speculative = with_drafts and drafts_of(point, point.method) or nil,
  }, { draft = by_model and ts.deployment { model = draft_shape, cluster = chat.cluster }.plan or nil })
end

local function of_formula(point)
  local options = { acceptance = point.acceptance, num_tokens = point.num_tokens, batch_size = point.batch_size }
  for name, value in pairs(times) do options[name] = value end
  local break_even, speed_up = ts.speculative.break_even_batch(options)
  return speed_up, break_even
end

-- Five standard errors of tokens per step over so many steps.
local function five_errors(cumulative, num_steps)
  local mean, square = 1, 1
  for i, rate in ipairs(cumulative) do mean, square = mean + rate, square + rate * ((i + 1) ^ 2 - i ^ 2) end
  return 5 * math.sqrt((square - mean * mean) / num_steps)
end

return ts.experiment {
  name = "lecture/speculation",
  doc = "Gain of speculative decoding in an engine, by batch, acceptance, who drafts, and context",
  grid = points,
  columns = {
    "throughput_tok_s", "speed_up", "by_formula", "break_even_batch", "tokens_per_step", "expected_tokens", "tpot_s",
  },
  notes = {
    "speed_up: of formula in time per token, else in tokens per second, over the same engine without drafts",
    "a closed loop of batch_size clients; tokens_per_step: of a request, its own token included",
  },

  run = function(point, context)
    local is_formula = point.part == "formula"
    local build, batch_size = is_formula and given_times or of_model, point.batch_size
    local shape = ({
      formula = { output_tokens = 201, num_requests = math.max(10 * batch_size, 400) },
      model = { output_tokens = 256, num_requests = math.max((context.quick and 2 or 6) * batch_size, 40) },
      context = { output_tokens = 4096, num_requests = batch_size },
    })[point.part]
    local traffic = ts.traffic {
      arrivals = "closed", concurrency = batch_size, prompt_tokens = point.context_tokens,
      output_tokens = shape.output_tokens, num_requests = shape.num_requests, seed = 1,
    }
    local options = { seed = 3, record = false }
    local on, off = ts.serve(build(point, true), traffic, options), ts.serve(build(point, false), traffic, options)
    local expected, cumulative = ts.speculative.expected_tokens {
      acceptance = point.acceptance, num_tokens = point.num_tokens,
    }
    local row = {
      throughput_tok_s = on.throughput_tok_s, tokens_per_step = on.accepted_length, expected_tokens = expected,
      five_errors = five_errors(cumulative, on.output_tokens / on.accepted_length), tpot_s = on.tpot_s.mean,
      speed_up = is_formula and off.tpot_s.mean / on.tpot_s.mean
        or on.throughput_tok_s / off.throughput_tok_s,
    }
    if is_formula then row.by_formula, row.break_even_batch = of_formula(point) end
    return row
  end,

  check = function(t)
    t:expect_close { column = "speed_up", to = "by_formula", rel = 0.03, where = { part = "formula" } }
    t:expect_that {
      text = "at the break-even batch drafts neither gain nor lose, to 3 %; at the next smaller one here they gain",
      where = { part = "formula" },
      holds = function(at)
        local worst = 0
        for _, pair in ipairs { { 1, 475, 226 }, { 3, 226, 136 }, { 5, 136, 64 } } do
          local even = at { num_tokens = pair[1], batch_size = pair[2] }.speed_up
          worst = math.max(worst, math.abs(even - 1))
          if at { num_tokens = pair[1], batch_size = pair[3] }.speed_up < 1.05 then return false, pair[1] end
        end
        return worst <= 0.03, ("%.1f %%"):format(100 * worst)
      end,
    }
    t:expect_that { -- an answer's end may cut a step: at most g of 201 or 256 tokens
      text = "tokens per step are as expected, to five standard errors",
      holds = function(_, rows)
        for _, row in ipairs(rows) do
          if math.abs(row.tokens_per_step - row.expected_tokens) > row.five_errors then
            return false, ("%.3f, not %.3f +- %.3f"):format(row.tokens_per_step, row.expected_tokens, row.five_errors)
          end
        end
        return true
      end,
    }
    -- Nobody gains more than the tokens of a step; EAGLE's three drafts take a fifth of a step of one request.
    t:expect_all {
      column = "speed_up", at_least = 1.6, at_most = 2.6,
      where = { part = "model", method = { "ngram", "eagle" }, acceptance = 0.7, batch_size = { 1, 8 } },
    }
    for _, rate in ipairs(rates) do
      for _, method in ipairs { "ngram", "eagle", "draft_model" } do
        t:expect_order { -- the same to 5 %: few requests
          column = "speed_up", by = "batch_size", order = batches, highest = true, within = 0.05,
          where = { part = "model", method = method, acceptance = rate },
        }
      end
      t:expect_order { -- what drafting costs
        column = "speed_up", by = "method", order = { "ngram", "eagle", "draft_model" }, highest = true,
        where = { part = "model", acceptance = rate },
      }
    end
    -- When it hurts.
    t:expect_all {
      column = "speed_up", at_least = 0.8, at_most = 0.98,
      where = { part = "model", method = { "ngram", "eagle" }, acceptance = 0.4, batch_size = 256 },
    }
    t:expect_all {
      column = "speed_up", at_least = 1.05, at_most = 1.5,
      where = { part = "model", method = { "ngram", "eagle" }, acceptance = 0.7, batch_size = 256 },
    }
    t:expect_all { -- "fast enough to be cheap": three passes of 1.8 ms beside one of 7
      column = "speed_up", at_least = 0.6, at_most = 0.95,
      where = { part = "model", method = "draft_model", acceptance = 0.4 },
    }
    t:expect_that {
      text = "with prompts of 8,192 tokens drafts gain more than with 512: 1.02 to 1.4 times the speed-up",
      where = { part = "context" },
      holds = function(at)
        local ratio = at { context_tokens = 8192 }.speed_up / at { context_tokens = 512 }.speed_up
        return ratio >= 1.02 and ratio <= 1.4, ("%.3f"):format(ratio)
      end,
    }
  end,
  plots = { {
    kind = "lines", x = "batch_size", y = "speed_up", by = "method", facet = "acceptance", log_x = true,
    where = { part = "model" },
  } },
}
