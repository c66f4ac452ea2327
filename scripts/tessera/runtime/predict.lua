-- What a plan predicts for prompts of a length: each engine answers its share of them, a batch after the other.

local core = require "tessera.core"
local solver = require "tessera.solver"
local under_workload = require "tessera.planning.under_workload"

local function round(value) return math.max(1, math.floor(value + 0.5)) end

-- Prompts of each engine: the next one goes to whoever is furthest behind its share, as the master gives them.
local function shares(pipelines, count)
  local given = {}
  local function load(e) return (given[e] + 1) / pipelines[e]:problem().workload.batch_size end
  for e = 1, #pipelines do given[e] = 0 end
  for _ = 1, count do
    local best = 1
    for e = 2, #pipelines do best = load(e) < load(best) and e or best end
    given[best] = given[best] + 1
  end
  return given
end

local sums = {
  __tostring = function(run)
    return ("run of several batches: %s, TTFT mean %s, decode round %s, %.1f tok/s"):format(
      core.format_seconds(run.total_s), core.format_seconds(run.ttft_s), core.format_seconds(run.decode_round_s),
      run.throughput_tok_s)
  end,
}

--- A tessera.Run of one batch of one engine, else a table with its sums; nil and why where a batch does not fit.
return function(plan, count, prompt_tokens, output_tokens)
  local pipelines = plan.replicas or { plan }
  local all = { total_s = 0, ttft_s = 0, ttft_max_s = 0, decode_round_s = 0 }
  local micro_batches = 0
  for e, given in ipairs(shares(pipelines, count)) do
    local pipeline = pipelines[e]
    local own = pipeline:problem().workload
    local before_s, left, runs = 0, given, {}
    while left > 0 do
      local size = math.min(own.batch_size, left)
      if not runs[size] then
        local same, why = under_workload(pipeline, { prompt_tokens = round(prompt_tokens),
          output_tokens = round(output_tokens), batch_size = size, chunk_tokens = own.chunk_tokens })
        if not same then return nil, why.message end
        runs[size] = solver.simulate(same)
      end
      local run = runs[size]
      if size == count then return run end
      local decodes = math.ceil(size / pipeline.decode_micro_batch_size)
      all.ttft_s = all.ttft_s + size * (before_s + run.ttft_s) / count
      all.ttft_max_s = math.max(all.ttft_max_s, before_s + run.ttft_max_s)
      all.decode_round_s = all.decode_round_s + decodes * run.decode_round_s
      micro_batches, before_s, left = micro_batches + decodes, before_s + run.total_s, left - size
    end
    all.total_s = math.max(all.total_s, before_s)
  end
  all.decode_round_s = all.decode_round_s / micro_batches
  all.throughput_tok_s = count * round(output_tokens) / all.total_s
  return setmetatable(all, sums)
end
