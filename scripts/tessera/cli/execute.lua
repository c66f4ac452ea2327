-- `tessera execute`: a saved plan that runs; answers on stdout, what was predicted beside what was measured on stderr.

local core = require "tessera.core"
local host = require "tessera.host"
local ranks = require "tessera.runtime.ranks"
local stage = require "tessera.cli.stage"
local tables = require "tessera.options"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local interrupted_status = 130

local function check(given)
  if #given.names ~= 1 then core.raise("usage", "name one saved plan: tessera execute plan.json", "tessera execute") end
  if not given.model then core.raise("usage", "say where the model lies: --model DIR", "--model") end
  if not given.prompts then core.raise("usage", "say what is to be answered: --prompts FILE", "--prompts") end
end

local function seconds(value) return value and core.format_seconds(value) or "-" end

local function percent(value) return value and ("%+.1f %%"):format(100 * value) or "-" end

--- Rows of what was predicted and measured.
local function comparison(run)
  local rows = {}
  for _, row in ipairs { { "total", "total_s" }, { "ttft", "ttft_s" }, { "decode_round", "decode_round_s" } } do
    rows[#rows + 1] = ("  %-14s %12s %12s %10s"):format(row[1]:gsub("_", " "),
      seconds(run.predicted and run.predicted[row[2]]), seconds(run[row[2]]), percent(run.error and run.error[row[1]]))
  end
  return ("  %-14s %12s %12s %10s\n%s\n"):format("", "predicted", "measured", "error", table.concat(rows, "\n"))
end

-- How many ranks each stage has, [engine][stage], and how many engines there are.
local function ranks_by_stage(run)
  local counts = {}
  for _, s in ipairs(run.stages) do
    counts[s.engine] = counts[s.engine] or {}
    counts[s.engine][s.stage] = (counts[s.engine][s.stage] or 0) + (s.attends and 0 or 1)
  end
  return counts
end

-- As plans number them: "replica 2, stage 0, rank 1 of 2, layers 0-11".
local function stage_name(s, counts)
  local of_stage, layers = counts[s.engine][s.stage], ("%d"):format(s.first_layer)
  if s.num_layers > 1 then layers = ("%d-%d"):format(s.first_layer, s.first_layer + s.num_layers - 1) end
  return ("%s%sstage %d%s, layer%s %s"):format(#counts > 1 and ("replica %d, "):format(s.engine) or "",
    s.attends and "attention of " or "", s.stage - 1,
    of_stage > 1 and (", rank %d of %d"):format(s.tensor_rank, of_stage) or "", s.num_layers > 1 and "s" or "", layers)
end

local function stage_lines(run)
  local lines, counts = {}, ranks_by_stage(run)
  for i, s in ipairs(run.stages) do
    lines[i] = ("  %s: loaded in %s, weights %s, cache %s, resident %s (peak %s), sent %s, busy %.0f %%"):format(
      stage_name(s, counts), seconds(s.load_s), core.format_bytes(s.weight_bytes),
      core.format_bytes(s.kv_cache_bytes), core.format_bytes(s.resident_bytes), core.format_bytes(s.peak_bytes),
      core.format_bytes(s.sent_bytes), 100 * (1 - s.idle_ratio))
  end
  return table.concat(lines, "\n") .. "\n"
end

