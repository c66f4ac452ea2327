#pragma once

#include <ostream>

/// Scripts that mean harm, or are written as if they did, by what they attack. None is expected to
/// get out: sandbox_escapes.h has those that try. Here the question is how each ends.
namespace tessera::test {

enum class End {
  done,    ///< status 0
  failed,  ///< status 1 and a message
  any,     ///< either: what the script does is its own business
  limit    ///< status 1, at a limit of the sandbox, which the message names
};

struct Hostile {
  const char* name;
  End end;
  const char* says;  ///< what stdout and stderr have to contain; "" for nothing in particular
  const char* code;  ///< after kPrelude
};
inline void PrintTo(const Hostile& script, std::ostream* stream) { *stream << script.name; }

inline constexpr const char* kPrelude = R"lua(
local ts, core = require 'tessera', require 'tessera.core'
local function problem(more)
  local t = { model = 'opt-125m', cluster = '2xT4-16G', theta = 1, bitwidths = { 8, 16 },
    workload = { prompt_tokens = 64, output_tokens = 8, batch_size = 4 } }
  for k, v in pairs(more or {}) do t[k] = v end
  return ts.problem(t)
end
local function plan(opt) return assert(ts.plan(problem(), opt)) end
local function sweep(run, more)
  local t = { name = 's/x', grid = { i = { 1, 2, 3 } }, run = run }
  for k, v in pairs(more or {}) do t[k] = v end
  return ts.experiment(t)
end
local function ones(n) local t = {} for i = 1, n do t[i] = 1 end return t end
)lua";

