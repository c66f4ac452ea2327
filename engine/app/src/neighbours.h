#pragma once

#include <lua.hpp>
#include <string>

/// What scripts load from beside themselves: `require "parts.chat"`, `require "lib.measured"`.
namespace tessera::app {

/// The file of module `name` for the script, or file of a script, that asks for it: in its folder,
/// in one of those above it, or among the experiments that ship. "" where there is none, for names
/// of the library and of Lua, and where no script asks.
///
/// The script that asks is the innermost on the stack; a function of it that ends in `return
/// require "x"` has left that, and who called it is taken.
std::string neighbour(lua_State* L, const std::string& name);

/// Whether it ships with the program as a module of experiments (experiments/lib), where no
/// sandboxed script can write.
bool ships_as_module(lua_State* L, const std::string& file);

enum class Globals { library, script };

/// Pushes what the module in `file` returns, true where that is nothing. It runs once: the table at
/// `loaded` keeps it under the file's true name.
/// @throws Error{script} where the file does not compile, or asks for itself
void require_neighbour(lua_State* L, int loaded, const std::string& name, const std::string& file,
                       Globals globals);

}  // namespace tessera::app
