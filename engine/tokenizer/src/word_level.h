#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::tokenizer {

/// Every word is one token.
class WordLevel : public Model {
 public:
  /// @param unknown kNoToken refuses words without a token
  WordLevel(std::shared_ptr<const Vocabulary> vocabulary, std::int32_t unknown, std::string where)
      : Model(std::move(vocabulary)), unknown_(unknown), where_(std::move(where)) {}

  void encode(std::string_view word, std::vector<std::int32_t>& ids) const override {
    const std::int32_t id = vocabulary().find(word);
    if (id == kNoToken && unknown_ == kNoToken) {
      refuse(where_, "the word {} has no token, and there is no unknown token", quote(word));
    }
    ids.push_back(id == kNoToken ? unknown_ : id);
  }

 private:
  std::int32_t unknown_;
  std::string where_;
};

}  // namespace tessera::tokenizer
