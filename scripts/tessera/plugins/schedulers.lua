-- Schedulers by name: those of the engine, those that ship as Lua files, those that scripts add. A scheduler in Lua is
-- called once per step with a view of the requests. Records are read in place and calls go through the FFI: no table is
-- made per request and step.

local ffi = require "ffi"
local core = require "tessera.core"
local host = require "tessera.host"
local options = require "tessera.options"
local serving = require "tessera.serving"
local sorted_keys = require "tessera.sorted_keys"

-- The same records as in engine/serving/lua/scheduler_lua.cpp. A second load of this file finds them declared.
if not pcall(ffi.typeof, "tessera_scheduler_request") then
  ffi.cdef [[
  typedef struct {
    const double request, arrival_s, prompt_tokens, max_tokens, known_tokens, computed_tokens, generated_tokens,
      left_tokens, scheduled_tokens, num_blocks, priority, slo_class, num_preemptions, epoch;
    const int32_t handle;
    const bool is_running;
  } tessera_scheduler_request;
  typedef struct tessera_scheduler_decision {
    const double now_s, epoch, free_blocks, tokens_left, seats_left, block_size, num_running, num_waiting;
    const tessera_scheduler_request *(*running)(struct tessera_scheduler_decision *, double);
    const tessera_scheduler_request *(*waiting)(struct tessera_scheduler_decision *, double);
    double (*schedule)(struct tessera_scheduler_decision *, int32_t, double);
    double (*preempt)(struct tessera_scheduler_decision *, int32_t);
    double (*cached_tokens)(struct tessera_scheduler_decision *, int32_t);
    double (*blocks_needed)(struct tessera_scheduler_decision *, int32_t);
  } tessera_scheduler_decision;
  ]]
end

local M = {}
local fail = core.refuse
local record = ffi.typeof "tessera_scheduler_request"
local pointer = ffi.typeof "const tessera_scheduler_request *"
local decision = ffi.typeof "tessera_scheduler_decision *"

local fields = {
  "request", "arrival_s", "prompt_tokens", "max_tokens", "known_tokens", "computed_tokens", "generated_tokens",
  "left_tokens", "scheduled_tokens", "num_blocks", "priority", "slo_class", "num_preemptions", "is_running",
}
pcall(ffi.metatype, record, { -- a type gets its metatable once; a second load of this file keeps the first
  __index = function(_, name)
    core.raise("invalid_argument", ("a request has no field '%s'%s"):format(tostring(name),
      core.did_you_mean(tostring(name), fields)), "request")
  end,
  __newindex = function(_, name)
    core.raise("invalid_argument", ("request.%s: a request is read-only"):format(tostring(name)), "request")
  end,
  __tostring = function(r)
    return ("request %d: %d of %d tokens computed, %s"):format(r.request, r.computed_tokens, r.known_tokens,
      r.is_running and "running" or "waiting")
  end,
})

-- A view is a pointer, and an index moves it anywhere in memory: a sandboxed script gets copies.
local function lend(request)
  if not host.sandboxed then return request end
  local copy = record()
  ffi.copy(copy, request, ffi.sizeof(record))
  return copy
end

local View = {}
local private = setmetatable({}, { __mode = "k" })

local function of(view, method)
  local hidden = private[view]
  if not hidden then
    core.raise("invalid_argument", ("view:%s: call it with a colon, on the view that schedule was given"):format(
      method), "view")
  end
  return hidden
end

local function handle_of(hidden, request, method)
  if not (ffi.istype(pointer, request) or ffi.istype(record, request)) then
    core.raise("invalid_argument", ("view:%s: a request of view:running or view:waiting belongs here, not a %s"):format(
      method, type(request)), "view")
  end
  if request.epoch ~= hidden.epoch then
    core.raise("invalid_argument", ("view:%s: the request is of an earlier step; ask the view again"):format(method),
      "view")
  end
  return request.handle
end

