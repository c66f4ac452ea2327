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

  -- Called once per step. `view` has
  --   now_s free_blocks tokens_left seats_left block_size num_running num_waiting
  --   running(i) waiting(i)          requests from 1 on, as of the start of the step; good for this step only
  --   schedule(request, tokens)      into the step; 0 where blocks are short, and then nothing has changed
  --   preempt(request) cached_tokens(request) blocks_needed(request)
  -- a request has
  --   request arrival_s prompt_tokens max_tokens known_tokens computed_tokens generated_tokens left_tokens
  --   scheduled_tokens num_blocks priority slo_class num_preemptions is_running
  -- What breaks the budget, the seats or a request's state is an error. `every_step = true` beside `schedule` asks for
  -- every step; without it, stretches in which all decode are decided once.
  schedule = function(view, opt)
    local most = opt.threshold > 0 and opt.threshold or math.huge
    local preempted, last = false, view.num_running
    local i = 1
    while i <= last and view.tokens_left > 0 do
      local request = view:running(i)
      local tokens = math.min(request.left_tokens, view.tokens_left, most)
      -- Where blocks are short those that came last give theirs back, at worst this one. (In a pipeline one whose step
      -- is under way has nothing left, and is passed over.)
      local done = tokens > 0 and view:schedule(request, tokens) or 1
      while done == 0 do
        local victim = view:running(last)
        last = last - 1
        if victim.left_tokens > 0 then
          view:preempt(victim)
          preempted = true
        end
        if last < i then break end
        done = view:schedule(request, tokens)
      end
      i = i + 1
    end
    if preempted then return end
    for k = 1, view.num_waiting do
      if view.tokens_left == 0 or view.seats_left == 0 then return end
      local request = view:waiting(k)
      local tokens = math.min(request.left_tokens - view:cached_tokens(request), view.tokens_left, most)
      if view:schedule(request, tokens) == 0 then return end
    end
  end,
}
