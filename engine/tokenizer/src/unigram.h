#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model.h"
#include "trie.h"

namespace tessera::tokenizer {

/// A unigram language model: of all ways to cut a word, the one whose tokens have the largest sum
/// of scores. Source: Kudo 2018, section 3.2; ties as in Hugging Face's `tokenizers`.
class Unigram : public Model {
 public:
  /// @param scores by id, log probabilities
  /// @param unknown kNoToken refuses characters without a token
  Unigram(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores,
          std::int32_t unknown, bool byte_fallback, std::string where);

  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override;

 private:
  struct Step;
  void add(std::string_view piece, std::vector<std::int32_t>& ids) const;

  std::vector<double> scores_;
  double unknown_score_ = 0;
  std::int32_t unknown_;
  std::string where_;
  Trie trie_;
  std::vector<std::int32_t> bytes_;
};

}  // namespace tessera::tokenizer
