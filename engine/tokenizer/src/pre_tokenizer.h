#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "regex.h"

namespace tessera::tokenizer {

/// A text cut into words.
struct Words {
  struct Word {
    std::size_t begin = 0, end = 0;  // in `text`, not empty
    bool begins_text = false;        // begins with the first character that the user gave
  };
  std::string text;
  std::vector<Word> words;
};

/// Cuts words further. The names are those of Hugging Face's `tokenizers`.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Words& words) const = 0;
};
using PreTokenizers = std::vector<std::unique_ptr<const PreTokenizer>>;  // one after the other

/// What becomes of the places at which a word is cut.
enum class Behavior { removed, isolated, contiguous, merged_with_previous, merged_with_next };

/// Cuts where an expression or a text matches; with `invert` everywhere else.
class Split : public PreTokenizer {
 public:
  Split(Regex regex, Behavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}
  Split(std::string text, Behavior behavior, bool invert)
      : text_(std::move(text)), behavior_(behavior), invert_(invert) {}
  void apply(Words& words) const override;

 private:
  std::optional<Regex> regex_;
  std::string text_;
  Behavior behavior_;
  bool invert_;
};

/// Cuts at the characters of a class.
class SplitCharacters : public PreTokenizer {
 public:
  SplitCharacters(bool (*matches)(char32_t), Behavior behavior)
      : matches_(matches), behavior_(behavior) {}
  void apply(Words& words) const override;

 private:
  bool (*matches_)(char32_t);
  Behavior behavior_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex);
  void apply(Words& words) const override;

 private:
  bool add_prefix_space_;
  std::optional<Split> split_;
};

enum class PrependScheme { always, first, never };

class Metaspace : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split);
  void apply(Words& words) const override;

 private:
  std::string replacement_;
  PrependScheme scheme_;
  std::optional<Split> split_;
};

}  // namespace tessera::tokenizer
