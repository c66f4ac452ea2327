-- The search object that heuristics work on. Moves are read in place: C++ prices them in blocks, and a move is a
-- read-only view of one record, good until the next step. `move:keep()` makes a copy that lasts.

local ffi = require "ffi"
local core = require "tessera.core"
local host = require "tessera.host"

-- The same record as tessera::solver::Move. A second load of this file finds it declared.
if not pcall(ffi.typeof, "tessera_move") then
  ffi.cdef [[
  typedef struct {
    const int32_t kind_index, from_stage, to_stage, first_layer, num_layers, from_bitwidth, to_bitwidth, other_layer,
      pioneer_layers, pioneer_bitwidth;
    const double objective_delta, prefill_delta_s, decode_delta_s, omega_delta, memory_delta_bytes;
    const bool fits;
  } tessera_move;
  ]]
end

local kinds = { [0] = "shift", "swap", "retype", "rule", "micro_batch", "order" }
local fields = {
  "kind", "from_stage", "to_stage", "first_layer", "num_layers", "from_bitwidth", "to_bitwidth", "fits",
  "objective_delta", "prefill_delta_s", "decode_delta_s", "omega_delta", "memory_delta_bytes", "keep", "to_table",
}
local record = ffi.typeof "tessera_move"
local view = ffi.typeof "const tessera_move *"
local size = ffi.sizeof(record)

local function is_move(value) return ffi.istype(record, value) or ffi.istype(view, value) end

local function check_self(move, method)
  if not is_move(move) then
    core.raise("invalid_argument", ("move:%s: call it with a colon, on a move; not on a %s"):format(method,
      type(move)), "move")
  end
end

local function keep(move)
  check_self(move, "keep")
  local copy = record()
  ffi.copy(copy, move, size)
  return copy
end

local function to_table(move)
  check_self(move, "to_table")
  local t = {}
  for _, name in ipairs(fields) do
    if name ~= "keep" and name ~= "to_table" then t[name] = move[name] end
  end
  return t
end

-- A view is a pointer, and an index moves it anywhere in memory: a sandboxed script gets copies.
local lend = host.sandboxed and keep or function(move) return move end

local behaviour = {
  __index = function(move, name)
    if name == "kind" then return kinds[move.kind_index] end
    if name == "keep" then return keep end
    if name == "to_table" then return to_table end
    core.raise("invalid_argument", ("a move has no field '%s'%s"):format(tostring(name),
      core.did_you_mean(tostring(name), fields)), "move")
  end,
  __newindex = function(_, name)
    core.raise("invalid_argument", ("move.%s: a move is read-only; search:apply makes the step"):format(
      tostring(name)), "move")
  end,
  __tostring = function(m)
    return ("move: %s from stage %d to %d, objective %+.6g s%s"):format(kinds[m.kind_index], m.from_stage,
      m.to_stage, m.objective_delta, m.fits and "" or ", does not fit")
  end,
}
pcall(ffi.metatype, record, behaviour) -- a type gets its metatable once; a second load of this file keeps the first

local M = {}
local private = setmetatable({}, { __mode = "k" })
local Search = {}

local function of(search, method)
  local hidden = private[search]
  if not hidden then
    core.raise("invalid_argument", ("search:%s: call it with a colon, on the search that improve was given"):format(
      method), "search")
  end
  return hidden
end

local function figures(move, method)
  if not is_move(move) then
    core.raise("invalid_argument", ("search:%s: a move belongs here, not a %s"):format(method, type(move)), "search")
  end
  return move.kind_index, move.from_stage, move.to_stage, move.first_layer, move.num_layers, move.from_bitwidth,
    move.to_bitwidth, move.other_layer, move.pioneer_layers, move.pioneer_bitwidth
end