/// Calls nested without end, through C or not: an error that can be caught or the time limit, not
/// the end of the stack.
inline constexpr const char* kDeep = "nested too deeply";
inline constexpr Hostile kRecursion[] = {
    {"gsub", End::failed, kDeep, "local function f(s) return (s:gsub('.', f)) end f 'x'"},
    {"gsub_caught", End::done, kDeep,
     "local function f(s) return (s:gsub('.', f)) end print(select(2, pcall(f, 'x')))"},
    {"wrap", End::failed, kDeep, "local function f() return coroutine.wrap(f)() end f()"},
    {"wrap_caught", End::done, kDeep,
     "local function f() return coroutine.wrap(f)() end print(select(2, pcall(f)))"},
    {"resume", End::failed, kDeep,
     "local function f() local ok, e = coroutine.resume(coroutine.create(f)) error(e, 0) end f()"},
    {"wrap_in_gsub", End::failed, kDeep,
     "local f f = function(s) return coroutine.wrap(function() return (s:gsub('.', f)) end)() end "
     "f 'x'"},
    {"plan_in_on_incumbent", End::failed, kDeep,
     "local function f() ts.plan(problem(), { on_incumbent = f }) end f()"},
    {"plan_in_a_planner", End::failed, kDeep,
     "ts.register_planner { name = 'again', doc = 'd', plan = function(p) return ts.plan(p, { "
     "planner = 'again' }) end } assert(ts.plan(problem(), { planner = 'again' }))"},
    {"plan_in_a_heuristic", End::failed, kDeep,
     "ts.register_heuristic { name = 'again', doc = 'd', improve = function() ts.plan(problem(), { "
     "planner = { 'adabits', 'again' } }) end } plan { planner = { 'adabits', 'again' } }"},
    {"quantise_in_activations", End::failed, kDeep,
     "local x = ts.tensor { shape = { 4, 16 }, data = ones(64) } local function f() return "
     "ts.quantise { tensor = x, bitwidth = 4, group_size = 16, activations = f } end f()"},
    {"metatable_index", End::failed, kDeep,
     "local t = setmetatable({}, { __index = function(t, k) return t[k .. 'x'] end }) return t.x"},
    {"metatable_newindex", End::failed, kDeep,
     "local t = setmetatable({}, { __newindex = function(t, k, v) t[k] = v end }) t.x = 1"},
    {"metatable_call", End::failed, kDeep,
     "local t t = setmetatable({}, { __call = function() return (t()) end }) t()"},
    {"metatable_concat", End::failed, kDeep,
     "local t t = setmetatable({}, { __concat = function() return (t .. t) end }) return t .. t"},
    {"metatable_lt", End::failed, kDeep,
     "local m = {} m.__lt = function(a, b) return not (b < a) end return setmetatable({}, m) < "
     "setmetatable({}, m)"},
    {"tostring", End::failed, kDeep,
     "local t t = setmetatable({}, { __tostring = function() return (tostring(t)) end }) "
     "tostring(t)"},
    {"print", End::failed, kDeep,
     "local t t = setmetatable({}, { __tostring = function() print(t) return 'x' end }) print(t)"},
    {"format", End::failed, kDeep,
     "local t t = setmetatable({}, { __tostring = function() return ('%s'):format(t) end }) "
     "tostring(t)"},
    {"sort", End::failed, kDeep,
     "local function f() table.sort({ 1, 2, 3 }, f) return false end f()"},
    {"xpcall", End::limit, "", "local function f() xpcall(f, f) error 'x' end f()"},
    {"handler_that_fails", End::done, "", "xpcall(error, function() error 'again' end)"},
    {"load_in_load", End::failed, kDeep, "local function f() load(f) return nil end f()"},
    {"load_that_loads_itself", End::failed, kDeep, "rawset(_G, 'c', 'return load(c)()') load(c)()"},
    {"dofile_of_itself", End::failed, kDeep, "dofile 'x.lua'"},
    {"require_of_itself", End::failed, kDeep,
     "local f = io.open('x-out/me.lua', 'w') f:write \"package.loaded.me = nil return require "
     "'me'\" f:close() package.path = 'x-out/?.lua' require 'me'"},
    {"tail_calls", End::limit, "", "local function f() return f() end f()"},
    {"deep_parentheses", End::failed, "",
     "assert(load('return ' .. ('('):rep(1e5) .. '1' .. (')'):rep(1e5)))"},
    {"deep_functions", End::failed, "", "assert(load(('function() '):rep(1e5)))"},
    {"deep_tables_of_code", End::failed, "", "assert(load('return ' .. ('{'):rep(1e6)))"},
    {"deep_concatenation", End::any, "", "load('return ' .. (\"'x' .. \"):rep(1e5) .. \"''\")"},
    {"deep_pattern", End::failed, "", "('x'):find(('('):rep(1e5))"},
    {"deep_json", End::failed, "nested", "core.from_json(('['):rep(1e6) .. (']'):rep(1e6))"},
    {"deep_json_of_objects", End::failed, "nested", "core.from_json(('{\"a\":'):rep(1e5))"},
    {"table_that_holds_itself", End::failed, "contains itself",
     "local t = {} t.t = t core.to_json(t)"},
    {"row_that_holds_itself", End::failed, "contains itself",
     "return sweep(function() local t = {} t.t = t return { t = t } end)"},
};

