#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json.h"

namespace tessera::tokenizer {

/// How a vocabulary of bytes cuts text before it merges, as lists of components of a
/// tokenizer.json.
struct GgufCut {
  Json normalizers = Json::array(), pre_tokenizers = Json::array();
  bool ignore_merges = false;  ///< a word that is a token is taken as it is
  bool add_bos = false;        ///< where the file does not say
};

/// Of the vocabularies that llama.cpp calls so (tokenizer.ggml.pre); absent where none is known.
/// @param prefix a blank goes before the text
std::optional<GgufCut> gguf_cut(const std::string& name, bool prefix);
std::vector<std::string> known_gguf_cuts();

}  // namespace tessera::tokenizer
