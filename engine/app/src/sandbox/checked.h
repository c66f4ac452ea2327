#pragma once

#include <lua.hpp>

#include "tessera/core/error.h"

/// What Lua's wall puts in the place of Lua's own functions. All are registered as guarded<...>.
namespace tessera::app::checked {

// Upvalue 1 is the function that they call once the path has been checked.
int open_file(lua_State* L);      ///< io.open
int read_lines(lua_State* L);     ///< io.lines
int choose_input(lua_State* L);   ///< io.input
int choose_output(lua_State* L);  ///< io.output
int remove_file(lua_State* L);    ///< os.remove
int rename_file(lua_State* L);    ///< os.rename

/// os.tmpname(): a path in the output folder.
int temporary_name(lua_State* L);

// Source only, and with the script's globals.
int load_chunk(lua_State* L);  ///< load(text or function, name, mode, globals), loadstring
int load_file(lua_State* L);   ///< loadfile
int do_file(lua_State* L);     ///< dofile

/// require(name). Upvalues: the script's `package`, the library's `require`.
int require_module(lua_State* L);

/// debug.getinfo(level or function): texts and numbers only.
int frame_info(lua_State* L);

/// Pushes nil and a message, as Lua's own functions decline.
int decline(lua_State* L, const Error& error);

}  // namespace tessera::app::checked