/// Loops without end in every place from which the engine calls a script.
inline constexpr Hostile kLoops[] = {
    {"goto_itself", End::limit, "", "::again:: goto again"},
    {"comparison", End::limit, "", "table.sort(ones(9), function() while true do end end)"},
    {"metatable", End::limit, "",
     "local t = setmetatable({}, { __lt = function() while true do end end }) return t < t"},
    {"metatables_in_a_ring", End::failed, "loop",
     "local a, b = {}, {} setmetatable(a, { __index = b }) setmetatable(b, { __index = a }) return "
     "a.x"},
    {"for_beyond_all_numbers", End::limit, "", "for _ = 1, math.huge do end"},
    {"counter_that_stands_still", End::limit, "", "for i = 2 ^ 53, 2 ^ 54 do end"},
    {"progress", End::limit, "",
     "local w = debug.getinfo(ts.table).source:match '^@(.*)/scripts/' .. "
     "'/experiments/indicator/data/tiny_llama' ts.indicator { kind = 'variance', model = w, "
     "progress = function() while true do end end }"},
    {"activations", End::limit, "",
     "local x = ts.tensor { shape = { 4, 16 }, data = ones(64) } ts.quantise { tensor = x, "
     "bitwidth = 4, group_size = 16, activations = function() while true do end end }"},
    {"claim", End::limit, "",
     "return sweep(function() return { x = 1 } end, { check = function(t) t:expect_that { text = "
     "'t', holds = function() while true do end end } end })"},
    {"iterator", End::limit, "", "for _ in function() return 1 end do end"},
    {"load", End::limit, "", "load(function() while true do end end)"},
    {"load_of_ever_more", End::failed, "16 MiB", "assert(load(function() return 'x = 1 ' end))"},
    {"garbage_collection", End::limit, "", "while true do collectgarbage() end"},
    {"clock", End::limit, "", "while os.clock() < 1e9 do end"},
    {"coroutines_that_never_end", End::limit, "",
     "while true do coroutine.wrap(function() coroutine.yield() end)() end"},
    {"explanation_of_all_problems", End::limit, "",
     "plan():explain { robustness = 10000, time_limit_s = 1e6 }"},
    {"plan_of_a_huge_cluster", End::any, "",
     "ts.plan(problem { model = 'opt-66b', cluster = '64xT4-16G+64xV100-32G+64xA100-40G+64xL4' }, "
     "{ "
     "time_limit_s = 1e6 })"},
    {"every_order_of_devices", End::any, "",
     "ts.problem { model = 'opt-30b', cluster = '8xT4-16G+8xV100-32G+8xL4+8xA10' "
     "}:device_orders(1e6)"},
    {"front_of_everything", End::any, "",
     "ts.pareto(problem { model = 'opt-66b', cluster = '16xT4-16G+16xV100-32G+16xL4' }, { "
     "max_points = 10000, max_subsets = 100000, time_limit_s = 1e6 })"},
    {"batches_without_end", End::any, "",
     "ts.simulate(plan(), { num_batches = 100000, record = true })"},
    {"threads", End::any, "",
     "for i = 1, 20 do ts.plan(problem(), { threads = 1024, planner = 'exact' }) end"},
    {"points_that_catch_the_limit", End::limit, "",
     "return sweep(function() while true do pcall(function() while true do end end) end end)"},
};

