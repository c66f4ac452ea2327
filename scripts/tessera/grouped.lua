--- What belongs together, in the order in which it comes first: lists of those items for which key_of(item) is the same
--- text, each with that text as its `key`.
return function(items, key_of)
  local groups, by_key = {}, {}
  for _, item in ipairs(items) do
    local key = key_of(item)
    local group = by_key[key]
    if not group then
      group = { key = key }
      by_key[key], groups[#groups + 1] = group, group
    end
    group[#group + 1] = item
  end
  return groups
end
