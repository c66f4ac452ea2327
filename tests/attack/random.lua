-- A generator of its own, the same on every machine: mulberry32, seeded by seed and case.

local bit = require "bit"
local band, bxor, rshift, tobit = bit.band, bit.bxor, bit.rshift, bit.tobit

-- The low 32 bits of a product.
local function multiply(a, b)
  b = b % 2 ^ 32
  return tobit(rshift(a, 16) * b % 65536 * 65536 + band(a, 65535) * b)
end

local function scrambled(state)
  local t = multiply(bxor(state, rshift(state, 15)), bit.bor(state, 1))
  t = bxor(t, tobit(t + multiply(bxor(t, rshift(t, 7)), bit.bor(t, 61))))
  return bxor(t, rshift(t, 14))
end

local Random = {}
Random.__index = Random

--- A whole number in [0, n).
function Random:below(n)
  self.state = tobit(self.state + 0x6D2B79F5)
  return math.floor(scrambled(self.state) % 2 ^ 32 / 2 ^ 32 * n)
end

--- One item of a list.
function Random:pick(list) return list[1 + self:below(#list)] end

--- True once in n times.
function Random:once_in(n) return self:below(n) == 0 end

--- The generator of one case: each can be run again without those before it.
return function(seed, case)
  local state = scrambled(tobit(case)) + scrambled(bxor(tobit(seed), 0x5bd1e995))
  return setmetatable({ state = tobit(state) }, Random)
end