/// More than there is: memory, numbers, files.
inline constexpr Hostile kGreed[] = {
    {"grid_of_a_milliard", End::failed, "1000000000 points",
     "local l = {} for i = 1, 1000 do l[i] = i end ts.grid { a = l, b = l, c = l }"},
    {"grid_beyond_all_numbers", End::failed, "more than 1e308 points",
     "local g = {} for k = 1, 400 do g['k' .. k] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 } end "
     "ts.grid(g)"},
    {"experiment_of_a_milliard", End::failed, "1000000000 points",
     "local l = {} for i = 1, 1000 do l[i] = i end return sweep(print, { grid = { a = l, b = l, c "
     "= "
     "l } })"},
    {"quick_of_a_milliard", End::failed, "1000000000 points",
     "local l = {} for i = 1, 1000 do l[i] = i end return sweep(print, { grid = { a = { 1 }, b = { "
     "1 "
     "}, c = { 1 } }, quick = { a = l, b = l, c = l } })"},
    {"grid_of_a_million", End::any, "",
     "local l = {} for i = 1, 1000 do l[i] = i end ts.grid { a = l, b = l }"},
    {"tensor_without_end", End::failed, "", "ts.tensor { shape = { 1e15 }, data = {} }"},
    {"tensor_that_overflows", End::failed, "",
     "ts.tensor { shape = { 2 ^ 32, 2 ^ 32, 2 ^ 32 }, data = {} }"},
    {"tensor_of_a_number", End::failed, "", "ts.tensor { shape = { 2, 3 }, data = 4 }"},
    {"tensor_of_an_object", End::failed, "",
     "ts.tensor { shape = { 16 }, data = ts.model 'opt-125m' }"},
    {"tensor_of_a_file", End::failed, "", "ts.tensor { shape = { 16 }, data = io.stdout }"},
    {"text_of_a_gibibyte", End::limit, "", "local s = ('x'):rep(2 ^ 30)"},
    {"text_beyond_all_memory", End::any, "", "local s = ('x'):rep(1e18)"},
    {"format_of_a_wide_field", End::failed, "", "('%99999999d'):format(1)"},
    {"table_of_tables", End::limit, "", "local t = {} for i = 1, 1e9 do t[i] = { i } end"},
    {"table_of_texts", End::limit, "", "local t = {} for i = 1, 1e9 do t[i] = 'x' .. i end"},
    {"table_of_coroutines", End::limit, "",
     "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(print) end"},
    {"table_of_tensors", End::limit, "",
     "local d, t = ones(1e5), {} for i = 1, 1e9 do t[i] = ts.tensor { shape = { 1e5 }, data = d } "
     "end"},
    {"table_of_plans", End::any, "", "local t = {} for i = 1, 1e9 do t[i] = plan() end"},
    {"json_of_a_long_list", End::limit, "",
     "local s = '[' .. ('1,'):rep(2e7) .. '1]' local t = {} for i = 1, 99 do t[i] = "
     "core.from_json(s) end"},
    {"rows_to_show", End::any, "",
     "local r = {} for i = 1, 1e6 do r[i] = { a = i } end print(#ts.table(r))"},
    {"rows_to_draw", End::any, "",
     "local r = {} for i = 1, 1e6 do r[i] = { a = i, b_s = i } end ts.plot { kind = 'lines', rows "
     "= "
     "r, x = 'a', y = 'b_s' }:save 'x-out/p.svg'"},
    {"words_to_draw", End::any, "",
     "local r = {} for i = 1, 1e5 do r[i] = { a = 'w' .. i, b_s = 1 } end ts.plot { kind = 'bars', "
     "rows = r, x = 'a', y = 'b_s' }:text()"},
    {"cell_of_spaces", End::done, "", "ts.table { { a = (' '):rep(1e6) .. 'x', b = 1 } }"},
    {"edges_of_a_histogram", End::any, "",
     "local e = {} for i = 1, 1e6 do e[i] = i end ts.histogram(e, e)"},
    {"files_left_open", End::failed, "",
     "local t = {} for i = 1, 1e6 do t[i] = assert(io.open('x.lua')) end"},
    {"results_left_open", End::any, "",
     "local t = {} for i = 1, 1e4 do t[i] = ts.results('a', { db = 'x-out/' .. i .. '.db' }) "
     "t[i]:add({ i = i }, {}) end"},
    {"model_of_many_layers", End::any, "",
     "ts.plan(problem { model = { family = 'opt', name = 'm', num_layers = 10000, hidden_size = "
     "768, "
     "num_heads = 12, ffn_size = 3072, vocab_size = 50272, max_context_tokens = 2048 } })"},
    {"candidates_without_end", End::any, "",
     "local b = {} for i = 1, 16 do b[i] = i end ts.plan(problem { bitwidths = { 3, 4, 8, 16 }, "
     "kv_bitwidth = { 4, 8, 16 }, tensor_parallel = { 1, 2 } }, { replicas = 'all', time_limit_s = "
     "1e6, every_candidate = true })"},
    {"notes_without_end", End::any, "",
     "local p = plan() for i = 1, 1e6 do p = p:with_note(('n'):rep(100)) end"},
    {"constraints_without_end", End::any, "",
     "local p = problem() for i = 1, 1e5 do p = p:add_constraint { name = 'c' .. i, terms = { { "
     "stage = 1, coefficient = 1 } }, sense = '<=', rhs = 12 } end"},
};