local function checked(result)
  if result < 0 then serving.scheduler_error() end
  return result
end

local function request_at(view, i, method)
  local hidden = of(view, method)
  if type(i) ~= "number" then
    core.raise("invalid_argument", ("view:%s: a position from 1 on belongs here, not a %s"):format(method, type(i)),
      "view")
  end
  local request = hidden[method](hidden, i)
  if request == nil then return nil end
  return lend(request)
end

--- The i-th request that runs, in order of admission, from 1; nil beyond the last.
function View:running(i) return request_at(self, i, "running") end

--- The i-th request that waits, in order of the queue, from 1; nil beyond the last.
function View:waiting(i) return request_at(self, i, "waiting") end

--- Puts a request into the step; tokens left out: all that it has left. Gives the tokens, 0 where blocks are short.
function View:schedule(request, tokens)
  local hidden = of(self, "schedule")
  local handle = handle_of(hidden, request, "schedule")
  if tokens == nil then tokens = request.left_tokens end
  if type(tokens) ~= "number" then
    core.raise("invalid_argument", ("view:schedule: a number of tokens belongs here, not a %s"):format(type(tokens)),
      "view")
  end
  return checked(hidden.schedule(hidden, handle, tokens))
end

--- Takes the blocks of a running request, and puts it in front of the queue.
function View:preempt(request)
  local hidden = of(self, "preempt")
  checked(hidden.preempt(hidden, handle_of(hidden, request, "preempt")))
end

--- Tokens of a waiting request that the prefix cache holds.
function View:cached_tokens(request)
  local hidden = of(self, "cached_tokens")
  return checked(hidden.cached_tokens(hidden, handle_of(hidden, request, "cached_tokens")))
end

--- Free blocks that go when a waiting request is admitted.
function View:blocks_needed(request)
  local hidden = of(self, "blocks_needed")
  return checked(hidden.blocks_needed(hidden, handle_of(hidden, request, "blocks_needed")))
end

local numbers = {
  now_s = true, free_blocks = true, tokens_left = true, seats_left = true, block_size = true, num_running = true,
  num_waiting = true,
}
local shell = {
  __index = function(view, name)
    if View[name] then return View[name] end
    if numbers[name] then return of(view, name)[name] end
    core.raise("invalid_argument", ("view.%s does not exist%s"):format(tostring(name), core.did_you_mean(
      tostring(name), sorted_keys(View, numbers))), "view")
  end,
  __newindex = function(_, name)
    core.raise("invalid_argument", ("view.%s: the view is read-only"):format(tostring(name)), "view")
  end,
  __metatable = "tessera.SchedulerView",
}

local entries, bound, built_in = {}, {}, {}
for _, card in ipairs(serving.schedulers()) do built_in[card.name] = card end
local shipped = { "shortest_first" }

local shipped_loaded, users_loaded = false, false
local broken = {} -- files of users that could not be loaded, each with why

local function load_shipped()
  if shipped_loaded then return end
  shipped_loaded = true
  for _, name in ipairs(shipped) do require("tessera.schedulers." .. name) end
end

