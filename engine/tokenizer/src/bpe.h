#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model.h"

namespace tessera::tokenizer {

struct BpeOptions {
  std::int32_t unknown = kNoToken;  ///< the token of characters that have none
  std::string prefix;               ///< of all characters of a word but the first
  std::string suffix;               ///< of the last
  bool fuse_unknown = false;        ///< one unknown token for several characters in a row
  bool byte_fallback = false;       ///< "<0xC3>" before the unknown token
  bool ignore_merges = false;       ///< a word that is a token is taken as it is
};

/// Byte-pair encoding: of all neighbours, those whose merge was learned first become one, until no
/// merge applies. Source: Sennrich, Haddow and Birch 2016, section 3.2; ties and substitutes as in
/// Hugging Face's `tokenizers`, src/models/bpe.
class Bpe : public Model {
 public:
  using Merge = std::pair<std::string_view, std::string_view>;

  /// @param merges in the order in which they were learned; of equal ones the last counts
  /// @param where names file and component in errors
  /// @throws Error{invalid_argument} for a merge whose parts or result are no tokens
  Bpe(std::shared_ptr<const Vocabulary> vocabulary, const std::vector<Merge>& merges,
      BpeOptions options, std::string where);

  /// In n log n for n characters.
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override;

 private:
  struct Rule {
    std::uint64_t pair;  // ids of left and right
    std::int32_t rank, merged;
  };
  struct Symbol;
  void add_rule(std::uint64_t pair, std::int32_t rank, std::int32_t merged);
  const Rule* find_rule(std::int32_t left, std::int32_t right) const;
  std::vector<std::int32_t> characters_of(std::string_view word) const;
  std::int32_t token_of(std::string_view character, bool is_first, bool is_last) const;
  void merge(const std::vector<std::int32_t>& characters, std::vector<std::int32_t>& ids) const;

  BpeOptions options_;
  std::string where_;
  std::vector<Rule> rules_;              // a hash table, half empty
  std::array<std::int32_t, 128> ascii_;  // tokens of single characters
  std::vector<std::int32_t> bytes_;      // where there is byte_fallback
};

}  // namespace tessera::tokenizer
