#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::tokenizer {

inline constexpr std::int32_t kNoToken = -1;

/// Ids from `first`, which the last one may be short of twice the count by so much: what leaves
/// larger holes is no vocabulary, and would take memory out of all proportion to its file.
inline constexpr std::int64_t kMaxHoles = 65'536;
/// Largest vocabularies in use have 262,144 tokens.
inline constexpr std::int64_t kMaxTokens = 1 << 24;

/// The tokens of a model, by id and by text.
class Vocabulary {
 public:
  struct Entry {
    std::string_view text;
    std::int64_t id = 0;
  };

  /// @param where names file and component in errors
  /// @throws Error{invalid_argument} for an id or a text that comes twice, and ids that are
  /// negative or leave large holes
  Vocabulary(const std::vector<Entry>& entries, const std::string& where);

  /// kNoToken where there is none.
  std::int32_t find(std::string_view text) const;
  /// @throws Error{invalid_argument}: where, "the unknown token '<unk>' is not in the vocabulary"
  std::int32_t require(std::string_view text, const std::string& where,
                       std::string_view what) const;

  std::size_t size() const { return texts_.size(); }  ///< the largest id and one
  bool has(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < texts_.size() &&
           exists_[static_cast<std::size_t>(id)];
  }
  const std::string& text(std::int32_t id) const { return texts_[static_cast<std::size_t>(id)]; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::size_t slot_of(std::string_view text) const;

  std::vector<std::string> texts_;
  std::vector<bool> exists_;
  std::vector<std::int32_t> slots_;  // a hash table of ids, half empty
};

}  // namespace tessera::tokenizer