/// Output: floods, control sequences, the disk.
inline constexpr Hostile kOutput[] = {
    {"stderr_flood", End::limit, "", "while true do io.stderr:write(('x'):rep(1e6)) end"},
    {"write_flood", End::limit, "", "while true do io.write(('x'):rep(1e6)) end"},
    {"flood_of_lines", End::limit, "", "while true do print() end"},
    {"flood_from_a_planner", End::limit, "",
     "ts.register_planner { name = 'loud', doc = 'd', plan = function() while true do "
     "print(('x'):rep(1e6)) end end } plan { planner = 'loud' }"},
    {"message_of_100_mb", End::failed, "", "error(('x'):rep(1e8), 0)"},
    {"message_of_many_lines", End::failed, "", "error(('x\\n'):rep(1e6), 0)"},
    {"sparse_file", End::any, "",
     "local f = io.open('x-out/f', 'w') f:seek('set', 2 ^ 40) f:write 'x' f:close()"},
    {"file_beyond_the_limit", End::any, "",
     "local f = io.open('x-out/f', 'w') assert(f:seek('set', 2 ^ 32 - 4)) f:write(('x'):rep(100)) "
     "assert(f:flush()) f:close()"},
    {"many_files", End::limit, "",
     "local i = 0 while true do i = i + 1 io.open('x-out/' .. i % 1000, 'w'):close() end"},
    {"file_that_comes_and_goes", End::limit, "",
     "while true do io.open('x-out/f', 'w'):close() os.remove 'x-out/f' end"},
    {"long_name_of_a_file", End::failed, "", "assert(io.open('x-out/' .. ('n'):rep(1e6), 'w'))"},
    {"plan_into_a_folder_that_is_not_there", End::failed, "", "plan():save 'x-out/a/b/c.json'"},
    {"plan_onto_its_own_folder", End::failed, "", "plan():save 'x-out'"},
    {"picture_onto_the_database", End::any, "",
     "local r = ts.results 'a' r:add({ i = 1 }, {}) ts.picture(plan(), 'x-out/results.db') "
     "r:add({ i = 2 }, {}) r:rows()"},
    {"database_that_is_text", End::failed, "results.db",
     "local f = io.open('x-out/results.db', 'w') f:write(('text '):rep(1e4)) f:close() ts.results "
     "'a':add({ i = 1 }, {})"},
    {"database_that_vanishes", End::any, "",
     "local r = ts.results 'a' r:add({ i = 1 }, {}) os.remove 'x-out/results.db' r:add({ i = 2 }, "
     "{}) r:rows()"},
    {"database_cut_short", End::any, "",
     "local r = ts.results 'a' r:add({ i = 1 }, {}) io.open('x-out/results.db', 'w'):close() "
     "r:add({ "
     "i = 2 }, {}) r:rows()"},
    {"row_of_16_mib", End::failed, "16",
     "return sweep(function() return { x = ('x'):rep(2 ^ 25) } end)"},
    {"artefacts_of_all_points", End::any, "",
     "return sweep(function() local r = {} for i = 1, 200 do r['p' .. i] = plan() end return r "
     "end)"},
};

