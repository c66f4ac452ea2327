#pragma once

#include <lua.hpp>
#include <string>

namespace tessera::app {

/// Reads a script of at most 16 MiB and pushes it as a function. A path that does not exist is also
/// looked up among the experiments ("examples/01_first_plan"). "-" is stdin.
/// @throws Error for unreadable files, binary content, and syntax errors.
void load_script(lua_State* L, const std::string& path);

/// Pushes `code` as a function. @throws Error{script} for bytecode, NUL bytes and syntax errors.
void load_text(lua_State* L, const std::string& code, const std::string& chunk_name);

}  // namespace tessera::app
