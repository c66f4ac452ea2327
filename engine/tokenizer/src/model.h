#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vocabulary.h"

namespace tessera::tokenizer {

/// Cuts a word, which is what a pre-tokenizer leaves, into tokens.
class Model {
 public:
  virtual ~Model() = default;

  /// Appends the ids of a word of well-formed UTF-8.
  /// @throws Error{invalid_argument} for a character without token and substitute
  virtual void encode(std::string_view word, std::vector<std::int32_t>& ids) const = 0;

  const Vocabulary& vocabulary() const { return *vocabulary_; }

 protected:
  explicit Model(std::shared_ptr<const Vocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)) {}

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
};

/// The ids of "<0x00>" to "<0xFF>"; kNoToken for those that are no tokens.
std::vector<std::int32_t> byte_tokens(const Vocabulary& vocabulary);

/// The byte of such a token, or -1.
int byte_of_token(std::string_view token);

/// "'ń' (U+0144) has no token, ..."
[[noreturn]] void refuse_character(std::string_view character, const std::string& where);

}  // namespace tessera::tokenizer
