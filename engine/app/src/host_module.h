#pragma once

#include "host.h"

namespace tessera::app {

/// Registers `tessera.host`, and the host's `print` and `os.exit`.
///
/// `require "tessera.host"` has: `json` and `sandboxed` (booleans), `arguments` (list), `program`
/// (path), `version` (table), `installation` (`scripts_dir`, `datasets_dir`, `experiments_dir`),
/// and the functions `set_result(value)` (what --json prints at the end; the last one counts),
/// `set_incumbent(text)` (what Ctrl-C prints; "" withdraws it), `strict(boolean)`,
/// `limit_memory(bytes)`, `help(topic)` (text or nil), `help_topics()` (list of names), `luacats()`
/// (the text of the annotations file), `cards()` (what it is made from), `limited(limit_s, who, f,
/// ...)` (true and results, or false at its time limit), `load_script(path)`, `loaded_files()`,
/// `forget_loaded_files()`, `poll_interrupts(boolean)`, `interrupted()`, `make_folder(path)`,
/// `user_folders()`, `user_scripts(kind)` (paths of the Lua files in folder `kind` of
/// TESSERA_PATH), `lent_modules()` (of the library, in the sandbox), `experiments()` (what ships:
/// name, path, doc), `terminal(stream)` (`is_terminal`, `redraws`, `columns`, `colour`),
/// `paragraph(text, indent, name)` (lines of help),
/// `run_program(words, input)` (starts one without a shell; exit status, stdout, stderr).
void open_host_module(Host& host);

/// set_result(value): what --json prints at the end. To be guarded.
int set_result(lua_State* L);

}  // namespace tessera::app
