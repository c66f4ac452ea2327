#pragma once

#include <memory>
#include <string>
#include <vector>

#include "regex.h"
#include "unicode.h"

namespace tessera::tokenizer {

/// Changes a text before it is cut. The names are those of Hugging Face's `tokenizers`.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(std::string& text) const = 0;
};
using Normalizers = std::vector<std::unique_ptr<const Normalizer>>;

/// One after the other. @throws as check_growth
void apply_all(const Normalizers& normalizers, std::string& text);

/// What a text of `size` bytes may become: 16 times as long and 64 KiB, where the longest known
/// normalisation of a character (NFKC of U+FDFA) makes 11 bytes of one. Replacements that a file
/// repeats would make gigabytes of a word.
/// @throws Error{out_of_range}
void check_growth(std::size_t size, std::size_t grown);

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(Form form) : form_(form) {}
  void apply(std::string& text) const override { text = normalised(text, form_); }

 private:
  Form form_;
};

class Lowercase : public Normalizer {
 public:
  void apply(std::string& text) const override { text = lower_case(text); }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(std::string& text) const override;

 private:
  bool left_, right_;
};

class StripAccents : public Normalizer {
 public:
  void apply(std::string& text) const override;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, text_);
  }

 private:
  std::string text_;
};

class Replace : public Normalizer {
 public:
  Replace(std::string text, std::string content)
      : text_(std::move(text)), content_(std::move(content)) {}
  void apply(std::string& text) const override;

 private:
  std::string text_, content_;
};

class ReplaceRegex : public Normalizer {
 public:
  ReplaceRegex(Regex regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)) {}
  void apply(std::string& text) const override;

 private:
  Regex regex_;
  std::string content_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(std::string& text) const override;
};

struct BertOptions {
  bool clean_text = true, handle_chinese_chars = true, strip_accents = true, lowercase = true;
};

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertOptions& options) : options_(options) {}
  void apply(std::string& text) const override;

 private:
  BertOptions options_;
};

}  // namespace tessera::tokenizer
