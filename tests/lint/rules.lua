-- The rules that the compiler cannot see. Each takes the files of the tree ({ path, text }) and reports findings:
-- { path, line, rule, message }. Nothing here touches the disk, so the self-test can plant violations in memory.

local M = {}

local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local may_include = dofile(here .. "/may_include.lua")
local max_lines = 499

-- Functions that only the program itself calls, inside a protected call, and that use nothing but Lua's C API.
local unguarded = {
  ["engine/app/src/completion.cpp"] = { ["get_field"] = true },
  ["engine/app/src/host.cpp"] = { ["[](lua_State* L) -> int"] = true },
}

-- Lua's calls that take the value at an index for what the caller says it is, and those whose complaints name nothing.
local unchecked_reads = {
  lua_tostring = "check_text", lua_tolstring = "check_text", lua_tonumber = "check_number",
  lua_tointeger = "check_integer",
  lua_objlen = "list_length", lua_strlen = "check_text", lua_rawlen = "list_length", lua_rawgeti = "push_item",
  lua_rawget = "push_field", lua_gettable = "push_field", lua_getfield = "push_field", lua_next = "for_each_pair",
  lua_touserdata = "check_object", lua_tothread = "check_object", lua_tocfunction = "LuaFunction",
  luaL_checktype = "check_table", luaL_checkudata = "check_object",
}

