-- Means of a single repetition look like numbers, and tell nothing of the spread: what is said beside them.

--- Of rows of ts.repeated over this key: a sentence, or nil where all means rest on more than one repetition.
return function(list, over)
  local alone, most = 0, 0
  for _, row in ipairs(list) do
    alone = alone + (row.repetitions == 1 and 1 or 0)
    most = math.max(most, row.repetitions or 0)
  end
  if alone == 0 then return nil end
  if most == 1 then
    return ("one repetition alone: no mean has an interval, and no difference between two is known to be more than "
      .. "chance; give '%s' more values"):format(over)
  end
  return ("%d of %d means rest on one repetition and have no interval: give '%s' more values"):format(alone, #list,
    over)
end
