-- `tessera plan --batch-size`: a plan of an offline batch, as the papers have it, beside what people run today.

local bound_words = require "tessera.planning.bound_words"
local core = require "tessera.core"
local device_types = require "tessera.planning.device_types"
local flags = require "tessera.cli.flags"
local host = require "tessera.host"
local host_memory = require "tessera.planning.host_memory"
local launch_flags = require "tessera.cli.launch_flags"
local options = require "tessera.options"
local planner_names = require "tessera.plugins.planners"
local smaller_batch = require "tessera.cli.smaller_batch"
local solver = require "tessera.solver"
local taken = require "tessera.cli.taken"
local terminal = require "tessera.terminal"
local ts = require "tessera"
local usual_lengths = require "tessera.cli.usual_lengths"

local M = {}

-- What --planner names: "adabits,bitwidth_transfer_lua" is a chain. A name that nobody has is refused before anything
-- is printed.
local function chain_of(text)
  if not text then return nil end
  local names = {}
  for name in (text .. ","):gmatch "%s*(.-)%s*," do
    names[#names + 1] = name
    planner_names.named(name, "--planner")
  end
  return #names > 1 and names or text
end

local function quality_words(problem)
  local quality = problem.quality
  if not quality then return ("theta %g %s"):format(problem.theta, problem.theta_unit) end
  return quality.at and bound_words(quality) or ("quality floor %s"):format(quality.at_least)
end

local function settings(problem, planner, replicas, flag)
  local w = problem.workload
  if not replicas then
    replicas = problem.searches_replicas and planner == ts.default_planner and "any number" or "1"
  end
  local why = flag == "batch_size" and "" or (", since %s is of one; without it a stream"):format(flags.name(flag))
  return ("%s on %s: an offline batch%s\nin force: batch %d, prompt tokens %g, output tokens %g, bitwidths %s, "
    .. "KV cache %s bit, "
    .. "tensor parallelism %s, replicas %s, objective %s, %s, memory %s, kernel set %s, %s, planner %s\n"
    .. "nodes: %s (a cluster file can say others)\n"
    .. "(change them with --batch-size and so on: `tessera plan --help`)\n")
    :format(problem.model.name, problem.cluster.name, why, w.batch_size, w.prompt_tokens, w.output_tokens,
      table.concat(problem.bitwidths, " "), table.concat(problem.kv_bitwidths, " or "),
      table.concat(problem.tensor_parallel, " or "), replicas, problem.objective, quality_words(problem),
      problem.memory, table.concat(problem.kernel_sets, " or "),
      problem.use_all_devices and "every device in use" or "devices may be left out", planner,
      problem.cluster:topology())
end

local default_quality = solver.default_quality()

-- Flags beside which the default bound on quality does not belong: they say themselves what quality is worth, or ask
-- for a published setting.
local function says_quality(given)
  for _, name in ipairs { "theta", "theta_unit", "preset", "indicator", "planner", "memory" } do
    if given[name] ~= nil then return true end
  end
  return given.objective == "paper"
end

-- A planner's name, or bounds in users' words: ts.problem says what is wrong with both.
local function quality_of(given)
  if not given.quality then return taken.quality_bound(given) end
  local quality = taken.quality_bound(given) or {}
  quality.at_least = given.quality
  return quality
end

local least_gain = 0.995 -- of the plan's latency: less is no reason to search again

-- What to search as well where others do better than the plan: groups of GPUs, or fewer of them.
local function advice(rows, problem)
  local lines = {}
  local degrees, is_grouped = problem.tensor_parallel, false
  for _, row in ipairs(rows) do
    local degree = tonumber(row.planner:match "^vllm_tp(%d+)")
    local is_better = row.speedup and row.speedup < least_gain
    if is_better and degree and degrees and #degrees == 1 and not is_grouped then
      local list, size = {}, 1
      while size <= degree do list[#list + 1], size = tostring(size), 2 * size end
      lines[#lines + 1] = ("%s is faster than this plan; search groups as well: --tensor-parallel %s\n"):format(
        row.planner, table.concat(list, ","))
      is_grouped = true
    elseif is_better and row.planner == "best_homogeneous" and not problem.allow_empty_stage then
      lines[#lines + 1] = "Fewer devices are faster than all: --allow-empty-stage lets the search leave some out\n"
    end
  end
  return table.concat(lines)
end

-- What of a row has no column, in words.
local function left_words(row, dropped)
  local words = {}
  if dropped.bits and row.bits then words[#words + 1] = row.bits end
  if dropped.omega and row.omega then words[#words + 1] = ("omega %.4g"):format(row.omega) end
  if dropped.throughput_tok_s and row.throughput_tok_s then
    words[#words + 1] = ("%.4g tok/s"):format(row.throughput_tok_s)
  end
  if dropped.note and row.note ~= "" then words[#words + 1] = row.note end
  return table.concat(words, ", ")
end

-- The rows as a table no wider than stdout: what has no room there goes below it, a line for each row.
local function fitted_table(rows)
  local columns = { "planner", "latency_s", "throughput_tok_s", "bits", "omega", "speedup_equal_quality", "speedup",
    "note" }
  local limit, dropped = terminal.limit(), {}
  for _, dispensable in ipairs { "note", "bits", "omega", "throughput_tok_s", false } do
    local widest = 0
    local lines = ts.table(rows, { columns = columns }):gsub("([^\n]+)\n", "  %1\n")
    for line in lines:gmatch "[^\n]+" do widest = math.max(widest, terminal.width(line)) end
    if not limit or widest <= limit or not dispensable then
      local text = { lines }
      for _, row in ipairs(next(dropped) and rows or {}) do
        text[#text + 1] = ("  %s: %s\n"):format(row.planner, left_words(row, dropped))
      end
      return terminal.wrapped(table.concat(text))
    end
    dropped[dispensable] = true
    for i, name in ipairs(columns) do
      if name == dispensable then table.remove(columns, i) end
    end
  end
end

-- "1.27 times as fast": of how fast something is over the plan or the other plan.
local function times_as_fast(ratio)
  local text = (ratio < 0.1 and "%.2g" or "%.2f"):format(ratio)
  return text == "1.00" and "as fast" or text .. " times as fast"
end

-- What mixing types of devices gains: "" where there is one type.
local function mixing_text(rows, problem)
  if not problem.cluster or #device_types(problem.cluster) == 1 then return "" end
  for _, row in ipairs(rows) do
    if row.planner == "best_homogeneous" then
      if not row.speedup then return ("Gain of mixing: %s\n\n"):format(row.note) end
      local gain = row.speedup > 1.0005 and times_as_fast(row.speedup) .. " as the best plan on one type of device"
        or "none, the best plan is on one type of device"
      return ("Gain of mixing: %s (%s)\n\n"):format(gain, row.note)
    end
  end
  return ""
end

local function beside_text(rows, problem)
  local lines = fitted_table(rows)
  local intro = "What people run today on the same problem (speedup_equal_quality: of the fastest plan found that "
    .. "has no more\nomega than theirs; speedup: of this plan):\n"
  if terminal.facts().knows_columns then intro = intro:gsub("\n(.)", " %1") end
  return terminal.wrapped(mixing_text(rows, problem)) .. terminal.wrapped(intro) .. lines
    .. terminal.wrapped(advice(rows, problem))
end

-- "1.34 s, 0.84 times as fast"
local function change_words(row)
  if row.status == "no_better" then return "no faster" end
  if not row.latency_s then return row.status == "infeasible" and "does not fit" or "not known: the time limit came" end
  return ("%s, %s"):format(core.format_seconds(row.latency_s), times_as_fast(1 / row.latency_ratio))
end

local function device_changes_text(rows, plan)
  local lines, width = { "\nWith other devices, planned anew:\n" }, 0
  for _, row in ipairs(rows) do width = math.max(width, #row.change) end
  for _, row in ipairs(rows) do
    local words = { change_words(row) }
    if row.omega and math.abs(row.omega - plan.omega) > 1e-3 * math.max(math.abs(plan.omega), 1e-3) then
      words[#words + 1] = ("omega %.3g instead of %.3g"):format(row.omega, plan.omega)
    end
    if row.usd_per_h then
      words[#words + 1] = ("%s %.2f USD/h"):format(row.usd_per_h < 0 and "saves" or "costs", math.abs(row.usd_per_h))
    end
    lines[#lines + 1] = ("  %s%s  %s\n"):format(row.change, (" "):rep(width - #row.change), table.concat(words, ", "))
  end
  return table.concat(lines)
end

-- Writes what starts servers, and says where; nil and why where the runtime cannot run the plan.
local function launch(plan, given)
  return plan:export(given.launch, given.out, launch_flags.options(given))
end

local function check_launch(given)
  launch_flags.check(given)
  if given.launch and given.launch ~= "json" then given.runtime = given.runtime or given.launch end
end

-- What a request sees; an offloading plan is priced by a model that nothing here simulates.
local function seen_by_requests(plan)
  if plan.offload then return {} end
  local run = ts.simulate(plan)
  return { ttft_s = run.ttft_s, tpot_s = run.tpot_s }
end

local function request_words(plan)
  local seen = seen_by_requests(plan)
  if not seen.ttft_s then return "" end
  return ("A request waits %s for its first token and %s for each one after it (simulated means)\n"):format(
    core.format_seconds(seen.ttft_s), core.format_seconds(seen.tpot_s))
end

-- The plan as data that says what it is a plan of, and what a request sees of it.
local function as_data(plan, problem)
  local data, of = plan:to_table(), problem:to_table()
  of.model, of.cluster, of.devices = problem.model.name, problem.cluster.name, nil
  of.name, of.batch_size, of.constraints = nil, nil, nil
  data.problem = of
  local seen = seen_by_requests(plan)
  data.ttft_s, data.tpot_s = seen.ttft_s, seen.tpot_s
  return data
end

-- A batch of the papers' lengths, where none are given, or shorter ones for a model that does not take them.
local function with_usual_lengths(workload, model)
  for name in pairs(workload) do
    if name:find "_tokens$" or name == "file" or name == "lengths" then return workload end
  end
  local papers = core.workload {}
  local usual = usual_lengths({ prompt_tokens = papers.prompt_tokens, output_tokens = papers.output_tokens }, model)
  for name, tokens in pairs(usual) do workload[name] = tokens end
  return workload
end

local function describe(given)
  local description = options.of_flags(given, "ts.problem")
  description.model, description.cluster = taken.model(given), taken.cluster(given)
  description.bitwidths = taken.bitwidths(description.model, description.bitwidths)
  description.workload = with_usual_lengths(options.of_flags(given, "ts.workload"), description.model)
  description.quality = quality_of(given)
  return description
end

-- The plan, its problem and, where the default bound on quality cannot be kept, a line that says so; or nil and why.
local function plan_of(given, chosen, show)
  local description = describe(given)
  local is_default = not description.quality and not says_quality(given)
  if is_default then description.quality = default_quality end
  local problem = ts.problem(description)
  show(problem)
  local plan, why = ts.plan(problem, chosen)
  if plan or why.code ~= "infeasible" then return plan, plan and problem or why end
  local function with_host()
    local larger, of, words = host_memory.plan(description, problem, chosen)
    if not larger then return nil, smaller_batch(description, chosen.planner, why) end
    return larger, of, words
  end
  if not is_default then return with_host() end
  description.quality = nil
  problem = ts.problem(description)
  plan, why = ts.plan(problem, chosen)
  if not plan then return with_host() end
  return plan, problem, ("Nothing fits with a predicted rise of perplexity of at most %g %%: fewer bits are in use, "
    .. "at theta %g\n"):format(100 * default_quality.max_perplexity_increase, problem.theta)
end

--- Plans, prints the plan and what stands beside it (or hands both to --json); nil and why when there is none. `flag`
--- asked for a batch; `stream_line` says what a stream would get.
function M.main(given, flag, stream_line)
  check_launch(given)
  local chosen = options.of_flags(given, "ts.plan")
  chosen.planner = chain_of(chosen.planner)
  local plan, problem, note = plan_of(given, chosen, function(problem)
    if host.json then return end
    local text = settings(problem, given.planner or ts.default_planner, given.replicas, flag)
      .. taken.text(problem.model, problem.cluster)
    terminal.out:write(terminal.wrapped(text))
  end)
  if not plan then return nil, problem end
  if not host.json then
    if note then terminal.say(terminal.wrapped(note)) end
    print(plan)
    terminal.say(terminal.wrapped(request_words(plan)) .. (given.beside ~= false and "\n" or ""))
  end
  if given.save and not host.json then plan:save(given.save) end -- before what may be long
  local rows = given.beside ~= false and ts.beside(plan, { problem = problem }) or nil
  local changes = rows and problem.cluster and ts.device_changes(plan, { time_limit_s = 2, problem = problem }) or nil
  local written, why_not
  if given.launch then written, why_not = launch(plan, given) end
  if host.json then
    local result = as_data(plan, problem)
    result.beside, result.device_changes, result.launch = rows, changes, written
    host.set_result(result)
    if given.save then plan:save(given.save) end
  elseif rows then
    terminal.say(beside_text(rows, problem))
    if changes then
      terminal.say(terminal.wrapped(device_changes_text(changes, plan) .. taken.prices(problem.cluster)))
    end
    terminal.say(terminal.wrapped("\n" .. stream_line() .. "\n"))
  end
  if written and not host.json then
    terminal.say("\n" .. launch_flags.written_text(written))
  end
  if given.picture then ts.picture(plan, given.picture) end
  if given.report then ts.report(plan, given.report, { beside = rows, device_changes = changes }) end
  if why_not then return nil, why_not end
  return 0
end

return M
