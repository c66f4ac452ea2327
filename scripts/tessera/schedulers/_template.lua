-- A scheduler to start from: copy this file into a folder `schedulers` of TESSERA_PATH (or `require` it), rename it,
-- and change `schedule`. ts.engine { scheduler = "my_scheduler" } then runs it. As it stands it is vLLM V1's rule,
-- first come, first served.

local ts = require "tessera"

return ts.register_scheduler {
  name = "my_scheduler",
  doc = "Who runs goes on, then the queue in its order, within one budget of tokens",
  source = "", -- where it comes from
  options = { -- each a name, type (number, integer, boolean, string), default, range and doc
    threshold = { type = "integer", default = 0, min = 0, doc = "Tokens of one request per step at most; 0: no limit" },
  },

  -- Called once per step. `view` shows who runs and waits, what is left of the budget, the seats and the blocks, and
  -- puts requests into the step: `tessera help tessera.SchedulerView`, and of a request, tessera.SchedulerRequest.
  -- What breaks the budget, the seats or a request's state is an error. `every_step = true` beside `schedule` asks for
  -- every step; without it, stretches in which all decode are decided once.
  schedule = function(view, opt)
    local most = opt.threshold > 0 and opt.threshold or math.huge
    -- Those that run go on. Where blocks are short those that came last give theirs back, and nobody joins.
    if view:continue_running(most) then return end
    for k = 1, view.num_waiting do
      if view.tokens_left == 0 or view.seats_left == 0 then return end
      local request = view:waiting(k)
      local tokens = math.min(request.left_tokens - view:cached_tokens(request), view.tokens_left, most)
      if view:schedule(request, tokens) == 0 then return end
    end
  end,
}
