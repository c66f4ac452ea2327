#include "vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::tokenizer {

Vocabulary::Vocabulary(const std::vector<Entry>& entries, const std::string& where) {
  const auto count = static_cast<std::int64_t>(entries.size());
  std::int64_t last = -1;
  for (const Entry& entry : entries) last = std::max(last, entry.id);
  if (entries.empty()) refuse(where, "the vocabulary is empty");
  if (last >= std::min(kMaxTokens, 2 * count + kMaxHoles)) {
    refuse(where, "the id {} among {} tokens is too large", last, count);
  }
  texts_.resize(static_cast<std::size_t>(last + 1));
  exists_.resize(texts_.size());
  slots_.assign(std::bit_ceil(2 * entries.size()), kNoToken);
  for (const Entry& entry : entries) {
    if (entry.id < 0) refuse(where, "{} has the id {}", quote(entry.text), entry.id);
    const auto id = static_cast<std::size_t>(entry.id);
    if (exists_[id]) {
      refuse(where, "{} and {} have the same id {}", quote(texts_[id]), quote(entry.text), id);
    }
    const std::size_t slot = slot_of(entry.text);
    if (slots_[slot] != kNoToken) {
      refuse(where, "the token {} is there twice, as {} and as {}", quote(entry.text), slots_[slot],
             id);
    }
    texts_[id] = entry.text;
    exists_[id] = true;
    slots_[slot] = static_cast<std::int32_t>(id);
  }
}

std::size_t Vocabulary::slot_of(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] != kNoToken && texts_[static_cast<std::size_t>(slots_[slot])] != text) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

std::int32_t Vocabulary::find(std::string_view text) const { return slots_[slot_of(text)]; }

std::int32_t Vocabulary::require(std::string_view text, const std::string& where,
                                 std::string_view what) const {
  const std::int32_t id = find(text);
  if (id == kNoToken) refuse(where, "{} {} is not in the vocabulary", what, quote(text));
  return id;
}

}  // namespace tessera::tokenizer
