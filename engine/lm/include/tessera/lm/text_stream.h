#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// The text of tokens as they come, in pieces of complete UTF-8: a character whose bytes are spread
/// over several tokens appears with the last of them. A token's text may depend on those before it
/// (SentencePiece drops the first space), so it is what a window of tokens gains by it.
class TextStream {
 public:
  /// @param prompt what the tokens follow
  TextStream(const Tokens& tokens, const std::vector<std::int32_t>& prompt);

  /// What became complete; "" where nothing did.
  std::string add(std::int32_t token);
  /// What is left at the end, with U+FFFD for what is no character.
  std::string finish();

 private:
  std::string gained() const;

  const Tokens& tokens_;
  std::vector<std::int32_t> window_;
  std::size_t shown_;  ///< tokens of the window whose text was given
};

}  // namespace tessera::lm
