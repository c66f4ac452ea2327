-- A router to start from: copy this file into a folder `routers` of TESSERA_PATH (or `require` it), rename it, and
-- change `choose`. ts.deployment { router = "my_router", ... } then runs it.

local ts = require "tessera"

return ts.register_router {
  name = "my_router",
  doc = "The engine with the least to read and to decode",
  source = "", -- where it comes from
  prefixes = false, -- true: replicas have cached_tokens, the prompt tokens that their prefix cache holds

  -- Called for each request. A replica has waiting, running, pending_tokens, used_blocks, kv_blocks, seats and share;
  -- the request has request, prompt_tokens, max_tokens, priority and slo_class. Returns a position in replicas, from 1.
  choose = function(replicas)
    local best, least = 1, math.huge
    for i, replica in ipairs(replicas) do
      local tokens = replica.pending_tokens + replica.running
      if tokens < least then best, least = i, tokens end
    end
    return best
  end,
}
