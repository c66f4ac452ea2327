#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "added_tokens.h"
#include "decoder.h"
#include "model.h"
#include "normalizer.h"
#include "pre_tokenizer.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera::tokenizer {

/// What a tokenizer of the Hugging Face kind consists of, in the order in which a text meets it.
struct Parts {
  std::string path;  ///< of the file, named in errors
  std::vector<AddedToken> added_tokens;
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  std::unique_ptr<const Model> model;
  std::vector<std::int32_t> before, after;  ///< special tokens around a text
  Decoders decoders;                        ///< none: the tokens as they are
  std::optional<std::int32_t> bos, eos;
  std::vector<std::int32_t> stops = {};
};

class Pipeline : public Tokenizer {
 public:
  /// @throws Error{invalid_argument} for parts that contradict each other
  explicit Pipeline(Parts parts);

  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const override;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const override;

 private:
  class Encoding;
  static Tokens tokens_of(const Parts& parts);

  Parts parts_;
  AddedTokenFinder in_text_, in_normalised_;
};

}  // namespace tessera::tokenizer
