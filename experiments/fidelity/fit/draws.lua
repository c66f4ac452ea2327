-- `count` of the numbers 1 .. n as a set, the same for the same seed.
--
-- local drawn = require "fidelity.fit.draws"; drawn(1000, 20, 11)

return function(n, count, seed)
  local chosen, found, state = {}, 0, seed
  while found < count do
    state = (state * 16807) % 2147483647 -- Park and Miller's generator: the same everywhere
    local i = 1 + state % n
    if not chosen[i] then chosen[i], found = true, found + 1 end
  end
  return chosen
end
