-- `tessera serve`: a model behind OpenAI's HTTP interface, until it is told to end.

local core = require "tessera.core"
local host = require "tessera.host"
local http = require "tessera.http"
local on_disk = require "tessera.cli.on_disk"
local stages = require "tessera.runtime.stages"
local terminal = require "tessera.terminal"
local ts = require "tessera"
local view = require "tessera.serving.view"

local M = {}

-- The model's folder, and the plan where one was named.
local function model_of(given)
  local path = on_disk.path(given, "tessera serve", 1)
  if not path:find "%.json$" then
    if given.model then core.raise("usage", "it is for a plan; the model is named already", "--model") end
    return path
  end
  if given.bitwidths then core.raise("usage", "the plan has bitwidths", "--bitwidths") end
  if not given.model then core.raise("usage", "say where the model of the plan lies: --model DIR", "--model") end
  return given.model, ts.load_plan(path)
end

-- The row of an option in one of the library's tables.
local function option_of(table_name, name)
  for _, option in ipairs(core.options_of(table_name)) do
    if option.name == name then return option end
  end
end

-- What of the flags is of one of the library's tables.
local function of_table(given, name, but)
  local options = {}
  for _, option in ipairs(core.options_of(name)) do
    if not (but and but[option.name]) then options[option.name] = given[option.name] end
  end
  return options
end

-- What a step holds where nothing says so. A CPU computes 64 tokens of prompts as fast a token as thousands, and who
-- decodes waits for the whole step; beyond a few requests more at a time decode no faster either.
local function set_step(engine, given)
  local on_cpu = not (given.device or "cpu"):find "^cuda"
  engine.max_num_seqs = engine.max_num_seqs or on_cpu and 32 or 256
  local cuts = engine.enable_chunked_prefill
  if cuts == nil then cuts = engine.scheduler ~= "vllm_v0" end
  if engine.max_num_batched_tokens or not cuts then return end
  engine.max_num_batched_tokens = on_cpu and math.max(64, 2 * engine.max_num_seqs) or 2048
end

-- A block holds what layers that keep a state have of after its last token, beside keys and values: of so many tokens
-- that these take as much. vLLM makes blocks of hybrids as large.
local function set_block(engine, path)
  if engine.block_size then return end
  local shape = core.model(path)
  if shape.state_bytes_per_sequence == 0 then return end
  local whole = math.min(engine.max_model_len or shape.max_context_tokens, option_of("ts.engine", "block_size").max)
  local kv_bytes = shape:kv_bytes_per_token(32)
  local alike = kv_bytes > 0 and shape.state_bytes_per_sequence / kv_bytes or whole
  engine.block_size = math.ceil(math.min(alike, whole) / 16) * 16
end

local function engine_of(given, path)
  local engine = of_table(given, "ts.engine", { host = true })
  set_step(engine, given)
  set_block(engine, path)
  local method = given.speculative_method or given.speculative_model and "draft_model"
  if given.num_speculative_tokens and not method then
    core.raise("usage", "say how they are drafted: --speculative-method ngram, or --speculative-model DIR",
      "--num-speculative-tokens")
  end
  if (method == "draft_model") ~= (given.speculative_model ~= nil) then
    core.raise("usage", method == "draft_model" and "say which model drafts: --speculative-model DIR"
      or "a model drafts by --speculative-method draft_model", "--speculative-method")
  end
  if given.speculative_bitwidths and not given.speculative_model then
    core.raise("usage", "they are of a draft model: --speculative-model DIR", "--speculative-bitwidths")
  end
  if method then
    local most = option_of("tessera serve", "num_speculative_tokens").default
    engine.speculative = { method = method, acceptance = 0.5,
      num_tokens = given.num_speculative_tokens or tonumber(most) }
  end
  return engine
end

