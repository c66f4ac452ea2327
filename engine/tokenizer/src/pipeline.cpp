#include "pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "unicode.h"

namespace tessera::tokenizer {
namespace {

constexpr std::size_t kLongestCached = 128;  // bytes; longer words hardly come twice

std::vector<AddedToken> of_kind(const std::vector<AddedToken>& all, bool normalized,
                                const Normalizers& normalizers) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : all) {
    if (token.normalized != normalized) continue;
    if (normalized) apply_all(normalizers, token.text);
    const auto same = [&](const AddedToken& other) { return other.text == token.text; };
    if (token.text.empty() || std::any_of(tokens.begin(), tokens.end(), same)) continue;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

// One call of `encode`: every word is cut once.
class Pipeline::Encoding {
 public:
  explicit Encoding(const Pipeline& pipeline) : parts_(pipeline.parts_), pipeline_(pipeline) {}

  void add_text(std::string_view text) {
    for (const Segment& segment : pipeline_.in_text_.split(text)) {
      const std::string_view part = text.substr(segment.begin, segment.end - segment.begin);
      if (segment.id >= 0) {
        ids_.push_back(segment.id);
      } else {
        add_normalised(std::string(part), segment.begin == 0);
      }
    }
  }

  std::vector<std::int32_t> take() { return std::move(ids_); }
  std::vector<std::int32_t>& ids() { return ids_; }

 private:
  struct Cached {
    std::size_t begin, size;
  };

  void add_normalised(std::string text, bool begins_text) {
    apply_all(parts_.normalizers, text);
    for (const Segment& segment : pipeline_.in_normalised_.split(text)) {
      if (segment.id >= 0) {
        ids_.push_back(segment.id);
        continue;
      }
      Words words{text.substr(segment.begin, segment.end - segment.begin), {}};
      words.words = {{0, words.text.size(), begins_text && segment.begin == 0}};
      for (const auto& pre_tokenizer : parts_.pre_tokenizers) pre_tokenizer->apply(words);
      add_words(std::move(words));
    }
  }

  void add_words(Words words) {
    texts_.push_back(std::move(words.text));  // the cache's keys lie in it
    const std::string_view text = texts_.back();
    for (const Words::Word& word : words.words) {
      add_word(text.substr(word.begin, word.end - word.begin));
    }
  }

  void add_word(std::string_view word) {
    if (word.size() > kLongestCached) return parts_.model->encode(word, ids_);
    const auto [known, fresh] = cache_.try_emplace(word);
    if (fresh) {
      const std::size_t begin = ids_.size();
      parts_.model->encode(word, ids_);
      known->second = {begin, ids_.size() - begin};
      return;
    }
    const Cached found = known->second;
    for (std::size_t i = 0; i < found.size; ++i) ids_.push_back(ids_[found.begin + i]);
  }

  const Parts& parts_;
  const Pipeline& pipeline_;
  std::vector<std::int32_t> ids_;
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, Cached> cache_;  // where in ids_ a word has been cut
};

Tokenizer::Tokens Pipeline::tokens_of(const Parts& parts) {
  const Vocabulary& vocabulary = parts.model->vocabulary();
  Tokens tokens{vocabulary.texts(), {}, parts.bos, parts.eos, parts.stops, parts.path};
  for (const AddedToken& added : parts.added_tokens) {
    const auto id = static_cast<std::size_t>(added.id);
    const auto limit = static_cast<std::size_t>(kMaxHoles) + 2 * vocabulary.size();
    if (added.id < 0 || id > limit) {
      refuse(parts.path, "added_tokens: {} has the id {}, and the vocabulary {} tokens",
             quote(added.text), added.id, vocabulary.size());
    }
    if (id >= tokens.texts.size()) tokens.texts.resize(id + 1);
    const std::int32_t in_model = vocabulary.find(added.text);
    const bool taken = !tokens.texts[id].empty() && tokens.texts[id] != added.text;
    if ((in_model != kNoToken && in_model != added.id) || taken) {
      refuse(parts.path, "added_tokens: {} has the id {}, {}", quote(added.text), added.id,
             taken ? "which is that of " + quote(tokens.texts[id])
                   : fmt::format("and {} in the vocabulary", in_model));
    }
    tokens.texts[id] = added.text;
  }
  tokens.special.resize(tokens.texts.size());
  for (const AddedToken& added : parts.added_tokens) {
    if (added.special) tokens.special[static_cast<std::size_t>(added.id)] = true;
  }
  return tokens;
}

Pipeline::Pipeline(Parts parts)
    : Tokenizer(tokens_of(parts)),
      parts_(std::move(parts)),
      in_text_(of_kind(parts_.added_tokens, false, parts_.normalizers)),
      in_normalised_(of_kind(parts_.added_tokens, true, parts_.normalizers)) {
  check_ids(parts_.before);
  check_ids(parts_.after);
}

std::vector<std::int32_t> Pipeline::encode(std::string_view text, bool add_special_tokens) const {
  Encoding encoding(*this);
  std::vector<std::int32_t>& ids = encoding.ids();
  if (add_special_tokens) ids.insert(ids.end(), parts_.before.begin(), parts_.before.end());
  if (is_utf8(text)) {
    encoding.add_text(text);
  } else {
    encoding.add_text(replace_invalid_utf8(text));
  }
  if (add_special_tokens) ids.insert(ids.end(), parts_.after.begin(), parts_.after.end());
  return encoding.take();
}

std::string Pipeline::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  check_ids(ids);
  std::vector<std::string> texts;
  texts.reserve(ids.size());
  for (const std::int32_t id : ids) {
    const auto index = static_cast<std::size_t>(id);
    const bool skipped = skip_special_tokens && tokens().special[index];
    if (!skipped && !tokens().texts[index].empty()) texts.push_back(tokens().texts[index]);
  }
  return decoded(parts_.decoders, std::move(texts));
}

}  // namespace tessera::tokenizer
