#pragma once

#include <ostream>

/// Ways out of the sandbox that someone might try. Each is the body of a Lua function which returns
/// something true if it got out. It knows `out` (the output folder), `outside` (a folder that is
/// not to be touched), `secret` (a file there) and `ts`.
namespace tessera::test {

struct Escape {
  const char* name;
  const char* code;
  const char* message;  ///< part of what the script is told
};
inline void PrintTo(const Escape& escape, std::ostream* stream) { *stream << escape.name; }

inline constexpr const char* kWrites = "writes beneath";
inline constexpr const char* kReads = "reads beneath";
inline constexpr const char* kChanges = "does not change";
inline constexpr const char* kSmallPlan =
    "local problem = ts.problem { model = 'opt-125m', cluster = '2xT4-16G', theta = 1, "
    "bitwidths = { 8, 16 }, workload = { prompt_tokens = 64, output_tokens = 8, batch_size = 4 } } "
    "local plan = assert(ts.plan(problem, { planner = 'uniform' })) ";

/// Against Lua's wall, alone or with the kernel's.
inline constexpr Escape kLuaEscapes[] = {
    // processes
    {"popen", "return io.popen('touch ' .. outside .. '/new')", "starts no processes"},
    {"execute", "return os.execute('touch ' .. outside .. '/new') == 0", "starts no processes"},
    // writing files
    {"open_to_write", "return io.open(outside .. '/new', 'w')", kWrites},
    {"open_to_append", "return io.open(secret, 'a')", kWrites},
    {"open_to_update", "return io.open(secret, 'r+')", kWrites},
    {"open_by_dots", "return io.open(out .. '/../../outside/new', 'w')", kWrites},
    {"open_by_missing_dots", "return io.open(out .. '/no/../../../outside/new', 'w')", kWrites},
    {"open_by_link", "return io.open(out .. '/link', 'w')", kWrites},
    {"open_by_folder_link", "return io.open(out .. '/folder/new', 'w')", kWrites},
    {"open_by_dangling_link", "return io.open(out .. '/dangling', 'w')", kWrites},
    {"open_by_proc_root", "return io.open('/proc/self/root' .. outside .. '/new', 'w')", kWrites},
    {"open_by_proc_cwd", "return io.open('/proc/self/cwd/../outside/new', 'w')", kWrites},
    {"open_by_proc_fd", "return io.open('/proc/self/fd/1', 'w')", "does not write"},
    {"open_own_memory", "return io.open('/proc/self/mem', 'r+')", kWrites},
    {"open_with_an_object",
     "return io.open(setmetatable({}, { __tostring = function() return out .. '/x' end }), 'w')",
     "a table"},
    {"open_with_a_changed_library",
     "string.find, string.sub, table.concat, io.lines = nil, nil, nil, function() return out end "
     "return io.open(outside .. '/new', 'w')",
     kWrites},
    {"open_shared_memory", "return io.open('/dev/shm/tessera_escape', 'w')", kWrites},
    {"open_with_nul", "return io.open(out .. '/a\\0/../../../outside/new', 'w')", "NUL"},
    {"output", "return io.output(outside .. '/new')", kWrites},
    {"tmpfile", "return io.tmpfile()", "io.tmpfile"},
    {"remove", "return os.remove(secret)", kChanges},
    {"remove_the_output_folder", "return os.remove(out)", kChanges},
    {"rename_in", "return os.rename(secret, out .. '/mine')", kChanges},
    {"rename_out",
     "assert(io.open(out .. '/mine', 'w')):close() return os.rename(out .. '/mine', outside .. "
     "'/new')",
     kChanges},
    {"change_the_library",
     "local path = debug.getinfo(ts.table).source:sub(2) return io.open(path, 'a')", kWrites},
    {"write_file_of_core", "require('tessera.core').write_file(outside .. '/new', 'x') return true",
     kWrites},
    {"save_a_plan", "PLAN plan:save(outside .. '/new') return true", kWrites},
    {"write_model_elsewhere",
     "PLAN problem:write_model(outside .. '/new.lp', { prefill_micro_batch_size = 2, "
     "decode_micro_batch_size = 4 }) return true",
     "does not write"},
    {"save_to_stdout", "PLAN plan:save('/dev/stdout') return true", "does not write"},
    {"draw_a_picture", "PLAN ts.picture(plan, outside .. '/new') return true", kWrites},
    {"save_a_trace", "PLAN ts.simulate(plan):save_trace(outside .. '/new') return true", kWrites},
    {"write_a_model",
     "PLAN problem:write_model(outside .. '/new.lp', { prefill_micro_batch_size = 2, "
     "decode_micro_batch_size = 2 }) return true",
     kWrites},
    {"save_an_indicator",
     "ts.indicator { kind = 'constant', model = 'opt-125m' }:save(outside .. '/new') return true",
     kWrites},
    {"draw_a_plot",
     "ts.plot { kind = 'bars', rows = { { a = 'x', b_s = 1 } }, x = 'a', y = 'b_s' }:save(outside "
     ".. '/new.txt') return true",
     kWrites},
    {"draw_a_plot_by_another_program",
     "ts.plot { kind = 'bars', rows = { { a = 'x', b_s = 1 } }, x = 'a', y = 'b_s' }:save(out .. "
     "'/new.png') return true",
     "the sandbox starts none"},
    {"store_results", "ts.results('x', { db = outside .. '/new' }):add({ a = 1 }, {}) return true",
     kWrites},
    {"store_results_by_address",
     "ts.results('x', { db = 'file:' .. outside .. '/new?mode=rwc' }):add({ a = 1 }, {}) return "
     "true",
     kWrites},
    {"store_results_by_link",
     "ts.results('x', { db = out .. '/dangling' }):add({ a = 1 }, {}) return true", kWrites},
    {"store_results_with_nul",
     "ts.results('x', { db = out .. '/a\\0/b' }):add({ a = 1 }, {}) return true", "NUL"},
    {"attach_a_database",
     "ts.results('x', { db = out .. '/r.db' }):add({ [\"'); attach '\" .. outside .. \"/new' as n; "
     "--\"] = 1 }, {}) return io.open(outside .. '/new')",
     kReads},
    // reading files
    {"open_to_read", "return io.open(secret)", kReads},
    {"lines", "return io.lines(secret)()", kReads},
    {"input", "return io.input(secret)", kReads},
    {"read_by_link", "return io.open(out .. '/link')", kReads},
    {"hidden_file", "return io.open('.keys')", "hidden"},
    {"environment_of_the_process", "return io.open('/proc/self/environ')", kReads},
    {"environment", "return assert(os.getenv 'TESSERA_TEST_SECRET', 'absent')", "absent"},
    {"read_as_a_config", "return ts.model { config = secret }", kReads},
    {"read_as_a_plan", "return ts.load_plan(secret)", kReads},
    {"read_as_an_instance", "return ts.problem { instance = secret }", kReads},
    {"read_as_lengths", "return ts.workload { lengths = secret, batch_size = 2 }", kReads},
    {"read_as_a_device", "return ts.device { file = secret }", kReads},
    {"read_as_weights", "return ts.weights(secret)", kReads},
    {"read_a_folder_of_weights", "return ts.weights(outside)", kReads},
    {"read_weights_by_link", "return ts.weights(out .. '/link')", kReads},
    {"quantise_what_is_outside",
     "return ts.quantise_model { model = outside, out = out .. '/q', bitwidths = 4 }", kReads},
    {"indicator_of_what_is_outside",
     "return ts.indicator { model = outside, kind = 'variance', bitwidths = { 4 } }", kReads},
    {"read_as_an_indicator", "PLAN return problem:with { indicator = secret }", kReads},
    {"read_as_a_paper", "return ts.paper('../../../../../../../../../..' .. secret)", "no name of"},
    {"read_as_a_shipped_name", "return ts.workload['../../../../../../../..' .. secret]",
     "unknown workload"},
    {"read_as_results", "return ts.results('x', { db = secret }):rows()", kReads},
    {"compare_with_results",
     "local mine = ts.results 'x' mine:add({ a = 1 }, {}) return mine:diff(secret)", kReads},
    {"read_a_file_of_core", "return require('tessera.core').read_file(secret)", kReads},
    {"read_the_memory_map", "return io.open '/proc/self/maps'", kReads},
    {"read_the_parents_environment", "return io.open '/proc/1/environ'", kReads},
    {"read_as_a_script", "return loadfile(secret)", kReads},
    {"run_as_a_script", "return dofile(secret)", kReads},
    {"read_as_a_module", "package.path = outside .. '/?' return require 'secret'", kReads},
    // machine code and bytecode
    {"ffi", "return require 'ffi'", "no module 'ffi'"},
    {"ffi_of_package", "return assert(package.loaded.ffi, 'absent')", "absent"},
    {"ffi_preloaded", "return package.preload.ffi", "preload"},
    {"jit_util", "return require 'jit.util'", "no module 'jit.util'"},
    {"jit_opt", "return assert(jit.opt or jit.attach or jit.util, 'absent')", "absent"},
    {"loadlib", "return package.loadlib('libc.so.6', 'system')", "loadlib"},
    {"cpath",
     "assert(io.open(out .. '/evil.so', 'w')):close() package.cpath = out .. '/?.so' "
     "return require 'evil'",
     "no module 'evil'"},
    {"loaders", "return package.loaders[3]", "loaders"},
    {"dump", "return assert(string.dump or ('').dump, 'absent')", "absent"},
    {"load_bytecode", "return load('\\27LJ\\2\\2')", "bytecode"},
    {"loadstring_bytecode", "return loadstring('\\27LJ\\2\\2')", "bytecode"},
    {"load_bytecode_in_pieces",
     "local i = 0 return load(function() i = i + 1 return ({ '\\27L', 'J\\2\\2' })[i] end)",
     "bytecode"},
    {"load_as_binary", "return load('return 1', 'x', 'b')", "bytecode"},
    {"load_bytecode_from_a_file",
     "local f = io.open(out .. '/code', 'w') f:write '\\27LJ\\2\\2' f:close() "
     "return loadfile(out .. '/code')",
     "bytecode"},
    {"run_bytecode_from_a_file",
     "local f = io.open(out .. '/code', 'w') f:write '\\27LJ\\2\\2' f:close() "
     "return dofile(out .. '/code')",
     "bytecode"},
    {"require_bytecode",
     "local f = io.open(out .. '/code.lua', 'w') f:write '\\27LJ\\2\\2' f:close() "
     "package.path = out .. '/?.lua' return require 'code'",
     "bytecode"},
    // the globals of the library, and what is behind them
    {"load_with_the_real_globals", "return assert(load('return package.loaded.ffi')(), 'absent')",
     "absent"},
    {"load_in_a_coroutine",
     "return assert(coroutine.wrap(function() return load('return package.loaded.ffi')() end)(), "
     "'absent')",
     "absent"},
    {"getfenv", "return assert(rawget(_G, 'getfenv') or rawget(_G, 'setfenv'), 'absent')",
     "absent"},
    {"newproxy", "return assert(rawget(_G, 'newproxy') or rawget(_G, 'module'), 'absent')",
     "absent"},
    {"registry", "return debug.getregistry()", "getregistry"},
    {"upvalues", "return debug.getupvalue(io.open, 1)", "getupvalue"},
    {"hooks", "return debug.sethook(print, 'l')", "sethook"},
    {"locals", "return debug.getlocal(2, 1)", "getlocal"},
    {"raw_metatables", "return debug.getmetatable('')", "getmetatable"},
    {"function_of_a_frame", "return assert(debug.getinfo(1, 'f').func, 'absent')", "absent"},
    {"metatable_of_texts", "getmetatable('').__index.format = print return true", "nil value"},
    {"metatable_of_objects", "return assert(getmetatable(ts.model 'opt-125m').__gc, 'absent')",
     "absent"},
    {"metatable_of_files", "return assert(getmetatable(io.stdout).__gc, 'absent')", "absent"},
    {"metatable_of_errors",
     "local _, e = pcall(ts.model, 'none') return assert(getmetatable(e).__tostring, 'absent')",
     "absent"},
    {"metatable_of_the_library", "return setmetatable(ts, {})", "protected metatable"},
    {"host", "return require 'tessera.host'", "does not lend"},
    {"search", "return require 'tessera.planning.search'", "does not lend"},
    {"solver", "return require 'tessera.solver'", "does not lend"},
    {"sandboxed_require_for_real",
     "package.loaded['tessera.host'] = nil return require 'tessera/host'", "does not lend"},
    {"store", "return require 'tessera.store'", "does not lend"},
    {"workers", "return require 'tessera.workers'", "does not lend"},
    {"part_that_was_used", "return ts.plot and require 'tessera.desk.plot'", "does not lend"},
    {"host_of_a_part_that_was_used",
     "return ts.experiment and assert(package.loaded['tessera.host'], 'absent')", "absent"},
    {"module_with_the_name_of_a_part",
     "local f = io.open(out .. '/plot.lua', 'w') f:write 'return package.loaded.ffi or require "
     "[[tessera.host]]' f:close() package.path = out .. '/?.lua' return require 'plot'",
     "does not lend"},
    {"module_beside_a_module",
     "local f = io.open(out .. '/m.lua', 'w') f:write 'return package.loaded.ffi or require "
     "[[tessera.host]]' f:close() f = io.open(out .. '/y.lua', 'w') f:write 'local m = require "
     "[[m]] return m' f:close() return dofile(out .. '/y.lua')",
     "does not lend"},
    {"module_of_a_false_name",
     "return load('local s = require [[secret]] return s', '@' .. outside .. '/x.lua')()",
     "no module 'secret'"},
    {"metatable_of_a_search",
     "ts.register_heuristic { name = 'changer', doc = 'd', improve = function(search) "
     "setmetatable(search, {}) end } "
     "PLAN assert(ts.plan(problem, { planner = { 'adabits', 'changer' } })) return true",
     "protected metatable"},
    {"write_into_a_move",
     "ts.register_heuristic { name = 'writer', doc = 'd', improve = function(search) "
     "for move in search:moves {} do move.first_layer = 1e6 search:apply(move) end end } "
     "PLAN assert(ts.plan(problem, { planner = { 'adabits', 'writer' } })) return true",
     "constant location"},
    {"arithmetic_on_a_move",
     "ts.register_heuristic { name = 'counter', doc = 'd', improve = function(search) "
     "for move in search:moves {} do error(tostring((move + 1000).first_layer)) end end } "
     "PLAN assert(ts.plan(problem, { planner = { 'adabits', 'counter' } })) return true",
     "attempt to perform arithmetic"},
    {"apply_a_number",
     "ts.register_heuristic { name = 'caster', doc = 'd', improve = function(search) "
     "search:apply(4096ULL) end } "
     "PLAN assert(ts.plan(problem, { planner = { 'adabits', 'caster' } })) return true",
     "a move belongs here"},
    {"apply_a_table_that_answers_all",
     "ts.register_heuristic { name = 'liar', doc = 'd', improve = function(search) "
     "search:apply(setmetatable({}, { __index = function() return 1e9 end })) end } "
     "PLAN assert(ts.plan(problem, { planner = { 'adabits', 'liar' } })) return true",
     "a move belongs here"},
    {"method_on_a_number", "PLAN return plan.save(4096ULL, out .. '/x')", "tessera.Plan belongs"},
    {"method_on_another_object", "PLAN return plan.save(io.stdout, out .. '/x')",
     "tessera.Plan belongs"},
    {"yield_out_of_a_planner",
     "ts.register_planner { name = 'yields', doc = 'd', plan = function() coroutine.yield(1) end } "
     "PLAN return coroutine.wrap(function() return ts.plan(problem, { planner = 'yields' }) end)()",
     "C-call boundary"},
    {"yield_out_of_the_solver",
     "PLAN return coroutine.wrap(function() return ts.plan(problem, { on_incumbent = function() "
     "coroutine.yield(1) end }) end)()",
     "C-call boundary"},
    {"huge_model",
     "return ts.model { family = 'opt', name = 'h', num_layers = 1e9, hidden_size = 768, "
     "num_heads = 12, ffn_size = 3072, vocab_size = 50272, max_context_tokens = 2048 }",
     "out of range"},
    {"huge_cluster", "return ts.cluster '100000000xT4-16G'", "1 to 4096"},
    {"deep_table",
     "local t = {} for i = 1, 2e5 do t = { t } end ts.results('x'):add({ a = t }, {}) return true",
     "nested deeper"},
    {"memory_beside_a_move",
     "ts.register_heuristic { name = 'reader', doc = 'd', improve = function(search) "
     "for move in search:moves {} do error('got ' .. tostring(move[1000000].first_layer)) end end "
     "} "
     "PLAN assert(ts.plan(problem, { planner = { 'adabits', 'reader' } })) return true",
     "a move has no field"},
    {"memory_by_keeping_a_number",
     "ts.register_heuristic { name = 'keeper', doc = 'd', improve = function(search) "
     "for move in search:moves {} do move.keep(4096ULL) end end } "
     "PLAN assert(ts.plan(problem, { planner = { 'adabits', 'keeper' } })) return true",
     "move:keep"},
};

/// Against the kernel's wall alone: the script has the whole of Lua, with the FFI.
inline constexpr Escape kKernelEscapes[] = {
    {"popen", "local p = io.popen('touch ' .. outside .. '/new') return p and p:read '*a' == 'x'",
     ""},
    {"execute", "return os.execute('touch ' .. outside .. '/new') == 0", ""},
    {"fork", "return C.fork() >= 0 or no 'fork'", "Operation not permitted"},
    {"vfork", "return C.syscall(58) >= 0 or no 'vfork'", "Operation not permitted"},
    {"clone_a_process", "return C.syscall(56, 17, 0, 0, 0, 0) >= 0 or no 'clone'",
     "Operation not permitted"},
    {"clone3", "return C.syscall(435, 0, 0) >= 0 or no 'clone3'", "Function not implemented"},
    {"exec",
     "local a = ffi.new('char*[3]', ffi.cast('char*', 'touch'), ffi.cast('char*', outside .. "
     "'/new')) "
     "C.execv('/usr/bin/touch', a) return no 'execv'",
     "Operation not permitted"},
    {"call_of_another_architecture", "return C.syscall(0x40000000 + 57) >= 0 or no 'x32'",
     "Function not implemented"},
    {"socket", "return C.socket(2, 1, 0) >= 0 or no 'socket'", "Operation not permitted"},
    {"unix_socket", "return C.socket(1, 1, 0) >= 0 or no 'socket'", "Operation not permitted"},
    {"netlink", "return C.socket(16, 3, 0) >= 0 or no 'socket'", "Operation not permitted"},
    {"kill_the_parent", "return C.kill(C.getppid(), 9) == 0 or no 'kill'",
     "Operation not permitted"},
    {"stop_the_parent_by_tgkill",
     "local p = C.getppid() return C.syscall(234, p, p, 9) == 0 or no 'tgkill'",
     "Operation not permitted"},
    {"trace_the_parent", "return C.syscall(101, 16, C.getppid(), 0, 0) == 0 or no 'ptrace'",
     "Operation not permitted"},
    {"read_the_parent", "return C.syscall(310, C.getppid(), 0, 0, 0, 0, 0) >= 0 or no 'vm_readv'",
     "Operation not permitted"},
    {"memory_of_the_parent",
     "return C.open('/proc/' .. C.getppid() .. '/mem', 2) >= 0 or no 'open'", "Permission denied"},
    {"open_to_write", "return io.open(outside .. '/new', 'w')", "Permission denied"},
    {"open_to_append", "return io.open(secret, 'a')", "Permission denied"},
    {"open_to_read", "return io.open(secret)", "Permission denied"},
    {"read_the_passwords", "return io.open('/etc/passwd')", "Permission denied"},
    {"environment_of_the_process", "return io.open('/proc/self/environ')", "Permission denied"},
    {"open_by_link", "return io.open(out .. '/link', 'w')", "Permission denied"},
    {"open_by_dangling_link", "return io.open(out .. '/dangling', 'w')", "Permission denied"},
    {"truncate", "return C.truncate(secret, 0) == 0 or no 'truncate'", "Permission denied"},
    {"remove", "return os.remove(secret)", "Permission denied"},
    {"rename_in", "return os.rename(secret, out .. '/mine')", "ermi"},
    {"make_a_folder", "return C.mkdir(outside .. '/new', 511) == 0 or no 'mkdir'",
     "Permission denied"},
    {"make_a_link", "return C.symlink(secret, out .. '/mine') == 0 or no 'symlink'",
     "Operation not permitted"},
    {"make_a_hard_link", "return C.link(secret, out .. '/mine') == 0 or no 'link'",
     "Operation not permitted"},
    {"make_a_device", "return C.syscall(133, out .. '/mine', 0x21b6, 0x101) == 0 or no 'mknod'",
     "Operation not permitted"},
    {"change_rights", "return C.chmod(secret, 511) == 0 or no 'chmod'", "Operation not permitted"},
    {"change_user", "return C.setuid(0) == 0 or no 'setuid'", "Operation not permitted"},
    {"change_root", "return C.chroot(out) == 0 or no 'chroot'", "Operation not permitted"},
    {"new_namespace", "return C.unshare(0x10000000) == 0 or no 'unshare'",
     "Operation not permitted"},
    {"mount", "return C.syscall(165, 'none', out, 'tmpfs', 0, 0) == 0 or no 'mount'",
     "Operation not permitted"},
    {"io_uring", "return C.syscall(425, 8, 0) >= 0 or no 'io_uring'", "Operation not permitted"},
    {"bpf", "return C.syscall(321, 0, 0, 0) >= 0 or no 'bpf'", "Operation not permitted"},
    {"program_in_memory", "return C.syscall(319, 'x', 0) >= 0 or no 'memfd'",
     "Operation not permitted"},
    {"keys", "return C.syscall(250, 0, -3, 1) >= 0 or no 'keyctl'", "Operation not permitted"},
    {"type_into_the_terminal", "return C.ioctl(0, 0x5412, 'x') == 0 or no 'ioctl'",
     "Operation not permitted"},
    {"shared_memory", "return C.syscall(29, 1, 4096, 950) >= 0 or no 'shmget'",
     "Operation not permitted"},
    {"more_memory",
     "local l = ffi.new('long[2]', -1, -1) return C.setrlimit(2, l) == 0 or no 'setrlimit'",
     "Operation not permitted"},
    {"limits_of_the_parent",
     "local l = ffi.new('long[2]') return C.syscall(302, C.getppid(), 7, 0, l) == 0 or no "
     "'prlimit'",
     "Operation not permitted"},
};

}  // namespace tessera::test
