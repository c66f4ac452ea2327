#include "pre_tokenizer.h"

#include <algorithm>

#include "byte_level.h"
#include "unicode.h"

namespace tessera::tokenizer {
namespace {

struct Part {
  Span span;
  bool matches = false;
};

// The whole of a word: what matches, and what lies between. Empty matches separate nothing.
std::vector<Part> parts_of(const std::vector<Span>& matches, std::size_t length, bool invert) {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (const Span& match : matches) {
    if (match.begin > done) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done < length) parts.push_back({{done, length}, invert});
  return parts;
}

std::vector<Part> merged_backwards(const std::vector<Part>& parts) {
  std::vector<Part> words;
  bool previous = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->matches && !previous && !words.empty()) {
      words.back().span.begin = part->span.begin;
    } else {
      words.push_back(*part);
    }
    previous = part->matches;
  }
  std::reverse(words.begin(), words.end());
  return words;
}

// The words that the parts become.
std::vector<Part> arranged(std::vector<Part> parts, Behavior behavior) {
  if (behavior == Behavior::isolated) return parts;
  if (behavior == Behavior::merged_with_next) return merged_backwards(parts);
  std::vector<Part> words;
  bool previous = false;
  for (const Part& part : parts) {
    const bool joins = behavior == Behavior::contiguous             ? part.matches == previous
                       : behavior == Behavior::merged_with_previous ? part.matches && !previous
                                                                    : false;
    if (joins && !words.empty()) {
      words.back().span.end = part.span.end;
    } else if (behavior != Behavior::removed || !part.matches) {
      words.push_back(part);
    }
    previous = part.matches;
  }
  return words;
}

// Replaces each word by what `find` makes of it.
template <typename Find>
void cut(Words& words, Behavior behavior, bool invert, const Find& find) {
  std::vector<Words::Word> cut_words;
  cut_words.reserve(words.words.size());
  for (const Words::Word& word : words.words) {
    const std::string_view text(words.text.data() + word.begin, word.end - word.begin);
    for (const Part& part : arranged(parts_of(find(text), text.size(), invert), behavior)) {
      if (part.span.begin == part.span.end) continue;
      cut_words.push_back({word.begin + part.span.begin, word.begin + part.span.end,
                           word.begins_text && part.span.begin == 0});
    }
  }
  words.words = std::move(cut_words);
}

std::vector<Span> occurrences(std::string_view text, const std::string& what) {
  std::vector<Span> found;
  if (what.empty()) return found;
  for (std::size_t at = text.find(what); at != std::string_view::npos;
       at = text.find(what, at + what.size())) {
    found.push_back({at, at + what.size()});
  }
  return found;
}

// Writes the text of all words anew, each by `add(out, word)`.
template <typename Add>
void rewrite_words(Words& words, const Add& add) {
  std::string out;
  out.reserve(words.text.size() + words.text.size() / 4 + 8);
  for (Words::Word& word : words.words) {
    const std::size_t begin = out.size();
    add(out, std::string_view(words.text).substr(word.begin, word.end - word.begin), word);
    word.begin = begin;
    word.end = out.size();
  }
  words.text = std::move(out);
}

}  // namespace

void Split::apply(Words& words) const {
  if (!regex_) {
    return cut(words, behavior_, invert_,
               [&](std::string_view text) { return occurrences(text, text_); });
  }
  Matcher matcher(*regex_, words.text.size());
  cut(words, behavior_, invert_,
      [&](std::string_view text) -> const std::vector<Span>& { return matcher.find_all(text); });
}

void SplitCharacters::apply(Words& words) const {
  std::vector<Span> found;
  cut(words, behavior_, false, [&](std::string_view text) -> const std::vector<Span>& {
    found.clear();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (matches_(next_character(text, at))) found.push_back({begin, at});
    }
    return found;
  });
}

ByteLevel::ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
  if (use_regex) {
    split_.emplace(Regex(kByteLevelExpression, "ByteLevel"), Behavior::isolated, false);
  }
}

void ByteLevel::apply(Words& words) const {
  if (add_prefix_space_) {
    rewrite_words(words, [](std::string& out, std::string_view text, const Words::Word&) {
      if (text.front() != ' ') out += ' ';
      out += text;
    });
  }
  if (split_) split_->apply(words);
  rewrite_words(words, [](std::string& out, std::string_view text, const Words::Word&) {
    append_byte_level(out, text);
  });
}

Metaspace::Metaspace(std::string replacement, PrependScheme scheme, bool split)
    : replacement_(std::move(replacement)), scheme_(scheme) {
  if (split) split_.emplace(replacement_, Behavior::merged_with_next, false);
}

void Metaspace::apply(Words& words) const {
  rewrite_words(words, [&](std::string& out, std::string_view text, const Words::Word& word) {
    const bool prepends =
        scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && word.begins_text);
    const bool has_one = text.front() == ' ' || text.substr(0, replacement_.size()) == replacement_;
    if (prepends && !has_one) out += replacement_;
    for (const char c : text) {
      if (c == ' ') {
        out += replacement_;
      } else {
        out += c;
      }
    }
  });
  if (split_) split_->apply(words);
}

}  // namespace tessera::tokenizer
