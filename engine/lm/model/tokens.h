#pragma once

#include <memory>
#include <string>

#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// The tokenizer of a folder, a tokenizer's file, or a GGUF file. @throws as Tokenizer::load
std::shared_ptr<const Tokens> load_tokens(const std::string& path);
/// tokenizer::write_gguf_tokenizer
bool write_gguf_tokens(const std::string& path, const std::string& folder);

}  // namespace tessera::lm
