#pragma once

#include <lua.hpp>

namespace tessera::app {

/// Makes reading or assigning an undeclared field of the table of globals at `globals` an
/// error that names the nearest one. Exempt are C functions, modules of the system's Lua folders
/// (which probe for globals), and assignments typed at the prompt. `rawset(_G, ...)` declares.
void set_strict(lua_State* L, int globals, bool strict);

/// Chunk name of code typed at the prompt.
inline constexpr const char* kPromptChunk = "=prompt";

}  // namespace tessera::app
