-- What a scheduler in Lua decides a step with: a view of the requests. Records are read in place and calls go through
-- the FFI: no table is made per request and step.

local ffi = require "ffi"
local core = require "tessera.core"
local host = require "tessera.host"
local serving = require "tessera.serving"
local sorted_keys = require "tessera.sorted_keys"

-- The numbers of both records, in their order, and what help says of them; those without a word are not for scripts.
local numbers = serving.scheduler_fields()

local function names_of(fields)
  local names = {}
  for i, field in ipairs(fields) do names[i] = field.name end
  return table.concat(names, ", ")
end

-- The same records as in engine/serving/lua/scheduler_lua.cpp. A second load of this file finds them declared.
if not pcall(ffi.typeof, "tessera_scheduler_request") then
  ffi.cdef(([[
  typedef struct {
    const double %s;
    const int32_t handle;
    const bool is_running;
  } tessera_scheduler_request;
  typedef struct tessera_scheduler_decision {
    const double %s;
    const tessera_scheduler_request *(*running)(struct tessera_scheduler_decision *, double);
    const tessera_scheduler_request *(*waiting)(struct tessera_scheduler_decision *, double);
    double (*schedule)(struct tessera_scheduler_decision *, int32_t, double);
    double (*preempt)(struct tessera_scheduler_decision *, int32_t);
    double (*cached_tokens)(struct tessera_scheduler_decision *, int32_t);
    double (*blocks_needed)(struct tessera_scheduler_decision *, int32_t);
  } tessera_scheduler_decision;
  ]]):format(names_of(numbers.request), names_of(numbers.view)))
end

-- { name, type, doc } of those that scripts read.
local function documented(fields)
  local list = {}
  for _, field in ipairs(fields) do
    if field.doc ~= "" then list[#list + 1] = { field.name, "number", field.doc } end
  end
  return list
end

local of_request, of_view, request_names, is_number = documented(numbers.request), documented(numbers.view), {}, {}
of_request[#of_request + 1] = { "is_running", "boolean", "It has a seat" }
for i, field in ipairs(of_request) do request_names[i] = field[1] end
for _, field in ipairs(of_view) do is_number[field[1]] = true end

local record = ffi.typeof "tessera_scheduler_request"
local pointer = ffi.typeof "const tessera_scheduler_request *"
local decision = ffi.typeof "tessera_scheduler_decision *"

pcall(ffi.metatype, record, { -- a type gets its metatable once; a second load of this file keeps the first
  __index = function(_, name)
    core.raise("invalid_argument", ("a request has no field '%s'%s"):format(tostring(name),
      core.did_you_mean(tostring(name), request_names)), "request")
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

function View:running(i) return request_at(self, i, "running") end

function View:waiting(i) return request_at(self, i, "waiting") end

local function check_tokens(tokens, method)
  if type(tokens) == "number" then return end
  core.raise("invalid_argument", ("view:%s: a number of tokens belongs here, not a %s"):format(method, type(tokens)),
    "view")
end

function View:schedule(request, tokens)
  local hidden = of(self, "schedule")
  local handle = handle_of(hidden, request, "schedule")
  if tokens == nil then tokens = request.left_tokens end
  check_tokens(tokens, "schedule")
  return checked(hidden.schedule(hidden, handle, tokens))
end

function View:preempt(request)
  local hidden = of(self, "preempt")
  checked(hidden.preempt(hidden, handle_of(hidden, request, "preempt")))
end

function View:cached_tokens(request)
  local hidden = of(self, "cached_tokens")
  return checked(hidden.cached_tokens(hidden, handle_of(hidden, request, "cached_tokens")))
end

function View:blocks_needed(request)
  local hidden = of(self, "blocks_needed")
  return checked(hidden.blocks_needed(hidden, handle_of(hidden, request, "blocks_needed")))
end

-- (In a pipeline one whose step is under way has nothing left, and is passed over.)
function View:continue_running(most)
  of(self, "continue_running")
  if most ~= nil then check_tokens(most, "continue_running") end
  local preempted, last = false, self.num_running
  local i = 1
  while i <= last and self.tokens_left > 0 do
    local request = self:running(i)
    local tokens = math.min(request.left_tokens, self.tokens_left, most or math.huge)
    local done = tokens > 0 and self:schedule(request, tokens) or 1
    while done == 0 do
      local victim = self:running(last)
      last = last - 1
      if victim.left_tokens > 0 then
        self:preempt(victim)
        preempted = true
      end
      if last < i then break end
      done = self:schedule(request, tokens)
    end
    i = i + 1
  end
  return preempted
end

local shell = {
  __index = function(view, name)
    if View[name] then return View[name] end
    if is_number[name] then return of(view, name)[name] end
    core.raise("invalid_argument", ("view.%s does not exist%s"):format(tostring(name), core.did_you_mean(
      tostring(name), sorted_keys(View, is_number))), "view")
  end,
  __newindex = function(_, name)
    core.raise("invalid_argument", ("view.%s: the view is read-only"):format(tostring(name)), "view")
  end,
  __metatable = "tessera.SchedulerView",
}

core.document_object {
  name = "tessera.SchedulerRequest",
  doc = "A request as a scheduler in Lua sees it. Read-only, and good for one step: what is kept longer shows another "
    .. "request. What it will really generate is not among it.",
  fields = of_request,
  methods = {},
}
core.document_object {
  name = "tessera.SchedulerView",
  doc = "What a scheduler in Lua decides a step with. Calls are checked at once: what breaks the budget, the seats or "
    .. "a request's state is an error that names them.",
  fields = of_view,
  methods = {
    { "running", "(i: integer): tessera.SchedulerRequest?", "The i-th that runs, in order of admission, from 1" },
    { "waiting", "(i: integer): tessera.SchedulerRequest?", "The i-th that waits, in order of the queue, from 1" },
    { "schedule", "(request: tessera.SchedulerRequest, tokens: number?): number",
      "Puts it into the step, with a seat if it waits, and its cached prefix; tokens left out: all that it has left. "
      .. "Gives the tokens; 0, with nothing changed, where blocks are short" },
    { "continue_running", "(most: number?): boolean",
      "Those that run go on in their order, each with what it has left, at most `most` tokens. Where blocks are short "
      .. "those that came last give theirs back, at worst the one itself; says whether one did" },
    { "preempt", "(request: tessera.SchedulerRequest)", "Takes its blocks and puts it in front of the queue" },
    { "cached_tokens", "(request: tessera.SchedulerRequest): number", "That the prefix cache holds of a waiting one" },
    { "blocks_needed", "(request: tessera.SchedulerRequest): number", "Free blocks that go when it is admitted" },
  },
}

--- A view of the decision at that address.
return function(address)
  local view = setmetatable({}, shell)
  private[view] = ffi.cast(decision, address)
  return view
end
