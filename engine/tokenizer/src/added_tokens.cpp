#include "added_tokens.h"

#include <algorithm>
#include <utility>

#include "unicode.h"

namespace tessera::tokenizer {
namespace {

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  std::size_t at = previous_character(text, text.size());
  return is_word(next_character(text, at));
}

bool starts_with_word(std::string_view text) {
  std::size_t at = 0;
  return !text.empty() && is_word(next_character(text, at));
}

std::size_t before_blanks(std::string_view text, std::size_t at) {
  while (at > 0) {
    const std::size_t begin = previous_character(text, at);
    std::size_t next = begin;
    if (!is_whitespace(next_character(text, next))) break;
    at = begin;
  }
  return at;
}

std::size_t after_blanks(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_whitespace(next_character(text, next))) break;
    at = next;
  }
  return at;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), begins_(256) {
  std::vector<std::pair<std::string_view, std::int32_t>> texts;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    texts.emplace_back(tokens_[i].text, static_cast<std::int32_t>(i));
    begins_[static_cast<unsigned char>(tokens_[i].text.front())] = true;
  }
  trie_ = Trie(std::move(texts));
}

bool AddedTokenFinder::find(std::string_view text, std::size_t from, Trie::Match& match,
                            std::size_t& at) const {
  for (at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    bool found = false;
    trie_.prefixes(text.substr(at), [&](const Trie::Match& longer) {
      match = longer;
      found = true;
    });
    if (found) return true;
  }
  return false;
}

std::vector<Segment> AddedTokenFinder::split(std::string_view text) const {
  std::vector<Segment> segments;
  std::size_t done = 0;
  if (!trie_.empty()) {
    Trie::Match match{};
    std::size_t begin = 0;
    for (std::size_t from = 0; find(text, from, match, begin);) {
      std::size_t end = from = begin + match.length;
      const AddedToken& token = tokens_[static_cast<std::size_t>(match.value)];
      if (token.single_word &&
          (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
        continue;
      }
      if (token.lstrip) begin = std::max(before_blanks(text, begin), done);
      if (token.rstrip) end = after_blanks(text, end);
      if (done < begin) segments.push_back({done, begin, -1});
      segments.push_back({begin, end, token.id});
      done = end;
    }
  }
  if (done < text.size()) segments.push_back({done, text.size(), -1});
  return segments;
}

}  // namespace tessera::tokenizer
