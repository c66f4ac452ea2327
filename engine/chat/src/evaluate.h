#pragma once

#include <string>

#include "syntax.h"

namespace tessera::chat {

/// What a template prints with these variables.
/// @throws Error as ChatTemplate::render, without the source
std::string evaluate(const Block& block, Dict variables);

}  // namespace tessera::chat
