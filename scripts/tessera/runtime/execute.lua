-- ts.execute(plan, { model =, prompts = ... }): a plan that runs. What is measured stands beside what was predicted for
-- the very prompts.

local core = require "tessera.core"
local host = require "tessera.host"
local lm = require "tessera.lm"
local new_bar = require "tessera.bar"
local options = require "tessera.options"
local predict_batches = require "tessera.runtime.predict"
local prompts_of = require("tessera.runtime.prompts").of
local runtime = require "tessera.run"
local stages = require "tessera.runtime.stages"

local path = "ts.execute"
local default_tokens = 128

-- ------------------------------------------------------------------------------------- predicted, measured

-- The plan's own prediction for so many prompts of these lengths; nil and why. `as_planned`: it runs on the plan's
-- devices, or takes their times.
local function predict(plan, count, prompt_tokens, output_tokens, as_planned)
  local foreign = stages.foreign_device(plan)
  if foreign and not as_planned then return nil, ("the plan is priced for %s, not for this CPU"):format(foreign) end
  return predict_batches(plan, count, prompt_tokens, output_tokens)
end

-- What a step may take, by the plan: one of a prompt until all prompts of a batch have been read, a decode step its
-- round, where all are as long as the longest.
local function predict_steps(engines, plan, prompts, as_planned)
  local longest, most = 1, 1
  for _, prompt in ipairs(prompts) do
    longest, most = math.max(longest, #prompt.tokens), math.max(most, prompt.max_tokens)
  end
  for e, pipeline in ipairs(plan.replicas or { plan }) do
    local run = predict(pipeline, math.min(#prompts, engines[e].batch_size), longest, most, as_planned)
    if run then engines[e].prefill_step_s, engines[e].decode_step_s = run.ttft_max_s, run.decode_round_s end
  end
end

-- What every step takes where devices and links are emulated. Their times are of a batch of equal requests.
local function emulated_times(plan, prompts, opt)
  local function refuse(why) core.refuse(path .. ".emulated", why) end
  if plan.replicas then refuse "a plan of several engines is not emulated" end
  if opt.recover then refuse "what is computed again has no predicted time; leave recover out" end
  if #prompts > plan:problem().workload.batch_size then refuse "there are more prompts than the plan's batch has" end
  local first = prompts[1]
  for i, prompt in ipairs(prompts) do
    if #prompt.tokens ~= #first.tokens or prompt.max_tokens ~= first.max_tokens then
      refuse(("prompt %d has another length, or another max_tokens, than the first"):format(i))
    end
  end
  local predicted, why = predict(plan, #prompts, #first.tokens, first.max_tokens, true)
  if not predicted then refuse(why) end
  return predicted:unit_times()
end

-- Speeds by rank, a stage before the rank that attends for it; and links.
local function set_speeds(engines, opt)
  if not opt.speeds and not opt.link_gbps and not opt.link_latency_s then return end
  if opt.emulated then
    core.refuse(path .. ".emulated", "devices take the plan's times, or speeds of this machine's, not both")
  end
  options.list(opt.speeds or {}, path .. ".speeds", "a list of numbers", options.item_of "number")
  local ranks = 0
  local function next_speed()
    ranks = ranks + 1
    local speed = (opt.speeds or {})[ranks] or 1
    if not (speed >= 1e-3 and speed <= 1) then
      core.raise("out_of_range", ("%s.speeds[%d]: %g is outside [0.001, 1]; 1 is this machine"):format(path, ranks,
        speed), path .. ".speeds")
    end
    return speed
  end
  for _, engine in ipairs(engines) do
    for _, stage in ipairs(engine.stages) do
      stage.link_bytes_per_s = opt.link_gbps and opt.link_gbps * 1e9 / 8
      stage.link_latency_s = opt.link_latency_s
      stage.speed = next_speed()
      if stage.attention_elsewhere then stage.attention_speed = next_speed() end
      if stage.tensor_ranks > 1 then core.refuse(path .. ".speeds", "tensor-parallel ranks have no speeds") end
    end
  end
  if #(opt.speeds or {}) > ranks then
    core.refuse(path .. ".speeds", ("%d speeds, and the plan has %d processes"):format(#opt.speeds, ranks))
  end
end

local function ratio(predicted, measured)
  if predicted and measured and measured > 0 then return predicted / measured - 1 end
end

-- ------------------------------------------------------------------------------------------------ progress

local function drawn(given)
  if given == false then return nil, function() end end
  if given then return given, function() end end
  local draw, clear = new_bar()
  if not draw then return nil, clear end
  local began
  return function(what, done, total, tokens)
    if what == "load" then return draw(done, total, ("%d/%d stages loaded"):format(done, total)) end
    began = began or core.clock()
    local spent = core.clock() - began
    local text = ("%d/%d answers"):format(done, total)
    if spent > 0.5 and tokens > 0 then
      text = ("%s, %.3g tok/s"):format(text, tokens / spent)
      if done > 0 and done < total then
        text = ("%s, %s left"):format(text, core.format_seconds(spent / done * (total - done)))
      end
    end
    draw(done, total, text)
  end, clear
end

-- run.requests, which is also run:requests(), as ts.serve's results have it.
local rows = { __call = function(requests) return requests end }

-- Answers into what scripts read.
local function fill(run, result, prompts, tokenizer)
  run.texts, run.tokens, run.stop_reasons, run.prompt_tokens = {}, {}, {}, {}
  run.requests = setmetatable({}, rows)
  run.partial = false
  for i, prompt in ipairs(prompts) do
    local answer = result.answers[i]
    run.prompt_tokens[i] = #prompt.tokens
    if answer then
      run.tokens[i], run.stop_reasons[i] = answer.tokens, answer.stop_reason
      -- A model may choose tokens that its tokenizer does not have; what was computed is kept all the same.
      local ok, text = pcall(tokenizer.decode, tokenizer, answer.tokens)
      run.texts[i] = ok and text
      if not ok then run.not_decoded = core.error_text(text) end
      run.requests[i] = { index = i, id = prompt.id, text = run.texts[i] or nil, tokens = answer.tokens,
        prompt_tokens = #prompt.tokens, stop_reason = answer.stop_reason, ttft_s = answer.ttft_s, e2e_s = answer.e2e_s }
    else
      run.tokens[i], run.stop_reasons[i], run.texts[i], run.partial = false, "unanswered", false, true
      run.requests[i] = { index = i, id = prompt.id, prompt_tokens = #prompt.tokens, stop_reason = "unanswered" }
    end
  end
end

local function compare(run, plan, prompts, result, as_planned)
  local count, length, output = 0, 0, 0
  for i, prompt in ipairs(prompts) do
    local answer = result.answers[i]
    if answer and answer.ttft_s then
      count, length = count + 1, length + #prompt.tokens
      output = output + #answer.tokens + (answer.stop_reason == "stop_token" and 1 or 0)
    end
  end
  if count == 0 then return end
  if result.replans > 0 then
    run.not_predicted = "its layers moved while it ran"
    return
  end
  run.predicted, run.not_predicted = predict(plan, count, length / count, output / count, as_planned)
  run.provenance = plan.provenance
  if not run.predicted then return end
  run.error = { total = ratio(run.predicted.total_s, run.total_s), ttft = ratio(run.predicted.ttft_s, run.ttft_s),
    decode_round = ratio(run.predicted.decode_round_s, run.decode_round_s) }
end

-- Answers that a journal had.
local function answered_before(result)
  local count = 0
  for _, answer in pairs(result.answers) do
    if type(answer) == "table" and not answer.ttft_s then count = count + 1 end
  end
  return count
end

local function summary(run)
  local answered = 0
  for _, request in ipairs(run.requests) do answered = answered + (request.tokens and 1 or 0) end
  return ("run %s: %d of %d prompts answered in %s%s"):format(run.state, answered, #run.requests,
    core.format_seconds(run.total_s), run.why ~= "" and run.why and "; " .. run.why or "")
end

local copied = {
  "state", "why", "transport", "load_s", "total_s", "prefill_s", "decode_s", "ttft_s", "ttft_max_s", "tpot_s",
  "decode_round_s", "throughput_tok_s", "stages", "faults", "replans", "num_refused", "last_refused",
}

-- Raises where a trace could not be written, before anything is computed.
local function check_trace(trace)
  if not trace then return end
  local beside = trace .. ".part"
  core.write_file(beside, "")
  os.remove(beside)
end

--- Runs a plan. What goes wrong after the start is in the result: state is done, failed or interrupted, and answers
--- that were given are there.
return function(plan, given)
  local opt = {}
  for key, value in pairs(type(given) == "table" and given or {}) do opt[key] = value end
  local draw, clear = drawn(opt.progress)
  opt.progress = draw
  if type(opt.on_fault) == "function" then
    local on_fault = opt.on_fault
    function opt.on_fault(fault)
      clear()
      on_fault(fault)
    end
  end
  runtime.check_options(type(given) == "table" and opt or given)
  local runs = stages.of(plan, opt, opt.recover)
  check_trace(opt.trace)
  local engines = runs.engines
  local as_planned = runs.gpus or opt.emulated
  set_speeds(engines, opt)
  local workload = plan:problem().workload
  local tokenizer = lm.tokenizer(opt.model)
  local prompts = prompts_of(opt.prompts, tokenizer, {
    max_tokens = opt.max_tokens or math.min(default_tokens, workload.max_output_tokens), seed = opt.seed or 0,
    limit = workload.max_prompt_tokens + workload.max_output_tokens,
  })
  predict_steps(engines, plan, prompts, as_planned)
  if opt.emulated then
    for _, engine in ipairs(engines) do engine.emulated = emulated_times(plan, prompts, opt) end
  end
  host.poll_interrupts(true)
  local ok, result = pcall(runtime.execute, runs.model, opt, { engines = engines,
    prompts = prompts, replan = runs.replan, build = host.version.version .. " " .. host.version.commit,
    program = host.program })
  host.poll_interrupts(false)
  clear()
  if not ok then error(result, 0) end
  local run = {}
  for _, name in ipairs(copied) do run[name] = result[name] end
  fill(run, result, prompts, tokenizer)
  compare(run, plan, prompts, result, as_planned)
  if run.state == "failed" and run.total_s == 0 and run.num_refused > 0 then
    run.why = ("%s; %d connections were refused, the last of one that %s"):format(run.why, run.num_refused,
      run.last_refused)
  end
  run.moves = runs.moves
  run.answered_before = answered_before(result)
  function run.save_trace(self, file, engine) result.measured:save_trace(file, engine) return self end
  if opt.trace and run.total_s > 0 then
    local saved, why = pcall(run.save_trace, run, opt.trace)
    if not saved then run.not_traced = core.error_text(why) end
  end
  return setmetatable(run, { __tostring = summary })
end
