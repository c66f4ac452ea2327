#include "bpe.h"

#include <fmt/format.h>

#include <bit>
#include <queue>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "unicode.h"

namespace tessera::tokenizer {
namespace {

constexpr std::uint64_t kNoPair = ~0ull;

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// Multiplies by the odd number nearest to 2^64 / phi: the upper bits depend on all of the pair.
std::size_t hash_of(std::uint64_t pair) {
  const std::uint64_t mixed = pair * 0x9E3779B97F4A7C15ull;
  return static_cast<std::size_t>(mixed >> 32 ^ mixed >> 15);
}

// A merge that may be due: of the symbol at `at` and its neighbour on the right.
struct Candidate {
  std::int32_t rank;
  std::int32_t at;
  std::int32_t merged;
  bool operator<(const Candidate& other) const {  // what comes first is the largest
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

}  // namespace

// A list of the word's tokens; those that were merged into their left neighbour have no id.
struct Bpe::Symbol {
  std::int32_t id, previous, next;
};

Bpe::Bpe(std::shared_ptr<const Vocabulary> tokens, const std::vector<Merge>& merges,
         BpeOptions options, std::string where)
    : Model(std::move(tokens)), options_(std::move(options)), where_(std::move(where)) {
  rules_.assign(std::bit_ceil(2 * merges.size() + 1), Rule{kNoPair, 0, 0});
  std::string text;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto &left = merges[i].first, &right = merges[i].second;
    const auto id_of = [&](std::string_view part) {
      const std::int32_t id = vocabulary().find(part);
      if (id == kNoToken) {
        refuse(where_, "merge {} of {} and {} needs the token {}, which is not in the vocabulary",
               i, quote(left), quote(right), quote(part));
      }
      return id;
    };
    if (right.size() < options_.prefix.size()) {
      refuse(where_, "merge {}: {} is shorter than the prefix {}", i, quote(right),
             quote(options_.prefix));
    }
    text = left;
    text += right.substr(options_.prefix.size());
    add_rule(pair_of(id_of(left), id_of(right)), static_cast<std::int32_t>(i), id_of(text));
  }
  for (std::size_t i = 0; i < ascii_.size(); ++i) {
    const char character = static_cast<char>(i);
    ascii_[i] = vocabulary().find({&character, 1});
  }
  if (options_.byte_fallback) bytes_ = byte_tokens(vocabulary());
}

void Bpe::add_rule(std::uint64_t pair, std::int32_t rank, std::int32_t merged) {
  std::size_t slot = hash_of(pair) & (rules_.size() - 1);
  while (rules_[slot].pair != kNoPair && rules_[slot].pair != pair) {
    slot = (slot + 1) & (rules_.size() - 1);
  }
  rules_[slot] = {pair, rank, merged};
}

const Bpe::Rule* Bpe::find_rule(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t slot = hash_of(pair) & (rules_.size() - 1);
  while (rules_[slot].pair != pair) {
    if (rules_[slot].pair == kNoPair) return nullptr;
    slot = (slot + 1) & (rules_.size() - 1);
  }
  return &rules_[slot];
}

std::int32_t Bpe::token_of(std::string_view character, bool is_first, bool is_last) const {
  const bool prefixed = !is_first && !options_.prefix.empty();
  const bool suffixed = is_last && !options_.suffix.empty();
  if (prefixed || suffixed) {
    return vocabulary().find((prefixed ? options_.prefix : "") + std::string(character) +
                             (suffixed ? options_.suffix : ""));
  }
  if (character.size() == 1) return ascii_[static_cast<unsigned char>(character.front()) & 0x7F];
  return vocabulary().find(character);
}

// Unknown ones wait until a character with a token of its own follows, so that they can fuse.
std::vector<std::int32_t> Bpe::characters_of(std::string_view word) const {
  std::vector<std::int32_t> ids;
  ids.reserve(word.size());
  std::size_t num_unknown = 0;
  const auto flush = [&] {
    ids.insert(ids.end(), options_.fuse_unknown ? std::size_t{num_unknown > 0} : num_unknown,
               options_.unknown);
    num_unknown = 0;
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t begin = at;
    next_character(word, at);
    const std::string_view character = word.substr(begin, at - begin);
    const std::int32_t id = token_of(character, begin == 0, at == word.size());
    if (id != kNoToken) {
      flush();
      ids.push_back(id);
      continue;
    }
    const std::size_t before = ids.size();
    if (options_.byte_fallback) {
      for (const char byte : character) {
        const std::int32_t token = bytes_[static_cast<unsigned char>(byte)];
        if (token == kNoToken) break;
        ids.push_back(token);
      }
      if (ids.size() == before + character.size()) continue;
      ids.resize(before);
    }
    if (options_.unknown == kNoToken) refuse_character(character, where_);
    ++num_unknown;
  }
  flush();
  return ids;
}

void Bpe::merge(const std::vector<std::int32_t>& characters, std::vector<std::int32_t>& ids) const {
  const auto count = static_cast<std::int32_t>(characters.size());
  std::vector<Symbol> symbols(characters.size());
  std::vector<Candidate> first;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t id = characters[static_cast<std::size_t>(i)];
    symbols[static_cast<std::size_t>(i)] = {id, i - 1, i + 1 < count ? i + 1 : -1};
    if (i + 1 == count) break;
    const Rule* rule = find_rule(id, characters[static_cast<std::size_t>(i) + 1]);
    if (rule != nullptr) first.push_back({rule->rank, i, rule->merged});
  }
  std::priority_queue<Candidate> due({}, std::move(first));
  const auto at = [&](std::int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };
  const auto propose = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const Rule* rule = find_rule(at(left).id, at(right).id);
    if (rule != nullptr) due.push({rule->rank, left, rule->merged});
  };
  while (!due.empty()) {
    const Candidate best = due.top();
    due.pop();
    Symbol& left = at(best.at);
    if (left.id == kNoToken || left.next < 0) continue;
    const Symbol right = at(left.next);
    // The neighbours may have changed since: what they make now must be the same token.
    const Rule* rule = find_rule(left.id, right.id);
    if (rule == nullptr || rule->merged != best.merged) continue;
    at(left.next).id = kNoToken;
    left.id = best.merged;
    left.next = right.next;
    if (right.next >= 0) at(right.next).previous = best.at;
    propose(left.previous, best.at);
    propose(best.at, left.next);
  }
  for (std::int32_t i = 0; i >= 0; i = at(i).next) ids.push_back(at(i).id);
}

void Bpe::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (word.empty()) return;
  if (options_.ignore_merges) {
    const std::int32_t id = vocabulary().find(word);
    if (id != kNoToken) {
      ids.push_back(id);
      return;
    }
  }
  const std::vector<std::int32_t> characters = characters_of(word);
  if (characters.size() < 2) {
    ids.insert(ids.end(), characters.begin(), characters.end());
  } else {
    merge(characters, ids);
  }
}

std::vector<std::int32_t> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<std::int32_t> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(vocabulary.find(fmt::format("<0x{:02X}>", byte)));
  }
  return tokens;
}

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token.back() != '>') return -1;
  int byte = 0;
  for (const char digit : token.substr(3, 2)) {
    const std::size_t value = std::string_view("0123456789abcdef0123456789ABCDEF").find(digit);
    if (value == std::string_view::npos) return -1;
    byte = byte * 16 + static_cast<int>(value % 16);
  }
  return byte;
}

void refuse_character(std::string_view character, const std::string& where) {
  std::size_t at = 0;
  const auto code = static_cast<std::uint32_t>(next_character(character, at));
  refuse(where, "{} (U+{:04X}) has no token, and there is no unknown token", quote(character),
         code);
}

}  // namespace tessera::tokenizer
