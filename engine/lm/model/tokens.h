#pragma once

#include <memory>
#include <string>

#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// The tokenizer of a folder, a tokenizer's file, or a GGUF file. @throws as Tokenizer::load
std::shared_ptr<const Tokens> load_tokens(const std::string& path);

}  // namespace tessera::lm