/// What errors can be: values of every type, texts that break lines, objects that call themselves
/// ours.
inline constexpr Hostile kErrors[] = {
    {"nil", End::failed, "", "error()"},
    {"boolean", End::failed, "", "error(false)"},
    {"number", End::failed, "3", "error(3, 0)"},
    {"table", End::failed, "", "error {}"},
    {"function", End::failed, "", "error(print)"},
    {"thread", End::failed, "", "error(coroutine.create(print))"},
    {"object", End::failed, "", "error(ts.model 'opt-125m')"},
    {"file", End::failed, "", "error(io.stdout)"},
    {"empty_text", End::failed, "", "error('', 0)"},
    {"nul", End::failed, "after", "error('before\\0after', 0)"},
    {"control_characters", End::failed, "red",
     "error('\\27[31mred\\27]0;title\\7\\127\\194\\155', 0)"},
    {"no_utf8", End::failed, "end", "error('\\255\\254\\192\\128 end', 0)"},
    {"tostring_that_fails", End::failed, "",
     "error(setmetatable({}, { __tostring = function() error 'inner' end }))"},
    {"tostring_that_lies", End::failed, "",
     "error(setmetatable({}, { __tostring = function() return 3 end }))"},
    {"tostring_that_yields", End::failed, "",
     "error(setmetatable({}, { __tostring = coroutine.yield }))"},
    {"tostring_that_plans", End::failed, "optimal",
     "error(setmetatable({}, { __tostring = function() return plan().status end }))"},
    {"index_that_fails", End::failed, "",
     "error(setmetatable({}, { __index = function() error 'inner' end }))"},
    {"code_of_ours", End::failed, "", "error { code = 'internal', message = 'mine' }"},
    {"code_that_is_a_table", End::failed, "", "error { code = {}, message = {} }"},
    {"code_of_control_characters", End::failed, "", "core.raise('\\27[31m', 'x', '\\0')"},
    {"code_interrupted", End::any, "", "error { code = 'interrupted', message = 'x' }"},
    {"code_time_limit", End::failed, "", "error { code = 'script_time_limit', message = 'x' }"},
    {"raised_again", End::failed, "unknown model",
     "local _, e = pcall(ts.model, 'none') for i = 1, 1000 do _, e = pcall(error, e) end error(e)"},
    {"of_a_coroutine", End::failed, "inner", "coroutine.wrap(function() error('inner', 0) end)()"},
    {"of_a_callback", End::failed, "inner",
     "ts.plan(problem(), { on_incumbent = function() error('inner', 0) end })"},
    {"syntax", End::failed, "", "x = = 1"},
    {"in_a_point", End::failed, "3",
     "return sweep(function(p) if p.i == 2 then error(3, 0) end return { x = 1 } end)"},
    {"nil_in_a_point", End::failed, "", "return sweep(function() error() end)"},
    {"table_in_a_point", End::failed, "", "return sweep(function() error {} end)"},
    {"nul_in_a_point", End::failed, "", "return sweep(function() error('a\\0b', 0) end)"},
    {"huge_in_a_point", End::failed, "", "return sweep(function() error(('x'):rep(3e7), 0) end)"},
    {"tostring_that_fails_in_a_point", End::failed, "",
     "return sweep(function() error(setmetatable({}, { __tostring = error })) end)"},
    {"in_a_check", End::failed, "inner",
     "return sweep(function() return { x = 1 } end, { check = function() error('inner', 0) end })"},
    {"object_in_a_check", End::failed, "",
     "return sweep(function() return { x = 1 } end, { check = function() error { } end })"},
    {"assertion", End::failed, "", "assert(false, { })"},
    {"why_of_nothing", End::failed, "", "assert(core.why('infeasible', ''))() "},
};

/// The end of the process, asked for where it is not the script's to ask.
inline constexpr Hostile kExits[] = {
    {"in_a_point", End::failed, "os.exit",
     "return sweep(function(p) if p.i == 2 then os.exit(0) end return { x = p.i } end)"},
    {"caught_in_a_point", End::any, "",
     "return sweep(function() pcall(os.exit, 0) return { x = 1 } end)"},
    {"in_a_coroutine_of_a_point", End::failed, "os.exit",
     "return sweep(function() coroutine.wrap(function() os.exit(0) end)() end)"},
    {"in_a_callback_of_a_point", End::failed, "os.exit",
     "return sweep(function() plan { on_incumbent = function() os.exit(0) end } return {} end)"},
    {"in_a_text_of_an_error", End::any, "",
     "error(setmetatable({}, { __tostring = function() os.exit(0) end }))"},
    {"with_another_status", End::failed, "", "os.exit(300)"},
    {"with_a_word", End::failed, "", "os.exit 'x'"},
    {"with_nan", End::failed, "", "os.exit(0 / 0)"},
};