-- from, to and kinds of a query, as the engine takes them, and whether only moves that fit are asked for.
local function asked(query, method, known)
  local where = "search:" .. method
  if query == nil then return end
  if type(query) ~= "table" then
    core.raise("invalid_argument", ("%s: a table { %s = } belongs here, not a %s"):format(where,
      table.concat(known, " =, "), type(query)), where)
  end
  for name in pairs(query) do
    local found = false
    for _, field in ipairs(known) do found = found or field == name end
    if not found then
      core.raise("invalid_argument", ("%s: unknown option '%s'%s"):format(where, tostring(name),
        core.did_you_mean(tostring(name), known)), where)
    end
  end
  if query.fits ~= nil and type(query.fits) ~= "boolean" then
    core.raise("invalid_argument", ("%s.fits: true or false belongs here, not a %s"):format(where,
      type(query.fits)), where .. ".fits")
  end
  return query.from, query.to, type(query.kinds) == "string" and { query.kinds } or query.kinds, query.fits
end

local of_moves = { "from", "kinds", "to" }
local of_random_move = { "fits", "from", "kinds", "to" }

--- Iterates over moves of the plan at hand, in a fixed order.
function Search:moves(query)
  local hidden = of(self, "moves")
  local state = hidden.state
  state:start(asked(query, "moves", of_moves))
  hidden.round = hidden.round + 1
  local round, block, count, i = hidden.round, nil, 0, 0
  return function()
    if hidden.round ~= round then
      core.raise("invalid_argument", "search:moves: the plan changed, or another search:moves began; break out of the "
        .. "loop and start it anew", "search:moves")
    end
    if i == count then
      local address
      address, count = state:next()
      if count == 0 then return nil end
      block, i = ffi.cast(view, address), 0
    end
    i = i + 1
    return lend(block + (i - 1))
  end
end

--- How many moves search:moves would hand out.
function Search:count(query)
  return of(self, "count").state:count(asked(query, "count", of_moves))
end

--- A copy of one of the moves that search:moves would hand out, each as likely as the others; nil where there is none.
function Search:random_move(query)
  local address = of(self, "random_move").state:random_move(asked(query, "random_move", of_random_move))
  return address and keep(ffi.cast(view, address)) or nil
end

--- Makes the step. The engine checks it again, and prices it anew.
function Search:apply(move)
  local hidden = of(self, "apply")
  hidden.state:apply(figures(move, "apply"))
  hidden.round = hidden.round + 1
end

--- Takes the last step back; false where there is none.
function Search:undo()
  local hidden = of(self, "undo")
  hidden.round = hidden.round + 1
  return hidden.state:undo()
end

--- Random steps that fit, about `strength` times the number of layers.
function Search:perturb(strength)
  local hidden = of(self, "perturb")
  hidden.round = hidden.round + 1
  return hidden.state:perturb(strength)
end

--- The move priced from scratch, as a table.
function Search:evaluate(move)
  local fits, objective, prefill, decode, omega, memory = of(self, "evaluate").state:evaluate(
    figures(move, "evaluate"))
  return {
    fits = fits, objective_delta = objective, prefill_delta_s = prefill, decode_delta_s = decode,
    omega_delta = omega, memory_delta_bytes = memory,
  }
end

--- The best plan met so far.
function Search:best() return of(self, "best").state:plan() end

for _, name in ipairs {
  "slowest_stage", "objective", "omega", "stages", "micro_batch_sizes", "expired", "moves_made", "random",
} do
  Search[name] = function(self)
    local state = of(self, name).state
    return state[name](state)
  end
end

local shell = {
  __index = function(_, name)
    local method = Search[name]
    if method then return method end
    core.raise("invalid_argument", ("search:%s does not exist%s"):format(tostring(name), core.did_you_mean(
      tostring(name), require "tessera.sorted_keys"(Search))), "search")
  end,
  __newindex = function(_, name)
    core.raise("invalid_argument", ("search.%s: the search object is read-only"):format(tostring(name)), "search")
  end,
  __tostring = function(self) return tostring(of(self, "tostring").state) end,
  __metatable = "tessera.Search",
}

