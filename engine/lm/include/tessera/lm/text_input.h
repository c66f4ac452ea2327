#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// What a measurement runs: a text, or the tokens of one.
struct TextInput {
  std::string name = "text";            ///< for messages and sources: a file's name
  std::string text;                     ///< encoded once, whole
  std::vector<std::int32_t> token_ids;  ///< in place of `text`
  bool special = true;  ///< with what the tokenizer puts around a text: a first token, ...
};

/// @throws Error{invalid_argument} for nothing or both, Error{out_of_range} for a token outside of
/// the vocabulary, and what the tokenizer throws
std::vector<std::int32_t> tokens_of(const TextInput& input, const LanguageModel& model);

}  // namespace tessera::lm
