#pragma once

#include <string>
#include <string_view>

namespace tessera::tokenizer {

/// What SentencePiece takes on trust in a tokenizer.model and reads out of its memory or ends the
/// program for: pieces with a zero byte, and a normalizer's table that leads out of itself.
/// @param where names the file
/// @throws Error{invalid_argument}, also for what is no serialised ModelProto at all
void check_model_proto(std::string_view bytes, const std::string& where);

}  // namespace tessera::tokenizer
