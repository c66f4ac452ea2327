#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "normalizer.h"

namespace tessera::tokenizer {

/// Turns the spellings of tokens into text, which is all of them joined. The names are those of
/// Hugging Face's `tokenizers`.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};
using Decoders = std::vector<std::unique_ptr<const Decoder>>;

/// One after the other, and all joined. @throws as check_growth
std::string decoded(const Decoders& decoders, std::vector<std::string> tokens);

class ByteLevelDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override;
};

/// "<0xC3>" "<0xA9>" to "é"; a run of bytes that is not UTF-8 becomes as many U+FFFD.
class ByteFallback : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override;
};

class Fuse : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override;
};

/// Takes up to `start` and `stop` of a character off the ends of each token.
class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string character, std::size_t start, std::size_t stop)
      : character_(std::move(character)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& tokens) const override;

 private:
  std::string character_;
  std::size_t start_, stop_;
};

class ReplaceDecoder : public Decoder {
 public:
  explicit ReplaceDecoder(std::unique_ptr<const Normalizer> replace)
      : replace_(std::move(replace)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) replace_->apply(token);
  }

 private:
  std::unique_ptr<const Normalizer> replace_;
};

class MetaspaceDecoder : public Decoder {
 public:
  MetaspaceDecoder(std::string replacement, bool prepended)
      : replacement_(std::move(replacement)), prepended_(prepended) {}
  void apply(std::vector<std::string>& tokens) const override;

 private:
  std::string replacement_;
  bool prepended_;  // the first token's are not of the text
};

/// "</w>" at the end of a token to a blank, at the end of the last to nothing.
class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens) const override;

 private:
  std::string suffix_;
};

/// A tokenizer without a decoder: tokens with blanks between.
class JoinByBlanks : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override;
};

}  // namespace tessera::tokenizer
