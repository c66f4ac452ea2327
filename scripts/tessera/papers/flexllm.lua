-- The equations of FlexLLM ((1)-(17) and Tables I, II): what a phase of a batch takes on two GPUs by compute alone.
--
-- Two readings. `printed` is what stands there. `simulated` is what Table V was computed with, as its numbers say: the
-- slower half of a pipeline sets its pace, and the GPU that holds the attention computes its projections too.

local kinds = require "tessera.planning.strategies.kinds"

local M = {}

local element_bytes = 2

--- Why the equations do not describe a model's layers, or nil: D_ffn = 4 D, no gate, a KV head for every head.
function M.why_not(model)
  local d = model.hidden_size
  if model.num_kv_heads ~= model.num_heads then
    return ("%d KV heads for %d heads"):format(model.num_kv_heads, model.num_heads)
  end
  if model.ffn_size ~= 4 * d then return ("an FFN of %d, not 4 x %d"):format(model.ffn_size, d) end
  -- Of 12 D^2; biases and norms are 13 D.
  if math.abs(model.layer_parameters - 12 * d ^ 2) > d ^ 2 + 13 * d then
    return ("%.3g parameters a layer, not 12 x %d^2 (a gate, or experts)"):format(model.layer_parameters, d)
  end
  return nil
end

-- Operations of a layer on a batch, (5) and (6), in parts. Prompts are not taken as causal.
local function flop_of(case, batch_size, phase)
  local d = case.hidden_size
  local context = phase == "prefill" and case.prompt_tokens or case.prompt_tokens + case.output_tokens / 2
  local tokens = batch_size * (phase == "prefill" and case.prompt_tokens or 1)
  local ffn, projections, attention = tokens * 16 * d ^ 2, tokens * 8 * d ^ 2, tokens * 4 * context * d
  return { ffn = ffn, projections = projections, attention = attention, all = ffn + projections + attention }
end

local function kv_bytes(case, batch_size) -- (1)
  local tokens = batch_size * (case.prompt_tokens + case.output_tokens)
  return 2 * tokens * case.num_layers * case.hidden_size * element_bytes
end

local function weight_bytes(case) return case.num_parameters * element_bytes end

--- (18)
function M.corrected(case, strategy, phase, seconds)
  local correction = (case.correction[strategy] or {})[phase] or {}
  return (correction.scale or 1) * seconds + (correction.offset_s or 0)
end

-- By kind of strategy: seconds(case, pair, row, phase); bytes(case, row) on both devices.
local rules = {}

rules.replicas = {
  seconds = function(case, pair, row, phase) -- (13)-(16)
    local most
    for i, requests in ipairs(row.batch) do
      if requests > 0 then -- who has none takes no part, and no offset
        local own = case.num_layers * flop_of(case, requests, phase).all / pair[i].flop_per_s
        most = math.max(most or -math.huge, M.corrected(case, row.strategy, phase, own))
      end
    end
    return most
  end,
  bytes = function(case, row)
    local bytes = {}
    for i, requests in ipairs(row.batch) do
      bytes[i] = requests > 0 and weight_bytes(case) + kv_bytes(case, requests) or 0
    end
    return bytes
  end,
}

rules.attention_on = {
  seconds = function(case, pair, row, phase)
    local flop, off, layers = flop_of(case, row.batch_size, phase), row.attention_ratio, case.num_layers
    local seconds
    if phase == "prefill" then -- (10)
      seconds = layers * flop.all / pair[1].flop_per_s
      if off > 0 then seconds = math.max(seconds, off * kv_bytes(case, row.batch_size) / case.link_bytes_per_s) end
    else -- (11)
      local moved = case.formulas == "simulated" and off * flop.projections or 0
      seconds = (flop.ffn + flop.projections - moved + (1 - off) * flop.attention) / pair[1].flop_per_s
      if off > 0 then
        local link = off * 4 * row.batch_size * case.hidden_size * element_bytes / case.link_bytes_per_s
        seconds = seconds + (moved + off * flop.attention) / pair[2].flop_per_s + link
      end
      seconds = layers * seconds
    end
    return M.corrected(case, row.strategy, phase, seconds)
  end,
  bytes = function(case, row)
    local cache = kv_bytes(case, row.batch_size)
    return { weight_bytes(case) + (1 - row.attention_ratio) * cache, row.attention_ratio * cache }
  end,
}

rules.stages = {
  seconds = function(case, pair, row, phase) -- (7), (8)
    local flop, own = flop_of(case, row.batch_size, phase).all, {}
    for i, layers in ipairs(row.layers) do own[i] = layers > 0 and layers * flop / pair[i].flop_per_s or 0 end
    local seconds = case.formulas == "simulated" and math.max(own[1], own[2]) or own[1] + own[2]
    if row.layers[1] > 0 and row.layers[2] > 0 then
      local tokens = row.batch_size * (phase == "prefill" and case.prompt_tokens or 1)
      seconds = seconds + tokens * case.hidden_size * element_bytes / case.link_bytes_per_s
    end
    return M.corrected(case, row.strategy, phase, seconds)
  end,
  bytes = function(case, row)
    local bytes, whole = {}, weight_bytes(case) + kv_bytes(case, row.batch_size)
    for i, layers in ipairs(row.layers) do bytes[i] = layers / case.num_layers * whole end
    return bytes
  end,
}

--- What follows from the times of a row: latency_s, s_per_token, tokens_per_usd.
function M.set_totals(case, row)
  row.latency_s = row.prefill_s + (case.output_tokens - 1) * row.decode_s -- (9), (12), (17)
  row.s_per_token = row.latency_s / case.output_tokens -- (2)
  row.tokens_per_usd = row.usd_per_h == 0 and math.huge
    or 3600 * row.batch_size * case.output_tokens / (row.latency_s * row.usd_per_h) -- (3)
end

--- What a strategy (planning/strategies/kinds.lua) takes on a pair of devices { flop_per_s, memory_bytes, usd_per_h },
--- of which the second may be nil. case: num_layers, hidden_size, num_parameters, prompt_tokens, output_tokens,
--- link_bytes_per_s, formulas, batch_split, layers_on_first, attention_ratio, check_memory, correction. A row without a
--- second device that needs one has no times, but `reason`.
function M.candidate(case, pair, strategy, batch_size)
  local rule, row = rules[strategy.kind], { strategy = strategy.name, batch_size = batch_size, fits = true }
  row.usd_per_h = pair[1].usd_per_h + (pair[2] and pair[2].usd_per_h or 0)
  kinds.split(strategy, case, pair, row)
  if not pair[2] and not kinds.is_second_idle(strategy, row) then
    row.fits, row.reason = false, "devices"
    return row
  end
  row.prefill_s, row.decode_s = rule.seconds(case, pair, row, "prefill"), rule.seconds(case, pair, row, "decode")
  M.set_totals(case, row)
  row.memory_bytes = rule.bytes(case, row)
  for i, device in ipairs(case.check_memory and pair or {}) do
    if row.memory_bytes[i] > device.memory_bytes then row.fits, row.reason = false, "memory" end
  end
  return row
end

return M
