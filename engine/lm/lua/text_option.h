#pragma once

#include <vector>

#include "tessera/core/option.h"
#include "tessera/lm/text_input.h"
#include "tessera/lua_kit/args.h"

namespace tessera::lm_lua {

/// The options `text`, `file`, of which one is given.
std::vector<OptionSpec> text_options();

/// @throws Error{invalid_argument} for neither or both, and for an empty text
lm::TextInput read_text(const lua_kit::Options& options);

/// The same of a file. @throws Error{not_found, io, invalid_argument}
lm::TextInput read_text_file(const std::string& file, const std::string& path);

}  // namespace tessera::lm_lua
