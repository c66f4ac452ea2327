-- What is installed: the planner alone, its package and what that needs, and the kernels for programs of others.

local core = require "tessera.core"
local folders = require "launch_folders"
local host = require "tessera.host"
local support = require "support"

local root = debug.getinfo(1, "S").source:match "^@(.*)/" .. "/../.."

folders.keep(setup, teardown)

local build = host.program:match "^(.*)/[^/]+/[^/]+$"

local function run(...)
  local ok, status, out, err = pcall(host.run_program, { ... }, "")
  return ok and status or -1, out or "", ok and err or core.error_text(status)
end

-- Why none of this can be tried here; nil where it can.
local function why_not()
  if core.file_kind(build .. "/CMakeCache.txt") ~= "file" then return "the program is in no build tree" end
  local cache = support.read(build .. "/CMakeCache.txt")
  if cache:match "TESSERA_SANITIZE:STRING=(%S+)" then return "sanitized archives link into sanitized programs only" end
  if run("cmake", "--version") ~= 0 then return "there is no cmake" end
end

local function install(component)
  local prefix = folders.fresh()
  local status, _, err = run("cmake", "--install", build, "--component", component, "--prefix", prefix)
  assert.equal(0, status, err)
  return prefix
end

describe("an installation", function()
  it("of the planner alone plans from wherever it is", function()
    local why = why_not()
    if why then return pending(why) end
    local prefix = install "planner"
    assert.is_nil(core.file_kind(prefix .. "/lib"))
    local status, out, err = run(prefix .. "/bin/tessera", "plan", "--model", "opt-1.3b", "--cluster", "1xT4-16G",
      "--launch", "vllm", "--as", "compose", "--out", folders.fresh())
    assert.equal(0, status, err)
    assert.matches("compose.yaml", out)
  end)

  it("has kernels that a program of others finds and links", function()
    local why = why_not()
    if why then return pending(why) end
    local prefix, source = install "kernels", folders.fresh()
    host.make_folder(source)
    core.write_file(source .. "/CMakeLists.txt", [[
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(tessera_kernels REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE tessera::kernels_cpu)
]])
    core.write_file(source .. "/main.cpp", [[
#include <cstdio>
#include "tessera/kernels/info.h"
int main() { std::printf("%zu kernels\n", tessera::kernels::cpu_kernels().size()); }
]])
    local status, out, err = run("cmake", "-G", "Ninja", "-S", source, "-B", source .. "/build",
      "-DCMAKE_PREFIX_PATH=" .. prefix)
    assert.equal(0, status, out .. err)
    status, out, err = run("cmake", "--build", source .. "/build")
    assert.equal(0, status, out .. err)
    status, out = run(source .. "/build/consumer")
    assert.equal(0, status)
    assert.matches("^%d+ kernels", out)
  end)

  it("is a package that asks for what the program links", function()
    local why = why_not() or run("dpkg-shlibdeps", "--version") ~= 0 and "there is no dpkg-shlibdeps"
    if why then return pending(why) end
    local config = support.read(build .. "/CPackConfig.cmake")
    for _, words in ipairs { 'CPACK_DEBIAN_PACKAGE_SHLIBDEPS "ON"', 'CPACK_DEBIAN_PLANNER_PACKAGE_NAME "tessera"',
      'CPACK_PACKAGING_INSTALL_PREFIX "/usr"' } do
      assert.is_truthy(config:find(words, 1, true), words)
    end
    local out_folder = folders.fresh()
    host.make_folder(out_folder)
    local status, out, err = run("cpack", "--config", build .. "/CPackConfig.cmake", "-B", out_folder, "-D",
      "CPACK_COMPONENTS_ALL=kernels")
    assert.equal(0, status, out .. err)
    local package = out:match "package: (%S+%.deb) generated"
    status, out, err = run("dpkg-deb", "--contents", package)
    assert.equal(0, status, err)
    assert.matches("usr/lib/cmake/tessera_kernels/tessera_kernels%-config.cmake", out)
    assert.matches("usr/lib/libtessera_kernels_cpu.a", out)
    assert.is_nil(out:find "bin/tessera")
  end)
end)

describe("a Dockerfile", function()
  -- hadolint is in no Debian; so what it would find first: instructions that exist, one base for each stage, no package
  -- lists left behind, no root where a server runs, a command in the form that gets signals.
  local known = { FROM = true, RUN = true, COPY = true, WORKDIR = true, ENV = true, ENTRYPOINT = true, CMD = true,
    ARG = true, USER = true, LABEL = true, EXPOSE = true }
  for _, name in ipairs { "Dockerfile", "Dockerfile.cuda" } do
    it(name .. " has instructions that Docker knows, and leaves nothing behind", function()
      local text = support.read(root .. "/scripts/package/" .. name):gsub("\\\n", " ")
      local stages, last = 0, nil
      for line in text:gmatch "[^\n]+" do
        if not line:find "^%s*#" then
          local word, rest = line:match "^(%u+)%s+(.+)$"
          assert.is_true(word ~= nil and known[word], line)
          if word == "FROM" then
            stages = stages + 1
            assert.matches("^[%w%./:${}_-]+:[%w%.${}_-]+", rest, "a tag")
          elseif word ~= "ARG" then
            assert.is_true(stages > 0, "nothing before a base")
          end
          if word == "RUN" and rest:find "apt%-get install" then
            assert.matches("apt%-get update", rest)
            assert.matches("%-%-no%-install%-recommends", rest)
            assert.matches("rm %-rf /var/lib/apt/lists/%*", rest)
          end
          if word == "COPY" and rest:find "%-%-from=" then assert.is_true(stages > 1) end
          if word == "ENTRYPOINT" or word == "CMD" then
            assert.is_table(core.from_json(rest))
            last = word
          end
        end
      end
      assert.equal(2, stages)
      assert.equal("ENTRYPOINT", last)
      assert.matches("\nUSER %l", text)
    end)
  end
end)
