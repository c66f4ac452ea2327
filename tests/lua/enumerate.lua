-- Every plan of the instances that support.tiny_instance writes: 4 layers, bitwidths 4 and 8, batch 4.

local M = {}

--- Devices in every order, every subset of them: { device names }.
function M.orders(types)
  local list = {}
  local left, order = {}, {}
  for t, item in ipairs(types) do left[t] = item.count end
  local function extend()
    if #order > 0 then list[#list + 1] = { unpack(order) } end
    for t, item in ipairs(types) do
      if left[t] > 0 then
        left[t] = left[t] - 1
        order[#order + 1] = item.name
        extend()
        order[#order] = nil
        left[t] = left[t] + 1
      end
    end
  end
  extend()
  return list
end

-- Calls visit(stages) for every way to run 4 layers of 4 or 8 bits on the devices of `order`, one layer or more each.
local function each_split(order, visit)
  local bits = {}
  local function split(first, stages)
    local k = #stages + 1
    if k > #order then return first == 5 and visit(stages) end
    for last = first, k == #order and 4 or 4 - (#order - k) do
      if k < #order or last == 4 then
        stages[k] = { device = order[k], bitwidths = { unpack(bits, first, last) } }
        split(last + 1, stages)
        stages[k] = nil
      end
    end
  end
  for code = 0, 15 do
    for i = 1, 4 do bits[i] = math.floor(code / 2 ^ (i - 1)) % 2 == 0 and 4 or 8 end
    split(1, {})
  end
end

--- Calls visit(plan, priced) for every plan on `order` that fits, with every pair of micro-batch sizes.
function M.plans(problem, order, visit)
  each_split(order, function(stages)
    for prefill = 1, 4 do
      for decode = prefill, 4 do
        local plan = { stages = stages, prefill_micro_batch_size = prefill, decode_micro_batch_size = decode }
        local priced = problem:evaluate(plan)
        if priced.fits then visit(plan, priced) end
      end
    end
  end)
end

return M
