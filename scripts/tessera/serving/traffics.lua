-- The traffic of a search: the same for all candidates, with as many requests as a run of so many engines needs.

local serving = require "tessera.serving"
local core = require "tessera.core"

local M = {}

local grain = 500 -- requests, so that searches share traffic

-- Options of traffic whose requests share tokens.
local sharing = { "prefix_groups", "prefix_tokens", "sessions", "trace", "n" }

--- { rate_per_s, lengths = { prompt_tokens, output_tokens }, shares, of = function(num_engines, least)
--- return traffic end, sized }; shares: whether requests may find each other's tokens in a prefix cache; sized: whether
--- there are as many requests as a run needs: those of an engine for each, and `least` at least (default: 0).
function M.new(given, num_requests, path)
  if type(given) ~= "table" then
    local traffic = given
    return {
      rate_per_s = traffic.rate_per_s, shares = true, of = function() return traffic end,
      lengths = { prompt_tokens = traffic.mean_prompt_tokens, output_tokens = traffic.mean_output_tokens },
    }
  end
  if given.arrivals == "closed" or given.concurrency then
    core.refuse(path, "a closed loop has no rate; give open arrivals")
  end
  local options = {}
  for name, value in pairs(given) do options[name] = value end
  local sized = not (given.num_requests or given.duration_s or given.trace)
  options.rate_per_s = given.rate_per_s or not given.trace and 1 or nil
  local made = {}
  local self = {
    rate_per_s = given.rate_per_s,
    sized = sized,
    of = function(num_engines, least)
      local count = 0
      if sized then count = math.max(math.ceil(num_requests * num_engines), grain * math.ceil((least or 0) / grain)) end
      if not made[count] then
        if sized then options.num_requests = count end
        made[count] = serving.traffic(options)
      end
      return made[count]
    end,
  }
  for _, name in ipairs(sharing) do self.shares = self.shares or given[name] ~= nil end
  local one = self.of(1)
  if given.trace then self.rate_per_s = one.rate_per_s end
  self.lengths = { prompt_tokens = one.mean_prompt_tokens, output_tokens = one.mean_output_tokens }
  return self
end

return M
