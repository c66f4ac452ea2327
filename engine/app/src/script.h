#pragma once

#include <lua.hpp>
#include <string>
#include <vector>

#include "tessera/core/files.h"

namespace tessera::app {

/// Reads a script of at most 16 MiB and pushes it as a function. A path that does not exist is also
/// looked up among the experiments ("examples/01_first_plan"). "-" is stdin.
/// @throws Error for unreadable files, binary content, and syntax errors.
void load_script(lua_State* L, const std::string& path);

/// The text of a script, without "#!" and byte order mark.
std::string read_script(const std::string& file);

/// Where `path` is: itself, or among the experiments.
std::string find_script(const Installation& installation, const std::string& path);

/// Where `require` looks for a module, in order: "?" of package.path is its name, dots as slashes.
std::vector<std::string> module_files(const std::string& package_path, const std::string& name);

/// From here on `use_script_globals` has the table on top of the stack, which is popped.
void set_script_globals(lua_State* L);

/// Gives the function on top of the stack the globals of scripts, where they have their own.
void use_script_globals(lua_State* L);

/// Pushes `code` as a function. @throws Error{script} for bytecode, NUL bytes and syntax errors.
void compile(lua_State* L, const std::string& code, const std::string& chunk_name);

/// The same, with the globals of scripts.
void load_text(lua_State* L, const std::string& code, const std::string& chunk_name);

}  // namespace tessera::app