core.document_object {
  name = "tessera.Move", doc = "A small change of a plan, priced. Read-only; valid until the next step of its search.",
  fields = {
    { "kind", "string", "shift: the num_layers layers from first_layer on, next to a boundary, go to the "
      .. "neighbouring stage with their bitwidths. retype: layer first_layer becomes to_bitwidth. swap: two layers, of "
      .. "one stage or of two, trade bitwidths. rule: bitwidth transfer (Algorithm 2 of LLM-PQ): num_layers layers of "
      .. "from_bitwidth leave a slow stage for any other, which gives layers of to_bitwidth back, or narrows its own "
      .. "to make room. micro_batch: num_layers is the new size, of prefill where first_layer is 0, of decode where it "
      .. "is 1. order: two stages trade devices" },
    { "from_stage", "integer", "Stage that gives layers (0-based)" },
    { "to_stage", "integer", "Stage that takes layers (0-based)" },
    { "first_layer", "integer", "First layer it concerns (0-based)" },
    { "num_layers", "integer", "Layers it concerns; of micro_batch the new size (requests)" },
    { "from_bitwidth", "integer", "Of the layers before (bits)" },
    { "to_bitwidth", "integer", "Of the layers after (bits)" },
    { "fits", "boolean", "Every memory limit and the quality floor hold afterwards" },
    { "objective_delta", "number", "Change of what the problem minimises (s); negative is better" },
    { "prefill_delta_s", "number", "Change of the prefill's share of the latency (s)" },
    { "decode_delta_s", "number", "Change of the decode's share of the latency (s)" },
    { "omega_delta", "number", "Change of omega, in the units of the problem" },
    { "memory_delta_bytes", "number", "Change of the memory in use (bytes)" },
  },
  methods = {
    { "keep", "(): tessera.Move", "A copy that lasts beyond the next step" },
    { "to_table", "(): table", "Its fields as a table" },
  },
}
core.document_object {
  name = "tessera.Search", doc = "What a heuristic is given: a plan that fits, and the moves from it.",
  fields = {},
  methods = {
    { "moves", "(query: { from: integer?, to: integer?, kinds: string|string[]|nil }?): fun(): tessera.Move?",
      "Iterates over moves of the plan at hand, in a fixed order; kinds: see tessera.Move. Moves that do not fit are "
      .. "among them, except rules" },
    { "random_move",
      "(query: { from: integer?, to: integer?, kinds: string|string[]|nil, fits: boolean? }?): tessera.Move?",
      "A copy of one of those moves, each as likely as the others; with fits = true of those that fit; nil where there "
      .. "is none. The others are not priced, so a draw is cheap; rules alone have to be, once for each step" },
    { "count", "(query: { from: integer?, to: integer?, kinds: string|string[]|nil }?): integer",
      "How many moves that is" },
    { "stages", "(): table[]", "The plan at hand: for each stage device, first_layer (0-based), num_layers, bitwidths "
      .. "(a list, one per layer), prefill_s, decode_s (one micro-batch), memory_bytes, memory_left_bytes" },
    { "micro_batch_sizes", "(): integer, integer", "Of the plan at hand: prefill, decode (requests)" },
    { "omega", "(): number", "Of the plan at hand, in the units that theta multiplies" },
    { "apply", "(move: tessera.Move)", "Makes the step; the engine checks it again and prices it anew" },
    { "undo", "(): boolean", "Takes the last step back; false where there is none" },
    { "evaluate", "(move: tessera.Move): table", "The move priced from scratch" },
    { "perturb", "(strength: number)",
      "Random steps that fit, about strength times the number of layers; strength in [0, 1]" },
    { "slowest_stage", "(): integer", "The stage that weighs most in the objective (0-based)" },
    { "objective", "(): number", "Of the plan at hand (s)" },
    { "best", "(): tessera.Plan", "The best plan met so far" },
    { "expired", "(): boolean", "Whether the time limit has passed" },
    { "moves_made", "(): integer", "Steps made so far" },
    { "random", "(): number", "In [0, 1), from the plan's seed" },
  },
}

--- A search object over the engine's state.
function M.new(state)
  local search = setmetatable({}, shell)
  private[search] = { state = state, round = 0 }
  return search
end

--- The engine's state behind a search object.
function M.state(search) return of(search, "improve").state end

return M
