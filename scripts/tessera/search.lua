-- The search object that heuristics work on. Moves are read in place: C++ prices them in blocks, and a move is a
-- read-only view of one record, good until the next step. `move:keep()` makes a copy that lasts.

local ffi = require "ffi"
local core = require "tessera.core"

-- The same record as tessera::solver::Move.
ffi.cdef [[
typedef struct {
  int32_t kind_index, from_stage, to_stage, first_layer, num_layers, from_bitwidth, to_bitwidth, other_layer;
  double objective_delta, prefill_delta_s, decode_delta_s, omega_delta, memory_delta_bytes;
  bool fits;
} tessera_move;
typedef struct { tessera_move record; } tessera_kept_move;
]]

local kinds = { [0] = "shift", "swap", "retype", "rule", "micro_batch", "order" }
local kept = ffi.typeof "const tessera_move"
local view = ffi.typeof "const tessera_move *"

local members = {
  kind = function(move) return kinds[move.kind_index] end,
  keep = function() return function(move) return kept(move) end end,
}
ffi.metatype("tessera_move", {
  __index = function(move, name)
    local member = members[name]
    if member then return member(move) end
    core.raise("invalid_argument", ("a move has no field '%s'%s"):format(tostring(name), core.did_you_mean(
      tostring(name), { "kind", "from_stage", "to_stage", "first_layer", "num_layers", "from_bitwidth", "to_bitwidth",
        "fits", "objective_delta", "prefill_delta_s", "decode_delta_s", "omega_delta", "memory_delta_bytes", "keep" })),
      "move")
  end,
  __newindex = function(_, name)
    core.raise("invalid_argument", ("move.%s: a move is read-only"):format(tostring(name)), "move")
  end,
  __tostring = function(m)
    return ("move: %s from stage %d to %d, objective %+.6g s%s"):format(kinds[m.kind_index], m.from_stage, m.to_stage,
      m.objective_delta, m.fits and "" or ", does not fit")
  end,
})

local Search = {}
Search.__index = Search

local function figures(move, method)
  if not (ffi.istype("tessera_move", move) or ffi.istype("const tessera_move *", move)) then
    core.raise("invalid_argument", ("search:%s: a move belongs here, not a %s"):format(method, type(move)), "search")
  end
  return move.kind_index, move.from_stage, move.to_stage, move.first_layer, move.num_layers, move.from_bitwidth,
    move.to_bitwidth, move.other_layer
end

local query_fields = { from = true, to = true, kinds = true }

--- Iterates over moves of the plan at hand, in a fixed order.
function Search:moves(query)
  for name in pairs(query or {}) do
    if not query_fields[name] then
      core.raise("invalid_argument", ("search:moves: unknown option '%s'%s"):format(tostring(name),
        core.did_you_mean(tostring(name), { "from", "to", "kinds" })), "search:moves")
    end
  end
  local state = self.state
  state:start(query and query.from, query and query.to, query and query.kinds)
  local block, count, i = nil, 0, 0
  return function()
    if i == count then
      local address
      address, count = state:next()
      if count == 0 then return nil end
      block, i = ffi.cast(view, address), 0
    end
    i = i + 1
    return block + (i - 1)
  end
end

function Search:apply(move) self.state:apply(figures(move, "apply")) end

--- The move priced from scratch, as a table.
function Search:evaluate(move)
  local fits, objective, prefill, decode, omega, memory = self.state:evaluate(figures(move, "evaluate"))
  return {
    fits = fits, objective_delta = objective, prefill_delta_s = prefill, decode_delta_s = decode,
    omega_delta = omega, memory_delta_bytes = memory,
  }
end

function Search:best() return self.state:best(self.planner) end

for _, name in ipairs { "undo", "perturb", "slowest_stage", "objective", "expired", "moves_made", "random" } do
  Search[name] = function(self, ...) return self.state[name](self.state, ...) end
end

local frozen = {
  __index = Search,
  __newindex = function(_, name)
    core.raise("invalid_argument", ("search.%s: the search object is read-only"):format(tostring(name)), "search")
  end,
  __tostring = function(self) return tostring(self.state) end,
}

--- A search object over the engine's state, in the name of a planner.
return function(state, planner)
  return setmetatable({ state = state, planner = planner }, frozen)
end
