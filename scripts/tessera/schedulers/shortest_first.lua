-- Shortest remaining prompt first: who has least to read gets a seat first, and decodes go before prompts.

local ts = require "tessera"

local order = {} -- kept from step to step, so that no table is made

return ts.register_scheduler {
  name = "shortest_first",
  doc = "Decodes first, then the prompts with the fewest tokens to read",
  options = {
    most_looked_at = { type = "integer", default = 64, min = 1, doc = "Requests of the queue that are compared" },
  },

  schedule = function(view, opt)
    if view:continue_running() then return end

    local count = math.min(view.num_waiting, opt.most_looked_at)
    for k = 1, count do order[k] = view:waiting(k) end
    while count > 0 do
      if view.tokens_left == 0 or view.seats_left == 0 then return end
      local at = 1
      for k = 2, count do
        if order[k].left_tokens < order[at].left_tokens then at = k end
      end
      local best = order[at]
      for k = at, count - 1 do order[k] = order[k + 1] end
      count = count - 1
      local tokens = math.min(best.left_tokens - view:cached_tokens(best), view.tokens_left)
      if view:schedule(best, tokens) == 0 then return end
    end
  end,
}