-- One broken file of a user must not take the others with it.
local function load_users()
  if users_loaded then return end
  users_loaded = true
  for _, path in ipairs(host.user_scripts "schedulers") do
    local chunk, message = loadfile(path)
    local ok = chunk ~= nil
    if chunk then ok, message = pcall(chunk) end
    if not ok then broken[#broken + 1] = ("%s: %s"):format(path, tostring(message)) end
  end
end

local function named(name, path)
  if not entries[name] then load_shipped() end
  if not entries[name] then load_users() end
  if not entries[name] then
    local files = #broken > 0 and "; not loaded: " .. table.concat(broken, "; ") or ""
    core.raise("not_found", ("%s: there is no scheduler '%s'%s%s"):format(path, name,
      core.did_you_mean(name, sorted_keys(entries, built_in)), files), path)
  end
  return entries[name]
end

local card_fields = {
  name = "string", doc = "string", source = "string", options = "table", schedule = "function",
  every_step = "boolean",
}

local function check(card, path)
  options.plain(card, path, "a table")
  for field, value in pairs(card) do
    if not card_fields[field] then
      fail(path, ("unknown field '%s'%s"):format(tostring(field),
        core.did_you_mean(tostring(field), sorted_keys(card_fields))))
    end
    if type(value) ~= card_fields[field] then
      fail(path .. "." .. field, ("a %s belongs here, not a %s"):format(card_fields[field], type(value)))
    end
  end
  for _, field in ipairs { "name", "doc", "schedule" } do
    if card[field] == nil then fail(path .. "." .. field, "missing; give a " .. card_fields[field]) end
  end
  if not card.name:find "^[%a_][%w_%-]*$" then
    fail(path .. ".name", "a name has letters, digits, '_' and '-', such as \"shortest_first\"")
  end
  if built_in[card.name] then fail(path .. ".name", ("'%s' is built in; choose another"):format(card.name)) end
  for name, spec in pairs(card.options or {}) do
    if name == "name" then fail(path .. ".options.name", "it names the scheduler; choose another name") end
    options.check_spec(name, spec, path .. ".options")
  end
end

core.document_object {
  name = "tessera.SchedulerRequest",
  doc = "A request as a scheduler in Lua sees it. Read-only, and good for one step: what is kept longer shows another "
    .. "request. What it will really generate is not among it.",
  fields = {
    { "request", "number", "Its number in the traffic (0-based)" },
    { "arrival_s", "number", "When it came (s)" },
    { "prompt_tokens", "number", "Of its prompt (tokens)" },
    { "max_tokens", "number", "It may generate at most (tokens)" },
    { "known_tokens", "number", "Prompt and output so far (tokens)" },
    { "computed_tokens", "number", "Of these, in the KV cache or in a step under way (tokens)" },
    { "generated_tokens", "number", "Output so far (tokens)" },
    { "left_tokens", "number", "To compute; 0 while its step is under way (tokens)" },
    { "scheduled_tokens", "number", "In the step that is being decided (tokens)" },
    { "num_blocks", "number", "Blocks that it holds" },
    { "priority", "number", "Lower goes first" },
    { "slo_class", "number", "Which limits are its own (0-based)" },
    { "num_preemptions", "number", "So far" },
    { "is_running", "boolean", "It has a seat" },
  },
  methods = {},
}
core.document_object {
  name = "tessera.SchedulerView",
  doc = "What a scheduler in Lua decides a step with. Calls are checked at once: what breaks the budget, the seats or "
    .. "a request's state is an error that names them.",
  fields = {
    { "now_s", "number", "Time (s)" },
    { "free_blocks", "number", "Of the KV cache" },
    { "tokens_left", "number", "Of max_num_batched_tokens" },
    { "seats_left", "number", "Of max_num_seqs" },
    { "block_size", "number", "Tokens in a block" },
    { "num_running", "number", "Requests that ran when the step began" },
    { "num_waiting", "number", "Requests that waited when the step began" },
  },
  methods = {
    { "running", "(i: integer): tessera.SchedulerRequest?", "The i-th that runs, in order of admission, from 1" },
    { "waiting", "(i: integer): tessera.SchedulerRequest?", "The i-th that waits, in order of the queue, from 1" },
    { "schedule", "(request: tessera.SchedulerRequest, tokens: number?): number",
      "Puts it into the step, with a seat if it waits, and its cached prefix; tokens left out: all that it has left. "
      .. "Gives the tokens; 0, with nothing changed, where blocks are short" },
    { "preempt", "(request: tessera.SchedulerRequest)", "Takes its blocks and puts it in front of the queue" },
    { "cached_tokens", "(request: tessera.SchedulerRequest): number", "That the prefix cache holds of a waiting one" },
    { "blocks_needed", "(request: tessera.SchedulerRequest): number", "Free blocks that go when it is admitted" },
  },
}
core.document_object {
  name = "tessera.SchedulerCard", doc = "What ts.register_scheduler takes.",
  fields = {
    { "name", "string", "What scheduler = names" },
    { "doc", "string", "One sentence" },
    { "source", "string?", "Where it comes from" },
    { "options", "table<string, { type: string, default: any, min: number?, max: number?, doc: string? }>?",
      "Options of its own: ts.engine { scheduler = { name =, ... } }" },
    { "schedule", "fun(view: tessera.SchedulerView, opt: table)", "Decides a step" },
    { "every_step", "boolean?", "Ask for every step. Otherwise a step in which all that run decode one token and "
      .. "nobody joins is taken to be decided alike until a request comes or ends, or blocks are short" },
  },
}
core.document {
  name = "ts.register_scheduler", doc = "Adds a scheduler written in Lua; its name then works as `scheduler =` of "
    .. "ts.engine. One of the same name that was added before is replaced.",
  parameters = {
    { "card", "tessera.SchedulerCard", "name, doc, schedule = function(view, opt), options, every_step" },
  },
  returns = "tessera.SchedulerCard",
}
function M.register_scheduler(card)
  check(card, "ts.register_scheduler")
  local entry = { card = card, read = options.reader("ts.engine.scheduler", card.options or {}) }
  entries[card.name] = entry
  bound[card.name] = { entry = entry, opt = entry.read {} }
  return card
end

core.document {
  name = "ts.schedulers", doc = "Cards of all schedulers, sorted by name: name, doc, source.", returns = "table[]",
}
function M.list()
  load_shipped()
  load_users()
  local cards = {}
  for _, name in ipairs(sorted_keys(entries, built_in)) do
    local card = built_in[name] or entries[name].card
    cards[#cards + 1] = { name = name, doc = card.doc, source = card.source or "" }
  end
  return cards
end

-- A scheduler with options of its own goes by a name that has them: "shortest_first(aging = 0.5)".
local function name_with_options(given)
  local path = "ts.engine.scheduler"
  options.plain(given, path, "the name of a scheduler, or { name =, ... }")
  if type(given.name) ~= "string" then fail(path .. ".name", "missing; give the name of a scheduler") end
  local own = {}
  for key, value in pairs(given) do
    if key ~= "name" then own[key] = value end
  end
  if next(own) == nil then return given.name end
  if built_in[given.name] then
    fail(path, ("'%s' has its options beside scheduler, not in it"):format(given.name))
  end
  local entry = named(given.name, path)
  local opt, texts = entry.read(own), {}
  for _, key in ipairs(sorted_keys(own)) do texts[#texts + 1] = ("%s = %s"):format(key, tostring(own[key])) end
  local text = ("%s(%s)"):format(given.name, table.concat(texts, ", "))
  bound[text] = { entry = entry, opt = opt }
  return text
end

--- ts.engine, which also takes scheduler = { name =, options of a scheduler in Lua }.
function M.engine(given)
  local scheduler = type(given) == "table" and given.scheduler
  if type(scheduler) == "string" and not built_in[scheduler] and not bound[scheduler] then
    named(scheduler, "ts.engine.scheduler")
  end
  if type(scheduler) ~= "table" then return serving.engine(given) end
  local copy = {}
  for key, value in pairs(given) do copy[key] = value end
  copy.scheduler = name_with_options(scheduler)
  return serving.engine(copy)
end

--- What the engine calls for each step, and whether it wants every one.
function M.bind(name, address)
  local found = bound[name]
  if not found then
    named(name, "scheduler")
    found = bound[name]
  end
  local schedule, opt, view = found.entry.card.schedule, found.opt, setmetatable({}, shell)
  private[view] = ffi.cast(decision, address)
  return function() schedule(view, opt) end, found.entry.card.every_step == true
end

return M
