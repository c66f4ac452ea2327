#include "unigram.h"

#include <algorithm>
#include <utility>

#include "tessera/core/error.h"
#include "unicode.h"

namespace tessera::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10;  // below the score of the least likely token
constexpr std::size_t kNowhere = ~std::size_t{0};

}  // namespace

// The best way to the end of a token.
struct Unigram::Step {
  double score = 0;
  std::size_t begin = kNowhere;  // of that token
  bool unknown = false;
};

Unigram::Unigram(std::shared_ptr<const Vocabulary> tokens, std::vector<double> scores,
                 std::int32_t unknown, bool byte_fallback, std::string where)
    : Model(std::move(tokens)),
      scores_(std::move(scores)),
      unknown_(unknown),
      where_(std::move(where)) {
  std::vector<std::pair<std::string_view, std::int32_t>> texts;
  for (std::size_t id = 0; id < vocabulary().size(); ++id) {
    const std::string& text = vocabulary().texts()[id];
    if (!text.empty()) texts.emplace_back(text, static_cast<std::int32_t>(id));
  }
  trie_ = Trie(std::move(texts));
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  if (byte_fallback) bytes_ = byte_tokens(vocabulary());
}

void Unigram::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::vector<Step> ends(word.size() + 1);
  const auto reach = [&](std::size_t begin, std::size_t end, double score, std::int32_t id) {
    Step& step = ends[end];
    const double total = ends[begin].score + score;
    if (step.begin == kNowhere || total > step.score) step = {total, begin, id == unknown_};
  };
  for (std::size_t at = 0; at < word.size();) {
    std::size_t next = at;
    next_character(word, next);
    bool has_single = false;
    trie_.prefixes(word.substr(at), [&](const Trie::Match& match) {
      reach(at, at + match.length, scores_[static_cast<std::size_t>(match.value)], match.value);
      has_single |= match.length == next - at;
    });
    if (!has_single) {
      if (unknown_ == kNoToken) refuse_character(word.substr(at, next - at), where_);
      reach(at, next, unknown_score_, unknown_);
    }
    at = next;
  }
  // Backwards; unknown pieces in a row become one.
  std::vector<std::string_view> pieces;
  bool fused = false;
  for (std::size_t end = word.size(); end > 0; end = ends[end].begin) {
    const std::size_t begin = ends[end].begin;
    if (ends[end].unknown && fused) {
      pieces.back() = word.substr(begin, pieces.back().size() + end - begin);
    } else {
      pieces.push_back(word.substr(begin, end - begin));
    }
    fused = ends[end].unknown;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) add(*piece, ids);
}

void Unigram::add(std::string_view piece, std::vector<std::int32_t>& ids) const {
  const std::int32_t id = vocabulary().find(piece);
  if (id != kNoToken) {
    ids.push_back(id);
    return;
  }
  const std::size_t before = ids.size();
  if (!bytes_.empty()) {
    for (const char byte : piece) {
      const std::int32_t token = bytes_[static_cast<unsigned char>(byte)];
      if (token == kNoToken) break;
      ids.push_back(token);
    }
    if (ids.size() == before + piece.size()) return;
    ids.resize(before);
  }
  ids.push_back(unknown_);
}

}  // namespace tessera::tokenizer
