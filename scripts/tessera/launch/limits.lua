-- Limits of a server that takes the requests that people send, whatever batch its plan was made for: how many tokens a
-- request may have, how many requests run at a time, how many tokens a step has.

local hub = require "tessera.launch.hub"
local solver = require "tessera.solver"

local M = {}

--- Tokens of the requests that people send, as far as a model's checkpoint takes them.
function M.common_tokens(model) return math.min(solver.server_request(model).tokens, hub.context_tokens(model)) end

local most_share = 0.95 -- of a GPU, where the version's own default holds too little
local block_tokens = 16

--- Tokens of the KV cache of an engine under such limits (max_num_seqs, ...), and the share of the memory that it takes
-- with them; nil and why where it has none.
local function kv_tokens(engine, version, told)
  local ok, deployment, why = pcall(solver.deployment, {
    plan = engine.plan,
    engine = {
      max_num_seqs = told.max_num_seqs, max_num_batched_tokens = told.max_num_batched_tokens,
      gpu_memory_utilization = told.gpu_memory_utilization, runtime_version = version,
    },
  })
  if not ok then return nil, deployment.message or tostring(deployment) end
  if not deployment then return nil, why.message end
  return deployment.replicas[1].kv_tokens, deployment.replicas[1].gpu_memory_utilization
end

-- { seats, token budget } to try, the best first; seats of the plan's batch are kept where they can be.
local function attempts(engine, workload)
  local tokens = engine.prefill_micro_batch_size * (workload.chunk_tokens or workload.max_prompt_tokens)
  local budget = math.min(math.max(2048, 2 ^ math.ceil(math.log(tokens) / math.log(2))), 8192)
  local list = {}
  for _, seats in ipairs { 256, 128, 64 } do
    list[#list + 1] = { math.max(seats, engine.batch_size), math.max(budget, engine.batch_size) }
  end
  for _, seats in ipairs { 64, 32, 16, 8, 4, 1 } do list[#list + 1] = { seats, 2048 } end
  list[#list + 1] = { 1, 512 }
  return list
end

-- The longest request that such a cache takes for sure.
local function context_of(model, tokens)
  local sure = tokens * solver.server_request(model).cache_share
  return math.min(hub.context_tokens(model), math.floor(sure / block_tokens) * block_tokens)
end

-- The first attempt that takes what people send, and with more than 64 seats the plan's requests on all of them; else
-- the one with the longest.
local function searched(layout, engine, version)
  local workload = layout.workload
  local request = workload.max_prompt_tokens + workload.max_output_tokens
  local share = solver.server_request(layout.model).cache_share
  local wanted = math.max(M.common_tokens(layout.model), math.min(hub.context_tokens(layout.model), request))
  local best, why_none
  for _, attempt in ipairs(attempts(engine, workload)) do
    for _, of_memory in ipairs { false, most_share } do
      local told = { max_num_seqs = attempt[1], max_num_batched_tokens = attempt[2],
        gpu_memory_utilization = of_memory or nil }
      local tokens, why_or_share = kv_tokens(engine, version, told)
      if tokens then told.gpu_memory_utilization = why_or_share else why_none = why_or_share end
      told.max_model_len = context_of(layout.model, tokens or 0)
      local fits_all = attempt[1] <= 64 or (tokens or 0) * share >= attempt[1] * request
      if told.max_model_len >= wanted and fits_all then return told end
      if tokens and (not best or told.max_model_len > best.max_model_len) then best = told end
    end
  end
  return best, why_none
end

-- What was settled for a stream, with the longest request that its cache takes.
local function settled(layout, engine, version)
  local serving = engine.serving
  local told = {
    max_num_seqs = serving.max_num_seqs or engine.batch_size,
    max_num_batched_tokens = serving.max_num_batched_tokens or 2048,
    gpu_memory_utilization = serving.gpu_memory_utilization,
  }
  local tokens, why_or_share = kv_tokens(engine, version, told)
  if not tokens and not serving.max_model_len then return nil, why_or_share end
  told.gpu_memory_utilization = tokens and why_or_share or told.gpu_memory_utilization or most_share
  told.max_model_len = serving.max_model_len or context_of(layout.model, tokens)
  if serving.enable_chunked_prefill == false then -- vLLM wants whole prompts in a step
    told.max_model_len = math.min(told.max_model_len, told.max_num_batched_tokens)
  end
  return told
end

local function of_one(layout, engine, version)
  local told, why = (engine.serving and settled or searched)(layout, engine, version)
  if told and told.max_model_len >= block_tokens then return told end
  local workload = layout.workload
  return {
    max_num_seqs = engine.batch_size, max_num_batched_tokens = math.max(2048, engine.batch_size),
    gpu_memory_utilization = most_share,
    max_model_len = math.min(workload.max_prompt_tokens + workload.max_output_tokens, hub.context_tokens(layout.model)),
  }, why or "no KV cache fits"
end

--- Limits for each engine of a layout, the longest request the same for all that one address has in front of them:
--- { { max_model_len, max_num_seqs, max_num_batched_tokens, gpu_memory_utilization, why_unsure } }.
function M.of(layout, version)
  local list, shortest = {}, math.huge
  for i, engine in ipairs(layout.engines) do
    local told, why = of_one(layout, engine, version)
    told.why_unsure = why
    list[i], shortest = told, math.min(shortest, told.max_model_len)
  end
  for _, told in ipairs(list) do told.max_model_len = shortest end
  return list
end

-- The fewest and the most requests that an engine runs at a time.
local function seats(list)
  local fewest, most = math.huge, 0
  for _, told in ipairs(list) do
    fewest, most = math.min(fewest, told.max_num_seqs), math.max(most, told.max_num_seqs)
  end
  return fewest, most
end

--- Whether engines run unlike numbers of requests at a time.
function M.are_unlike(list)
  local fewest, most = seats(list)
  return fewest < most
end

--- "requests of up to 8192 tokens, 64 at a time on each engine", "..., 64 to 256 at a time by engine"
function M.text(list)
  local fewest, most = seats(list)
  return ("requests of up to %d tokens, %s"):format(list[1].max_model_len,
    fewest < most and ("%d to %d at a time by engine"):format(fewest, most)
      or ("%d at a time%s"):format(most, #list > 1 and " on each engine" or ""))
end

--- What to know of limits, in sentences.
function M.notes(layout, limits)
  local notes = {}
  if limits.max_model_len < M.common_tokens(layout.model) then
    local held = limits.max_model_len / solver.server_request(layout.model).cache_share
    notes[1] = ("requests: the KV cache holds about %d tokens, so that longer requests are refused; fewer bits, more "
      .. "GPUs or an 8-bit KV cache make room."):format(math.floor(held))
  end
  if limits.max_num_seqs < 64 then
    notes[#notes + 1] = ("requests: %d requests at a time, for which there is memory beside one of %d tokens."):format(
      limits.max_num_seqs, limits.max_model_len)
  end
  if limits.why_unsure then
    notes[#notes + 1] = ("memory: vLLM may refuse to start: %s."):format(limits.why_unsure)
  end
  return notes
end

return M