local function summary(run)
  local answered = 0
  for _, request in ipairs(run.requests) do answered = answered + (request.tokens and 1 or 0) end
  local before = run.answered_before > 0 and ("%d of them before, by the journal"):format(run.answered_before)
  if run.total_s == 0 then
    if run.state == "failed" then return "" end -- before its first step: why it did says it
    return ("%d of %d prompts answered%s\n"):format(answered, #run.requests, before and ", " .. before or "")
  end
  local text = ("%d of %d prompts answered%s in %s, %.1f tok/s; workers ready after %s, hidden states by %s\n"):format(
    answered, #run.requests, before and (" (%s)"):format(before) or "", seconds(run.total_s), run.throughput_tok_s,
    seconds(run.load_s), run.transport) .. stage_lines(run)
  for _, move in ipairs(run.moves) do
    text = text .. (move.why and ("  no new plan without rank %d: %s\n"):format(move.lost_rank, move.why)
      or ("  layers of rank %d moved to those that were left, %d at another bitwidth than before\n"):format(
        move.lost_rank, move.changed_bits))
  end
  if run.total_s > 0 then text = text .. comparison(run) end
  if run.predicted and run.provenance == "modelled" then
    text = text .. "  predicted by modelled latencies, not by measured ones: tessera profile measures them\n"
  end
  if run.not_predicted then text = text .. ("  not predicted: %s\n"):format(run.not_predicted) end
  if run.not_traced then text = text .. ("  no trace: %s\n"):format(run.not_traced) end
  return text
end

local function value_of(options, name)
  for _, option in ipairs(core.options_of "ts.execute") do
    if option.name == name then
      local default = option.default
      return options[name] or type(default) == "string" and default:match '^"(.*)"$' or default
    end
  end
end

local function say(text) terminal.err:write(host.wrapped("stderr", text)) end

-- As it happens: who has started workers elsewhere is asked to start one again.
local function fault_line(fault, options)
  local line = ("fault at %s: stage %d (rank %d) %s"):format(seconds(fault.at_s), fault.stage - 1, fault.rank,
    fault.why)
  local text = ({
    none = "the run ends",
    restarted = "it is started again",
    relinked = "its links are opened again",
    handed_on = "its replica is given up, and the others answer its prompts",
    moved = "its layers go to the workers that are left",
    awaited = ("awaited for %s s, then its layers go to those that are left: tessera stage --rank %d --connect %s:%s")
      :format(value_of(options, "start_limit_s"), fault.rank, value_of(options, "host"), value_of(options, "port")),
  })[fault.remedy]
  return ("%s; %s\n"):format(line, text)
end

local function print_answers(run)
  for _, request in ipairs(run.requests) do
    if request.tokens then
      local text = (request.text or ""):gsub("[\t\n\r]", " ")
      terminal.out:write(("%d\t%s\n"):format(request.index, text))
    end
  end
end

local function as_data(run)
  local data = { requests = run.requests, partial = run.partial, faults = run.faults, replans = run.replans,
    moves = run.moves, state = run.state, why = run.why, stages = run.stages, error = run.error,
    num_refused = run.num_refused, last_refused = run.last_refused, transport = run.transport,
    provenance = run.provenance, not_predicted = run.not_predicted, not_traced = run.not_traced,
    answered_before = run.answered_before }
  for _, name in ipairs { "load_s", "total_s", "prefill_s", "decode_s", "ttft_s", "ttft_max_s", "tpot_s",
    "decode_round_s", "throughput_tok_s" } do
    data[name] = run[name]
  end
  if run.predicted then
    data.predicted = { total_s = run.predicted.total_s, ttft_s = run.predicted.ttft_s,
      decode_round_s = run.predicted.decode_round_s }
  end
  return data
end

local function count_ranks(plan)
  local count = 0
  for i, engine in ipairs(plan.placement.engines) do
    local stages = (plan.replicas or { plan })[i].stages
    for k, s in ipairs(engine.stages) do count = count + #s.gpus + (stages[k].attention and 1 or 0) end
  end
  return count
end

-- A launcher that starts more processes than the plan has, or fewer, would have some of them wait for the others.
local function check_size(plan, here)
  local count = count_ranks(plan)
  if count == here.size then return end
  core.raise("usage", ("the plan has %d processes, and %s started %d; start %d"):format(count, here.launcher, here.size,
    count), "tessera execute")
end

-- What is typed elsewhere, one line a worker.
local function say_how_to_join(plan, options)
  local count = count_ranks(plan)
  local host_name, port = value_of(options, "host"), options.port or 0
  if port == 0 then
    core.raise("usage", "workers that others start have to know where to come: give --port, as in --port 29500",
      "--port")
  end
  for rank = 0, count - 1 do
    say(("waiting for rank %d: tessera stage --rank %d --connect %s:%d%s\n"):format(rank, rank, host_name, port,
      options.secret_file and " --secret-file FILE" or ""))
  end
end

--- @param given table the flags; names: the plan
function M.main(given)
  local here = given.workers == nil and ranks.here() or nil
  if here and here.rank > 0 then
    return stage.serve { connect = ("%s:%d"):format(given.host or here.host, given.port or here.port),
      secret_file = given.secret_file }
  end
  check(given)
  local options = tables.of_flags(given, "ts.execute")
  options.prompts = require("tessera.runtime.prompts").of_file(given.prompts)
  local plan = ts.load_plan(given.names[1])
  if here and here.size > 1 then
    check_size(plan, here)
    options.workers, options.host, options.port = "launcher", options.host or here.host, options.port or here.port
    local has_torch = host.version.libtorch ~= "none"
    if here.launcher == "torchrun" and has_torch then options.transport = options.transport or "c10d" end
  end
  if options.workers == "others" then say_how_to_join(plan, options) end
  function options.on_fault(fault) say(fault_line(fault, options)) end
  local run = ts.execute(plan, options)
  if host.json then host.set_result(as_data(run)) else print_answers(run) end
  if given.report then ts.report(run, given.report, { plan = plan }) end
  say(summary(run))
  if run.state == "failed" then
    local hint = given.journal and "; the same command goes on with what the journal lacks"
      or not given.recover and "; --journal FILE keeps answers, --recover goes on without being asked" or ""
    say(("tessera execute: %s%s\n"):format(run.why, run.total_s > 0 and hint or ""))
    return 1
  end
  if run.not_traced then return 1 end
  return run.state == "interrupted" and interrupted_status or 0
end

return M
