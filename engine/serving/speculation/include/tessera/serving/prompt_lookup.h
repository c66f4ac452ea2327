#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::serving {

/// Drafts from the text itself (vLLM's method "ngram"; prompt lookup decoding): the longest n-gram
/// of `min_tokens` to `max_tokens` that ends `tokens` and stands earlier in it too, at its earliest
/// place, and up to `num_drafts` tokens that follow it there. The two may overlap. Empty where
/// there is none.
///
/// The drafts lie in `tokens`. O(tokens), whatever the lengths (Knuth, Morris and Pratt, 1977).
/// @throws Error{out_of_range} unless 1 <= min_tokens <= max_tokens
std::span<const std::int32_t> prompt_lookup(std::span<const std::int32_t> tokens,
                                            std::size_t min_tokens, std::size_t max_tokens,
                                            std::size_t num_drafts);

}  // namespace tessera::serving