-- On the model's threads and in its type.
local function draft_model_of(given, model_options)
  local bits = given.speculative_bitwidths
  return ts.language_model { path = given.speculative_model, threads = model_options.threads,
    dtype = model_options.dtype, bitwidths = bits and (#bits == 1 and bits[1] or bits) }
end

-- A way to be faster that costs a little quality, where the model has one that was not taken.
local function faster(model, model_options)
  if (model_options.device or "cpu") ~= "cpu" or model_options.activation_bitwidth == 8 or model_options.int8 then
    return ""
  end
  for _, layer in ipairs(model.layers) do
    if layer:find "^%d%-bit" or layer:find "^i?q%d" then
      return "\nActivations are f32; with --activation-bitwidth 8, as llama.cpp has them, it is about twice as fast "
        .. "(what it costs: tessera man serve)"
    end
  end
  return ""
end

-- What is said once it serves; `what` it serves, for whoever looks at stderr.
local function on_listening(what, roles)
  return function(name, address, port, blocks, size)
    local text = ("%s\n%d KV blocks of %d tokens%s\n"):format(what, blocks, size, roles and " each" or "")
    terminal.err:write(host.wrapped("stderr", text))
    terminal.out:write(("serving %s on http://%s:%d\n"):format(name, address, port))
    terminal.out:flush()
  end
end

-- What runs in processes: the stages of a plan, or the whole model once for each role.
local function stages_of(given, plan, opt)
  local roles = given.roles
  if not plan then
    local whole = { bitwidths = given.bitwidths }
    for name, value in pairs(opt) do whole[name] = value end
    return stages.whole(#roles, whole)
  end
  local runs = stages.of(plan, opt, not roles)
  if roles and #roles ~= #runs.engines then
    core.raise("usage", ("there are %d, and the plan has %d replicas; each has one"):format(#roles, #runs.engines),
      "--roles")
  end
  return runs
end

local function in_words(roles, runs)
  if not roles then return ("%d stages"):format(#runs.engines[1].stages) end
  local words = {}
  for i, engine in ipairs(runs.engines) do
    words[i] = ("%s in %d stage%s"):format(roles[i], #engine.stages, #engine.stages == 1 and "" or "s")
  end
  return table.concat(words, ", ")
end

-- A plan of several stages, or engines of several roles, in processes that come back where they die.
local function serve_stages(given, path, plan, options, engine)
  if given.speculative_model or given.speculative_method then
    core.raise("usage", "a model in stages does not speculate", "--speculative-method")
  end
  local opt = { model = path, prompts = {}, recover = true, device = given.device }
  for _, name in ipairs { "dtype", "method", "group_size", "statistics", "kv_bitwidth", "threads" } do
    opt[name] = given[name]
  end
  function opt.on_fault(fault)
    terminal.err:write(host.wrapped("stderr", ("tessera serve: %sstage %d: %s; %s\n"):format(
      given.roles and given.roles[fault.engine] .. ", " or "", fault.stage, fault.why, fault.remedy)))
  end
  local runs = stages_of(given, plan, opt)
  local roles = given.roles
  for i, role in ipairs(roles or {}) do runs.engines[i].role = role end
  if roles and roles[2] == "prefill" then -- who reads comes first
    roles[1], roles[2] = roles[2], roles[1]
    runs.engines[1], runs.engines[2] = runs.engines[2], runs.engines[1]
  end
  local what = ("'%s' in %s"):format(core.model(path).name, in_words(roles, runs))
  local request = { engines = runs.engines, prompts = {}, replan = runs.replan, program = host.program,
    build = host.version.version .. " " .. host.version.commit }
  return http.serve_stages(options, on_listening(what, roles), view.page(), engine, runs.model, opt, request)
end

local function has_stages(plan)
  local engines = plan and plan.placement and plan.placement.engines or {}
  return #engines > 1 or #engines == 1 and #engines[1].stages > 1
end

--- @param given table the flags; names: the model, or a plan
function M.main(given)
  local path, plan = model_of(given)
  local options = {}
  for _, name in ipairs(http.option_names()) do options[name] = given[name] end
  http.check(options)
  local engine = ts.engine(engine_of(given, path))
  local why, served
  if has_stages(plan) or given.roles then
    why, served = serve_stages(given, path, plan, options, engine)
  else
    local model_options = on_disk.options(given, path, { seed = true, rounding = true })
    model_options.plan = plan
    local model = ts.language_model(model_options)
    local draft_model = given.speculative_model and draft_model_of(given, model_options) or nil
    local what = tostring(model) .. faster(model, model_options)
    why, served = http.serve(options, on_listening(what), view.page(), engine, model, draft_model)
  end
  if served then
    ts.report(served, given.report)
    terminal.err:write(host.wrapped("stderr", ("wrote %s\n"):format(given.report)))
  elseif given.report then
    terminal.err:write(host.wrapped("stderr", ("no request came: %s was not written\n"):format(given.report)))
  end
  if why == "" then return 0 end
  terminal.err:write(host.wrapped("stderr", ("tessera serve: %s\n"):format(why)))
  return 1
end

return M