/// Rows and points of every type.
inline constexpr Hostile kRows[] = {
    {"function", End::failed, "function", "return sweep(function() return { x = print } end)"},
    {"thread", End::failed, "",
     "return sweep(function() return { x = coroutine.create(print) } end)"},
    {"file", End::failed, "", "return sweep(function() return { x = io.stdout } end)"},
    {"nan", End::failed, "NaN", "return sweep(function() return { x = 0 / 0 } end)"},
    {"infinite", End::failed, "infinite", "return sweep(function() return { x = math.huge } end)"},
    {"key_of_a_number", End::failed, "", "return sweep(function() return { 1, 2 } end)"},
    {"key_of_a_table", End::failed, "", "return sweep(function() return { [{}] = 1 } end)"},
    {"key_of_control_characters", End::any, "",
     "return sweep(function() return { ['a\\27[31m'] = 1 } end)"},
    {"key_of_quotes", End::any, "",
     "return sweep(function() return { ['\"; DROP TABLE points; --'] = 1 } end)"},
    {"own_names", End::failed, "", "return sweep(function() return { point = 1, error = 2 } end)"},
    {"status_of_a_table", End::failed, "", "return sweep(function() return { status = {} } end)"},
    {"status_of_control_characters", End::any, "",
     "return sweep(function() return { status = '\\27[2J' } end)"},
    {"no_table", End::failed, "", "return sweep(function() return 3 end)"},
    {"nothing", End::failed, "", "return sweep(function() end)"},
    {"list_with_gaps", End::failed, "gaps",
     "return sweep(function() return { x = { 1, nil, 3 } } end)"},
    {"mixed_table", End::failed, "", "return sweep(function() return { x = { 1, a = 2 } } end)"},
    {"no_utf8", End::failed, "", "return sweep(function() return { x = '\\255' } end)"},
    {"metatable", End::any, "",
     "return sweep(function() return setmetatable({}, { __index = error, __pairs = error }) end)"},
    {"columns_without_end", End::any, "",
     "return sweep(function() local r = {} for i = 1, 1e5 do r['c' .. i] = i end return r end)"},
    {"point_that_changes_itself", End::done, "",
     "return sweep(function(p, c) p.i = 9 p.x = 1 rawset(c, 'seed', 0) return { x = 1 } end)"},
    {"returned_twice", End::any, "", "local e = sweep(function() return {} end) return e, e"},
    {"returned_by_metatable", End::any, "",
     "return setmetatable({}, { __metatable = 'tessera.Experiment' })"},
};

