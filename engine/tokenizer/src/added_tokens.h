#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trie.h"

namespace tessera::tokenizer {

/// A token that is found in the text before anything else looks at it.
struct AddedToken {
  std::int32_t id = 0;
  std::string text;
  bool single_word = false;  ///< only where no word character is beside it
  bool lstrip = false;       ///< takes the blanks before it
  bool rstrip = false;       ///< and after it
  bool normalized = false;   ///< found after normalisation, by its own normalised text
  bool special = false;      ///< left out where special tokens are skipped
};

/// A piece of text, or a token that was found in it.
struct Segment {
  std::size_t begin = 0, end = 0;
  std::int32_t id = -1;  ///< of the token; -1 for text
};

/// Finds added tokens: leftmost first, of several at one place the longest.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  /// The text in pieces, in order. Those that are text are not empty.
  std::vector<Segment> split(std::string_view text) const;

 private:
  bool find(std::string_view text, std::size_t from, Trie::Match& match, std::size_t& at) const;

  std::vector<AddedToken> tokens_;
  Trie trie_;
  std::vector<bool> begins_;  // by byte
};

}  // namespace tessera::tokenizer
