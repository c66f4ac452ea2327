#pragma once

#include <string>

namespace tessera::tokenizer {

/// The vocabulary of a GGUF file as Hugging Face has it: tokenizer.json, tokenizer_config.json with
/// the chat template, and generation_config.json with the tokens that end a text, in `folder`,
/// which exists. Tokenizer::load of the folder and of the file give the same ids. False where the
/// file has no vocabulary.
/// @throws as Tokenizer::load, Error{unsupported} for a vocabulary that no JSON holds: with a text
/// twice, or one that is not UTF-8
bool write_gguf_tokenizer(const std::string& path, const std::string& folder);

}  // namespace tessera::tokenizer
