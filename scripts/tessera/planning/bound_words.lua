-- A bound on quality in words, and by which end of what is predicted it is kept:
-- "perplexity at most 1 % above 16 bits and accuracy at least 99 % of it, at the unfavourable end".

local ends = { mid = "by the middle guess", high = "at the unfavourable end" }

--- Of { max_perplexity_increase =, min_accuracy_recovery =, at = }, either or both of the first two.
return function(bound)
  local words = {}
  if bound.max_perplexity_increase then
    words[#words + 1] = ("perplexity at most %.3g %% above 16 bits"):format(100 * bound.max_perplexity_increase)
  end
  if bound.min_accuracy_recovery then
    words[#words + 1] = ("accuracy at least %.4g %% of %s"):format(100 * bound.min_accuracy_recovery,
      #words > 0 and "it" or "16 bits")
  end
  return ("%s, %s"):format(table.concat(words, " and "), ends[bound.at])
end