--- Comments and the inside of string literals become spaces; line numbers stay. Include lines are kept as they are.
function M.code_only(text)
  local out, at = {}, 1
  local function blank(from, to) out[#out + 1] = text:sub(from, to):gsub("[^\n]", " ") end
  while at <= #text do
    local start = text:find("[/\"'#]", at)
    if not start then
      out[#out + 1] = text:sub(at)
      break
    end
    out[#out + 1] = text:sub(at, start - 1)
    local two, one = text:sub(start, start + 1), text:sub(start, start)
    local stop
    if two == "//" then
      stop = (text:find("\n", start, true) or #text + 1) - 1
      blank(start, stop)
    elseif two == "/*" then
      stop = select(2, text:find("*/", start + 2, true)) or #text
      blank(start, stop)
    elseif one == "#" and text:find("^#%s*include[^\n]*", start) then
      stop = select(2, text:find("^#%s*include[^\n]*", start))
      out[#out + 1] = text:sub(start, stop)
    elseif one == '"' and text:sub(start - 1, start - 1) == "R" then
      local delimiter = text:match('^"([^(]*)%(', start) or ""
      stop = select(2, text:find(")" .. delimiter .. '"', start, true)) or #text
      blank(start, stop)
    elseif one == '"' or (one == "'" and not text:sub(start - 1, start - 1):find "%w") then
      stop = start + 1
      while stop <= #text and text:sub(stop, stop) ~= one and text:sub(stop, stop) ~= "\n" do
        stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1)
      end
      out[#out + 1] = one
      blank(start + 1, stop - 1)
      out[#out + 1] = text:sub(stop, stop)
    else
      stop = start
      out[#out + 1] = one
    end
    at = stop + 1
  end
  return table.concat(out)
end

local function line_of(text, at)
  return 1 + select(2, text:sub(1, at - 1):gsub("\n", ""))
end

local function is_cpp(path) return path:find "%.cpp$" or path:find "%.h$" or path:find "%.cu$" or path:find "%.cuh$" end
M.is_cpp = is_cpp

local function is_product(path) return path:find "^engine/" or path:find "^solver/" or path:find "^kernels/" end

--- "engine/core/lua/x.cpp" -> "engine/core/lua"; "solver/ilp/x.cpp" -> "solver/ilp".
function M.module_of(path)
  local owner = path:match "^(engine/[^/]+)/" or path:match "^(solver/[^/]+)/" or path:match "^(kernels)/"
  if owner and path:sub(#owner + 2):find "^lua/" then owner = owner .. "/lua" end
  return owner
end

local function has_row(rows, from, to)
  for _, name in ipairs(rows[from] or {}) do
    if name == to then return true end
  end
  return false
end

local function allowed(rows, from, to)
  if from == to or from == "engine/app" or has_row(rows, from, to) then return true end
  local bindings = from:match "^(.*)/lua$"
  if bindings then
    if to == bindings or to == "engine/lua_kit" then return true end
    local other = to:match "^(.*)/lua$"
    if other then return other == "engine/core" or allowed(rows, bindings, other) end
    return has_row(rows, bindings, to)
  end
  return false
end

local function normalise(path)
  local parts = {}
  for part in path:gmatch "[^/]+" do
    if part == ".." then parts[#parts] = nil elseif part ~= "." then parts[#parts + 1] = part end
  end
  return table.concat(parts, "/")
end

-- Module that owns a quoted include, or nil for a file that is in none of the places where it may be.
local function owner_of_include(path, name, paths)
  local part = name:match "^tessera/(solver/[^/]+)/"
  if part then return part end
  local module = name:match "^tessera/([^/]+)/"
  if module then return module == "kernels" and module or "engine/" .. module end
  local own = M.module_of(path)
  local folder = path:match "^(.*)/"
  for _, base in ipairs { folder, own, own .. "/src" } do
    local found = normalise(base .. "/" .. name)
    if paths[found] then return M.module_of(found) end
  end
  for found in pairs(paths) do
    if found:match "/lua/([^/]+)$" == name then return M.module_of(found) end
  end
end

-- Rooms that have rows: their headers share a folder of names, so that only the file tells whose one is.
local function check_rooms(file, name, context, report)
  local function room_of(path)
    return path:match "^(engine/serving/[^/]+)/" or path:match "^(engine/run/[^/]+)/"
  end
  local from, to = room_of(file.path), room_of(context.headers[name] or "")
  if not from or not to or from == to or from:find "/lua$" then return end
  if not has_row(context.may_include, from, to) then
    report("include", ("%s may not include %s (%s)"):format(from, to, name))
  end
end

local function check_include(file, line, quote_mark, name, context)
  local own = M.module_of(file.path)
  local function report(rule, message) context.report(file.path, line, rule, message) end
  local with_lua = file.path:find "/lua/" or own == "engine/lua_kit" or own == "engine/app"
  if name:find "^lua%.h" or name:find "^lauxlib" or name:find "^lualib" or name:find "^luajit" then
    if not with_lua then report("lua", name .. " belongs in */lua, engine/lua_kit and engine/app only") end
  elseif name:find "^Cbc" or name:find "^Osi" or name:find "^Clp" or name:find "^Coin" or name:find "^Cgl" then
    if not context.may_use_cbc(file.path) then report("cbc", name .. " belongs in solver/mip/*.cpp only") end
  elseif name:find "^sqlite3" then
    if not file.path:find "^engine/results/src/" then
      report("sqlite", name .. " belongs in engine/results/src only")
    end
  elseif name:find "^torch/" or name:find "^ATen/" or name:find "^c10/" then
    if not file.path:find "^engine/torch/.*%.cpp$" and not file.path:find "^engine/torch/train/[%w_]+%.h$" then
      report("torch", name .. " belongs in engine/torch/**.cpp and engine/torch/train only")
    end
  elseif name:find "^boost/" or name:find "^sodium" or name:find "^prometheus/" then
    -- The planner alone is built without these, from the packages of scripts/quickstart.sh.
    if not file.path:find "^engine/http/src/" and not file.path:find "^engine/run/wire/" then
      report("runtime", name .. " belongs in engine/http/src and engine/run/wire only")
    end
  elseif quote_mark == '"' or name:find "^tessera/" then
    local owner = owner_of_include(file.path, name, context.paths)
    if not owner then
      if name ~= "build_info.h" then
        report("include", name .. " is no file of " .. own .. " or of what it may include")
      end
    elseif not allowed(context.may_include, own, owner) then
      report("include", ("%s may not include %s (%s)"):format(own, owner, name))
    elseif own ~= owner then
      context.included[own] = context.included[own] or {}
      context.included[own][owner] = context.included[own][owner] or { path = file.path, line = line }
    else
      check_rooms(file, name, context, report)
    end
  elseif own == "kernels" and name:find "/" and not name:find "^cub/" then
    report("include", "kernels knows std and CUDA only, not " .. name)
  end
end

local function check_includes(file, context)
  local number = 0
  for line in (file.code .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local quote_mark, name = line:match '^%s*#%s*include%s*([<"])([^>"]+)[>"]'
    if name then check_include(file, number, quote_mark, name, context) end
  end
end

local function sorted_keys(map)
  local keys = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

-- The map of who includes whom, as it is: walks it depth first, and reports an include that leads back to where the
-- walk came from.
local function check_circles(context)
  local way, on_way, done = {}, {}, {}
  local function visit(module)
    way[#way + 1] = module
    on_way[module] = #way
    for _, owner in ipairs(sorted_keys(context.included[module] or {})) do
      if on_way[owner] then
        local where = context.included[module][owner]
        context.report(where.path, where.line, "circle",
          table.concat(way, " -> ", on_way[owner]) .. " -> " .. owner)
      elseif not done[owner] then
        visit(owner)
      end
    end
    way[#way], on_way[module], done[module] = nil, nil, true
  end
  for _, module in ipairs(sorted_keys(context.included)) do
    if not done[module] then visit(module) end
  end
end

local function check_words(file, context)
  local number = 0
  for line in (file.code .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    if file.path:find "^kernels/" and line:find "%f[%w_]throw%f[^%w_]" then
      context.report(file.path, number, "throw", "kernels return status codes, they do not throw")
    end
    if not line:find "#%s*include" and not context.may_use_cbc(file.path) then
      local name = line:match "%f[%w_](Cbc[A-Z]%w*)" or line:match "%f[%w_](Osi[A-Z]%w*)"
        or line:match "%f[%w_](Clp[A-Z]%w*)"
      if name then context.report(file.path, number, "cbc", name .. " belongs in solver/mip/*.cpp only") end
    end
  end
end

-- What a stage takes is said in one place, engine/cost/src/stage_price.cpp. Whoever makes a model of latencies for
-- itself, or a hop, says it again.
local function check_prices(file, context)
  if not file.path:find "^solver/" then return end
  for _, name in ipairs { "make_roofline", "make_profiled", "make_tensor_parallel", "transfer_s" } do
    for at in file.code:gmatch("()%f[%w_]" .. name .. "%s*%(") do
      context.report(file.path, line_of(file.code, at), "price", name .. ": ask cost::StagePrice")
    end
  end
end

-- Calls `visit(expression, position)` for the second item of every { "name", item, ... } right inside text[from..to].
local function each_entry(text, from, to, visit)
  local depth, start = 0, nil
  for at = from, to do
    local c = text:sub(at, at)
    if c == "{" then
      depth = depth + 1
      if depth == 2 then start = at end
    elseif c == "}" then
      if depth == 2 then
        local gap, item = text:sub(start, at):match '^{%s*"[^"]*"(%s*,%s*)([^,}]+)'
        if item then visit(item, start + #gap) end
      end
      depth = depth - 1
    end
  end
end

local function is_guarded(item)
  return item:find "^guarded<" or item:find "^lua_kit::guarded<" or item:find "^tessera::lua_kit::guarded<"
end

-- What is printed goes by core/terminal_text.h, in Lua by tessera.terminal.
local may_print = { ["engine/core/src/terminal_text.cpp"] = true, ["scripts/tessera/terminal.lua"] = true }

local function check_prints(file, context)
  if may_print[file.path] then return end
  for _, name in ipairs { "printf", "fprintf", "puts", "fputs", "fputc", "putchar", "fwrite", "cout", "cerr" } do
    for at in file.code:gmatch("()std::" .. name .. "%f[^%w_]") do
      context.report(file.path, line_of(file.code, at), "print", name .. ": use write_text of core/terminal_text.h")
    end
  end
  for at in file.code:gmatch "()fmt::print%f[^%w_]" do
    context.report(file.path, line_of(file.code, at), "print", "fmt::print: use write_text of core/terminal_text.h")
  end
end

local function check_lua_prints(file, context)
  if may_print[file.path] then return end
  for at, name in file.text:gmatch "()%f[%w_]io%.(%w+)" do
    if name == "write" or name == "stdout" or name == "stderr" then
      context.report(file.path, line_of(file.text, at), "print",
        "io." .. name .. ": use print, or a stream of tessera.terminal")
    end
  end
end

-- Functions that stand in for Lua's own, whose errors pass as they are. All else calls Lua by the kit, which keeps
-- the traceback and counts how deep calls are nested.
local may_call_lua = {
  ["engine/app/src/host_module.cpp"] = true, ["engine/app/src/loads.cpp"] = true,
  ["engine/app/src/sandbox/checked_code.cpp"] = true, ["engine/app/src/sandbox/checked_files.cpp"] = true,
}

local function check_calls(file, context)
  if may_call_lua[file.path] then return end
  for at, word in file.code:gmatch "()%f[%w_](lua_c?p?call)%s*%(" do
    context.report(file.path, line_of(file.code, at), "call", word .. ": use lua_kit::protected_call or LuaFunction")
  end
end

local function check_reads(file, context)
  for at, word in file.code:gmatch "()%f[%w_](luaL?_%w+)%f[^%w_]" do
    local instead = unchecked_reads[word]
    if not instead and (word:find "^luaL_check[lins]" or word:find "^luaL_opt") and word ~= "luaL_checkstack" then
      instead = "check_... or Options"
    end
    if instead then
      context.report(file.path, line_of(file.code, at), "read", word .. " reads unchecked: use lua_kit::" .. instead)
    end
  end
end

-- Scripts reach C++ through these four doors; behind each one stands guarded<fn>.
local function check_guarded(file, context)
  local code, path = file.code, file.path
  local known = unguarded[path] or {}
  local function report(at, item)
    item = item:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")
    if is_guarded(item) or known[item] then return end
    context.report(path, line_of(code, at), "guarded", "register guarded<" .. item .. ">, not " .. item)
  end
  for at, arguments in code:gmatch "()lua_pushcfunction%s*(%b())" do
    local item = arguments:match "^%([^,]*,%s*([^{]+)"
    report(at, item and item:gsub("%)$", "") or arguments)
  end
  for at, arguments in code:gmatch "()lua_pushcclosure%s*(%b())" do
    report(at, arguments:match "^%([^,]*,%s*(.-),[^,]*%)$" or arguments)
  end
  for _, door in ipairs { "register_module", "set_functions" } do
    for at, arguments in code:gmatch("()" .. door .. "%s*(%b())") do
      local first = code:find(arguments, at, true)
      each_entry(code, first, first + #arguments - 1, function(item, where) report(where, item) end)
    end
  end
  for at, methods in code:gmatch "()%.methods%s*=%s*(%b{})" do
    local first = code:find(methods, at, true)
    each_entry(code, first, first + #methods - 1, function(item, where) report(where, item) end)
  end
  for at, word in code:gmatch "()%f[%w_](luaL_%w+)" do
    if word == "luaL_Reg" or word == "luaL_register" or word == "luaL_setfuncs" or word == "luaL_openlib" then
      context.report(path, line_of(code, at), "guarded", word .. ": use lua_kit::register_module with guarded<fn>")
    end
  end
end

-- Files are written in one place, engine/core, so that nothing is ever half written. These may too.
local may_write = {
  ["engine/core/src/output_file.cpp"] = "the place",
  ["engine/core/src/output_folder.cpp"] = "the place",
  ["engine/app/src/file_lock.cpp"] = "the lock is the open file itself, which whoever waits has to see at once",
  ["engine/lm/ranks/shared_ranks.cpp"] = "memory that processes share, which is in no folder",
  ["engine/run/master/journal.cpp"] = "a line at a time, each on disk before it counts",
  ["engine/workers/src/start_process.cpp"] = "what a process prints may go to /dev/null",
  ["engine/app/src/repl.cpp"] = "libedit saves the history, to the scratch name of an OutputFile",
}
local writers_in_cpp = {
  "%f[%w_]ofstream", "std::fstream", "%f[%w_]O_WRONLY", "%f[%w_]O_RDWR", "%f[%w_]O_CREAT", "%f[%w_]mkd?o?s?temp%s*%(",
  "%f[%w_]tmpfile%s*%(", "%f[%w_]freopen%s*%(", "%f[%w_]rename%s*%(", "%f[%w_]renameat2?%s*%(", "fs::copy",
  "filesystem::copy", "%f[%w_]f?truncate%s*%(", "%f[%w_]H_SAVE", "%f[%w_]memfd_create",
}
local writers_in_lua = { "io%.output%s*%(", "io%.tmpfile", "os%.rename", "os%.tmpname" }

local function check_writing(file, context)
  local in_lua = file.path:find "^scripts/.*%.lua$"
  if may_write[file.path] or not (in_lua or file.code) then return end
  local function report(number, what)
    context.report(file.path, number, "writes", what .. ": write files by OutputFile or write_file of engine/core")
  end
  local number = 0
  for line in ((file.code or file.text) .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    for _, pattern in ipairs(in_lua and writers_in_lua or writers_in_cpp) do
      local found = line:match(pattern)
      if found then
        report(number, found)
        break
      end
    end
  end
  -- The mode is a string, which `code` leaves out.
  local open = in_lua and "()(io%.open%s*%b())" or "()%f[%w_](fopen%s*%b())"
  for at, call in file.text:gmatch(open) do
    if call:find "[\"'][^\"']*[wa+][^\"']*[\"']%s*%)$" then report(line_of(file.text, at), call) end
  end
end

local function is_source(path)
  return is_cpp(path) or path:find "%.lua$" or path:find "%.sh$" or path:find "%.cmake$" or path:find "CMakeLists%.txt$"
end

local function check_text(file, context)
  local _, lines = file.text:gsub("\n", "")
  if is_source(file.path) and lines > max_lines then
    context.report(file.path, lines, "length", ("%d lines, the limit is %d"):format(lines, max_lines))
  end
  if not is_source(file.path) and not file.path:find "%.md$" then return end
  for _, word in ipairs { "TO" .. "DO", "FIX" .. "ME", "XX" .. "X" } do
    local at = file.text:find("%f[%w_]" .. word .. "%f[^%w_]")
    if at then context.report(file.path, line_of(file.text, at), "todo", word .. ": do it, or open an issue") end
  end
end

local function check_map(context)
  local readme = context.texts["README.md"] or ""
  local named, folders = {}, {}
  for folder in readme:gmatch "\n|%s*`([%w_]+)[^`]*`" do named[folder] = true end
  for path in pairs(context.paths) do
    local folder = path:match "^([^/.][^/]*)/"
    if folder then folders[folder] = true end
  end
  for folder in pairs(folders) do
    if not named[folder] then context.report("README.md", 1, "map", "the map does not name " .. folder) end
  end
  for folder in pairs(named) do
    if not folders[folder] then context.report("README.md", 1, "map", folder .. " does not exist") end
  end
end

--- All findings in `files`, sorted by path and line, and who includes whom: [folder][folder] = where first. `rows` are
--- those above; the self-test has its own.
function M.check(files, rows)
  local findings = {}
  local context = { paths = {}, texts = {}, headers = {}, included = {}, may_include = rows or may_include }
  function context.report(path, line, rule, message)
    findings[#findings + 1] = { path = path, line = line, rule = rule, message = message }
  end
  function context.may_use_cbc(path) return path:find "^solver/mip/[^/]+%.cpp$" ~= nil end
  for _, file in ipairs(files) do
    context.paths[file.path] = true
    context.texts[file.path] = file.text
    local header = file.path:match "/include/(tessera/.*)$"
    if header then context.headers[header] = file.path end
  end
  for _, file in ipairs(files) do
    check_text(file, context)
    if file.path:find "^scripts/tessera/.*%.lua$" then check_lua_prints(file, context) end
    if is_cpp(file.path) and is_product(file.path) then
      file.code = M.code_only(file.text)
      check_includes(file, context)
      check_words(file, context)
      check_prints(file, context)
      check_prices(file, context)
      if M.module_of(file.path) ~= "engine/lua_kit" then
        check_guarded(file, context)
        check_reads(file, context)
        check_calls(file, context)
      end
    end
    check_writing(file, context)
  end
  check_circles(context)
  check_map(context)
  table.sort(findings, function(a, b)
    if a.path ~= b.path then return a.path < b.path end
    return a.line < b.line
  end)
  return findings, context.included
end

return M
