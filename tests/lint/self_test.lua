-- A linter that cannot fail is worthless: every rule must catch its planted violation, and leave the clean twin alone.
local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local rules = dofile(here .. "/rules.lua")

local map = "# x\n\n| folder | what |\n|---|---|\n| `engine` | e |\n| `solver` | s |\n| `kernels` | k |\n"
  .. "| `scripts` | s |\n"
local base = {
  ["README.md"] = map,
  ["engine/core/include/tessera/core/error.h"] = "#pragma once\n",
  ["engine/core/lua/core_lua.h"] = "#include <lua.hpp>\n",
  ["engine/app/src/host.h"] = "#include <lua.hpp>\n",
  ["engine/serving/kv/include/tessera/serving/block_pool.h"] = "#pragma once\n",
  ["engine/serving/simulate/include/tessera/serving/router.h"] = "#pragma once\n",
  ["solver/mip/cbc.cpp"] = "#include <CbcModel.hpp>\nCbcModel model;\n",
  ["kernels/cpu/pack.cpp"] = "int pack();  // does not throw\n",
  ["scripts/tessera/init.lua"] = "return {}\n",
}

local function with(path, text)
  local files = {}
  for name, content in pairs(base) do
    if name ~= path then files[#files + 1] = { path = name, text = content } end
  end
  files[#files + 1] = { path = path, text = text }
  return files
end

-- rule, path, a text that breaks it, a text that does not
local cases = {
  { "lua", "engine/cost/src/a.cpp", "#include <lua.hpp>\n", "// #include <lua.hpp>\n" },
  { "lua", "solver/problem/a.cpp", "#include <lauxlib.h>\n", "#include <vector>\n" },
  { "cbc", "solver/problem/a.cpp", "#include <CbcModel.hpp>\n", "const char* a = \"CbcModel\";\n" },
  { "cbc", "solver/mip/a.h", "class OsiClpSolverInterface;\n", "// OsiClpSolverInterface\n" },
  { "sqlite", "engine/app/src/a.cpp", "#include <sqlite3.h>\n", "// #include <sqlite3.h>\n" },
  { "sqlite", "engine/results/include/tessera/results/a.h", "#include <sqlite3.h>\n", "struct sqlite3;\n" },
  { "torch", "engine/torch/include/tessera/torch/a.h", "#include <torch/torch.h>\n", "#include <string>\n" },
  { "torch", "solver/problem/a.cpp", "#include <ATen/ATen.h>\n", "#include <array>\n" },
  { "runtime", "engine/app/src/a.cpp", "#include <boost/asio/connect.hpp>\n", "#include <chrono>\n" },
  { "throw", "kernels/cpu/a.cpp", "void f() { throw 1; }\n", "/* throw */ const char* a = \"throw\"; int rethrow;\n" },
  { "price", "solver/plan/a.cpp", "auto model = cost::make_roofline(device, kernels);\n",
    "auto price = cost::make_stage_price(context, members, 16);\n" },
  { "price", "solver/serving/a.cpp", "double s = cost::transfer_s (bytes, link, nullptr);\n",
    "double s = transfer_seconds(1);  // not transfer_s()\n" },
  { "include", "engine/core/src/a.cpp", "#include \"tessera/cost/memory.h\"\n", "#include \"tessera/core/error.h\"\n" },
  { "include", "engine/results/src/a.cpp", "#include \"tessera/cost/memory.h\"\n",
    "#include \"tessera/core/units.h\"\n" },
  { "include", "engine/cost/src/a.cpp", "#include <tessera/indicator/indicator.h>\n",
    "#include <tessera/core/error.h>\n" },
  { "include", "solver/problem/a.cpp", "#include \"tessera/lua_kit/args.h\"\n",
    "#include \"tessera/cost/memory.h\"\n" },
  { "include", "solver/problem/a.cpp", "#include \"tessera/serving/batch_run.h\"\n",
    "#include \"tessera/core/json.h\"\n" },
  { "include", "engine/serving/scheduler/a.cpp", "#include \"tessera/serving/router.h\"\n",
    "#include \"tessera/serving/block_pool.h\"\n" },
  { "include", "solver/instance/a.h", "#include \"tessera/solver/problem/problem.h\"\n",
    "#include \"tessera/solver/instance/row.h\"\n" },
  { "include", "solver/exact/a.cpp", "#include \"tessera/solver/ilp/ilp_planner.h\"\n",
    "#include \"tessera/solver/moves/local_search.h\"\n" },
  { "include", "solver/exact/a.cpp", "#include \"../ilp/cbc.cpp\"\n", "#include \"tessera/core/error.h\"\n" },
  { "include", "solver/offload/a.cpp", "#include \"tessera/solver/plan/plan.h\"\n",
    "#include \"tessera/solver/problem/problem.h\"\n" },
  { "include", "solver/plan/a.cpp", "#include \"tessera/solver/lua/plan.h\"\n",
    "#include \"tessera/solver/offload/offload.h\"\n" },
  { "include", "solver/problem/a.cpp", "#include \"core_lua.h\"\n", "#include \"tessera/core/error.h\"\n" },
  { "include", "solver/problem/a.cpp", "#include \"tessera/indicator/indicator.h\"\n",
    "#include \"tessera/core/indicator.h\"\n" },
  { "include", "solver/lua/a.cpp", "#include \"../../engine/app/src/host.h\"\n", "#include \"core_lua.h\"\n" },
  { "include", "engine/core/lua/a.cpp", "#include \"tessera/solver/instance/instance.h\"\n",
    "#include \"tessera/lua_kit/args.h\"\n" },
  { "include", "engine/cost/src/a.cpp", "#include \"nowhere.h\"\n", "#include \"tessera/core/error.h\"\n" },
  { "include", "kernels/cpu/a.cpp", "#include <fmt/format.h>\n", "#include <cstdint>\n" },
  { "guarded", "solver/lua/a.cpp", "f() { lua_pushcfunction(L, plan); }\n",
    "f() { lua_pushcfunction(L, guarded<plan>); }\n" },
  { "guarded", "solver/lua/a.cpp", "f() { lua_pushcclosure(L, plan, 1); }\n",
    "f() { lua_pushcclosure(L, lua_kit::guarded<plan>, 1); }\n" },
  { "guarded", "solver/lua/a.cpp", "f() { lua_pushcfunction(L, [](lua_State* s) { return 0; }); }\n",
    "f() { lua_pop(L, 1); }\n" },
  { "guarded", "solver/lua/a.cpp", "lua_kit::register_module(L, \"x\", {{\"a\", guarded<a>},\n {\"b\", b}});\n",
    "lua_kit::register_module(L, \"x\", {{\"a\", guarded<a>},\n {\"b\", guarded<b>}});\n" },
  { "guarded", "engine/app/src/a.cpp", "set_functions(L, {{\"b\", b}});\n",
    "set_functions(L, {{\"b\", guarded<b>}});\n" },
  { "guarded", "solver/lua/a.cpp", "t{.methods = {{\"a\", a, \"()\", \"doc\"}}};\n",
    "t{.methods = {{\"a\", guarded<a>, \"(x: {y})\", \"doc\"}}};\n" },
  { "guarded", "solver/lua/a.cpp", "const luaL_Reg list[] = {};\n", "// luaL_Reg\n" },
  { "read", "solver/lua/a.cpp", "int n = lua_objlen(L, 2);\n", "std::size_t n = lua_kit::list_length(L, 2, path);\n" },
  { "read", "engine/app/src/a.cpp", "std::string s = lua_tostring(L, -1);\n", "// lua_tostring(L, -1)\n" },
  { "read", "engine/core/lua/a.cpp", "luaL_checktype(L, 2, LUA_TTABLE);\n", "luaL_checkstack(L, 2, \"a\");\n" },
  { "read", "engine/core/lua/a.cpp", "double d = luaL_optnumber(L, 2, 0);\n", "lua_pushnumber(L, 2);\n" },
  { "call", "solver/lua/a.cpp", "lua_call(L, 1, 1);\n", "lua_kit::protected_call(L, 1, 1);\n" },
  { "call", "engine/app/src/a.cpp", "if (lua_pcall(L, 0, 0, 0) != 0) return;\n", "host.call(0, 0);\n" },
  { "print", "engine/app/src/a.cpp", "std::fprintf(stderr, text);\n", "write_text(stderr, text);\n" },
  { "print", "solver/problem/a.cpp", "std::cout << 1;\n", "// std::cout\n" },
  { "print", "engine/cost/src/a.cpp", "fmt::print(stderr, text);\n", "fmt::print_me(text);\n" },
  { "print", "scripts/tessera/a.lua", "io.stderr:write(text)\n", "terminal.err:write(text)\n" },
  { "length", "solver/problem/a.cpp", ("\n"):rep(500), ("\n"):rep(499) },
  { "todo", "solver/problem/a.cpp", "// TO" .. "DO\n", "// to do\n" },
  { "todo", "solver/problem/a.lua", "-- FIX" .. "ME(me)\n", "-- fix\n" },
  { "writes", "solver/problem/a.cpp", "std::ofstream file(path);\n", "std::ifstream file(path);  // no ofstream\n" },
  { "writes", "engine/cost/src/a.cpp", "::open(path, O_WRONLY | O_CREAT, 0600);\n", "::open(path, O_RDONLY);\n" },
  { "writes", "engine/cost/src/a.cpp", "std::fopen(path.c_str(), \"we\");\n", "std::fopen(path.c_str(), \"re\");\n" },
  { "writes", "engine/cost/src/a.cpp", "::mkostemp(name, 0);\n", "OutputFile file(name);\n" },
  { "writes", "engine/cost/src/a.cpp", "fs::rename(a, b);\n", "rename_stage(a, b);\n" },
  { "writes", "engine/cost/src/a.cpp", "fs::copy_file(a, b);\n", "copy_file(a, b);\n" },
  { "writes", "scripts/tessera/a.lua", "local file = io.open(path, \"wb\")\n", "io.open(path_of \"wb\", \"rb\")\n" },
  { "writes", "scripts/tessera/a.lua", "os.rename(a, b)\n", "core.write_file(a, b)\n" },
  { "map", "extra/a.txt", "", nil },
  { "map", "README.md", map .. "| `missing` | m |\n", map },
  { "map", "README.md", map:gsub("| `solver` | s |\n", ""), map },
}

local failures = 0
local function expect(condition, ...)
  if condition then return end
  failures = failures + 1
  print(string.format(...))
end

local caught = {}
for number, case in ipairs(cases) do
  local rule, path, broken, clean = unpack(case)
  local findings = rules.check(with(path, broken))
  expect(#findings == 1 and findings[1].rule == rule, "case %d: %d findings where one of [%s] was due for\n%s", number,
    #findings, rule, broken:sub(1, 200))
  for _, f in ipairs(findings) do caught[f.rule] = true end
  if clean then
    for _, f in ipairs(rules.check(with(path, clean))) do
      expect(false, "case %d: [%s] %s, for the clean\n%s", number, f.rule, f.message, clean:sub(1, 200))
    end
  end
end
-- Rows that allow a circle: the includes that close it are found, and nothing where one is missing.
local rows = { ["solver/moves"] = { "solver/exact" }, ["solver/exact"] = { "solver/plan" },
  ["solver/plan"] = { "solver/moves" } }
local function circle(back)
  local function header(part) return ("#include \"tessera/solver/%s/a.h\"\n"):format(part) end
  return rules.check({
    { path = "README.md", text = "\n| `solver` | s |\n" },
    { path = "solver/moves/a.cpp", text = header "exact" },
    { path = "solver/exact/a.cpp", text = header "plan" },
    { path = "solver/plan/a.cpp", text = back and header "moves" or "" },
  }, rows)
end
local found = circle(true)
local shown = "solver/exact -> solver/plan -> solver/moves -> solver/exact"
expect(#found == 1 and found[1].rule == "circle" and found[1].message == shown, "a circle of parts was not found")
expect(#circle(false) == 0, "a circle was found where there is none")
local _, included = circle(false)
expect(included["solver/moves"]["solver/exact"].path == "solver/moves/a.cpp" and not included["solver/plan"],
  "the map does not show who includes whom")

-- Data of others: a tree in which all is said, and one change to it at a time.
local data_set_rules = dofile(here .. "/data_set_rules.lua")
local function readings(changes)
  local tree = {
    ["experiments/a.lua"] = 'local p = measured.path("x/" .. name) measured.path "x/b.csv"\n',
    ["tests/a.h"] = '"/../shared/measured/x/b.csv"\n',
    ["scripts/plain.lua"] = 'local path = "x/c.csv"\n',
  }
  for path, text in pairs(changes) do tree[path] = text end
  local list = {}
  for path, text in pairs(tree) do list[#list + 1] = { path = path, text = text } end
  return data_set_rules.check(list, {
    { name = "x", files = { { path = "x/b.csv" } }, read_by = { "experiments/a.lua", "tests/a.h" } },
  })
end
local data_cases = {
  { "a tree in which all is said" },
  { "a reader that no set has", "experiments/b.lua", 'measured.path "x/b.csv"\n', "add it to read_by" },
  { "another by the library", "scripts/b.lua", 'data_sets.path("measured", "x/b.csv")\n', "add it to read_by" },
  { "a file that no set has", "experiments/a.lua", 'measured.path "x/c.csv"\n', "has 'x/c.csv'" },
  { "one with a gap", "experiments/a.lua", 'measured.path(("x/%s.json"):format(n))\n', "has 'x/%s.json'" },
  { "a folder by name", "experiments/a.lua", 'measured.path "x/b.csv" "../shared/measured/x"\n', "ask tessera" },
  { "a reader that reads nothing", "tests/a.h", "nothing\n", "tests/a.h reads no data of others" },
}
for _, case in ipairs(data_cases) do
  local what, path, text, wanted = unpack(case)
  local list = readings(path and { [path] = text } or {})
  expect(#list == (wanted and 1 or 0) and (not wanted or list[1].message:find(wanted, 1, true)),
    "%s: %d findings, the first: %s", what, #list, list[1] and list[1].message or "none")
  if wanted then caught.data = true end
end

for _, rule in ipairs {
  "data", "lua", "cbc", "sqlite", "torch", "throw", "include", "guarded", "read", "call", "print", "length", "todo",
  "writes", "map"
} do
  expect(caught[rule], "no planted violation was caught by [%s]", rule)
end
print(("%d cases, %d failures"):format(#cases, failures))
os.exit(failures == 0 and 0 or 1)
