-- Student's t distribution with a whole number of degrees of freedom.

local M = {}

--- P(|T| <= t), t >= 0: the finite sums 26.7.3 and 26.7.4 of Abramowitz and Stegun (1964).
function M.probability_within(t, degrees)
  local angle = math.atan(t / math.sqrt(degrees))
  local cosine, sine = math.cos(angle), math.sin(angle)
  local is_odd = degrees % 2 == 1
  local sum, term = 0, is_odd and cosine or 1
  for k = is_odd and 1 or 0, degrees - 2, 2 do
    sum = sum + term
    term = term * (k + 1) / (k + 2) * cosine ^ 2
  end
  return is_odd and 2 / math.pi * (angle + sine * sum) or sine * sum
end

--- The t within which |T| stays with this probability in (0, 1), by bisection.
function M.within(probability, degrees)
  local low, high = 0, 1
  while M.probability_within(high, degrees) < probability do high = 2 * high end
  for _ = 1, 60 do
    local middle = (low + high) / 2
    if M.probability_within(middle, degrees) < probability then low = middle else high = middle end
  end
  return high
end

--- The mean of numbers, and half of the interval in which their population's lies with this probability (0.95 for
--- 95 %); of one number no half.
function M.mean_and_half(values, probability)
  local n, sum, squares = #values, 0, 0
  for _, value in ipairs(values) do sum = sum + value end
  local mean = sum / n
  if n == 1 then return mean, nil end
  for _, value in ipairs(values) do squares = squares + (value - mean) ^ 2 end
  return mean, M.within(probability, n - 1) * math.sqrt(squares / (n - 1) / n)
end

return M