/// Objects that outlive what they belong to, metatables, globals, coroutines.
inline constexpr Hostile kTricks[] = {
    {"stage_of_a_collected_plan", End::done, "",
     "local s = plan().stages[1] collectgarbage() collectgarbage() print(s.memory.total_bytes)"},
    {"memory_of_a_collected_stage", End::done, "",
     "local m = plan().stages[1].memory collectgarbage() collectgarbage() print(m.total_bytes)"},
    {"stage_of_a_collected_run", End::done, "",
     "local s = ts.simulate(plan()).stages[1] collectgarbage() collectgarbage() print(s.busy_s)"},
    {"search_after_its_time", End::failed, "",
     "local kept ts.register_heuristic { name = 'k', doc = 'd', improve = function(s) kept = s end "
     "} "
     "plan { planner = { 'adabits', 'k' } } collectgarbage() for m in kept:moves {} do "
     "kept:apply(m) "
     "end kept:perturb(1) error(tostring(kept:best()))"},
    {"move_after_its_time", End::any, "",
     "local kept ts.register_heuristic { name = 'k', doc = 'd', improve = function(s) kept = "
     "s:moves "
     "{}() end } plan { planner = { 'adabits', 'k' } } collectgarbage() "
     "print(kept.objective_delta)"},
    {"iterator_after_its_time", End::any, "",
     "local kept ts.register_heuristic { name = 'k', doc = 'd', improve = function(s) kept = "
     "s:moves "
     "{} end } plan { planner = { 'adabits', 'k' } } collectgarbage() kept()"},
    {"claims_after_their_time", End::any, "",
     "local kept local e = sweep(function() return { x = 1 } end, { check = function(t) kept = t "
     "end "
     "}) return e"},
    {"moves_of_another_search", End::any, "",
     "local first ts.register_heuristic { name = 'k', doc = 'd', improve = function(s) local m = "
     "s:moves {}() if first then s:apply(first) end first = m and m:keep() end } for _ = 1, 3 do "
     "plan "
     "{ planner = { 'adabits', 'k' } } end"},
    {"planner_registered_while_it_plans", End::any, "",
     "ts.register_planner { name = 'k', doc = 'd', plan = function(p) ts.register_planner { name = "
     "'k', doc = 'd', plan = function() end } collectgarbage() return ts.plan(p) end } plan { "
     "planner "
     "= 'k' }"},
    {"globals_exchanged", End::done, "",
     "local given = problem() pairs, ipairs, tostring, type, error, pcall, select, math.floor, "
     "string.format, table.concat = nil local p = ts.plan(given) print(p) ts.simulate(p)"},
    {"globals_that_answer_all", End::done, "",
     "setmetatable(_G, { __index = function() return print end, __newindex = function() end }) "
     "print(plan().status)"},
    {"library_overwritten", End::any, "",
     "ts.problem, ts.model, core.raise = nil ts.plan(problem())"},
    {"modules_overwritten", End::any, "",
     "for k in pairs(package.loaded) do package.loaded[k] = false end require('tessera').model "
     "'opt-125m'"},
    {"texts_overwritten", End::any, "", "string.gsub = nil string.find = error print(plan())"},
    {"frames_beyond_the_stack", End::done, "",
     "print(debug.getinfo(1e6), debug.traceback('x', 1e6))"},
    {"traceback_of_everything", End::any, "",
     "debug.traceback(coroutine.create(print), ('x'):rep(1e7), -1)"},
    {"coroutine_that_resumes_itself", End::done, "",
     "local c c = coroutine.create(function() print(coroutine.resume(c)) end) coroutine.resume(c)"},
    {"coroutine_that_is_dead", End::done, "",
     "local c = coroutine.create(print) for _ = 1, 9 do coroutine.resume(c) end"},
    {"yield_at_the_top", End::failed, "", "coroutine.yield(1)"},
    {"yield_in_a_point", End::failed, "", "return sweep(function() coroutine.yield(1) end)"},
    {"yield_in_a_check", End::failed, "",
     "return sweep(function() return { x = 1 } end, { check = coroutine.yield })"},
    {"yield_in_a_comparison", End::failed, "",
     "coroutine.wrap(function() table.sort({ 2, 1 }, coroutine.yield) end)()"},
    {"plan_in_a_coroutine_left_alone", End::done, "",
     "for i = 1, 50 do coroutine.wrap(function() plan() coroutine.yield() plan() end)() end "
     "collectgarbage()"},
    {"object_of_a_dead_coroutine", End::done, "",
     "local p = coroutine.wrap(function() return plan() end)() collectgarbage() "
     "print(p.stages[1])"},
    {"method_of_nothing", End::failed, "", "plan().save()"},
    {"options_that_change_while_read", End::any, "",
     "local o = {} setmetatable(o, { __index = function(t, k) rawset(t, k, 1) return 1 end }) "
     "ts.plan(problem(), o)"},
    {"grid_that_answers_by_metatable", End::failed, "",
     "ts.grid(setmetatable({}, { __index = function() return { 1 } end }))"},
    {"list_that_answers_by_metatable", End::failed, "metatable",
     "ts.table(setmetatable({}, { __index = function() return 1 end }))"},
    {"weak_table_of_objects", End::done, "",
     "local t = setmetatable({}, { __mode = 'kv' }) for i = 1, 200 do t[i] = plan() t[plan()] = i "
     "end "
     "collectgarbage()"},
};

}  // namespace tessera::test
