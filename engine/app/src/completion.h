#pragma once

#include <lua.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::app {

struct Completion {
  std::size_t word_length = 0;     ///< bytes before the cursor that the candidates replace
  std::vector<std::string> words;  ///< sorted
};

/// What may follow `line` (the text before the cursor): keywords and globals, members of tables
/// after '.', methods after ':', fields and methods of the kit's objects; inside a call of the
/// library its options and their values. `lines_before` are those of the same statement, each with
/// its line end. Calls nothing but the getters of objects.
Completion complete(lua_State* L, std::string_view line, const std::string& lines_before);

/// The longest common start of `words`.
std::string common_prefix(const std::vector<std::string>& words);

}  // namespace tessera::app
