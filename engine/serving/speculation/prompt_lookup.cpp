#include "tessera/serving/prompt_lookup.h"

#include <algorithm>
#include <vector>

#include "tessera/core/error.h"

namespace tessera::serving {

std::span<const std::int32_t> prompt_lookup(std::span<const std::int32_t> tokens,
                                            std::size_t min_tokens, std::size_t max_tokens,
                                            std::size_t num_drafts) {
  if (min_tokens < 1 || min_tokens > max_tokens) {
    refuse(ErrorCode::out_of_range, "prompt_lookup",
           "n-grams of {} to {} tokens; the shorter is at least 1 and no longer than the longer",
           min_tokens, max_tokens);
  }
  const std::size_t length = tokens.size();
  if (num_drafts == 0 || length <= min_tokens) return {};
  // From the back, the end of the text is a pattern of `longest` tokens at most, looked for in
  // what lies before it.
  const std::size_t longest = std::min(max_tokens, length - 1);
  const auto from_back = [&](std::size_t i) { return tokens[length - 1 - i]; };
  // [i]: tokens of the longest proper border of the pattern's first i + 1.
  std::vector<std::size_t> border(longest, 0);
  std::size_t matched = 0, best = 0, end = 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (matched == longest) matched = border[longest - 1];
    while (matched > 0 && from_back(matched) != from_back(i)) matched = border[matched - 1];
    if (from_back(matched) == from_back(i)) ++matched;
    if (i < longest) border[i] = matched;
    if (matched > 0 && matched >= best) {  // later from the back is earlier in the text
      best = matched;
      end = i;
    }
  }
  if (best < min_tokens) return {};
  const std::size_t first = length - 1 - end + best;
  return tokens.subspan(first, std::min(num_drafts, length - first));
}

}  // namespace tessera::serving
